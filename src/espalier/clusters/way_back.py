"""How far an upgrade of Kubernetes that was asked for has gone, and so whether it can be taken back."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from espalier.clusterapi import contract
from espalier.clusters import in_place, names
from espalier.clusters.rules.versions import after
from espalier.clusters.scope import Machinery


class WayBack(msgspec.Struct, frozen=True):
    """Kubernetes minor versions to which a step down is none, because no machine was given the newer one."""

    control_plane: frozenset[str] = frozenset()
    groups: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    """By name of the MachineDeployment."""


def way_back(machinery: Machinery) -> WayBack:
    """What machines have, by what Cluster API was told and reports; nothing while it has not reported."""
    control_plane = machinery.control_plane
    if control_plane is None:
        return WayBack()
    versions = _told(control_plane.spec.version)
    status = control_plane.status
    # Control planes of Cluster API up to 1.13 report the lowest version alone: all have it while none is up to date.
    running = {count.version for count in status.versions} or {status.version} - {""}
    is_reported = contract.is_observed(control_plane) and status.up_to_date_replicas == 0
    if (is_reported or in_place.is_untouched(control_plane, machinery.upgrades)) and len(running) == 1:
        versions |= {minor_of(version) for version in running}
    groups = {
        name: frozenset(_told(deployment.spec.template.spec.version or ""))
        for name, deployment in machinery.typed_deployments.items()
    }
    return WayBack(frozenset(versions), groups)


def _told(version: str) -> set[str]:
    """What machines were told, and the next: it is before a version that was written while nobody could refuse it."""
    told = minor_of(version)
    return {told, after(told)} if told else set()


def minor_of(version: str) -> str:
    """`1.35` for `v1.35.4-eks-1-35-1`."""
    return ".".join(version.removeprefix("v").split(".")[:2])


def of_group(way: WayBack, cluster: str, group: str) -> frozenset[str]:
    """The versions of a group of workers."""
    return way.groups.get(names.machine_deployment(cluster, group), frozenset())
