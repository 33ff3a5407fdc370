"""Parts of cloud controller managers, which run in workload clusters and initialize nodes."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.core import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE_BINDING, SERVICE_ACCOUNT
from espalier.api.meta import Tree
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.cni.workloads import NAMESPACE, rule
from espalier.clusters.design.rendered import Manifest

ACCOUNT = "cloud-controller-manager"
ROLE = "system:cloud-controller-manager"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"

_RULES = (
    rule([""], ["events"], ["create", "patch", "update"]),
    rule([""], ["nodes"], ["get", "list", "watch", "update", "patch", "delete"]),
    rule([""], ["nodes/status"], ["patch", "update"]),
    rule([""], ["services"], ["list", "watch", "patch", "update"]),
    rule([""], ["services/status"], ["patch", "update"]),
    rule([""], ["serviceaccounts"], ["create", "get", "list", "watch", "update"]),
    rule([""], ["serviceaccounts/token"], ["create"]),
    rule([""], ["endpoints"], ["create", "get", "list", "watch", "update"]),
    rule([""], ["secrets", "configmaps"], ["get", "list", "watch"]),
    rule(["coordination.k8s.io"], ["leases"], ["create", "get", "list", "watch", "update"]),
)


def object_(api_version: str, kind: str, metadata: Tree) -> Tree:
    """An object without content."""
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def rights(reads_authentication: str = f"{ACCOUNT}-authentication") -> Iterator[Manifest]:
    """A ServiceAccount with its rights; the name is that of a RoleBinding."""
    in_namespace = {"namespace": NAMESPACE}
    subjects = [{"kind": "ServiceAccount", "name": ACCOUNT, **in_namespace}]
    # An applied object has a field, or API servers do not note who applied it.
    account = object_("v1", "ServiceAccount", {"name": ACCOUNT, **in_namespace})
    yield Manifest(SERVICE_ACCOUNT, account | {"automountServiceAccountToken": True})
    yield Manifest(
        CLUSTER_ROLE, object_(CLUSTER_ROLE.api_version, "ClusterRole", {"name": ROLE}) | {"rules": [*_RULES]}
    )
    yield Manifest(
        CLUSTER_ROLE_BINDING,
        object_(CLUSTER_ROLE_BINDING.api_version, "ClusterRoleBinding", {"name": ROLE})
        | {"roleRef": _role(CLUSTER_ROLE.kind, ROLE), "subjects": subjects},
    )
    yield Manifest(
        ROLE_BINDING,
        object_(ROLE_BINDING.api_version, "RoleBinding", {"name": reads_authentication, **in_namespace})
        | {"roleRef": _role("Role", "extension-apiserver-authentication-reader"), "subjects": subjects},
    )


def _role(kind: str, name: str) -> Tree:
    return {"apiGroup": CLUSTER_ROLE.group, "kind": kind, "name": name}


def tolerations(render_input: RenderInput) -> list[Tree]:
    """Tolerations of its pods: they run on control plane machines, before these are ready."""
    return [
        {"key": "node.cloudprovider.kubernetes.io/uninitialized", "value": "true", "effect": "NoSchedule"},
        {"key": CONTROL_PLANE, "operator": "Exists", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"},
        *(_toleration(taint.key, taint.value, taint.effect) for taint in render_input.control_plane.taints),
    ]


def _toleration(key: str, value: str, effect: str) -> Tree:
    toleration: Tree = {"key": key, "operator": "Exists", "effect": effect}
    return toleration | ({"operator": "Equal", "value": value} if value else {})
