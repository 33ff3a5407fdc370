"""`core.gardener.cloud/v1beta1 CloudProfile`: what an infrastructure offers to shoots."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from espalier.api.gardener.garden.shoot import GROUP, VERSION, SeedSelector
from espalier.api.gardener.vocabulary.operations import RawExtension
from espalier.api.kinds import AGE, ATOMIC, Column, KubeObject, kind, listing
from espalier.api.meta import ABSENT, Part
from espalier.api.resource import Resource


class OfferedVersion(Part):
    """A version that shoots may have."""

    version: str
    classification: str = ""
    expiration_date: str | None = None


class OfferedKubernetes(Part):
    """Kubernetes versions that shoots may have."""

    versions: Annotated[list[OfferedVersion], Meta(extra_json_schema=listing("version"))] = []


class OfferedImage(Part):
    """A machine image."""

    name: str
    versions: Annotated[list[OfferedVersion], Meta(extra_json_schema=listing("version"))] = []


class Region(Part):
    """A region of the infrastructure."""

    name: str
    zones: Annotated[list[dict[str, Any]], Meta(extra_json_schema=ATOMIC)] = []


class CloudProfileSpec(Part):
    """The offer of an infrastructure."""

    type: str
    kubernetes: OfferedKubernetes = msgspec.field(default_factory=OfferedKubernetes)
    machine_images: Annotated[list[OfferedImage], Meta(extra_json_schema=listing("name"))] = []
    machine_types: Annotated[list[dict[str, Any]], Meta(extra_json_schema=ATOMIC)] = []
    regions: Annotated[list[Region], Meta(extra_json_schema=listing("name"))] = []
    seed_selector: SeedSelector | None = None
    provider_config: RawExtension = ABSENT
    volume_types: Annotated[list[dict[str, Any]], Meta(extra_json_schema=ATOMIC)] = []


@kind(
    Resource(GROUP, VERSION, "cloudprofiles", "CloudProfile", namespaced=False),
    columns=(Column("Type", ".spec.type", "string", "Type of the infrastructure"), AGE),
    partly=True,
)
class CloudProfile(KubeObject, kw_only=True):
    """The offer of an infrastructure to shoots."""

    spec: CloudProfileSpec
