"""Curated packages of a Cluster."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

from msgspec import Meta

from espalier.api.eksa.parts.fields import Text
from espalier.api.kinds import ATOMIC, MANY
from espalier.api.meta import Part


class ImageResource(Part):
    """CPU and memory."""

    cpu: Annotated[str, Meta(description="CPU, like 100m.")] = ""
    memory: Annotated[str, Meta(description="Memory, like 50Mi.")] = ""


class PackageControllerResources(Part):
    """Resources of the package controller."""

    limits: Annotated[ImageResource | None, Meta(description="Resource limits.")] = None
    requests: Annotated[ImageResource | None, Meta(description="Resource requests.")] = None


class PackageControllerConfiguration(Part):
    """The package controller."""

    repository: Annotated[str, Meta(description="Repository of its image.")] = ""
    tag: Annotated[str, Meta(description="Tag of its image.")] = ""
    digest: Annotated[str, Meta(description="Digest of its image.")] = ""
    disable_webhooks: Annotated[bool, Meta(description="True if it runs without webhooks.")] = False
    env: Annotated[list[Text], Meta(description="Environment, as name=value.", extra_json_schema=ATOMIC | MANY)] = []
    resources: Annotated[PackageControllerResources | None, Meta(description="Its resources.")] = None


class PackageControllerCronJob(Part):
    """The CronJob that refreshes registry credentials."""

    repository: Annotated[str, Meta(description="Repository of its image.")] = ""
    tag: Annotated[str, Meta(description="Tag of its image.")] = ""
    digest: Annotated[str, Meta(description="Digest of its image.")] = ""
    disable: Annotated[bool, Meta(description="True if it is not installed.")] = False


class PackageConfiguration(Part):
    """Curated packages."""

    disable: Annotated[bool, Meta(description="True if packages are not installed.")] = False
    controller: Annotated[PackageControllerConfiguration | None, Meta(description="The package controller.")] = None
    cronjob: Annotated[
        PackageControllerCronJob | None, Meta(description="The CronJob that refreshes registry credentials.")
    ] = None
