"""Changes of a Cluster that can't be made in place."""

from __future__ import annotations

from espalier.api.meta import Tree

CONTROL_PLANE_CHANGES: list[tuple[Tree, str]] = [
    ({"certSans": ["garden.example"]}, "bootstrap.clusterConfiguration.apiServer"),
    ({"labels": {"tier": "front"}}, "bootstrap.joinConfiguration.nodeRegistration.kubeletExtraArgs"),
    ({"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}]}, "nodeRegistration.taints"),
]
WORKER_CHANGES: list[tuple[Tree, str]] = [
    ({"labels": {"tier": "front"}}, "bootstrap.joinConfiguration.nodeRegistration.kubeletExtraArgs"),
    ({"taints": [{"key": "a", "value": "b", "effect": "PreferNoSchedule"}]}, "nodeRegistration.taints"),
]
