"""Parts that the manifests of CNIs share."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api.core import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, KUBE_SYSTEM, SERVICE_ACCOUNT
from espalier.api.meta import Tree
from espalier.api.resource import Resource

NAMESPACE = KUBE_SYSTEM

EVERYWHERE: list[Tree] = [{"operator": "Exists"}]
"""Tolerations of pods that must run on every node, including nodes that are not ready."""


def account(name: str, labels: dict[str, str], rules: Sequence[Tree]) -> list[tuple[Resource, Tree]]:
    """A ServiceAccount with a ClusterRole and its binding."""
    subject = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
    role = {"apiGroup": CLUSTER_ROLE.group, "kind": CLUSTER_ROLE.kind, "name": name}
    metadata = {"name": name, "labels": labels}
    return [
        (SERVICE_ACCOUNT, {"metadata": {**metadata, "namespace": NAMESPACE}}),
        (CLUSTER_ROLE, {"metadata": metadata, "rules": list(rules)}),
        (CLUSTER_ROLE_BINDING, {"metadata": metadata, "roleRef": role, "subjects": [subject]}),
    ]


def rule(groups: Sequence[str], resources: Sequence[str], verbs: Sequence[str]) -> Tree:
    """A rule of a ClusterRole."""
    return {"apiGroups": list(groups), "resources": list(resources), "verbs": list(verbs)}


def from_field(name: str, path: str) -> Tree:
    """An environment variable from a field of the pod. Includes the API server's defaults: the reference is owned as a
    whole.
    """
    return {"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}}


def host_path(name: str, path: str, kind: str = "") -> Tree:
    """A hostPath volume."""
    source: Tree = {"path": path}
    if kind:
        source["type"] = kind
    return {"name": name, "hostPath": source}
