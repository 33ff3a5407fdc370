"""A pod network of simulated workload clusters."""

from __future__ import annotations

from espalier.api.core import DAEMON_SET
from espalier.api.meta import Tree


def pod_network() -> Tree:
    """A DaemonSet that the simulation takes for kindnetd."""
    labels = {"app": "kindnet"}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "hostNetwork": True,
            "tolerations": [{"operator": "Exists", "effect": "NoSchedule"}],
            "containers": [{"name": "kindnet-cni", "image": "kindnetd:v1"}],
        },
    }
    return {
        "apiVersion": DAEMON_SET.api_version,
        "kind": DAEMON_SET.kind,
        "metadata": {"name": "kindnet", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
