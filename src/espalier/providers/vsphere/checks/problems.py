"""What the results of checks mean for a Cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from espalier.api import conditions
from espalier.api.eksa import cluster as eksa
from espalier.clusters.provider import NOT_CHECKED
from espalier.kube.objects import Object
from espalier.providers.vsphere import linked
from espalier.providers.vsphere.checks.questions import REACHABLE
from espalier.providers.vsphere.kinds import VSphereDatacenterConfig, VSphereMachineConfig, VSphereMachineConfigStatus
from espalier.runtime.outcome import Wait

DATACENTER_INVALID = "DatacenterConfigInvalid"
MACHINES_INVALID = "MachineConfigInvalid"
ADDRESS_TAKEN = "ControlPlaneAddressTaken"


def problems(cluster: eksa.Cluster, children: Sequence[Object], is_new: bool) -> Iterator[Wait]:
    """Why a Cluster must wait, the datacenter first: while that is invalid, little can be said of machines."""
    configs: list[tuple[str, VSphereDatacenterConfig | VSphereMachineConfig]] = []
    addresses: dict[str, str] = {}
    for child in children:
        if child.kind == VSphereDatacenterConfig.resource.kind:
            datacenter = child.decode(VSphereDatacenterConfig)
            addresses |= datacenter.status.addresses
            configs.insert(0, (DATACENTER_INVALID, datacenter))
        elif child.kind == VSphereMachineConfig.resource.kind:
            configs.append((MACHINES_INVALID, child.decode(VSphereMachineConfig)))
    for reason, config in configs:
        status, name = config.status, f"{config.kind} {config.metadata.name}"
        if not _is_checked(cluster, config):
            away = conditions.get(status.conditions, REACHABLE)
            because = f": {away.message}" if away is not None and away.status == "False" else ""
            yield Wait(NOT_CHECKED, f"waiting for {name} to be checked against the vCenter{because}")
        elif not status.spec_valid:
            yield Wait(reason, f"{name}: {status.failure_message}")
    endpoint = _endpoint(cluster)
    field = "spec.controlPlaneConfiguration.endpoint.host"
    if is_new and claim(cluster) not in addresses:
        yield Wait(NOT_CHECKED, f"{field}: waiting until the vCenter was asked whether {endpoint} is free")
    elif is_new and (holder := addresses[claim(cluster)]):
        message = f"{field}: found {endpoint}, which {holder} has; choose a free address"
        yield Wait(ADDRESS_TAKEN, message)


def claim(cluster: eksa.Cluster) -> str:
    """The key of a Cluster's endpoint in the status of its datacenter."""
    return f"{cluster.metadata.name}/{_endpoint(cluster)}"


def _endpoint(cluster: eksa.Cluster) -> str:
    control_plane = cluster.spec.control_plane_configuration
    return control_plane.endpoint.host if control_plane is not None and control_plane.endpoint is not None else ""


def _is_checked(cluster: eksa.Cluster, config: VSphereDatacenterConfig | VSphereMachineConfig) -> bool:
    """True if it was checked as it is, machine configs for the Kubernetes versions of this Cluster."""
    status = config.status
    if status.spec_valid is None or status.observed_generation != config.metadata.generation:
        return False
    if isinstance(status, VSphereMachineConfigStatus) and status.spec_valid:
        return set(linked.versions(cluster.spec, config.metadata.name)) <= set(status.kubernetes_versions)
    return True
