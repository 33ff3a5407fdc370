"""Nodes and pods as kubectl shows them, without what differs between two of them that are equally well."""

from __future__ import annotations

from typing import Any

from espalier.api.core import NODE, POD
from espalier.api.meta import Tree
from espalier.kube.client import Client


def shape(value: Any) -> Any:
    """The fields of a value, with whatever says how it is: booleans, phases, and the status of conditions."""
    if isinstance(value, dict):
        if "type" in value and "status" in value:
            return (value["type"], value["status"])
        fields = ("phase", "qosClass")
        return {name: element if name in fields else shape(element) for name, element in sorted(value.items())}
    if isinstance(value, list):
        return sorted((shape(item) for item in value), key=repr)
    return value if isinstance(value, bool) else type(value).__name__


def ready_column(pod: Tree) -> str:
    """READY of `kubectl get pods`."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or []
    return f"{sum(status['ready'] for status in statuses)}/{len(pod['spec']['containers'])}"


async def shown(client: Client) -> dict[str, Any]:
    """Each node by its role and each pod by the part it plays on its node, as kubectl shows them."""
    results: dict[str, Any] = {}
    roles: dict[str, str] = {}
    for node in (await client.list(NODE)).items:
        is_plane = "node-role.kubernetes.io/control-plane" in node.metadata.labels
        roles[node.name] = "control plane" if is_plane else "worker"
        cordoned = bool(node.tree["spec"].get("unschedulable"))
        results[roles[node.name]] = (shape(node.tree["status"]), cordoned, sorted(map(repr, _taints(node.tree))))
    for pod in (await client.list(POD, "kube-system")).items:
        labels = pod.metadata.labels
        part = labels.get("component") or labels.get("k8s-app") or labels.get("app") or pod.name
        status = (ready_column(pod.tree), shape(pod.tree.get("status")))
        is_placed = any(reference.kind == "ReplicaSet" for reference in pod.metadata.owner_references)  # on any node
        results[f"pod {part}" if is_placed else f"pod {part} on the {roles[pod.tree['spec']['nodeName']]}"] = status
    return results


def _taints(node: Tree) -> list[Tree]:
    taints: list[Tree] = node["spec"].get("taints") or []
    return taints
