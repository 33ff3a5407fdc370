"""Rules about a change of a Cluster: what stays as it is, and which steps versions take."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from espalier.api.eksa import cluster as eksa
from espalier.api.schema import Violation
from espalier.clusters.design import group_name
from espalier.clusters.rules.versions import after, minor

_DELETE = "it can't be changed in an existing cluster; create another cluster"


def violations(old: eksa.Cluster, new: eksa.Cluster) -> list[Violation]:
    """What is wrong with a change of a Cluster that was not paused."""
    return [*_fixed(old.spec, new.spec), *_versions(old.spec, new.spec), *_release(old.spec, new.spec)]


def _fixed(old: eksa.ClusterSpec, new: eksa.ClusterSpec) -> Iterator[Violation]:
    before, after_ = _fixed_fields(old), _fixed_fields(new)
    for field, value in before.items():
        if after_[field] != value:
            yield Violation(field, _text(after_[field]), _text(value), _DELETE)


def _fixed_fields(spec: eksa.ClusterSpec) -> dict[str, object]:
    network = spec.cluster_network
    control_plane = spec.control_plane_configuration
    return {
        "spec.managementCluster.name": spec.management_cluster.name,
        "spec.datacenterRef": spec.datacenter_ref,
        "spec.controlPlaneConfiguration.endpoint": control_plane and control_plane.endpoint,
        "spec.clusterNetwork.pods": network and network.pods,
        "spec.clusterNetwork.services": network and network.services,
        "spec.clusterNetwork.dns": network and network.dns,
        "spec.clusterNetwork.nodes": network and network.nodes,
        "spec.proxyConfiguration": spec.proxy_configuration,
        "spec.externalEtcdConfiguration": spec.external_etcd_configuration,
        "spec.gitOpsRef": spec.git_ops_ref,
    }


def _versions(old: eksa.ClusterSpec, new: eksa.ClusterSpec) -> Iterator[Violation]:
    if old.kubernetes_version and new.kubernetes_version:
        yield from _step(old.kubernetes_version, new.kubernetes_version, "spec.kubernetesVersion")
    before = {
        group_name(group): group.kubernetes_version or old.kubernetes_version
        for group in old.worker_node_group_configurations
    }
    for index, group in enumerate(new.worker_node_group_configurations):
        version = before.get(group_name(group))
        wanted = group.kubernetes_version or new.kubernetes_version
        # A group without a version of its own follows the control plane, which is judged above.
        follows = group.kubernetes_version is None and version == old.kubernetes_version
        if version and wanted and not follows:
            yield from _step(version, wanted, f"spec.workerNodeGroupConfigurations[{index}].kubernetesVersion")


def _step(old: str, new: str, field: str) -> Iterator[Violation]:
    steps = minor(new) - minor(old)
    if steps < 0:
        yield Violation(field, new, f"{old} or {after(old)}", f"Kubernetes can't be downgraded from {old}")
    elif steps > 1:
        message = f"Kubernetes is upgraded one minor version at a time; go to {after(old)} first"
        yield Violation(field, new, f"{old} or {after(old)}", message)


def _release(old: eksa.ClusterSpec, new: eksa.ClusterSpec) -> Iterator[Violation]:
    if old.eksa_version is not None and new.eksa_version is None:
        message = "the release of a cluster can be changed, but not taken away"
        yield Violation("spec.eksaVersion", "nothing", old.eksa_version, message)
    if old.bundles_ref is not None and new.bundles_ref is None and new.eksa_version is None:
        message = "name a release in spec.eksaVersion when you remove the Bundles"
        yield Violation("spec.bundlesRef", "nothing", old.bundles_ref.name, message)


def _text(value: object) -> str:
    if value is None or value == "":
        return "nothing"
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
