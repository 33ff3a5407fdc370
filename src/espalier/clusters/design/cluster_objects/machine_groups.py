"""The groups of machines of a Cluster, and the machine configs that they reference."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.fields import Ref
from espalier.api.text.violations import Violation
from espalier.clusters.design.render_input import group_count

CONTROL_PLANE, ETCD, WORKERS = "control plane", "etcd", "workers"
"""Roles of machines."""


class MachineGroup(NamedTuple):
    """A group of identical machines."""

    field: str
    """The field of the Cluster's spec with the group."""
    reference: Ref | None
    role: str
    machines: int
    """The number of machines; the minimum for autoscaled workers."""
    kubernetes_version: str
    """A minor version."""


def machine_groups(spec: eksa.ClusterSpec) -> Iterator[MachineGroup]:
    """All groups of a Cluster."""
    version = spec.kubernetes_version
    if (control_plane := spec.control_plane_configuration) is not None:
        reference, count = control_plane.machine_group_ref, control_plane.count
        yield MachineGroup("spec.controlPlaneConfiguration", reference, CONTROL_PLANE, count, version)
    if (etcd := spec.external_etcd_configuration) is not None:
        yield MachineGroup("spec.externalEtcdConfiguration", etcd.machine_group_ref, ETCD, etcd.count, version)
    for index, group in enumerate(spec.worker_node_group_configurations):
        yield MachineGroup(
            f"spec.workerNodeGroupConfigurations[{index}]",
            group.machine_group_ref,
            WORKERS,
            group_count(group),
            group.kubernetes_version or version,
        )


def kubernetes_versions(spec: eksa.ClusterSpec, config: str) -> list[str]:
    """The Kubernetes versions that machines with a machine config run."""
    named = (group for group in machine_groups(spec) if group.reference is not None and group.reference.name == config)
    return list(dict.fromkeys(group.kubernetes_version for group in named))


def fields_with(os: str, spec: eksa.ClusterSpec, systems: Mapping[str, str]) -> list[str]:
    """The fields of machine groups, by the operating systems of their machine configs."""
    groups = ((group.field, group.reference.name) for group in machine_groups(spec) if group.reference is not None)
    return [field for field, config in groups if systems.get(config) == os]


def names_version(image: str, version: str) -> bool:
    """True if the name of an image contains a Kubernetes version, however its parts are separated."""
    return not version or _plain(version) in _plain(image)


def _plain(text: str) -> str:
    return re.sub("[._-]", "", text)


def references_to(kind: str, spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Groups without a machine config, or with one of another kind."""
    for group in machine_groups(spec):
        field = f"{group.field}.machineGroupRef"
        if group.reference is None:
            yield Violation(field, "nothing", kind, "name the config of the machines")
        elif group.reference.kind != kind:
            message = "not a kind of machine config for this datacenter"
            yield Violation(f"{field}.kind", group.reference.kind, kind, message)


def without_failure_domains(spec: eksa.ClusterSpec, remedy: str) -> Iterator[Violation]:
    """Worker node groups that name failure domains, on a provider where they can't."""
    for index, group in enumerate(spec.worker_node_group_configurations):
        if group.failure_domains:
            field = f"spec.workerNodeGroupConfigurations[{index}].failureDomains"
            yield Violation(field, ", ".join(group.failure_domains), "nothing", remedy)
