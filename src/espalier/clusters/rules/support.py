"""Warnings about Kubernetes versions whose support ends soon or has ended."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from espalier.api.eksa.cluster import ClusterSpec
from espalier.api.eksa.release import Bundles
from espalier.clusters.rules import messages
from espalier.releases.contents import is_due, support_text


def warnings(spec: ClusterSpec, bundles: Bundles | None, now: datetime) -> Iterator[str]:
    """One warning for each such version, at its first field. Without Bundles no date is known."""
    if bundles is None:
        return
    ends = {entry.kube_version: entry.end_of_standard_support for entry in bundles.spec.versions_bundles}
    written = {spec.kubernetes_version: "spec.kubernetesVersion"}
    for index, group in enumerate(spec.worker_node_group_configurations):
        field = f"spec.workerNodeGroupConfigurations[{index}].kubernetesVersion"
        written.setdefault(group.kubernetes_version or spec.kubernetes_version, field)
    for version, field in written.items():
        if is_due(ends.get(version, ""), now):
            yield messages.support_is_due(field, version, support_text(ends[version], now))
