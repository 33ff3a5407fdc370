"""Validation of Clusters on vSphere: their spec alone, and together with referenced objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.host_os import BOTTLEROCKET
from espalier.api.text.violations import Violation
from espalier.clusters.design.cluster_objects.linked_objects import of_kind
from espalier.clusters.design.cluster_objects.machine_groups import ETCD, WORKERS, machine_groups, references_to
from espalier.clusters.observe.rules.control_planes import endpoint
from espalier.kube.objects import Object
from espalier.providers.vsphere.kinds import VSphereDatacenterConfig, VSphereMachineConfig
from espalier.providers.vsphere.sizes import LEAST_CPUS, USUAL_MEMORY, raised

_GROUPS = "spec.workerNodeGroupConfigurations"
_KIND = VSphereMachineConfig.resource.kind

DEFAULTS = {
    VSphereDatacenterConfig.resource.kind: {"thumbprint": "none", "insecure": "false"},
    _KIND: {
        "memoryMiB": str(USUAL_MEMORY),
        "numCPUs": str(LEAST_CPUS),
        "osFamily": BOTTLEROCKET,
        "folder": "the datacenter's folder of virtual machines",
    },
}


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Fields that are missing or rejected."""
    yield from endpoint.violations(spec)
    yield from references_to(_KIND, spec)
    for index, group in enumerate(spec.worker_node_group_configurations):
        if len(group.failure_domains) > 1:
            field, domains = f"{_GROUPS}[{index}].failureDomains", ", ".join(group.failure_domains)
            message = "a worker node group on vSphere has only one failure domain; create a group for each"
            yield Violation(field, domains, "one failure domain", message)


def warnings(spec: eksa.ClusterSpec) -> Iterator[str]:
    """Fields that are accepted and have no effect, and an address of the API server that may be taken."""
    yield from endpoint.warnings(spec)
    yield from endpoint.overlaps(spec)


def linked_violations(cluster: eksa.Cluster, children: Sequence[Object]) -> Iterator[Violation]:
    """Violations that need the datacenter and machine configs."""
    spec, configs = cluster.spec, of_kind(VSphereMachineConfig, children)
    yield from _failure_domains(spec, children)
    yield from _operating_systems(spec, configs)
    for group in machine_groups(spec):
        config = configs.get(group.reference.name) if group.reference is not None else None
        if config is not None and config.spec.networks and group.role != WORKERS:
            message = "only workers can have networks; use a machine config without"
            yield Violation(f"{group.field}.machineGroupRef.name", config.metadata.name, "", message)


def linked_warnings(spec: eksa.ClusterSpec, children: Sequence[Object]) -> Iterator[str]:
    """Sizes of machines that are raised."""
    configs = of_kind(VSphereMachineConfig, children)
    messages: dict[str, None] = {}
    for group in machine_groups(spec):
        config = configs.get(group.reference.name) if group.reference is not None else None
        if config is None:
            continue
        machines = "machines of external etcd" if group.role == ETCD else "machines"
        for field, specified, actual in raised(config.spec, of_etcd=group.role == ETCD):
            path = f"{_KIND} {config.metadata.name}: spec.{field}"
            messages[
                f"{path}: found {specified}, but {machines} get {actual}, as in EKS Anywhere; set at least {actual}"
            ] = None
    yield from messages


def _failure_domains(spec: eksa.ClusterSpec, children: Sequence[Object]) -> Iterator[Violation]:
    for datacenter in of_kind(VSphereDatacenterConfig, children).values():
        names = [domain.name for domain in datacenter.spec.failure_domains]
        for index, group in enumerate(spec.worker_node_group_configurations):
            for place, name in enumerate(group.failure_domains):
                if name not in names:
                    message = f"VSphereDatacenterConfig {datacenter.metadata.name} has no such failure domain"
                    allowed = ", ".join(names) or "none"
                    yield Violation(f"{_GROUPS}[{index}].failureDomains[{place}]", name, allowed, message)


def _operating_systems(spec: eksa.ClusterSpec, configs: dict[str, VSphereMachineConfig]) -> Iterator[Violation]:
    operating_systems = [
        config.spec.os
        for group in machine_groups(spec)
        if group.reference is not None and (config := configs.get(group.reference.name)) is not None
    ]
    families = sorted(set(operating_systems))
    if len(families) > 1 and spec.external_etcd_configuration is not None:
        message = "with external etcd, all machines of a cluster must have the same operating system"
        yield Violation("spec.externalEtcdConfiguration", ", ".join(families), "one osFamily", message)
