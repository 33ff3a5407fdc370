"""The progress of a Kubernetes upgrade, which decides whether it can be reverted.

The status of a control plane does not show it: a machine that never became a node counts as up to date.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.clusterapi import contract
from espalier.clusterapi.kubernetes_versions import after, minor, minor_of
from espalier.clusters.design import names
from espalier.clusters.design.drift import gate
from espalier.clusters.design.release_objects import release_content
from espalier.clusters.design.rendered import annotated
from espalier.clusters.observe.machines import in_place_progress
from espalier.clusters.observe.scope import ClusterAPIObjects
from espalier.kube.objects import Object


class AllowedDowngrades(msgspec.Struct, frozen=True):
    """Kubernetes minor versions to which a revert is possible, because no machine runs a newer one."""

    control_plane: frozenset[str] = frozenset()
    groups: Mapping[str, frozenset[str]] = msgspec.field(default_factory=dict)
    """By name of the MachineDeployment."""


def allowed_downgrades(capi_objects: ClusterAPIObjects) -> AllowedDowngrades:
    """The versions in the specs of the control plane and the groups, and those that nodes run."""
    control_plane = capi_objects.control_plane
    if control_plane is None:
        return AllowedDowngrades()
    versions = _possible_minors(control_plane.spec.version)
    running = _running(capi_objects.machines)
    # While a machine is upgraded in place, its API server may be the newer one already.
    is_settled = not in_place_progress.is_upgrading(control_plane) or in_place_progress.is_untouched(
        capi_objects.upgrades, capi_objects.node_upgrades
    )
    if is_settled and len(running) == 1:
        versions |= running
    if (
        in_place_progress.is_upgrading(control_plane)
        and not capi_objects.installed_cni
        and not control_plane.status.ready_replicas
    ):
        # An earlier manager paused it before it was created: no node was ever ready, and so none was upgraded.
        versions |= {minor_of(machine.decode(Machine).spec.version) for machine in capi_objects.machines}
    groups = {
        name: frozenset(_possible_minors(deployment.spec.template.spec.version or ""))
        for name, deployment in capi_objects.typed_deployments.items()
    }
    return AllowedDowngrades(frozenset(versions), groups)


def allowing_coredns_downgrade(wanted: KubeadmControlPlane, live: KubeadmControlPlane | None) -> KubeadmControlPlane:
    """The control plane, with which Cluster API accepts the CoreDNS version of an earlier Kubernetes: it would reject
    that as a downgrade.

    No newer CoreDNS was installed, because it is updated after the last machine. The next reconcile finds no downgrade
    and removes the annotation.
    """
    if live is None or contract.SKIP_COREDNS_ANNOTATION in live.metadata.annotations:
        return wanted
    earlier, later = minor_of(wanted.spec.version), minor_of(live.spec.version)
    if earlier and later and minor(earlier) < minor(later):
        return annotated(wanted, {contract.SKIP_COREDNS_ANNOTATION: "true"})
    return wanted


def is_unused(annotations: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    """True if nothing was created yet with the release of a Cluster, and all objects are from the release `wanted`.

    `annotations` are those of the Cluster, `wanted` the content of the release. Before any write the content hash is
    opened, and the release of the write is recorded.
    """
    recorded = annotations.get(metadata_keys.GATE_ANNOTATION, gate.OPENED)
    noted = release_content.recorded(annotations)
    of_release = {name: digest for name, digest in wanted.items() if not name.startswith(DistroRelease.resource.kind)}
    return not gate.is_open(recorded) and bool(of_release) and of_release.items() <= noted.items()


def _running(machines: Iterable[Object]) -> set[str]:
    """Minor versions of the machines that became nodes; both versions of one that is being upgraded."""
    versions: set[str] = set()
    for machine in (item.decode(Machine) for item in machines):
        if machine.status.node_ref is not None:
            versions |= {machine.spec.version, str(machine.status.node_info.get("kubeletVersion", ""))}
    return {minor_of(version) for version in versions} - {""}


def _possible_minors(version: str) -> set[str]:
    """The minor version in the spec, and the next: a downgrade may have been written while no webhook was running."""
    minor = minor_of(version)
    return {minor, after(minor)} if minor else set()


def of_group(downgrades: AllowedDowngrades, cluster: str, group: str) -> frozenset[str]:
    """The versions of a worker node group."""
    return downgrades.groups.get(names.machine_deployment(cluster, group), frozenset())
