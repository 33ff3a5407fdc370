"""`extensions.gardener.cloud/v1alpha1 Network`: the network of a shoot's pods and services."""

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
from espalier.api.kinds import ATOMIC, Column


class NetworkSpec(ExtensionSpec):
    """Desired state of the network."""

    pod_cidr: str = msgspec.field(default="", name="podCIDR")
    service_cidr: str = msgspec.field(default="", name="serviceCIDR")
    ip_families: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []


class NetworkStatus(ExtensionStatus, frozen=True):
    """Observed state of the network."""

    ip_families: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []


@extension_kind(
    COLUMNS[0],
    Column("Pod CIDR", ".spec.podCIDR", "string", "Addresses of pods"),
    Column("Service CIDR", ".spec.serviceCIDR", "string", "Addresses of services"),
    *COLUMNS[1:],
)
class Network(Extended, kw_only=True):
    """The network of a shoot."""

    spec: NetworkSpec
    status: NetworkStatus = NetworkStatus()
