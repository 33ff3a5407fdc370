"""The kubeconfig of a cluster that is copied for its users."""

from __future__ import annotations

from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Condition

NAME = "garden-kubeconfig"


def trouble(cluster: Cluster) -> Condition | None:
    return next((condition for condition in cluster.status.conditions if condition.type == "KubeconfigCopied"), None)
