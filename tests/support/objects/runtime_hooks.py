"""Clusters that are to be upgraded in place by runtime hooks of Cluster API."""

from __future__ import annotations

from espalier.api.meta import Tree

DISCOVERED: Tree = {
    "apiVersion": "runtime.cluster.x-k8s.io/v1beta2",
    "kind": "ExtensionConfig",
    "metadata": {"name": "espalier-in-place", "resourceVersion": "5", "uid": "extension"},
    "spec": {"clientConfig": {"url": "https://127.0.0.1:9443"}},
    "status": {"conditions": [{"type": "Discovered", "status": "True", "reason": "Discovered"}]},
}


def asked(count: int = 3, fallback: str | None = None) -> Tree:
    """Fields of a Cluster."""
    strategy = {"type": "InPlace"} | ({"fallback": fallback} if fallback else {})
    return {
        "controlPlaneConfiguration": {"count": count, "upgradeRolloutStrategy": strategy},
        "workerNodeGroupConfigurations": [{"name": "md-0", "count": 2, "upgradeRolloutStrategy": strategy}],
    }
