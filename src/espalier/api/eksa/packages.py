"""Parts of a Cluster about curated packages."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

from msgspec import Meta

from espalier.api.kinds import ATOMIC
from espalier.api.meta import Part


class ImageResource(Part):
    """CPU and memory."""

    cpu: Annotated[str, Meta(description="CPU, like 100m.")] = ""
    memory: Annotated[str, Meta(description="Memory, like 50Mi.")] = ""


class PackageControllerResources(Part):
    """Credentials of the package controller."""

    limits: Annotated[ImageResource | None, Meta(description="The most it may use.")] = None
    requests: Annotated[ImageResource | None, Meta(description="What is reserved for it.")] = None


class PackageControllerConfiguration(Part):
    """The controller of packages."""

    repository: Annotated[str, Meta(description="Repository of its image.")] = ""
    tag: Annotated[str, Meta(description="Tag of its image.")] = ""
    digest: Annotated[str, Meta(description="Digest of its image.")] = ""
    disable_webhooks: Annotated[bool, Meta(description="True if it runs without webhooks.")] = False
    env: Annotated[list[str], Meta(description="Environment, as name=value.", extra_json_schema=ATOMIC)] = []
    resources: Annotated[PackageControllerResources | None, Meta(description="What it may use.")] = None


class PackageControllerCronJob(Part):
    """The job that refreshes credentials of the registry."""

    repository: Annotated[str, Meta(description="Repository of its image.")] = ""
    tag: Annotated[str, Meta(description="Tag of its image.")] = ""
    digest: Annotated[str, Meta(description="Digest of its image.")] = ""
    disable: Annotated[bool, Meta(description="True if it is left out.")] = False


class PackageConfiguration(Part):
    """Curated packages."""

    disable: Annotated[bool, Meta(description="True if packages are left out.")] = False
    controller: Annotated[PackageControllerConfiguration | None, Meta(description="The controller of packages.")] = None
    cronjob: Annotated[
        PackageControllerCronJob | None, Meta(description="The job that refreshes credentials of the registry.")
    ] = None
