"""`extensions.gardener.cloud/v1alpha1 Infrastructure`: networks, routers and the like that a shoot's machines need."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.gardener.extensions.extension import (
    COLUMNS,
    Extended,
    ExtensionSpec,
    ExtensionStatus,
    extension_kind,
)
from espalier.api.gardener.vocabulary.operations import SecretReference
from espalier.api.kinds import ATOMIC, Column
from espalier.api.meta import Observed

REGION_COLUMN = Column("Region", ".spec.region", "string", "Region of the provider")


class InfrastructureSpec(ExtensionSpec):
    """Desired state of the infrastructure."""

    region: str = ""
    secret_ref: Annotated[SecretReference | None, Meta(description="Credentials of the provider.")] = None
    ssh_public_key: Annotated[bytes, Meta(description="Key that machines trust.")] = msgspec.field(
        default=b"", name="sshPublicKey"
    )


class InfrastructureNetworking(Observed, frozen=True):
    """Address ranges that the infrastructure has chosen."""

    pods: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    services: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    nodes: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []


class InfrastructureStatus(ExtensionStatus, frozen=True):
    """Observed state of the infrastructure."""

    nodes_cidr: str = msgspec.field(default="", name="nodesCIDR")
    egress_cidrs: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = msgspec.field(
        default_factory=list, name="egressCIDRs"
    )
    networking: InfrastructureNetworking | None = None


@extension_kind(COLUMNS[0], REGION_COLUMN, *COLUMNS[1:], short_names=("infra",))
class Infrastructure(Extended, kw_only=True):
    """The infrastructure of a shoot."""

    spec: InfrastructureSpec
    status: InfrastructureStatus = InfrastructureStatus()
