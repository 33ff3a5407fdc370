"""What the results of checks mean for a Cluster. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from espalier.api.eksa import cluster as eksa
from espalier.clusters.provider import NOT_CHECKED
from espalier.kube.objects import Object
from espalier.providers.vsphere.kinds import VSphereDatacenterConfig, VSphereMachineConfig
from espalier.runtime.outcome import Wait

DATACENTER_INVALID = "DatacenterConfigInvalid"
MACHINES_INVALID = "MachineConfigInvalid"
ADDRESS_TAKEN = "ControlPlaneAddressTaken"


def problems(cluster: eksa.Cluster, children: Sequence[Object], is_new: bool) -> Iterator[Wait]:
    """Why a Cluster must wait, the datacenter first: while that is invalid, little can be said of machines."""
    configs: list[tuple[str, VSphereDatacenterConfig | VSphereMachineConfig]] = []
    taken: dict[str, str] = {}
    for child in children:
        if child.kind == VSphereDatacenterConfig.resource.kind:
            datacenter = child.decode(VSphereDatacenterConfig)
            taken |= datacenter.status.taken_addresses
            configs.insert(0, (DATACENTER_INVALID, datacenter))
        elif child.kind == VSphereMachineConfig.resource.kind:
            configs.append((MACHINES_INVALID, child.decode(VSphereMachineConfig)))
    for reason, config in configs:
        status, name = config.status, f"{config.kind} {config.metadata.name}"
        if status.spec_valid is None or status.observed_generation != config.metadata.generation:
            yield Wait(NOT_CHECKED, f"waiting for {name} to be checked against the vCenter")
        elif not status.spec_valid:
            yield Wait(reason, f"{name}: {status.failure_message}")
    control_plane = cluster.spec.control_plane_configuration
    endpoint = control_plane.endpoint.host if control_plane is not None and control_plane.endpoint is not None else ""
    if is_new and endpoint in taken:
        field = "spec.controlPlaneConfiguration.endpoint.host"
        message = f"{field}: found {endpoint}, which virtual machine {taken[endpoint]} has; choose a free address"
        yield Wait(ADDRESS_TAKEN, message)
