"""The upgrader pod, and the rights of its ServiceAccount: on its own node, and for evictions. Pure."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import msgspec

from espalier.api.core import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, NODE, POD, SECRET, SERVICE_ACCOUNT
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.objects import Object
from espalier.runtime import owners
from espalier.upgrades import names
from espalier.upgrades.node.containers import COPY, DONE, DRAIN, KUBEADM, KUBELET, STEPS, UNCORDON, NodeStep

Role = Literal["first-control-plane", "control-plane", "worker"]

HOST_ROOT = "/host"
UPGRADE = "NODE_UPGRADE"
"""The variable with the uid of the NodeUpgrade that a pod was made for."""
CHANGES_FOLDER, CHANGES_FILE = "/upgrader-changes", "changes.json"
"""Where the program on the node finds files and kubelet flags that are to change.

It is told by an argument: a program that knows of no changes refuses it, and does not leave them out."""
PRIVILEGED_LABEL = "pod-security.kubernetes.io/enforce=privileged"
"""Label of a namespace that may have privileged pods, whatever Pod Security enforces in the cluster by default."""
NAMESPACE_OF_PODS: Tree = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": names.UPGRADER_NAMESPACE, "labels": dict([PRIVILEGED_LABEL.split("=")])},
}
"""In the workload cluster."""


@dataclass(frozen=True, slots=True)
class Upgrader:
    """The task of a pod."""

    node_upgrade: str
    """Namespace and name of the NodeUpgrade."""
    node: str
    image: str
    role: Role
    kubernetes_version: str
    account: str
    """The ServiceAccount it acts with."""
    upgrade: str = ""
    """Uid of the NodeUpgrade: what one has begun, another one does not take for its own."""
    changes: str = ""
    """The Secret with files and kubelet flags that the node gets besides; empty without one."""
    done: frozenset[str] = frozenset()
    """Conditions of the steps that need not be done again."""
    drains: bool = True
    drain_seconds: int = 0
    """How long the drain waits for pods that do not go; 0 is without a limit."""
    ignored: tuple[str, ...] = ()
    """Checks of kubeadm that the machine was made without."""
    patches: str = ""
    """Folder on the node with patches of what kubeadm writes, as the machine was made with."""


def left(done: Collection[str], *, drains: bool) -> tuple[NodeStep, ...]:
    """The steps of a pod: those that are not done. What works with copied components begins by copying them."""
    drains = drains or DRAIN.condition in done
    due = [step for step in STEPS if step.condition not in done and (drains or step not in (DRAIN, UNCORDON))]
    needs_components = any(step.on_host and step is not DONE for step in due)
    return tuple([COPY, *due] if needs_components and COPY not in due else due)


def pod(upgrader: Upgrader) -> Tree:
    """The pod. It runs once; who wants it to run again deletes it."""
    containers = [_container(upgrader, step) for step in left(upgrader.done, drains=upgrader.drains)]
    *init_containers, main = containers
    return _object(POD, names.upgrader(upgrader.node)) | {
        "spec": {
            "nodeName": upgrader.node,
            "hostPID": True,
            "hostNetwork": True,  # also a node whose pod network is ill can be upgraded
            "restartPolicy": "Never",
            "serviceAccountName": upgrader.account,
            "imagePullSecrets": [{"name": names.PULL_SECRET}],
            "priorityClassName": "system-node-critical",
            "tolerations": [{"operator": "Exists"}],
            "terminationGracePeriodSeconds": 30,
            "initContainers": init_containers,
            "containers": [main],
            "volumes": _volumes(upgrader),
        },
        "metadata": _metadata(POD, names.upgrader(upgrader.node))
        | {"annotations": {names.NODE_UPGRADE_ANNOTATION: upgrader.node_upgrade}},
    }


def changes(account: str, role: Object, content: bytes) -> Tree:
    """The Secret with what the pod changes of its node besides. The pod mounts it; its rights are not to read it."""
    owner = msgspec.to_builtins(owners.owner_reference(role, controller=False, block_owner_deletion=False))
    data = {CHANGES_FILE: base64.b64encode(content).decode()}
    return _object(SECRET, names.changes(account, content), owner) | {"data": data, "immutable": True}


def role(node: str) -> Tree:
    """The role of the pod in its cluster. It owns the ServiceAccount and what binds the two: they go with it."""
    rules = [
        _rule(NODE, "nodes", ["get", "patch"], [node]),
        _rule(POD, "pods", ["get", "list"]),
        _rule(POD, "pods/eviction", ["create"]),
    ]
    return _object(CLUSTER_ROLE, names.upgrader(node)) | {"rules": rules}


def holders(role: Object) -> list[tuple[Resource, Tree]]:
    """The ServiceAccount that has a role, and what binds the two.

    Named after the role's uid: those of an earlier role of its name may still be there, and about to be collected.
    """
    name = account(role)
    owner = msgspec.to_builtins(owners.owner_reference(role, controller=False, block_owner_deletion=False))
    binds = {
        "roleRef": {"apiGroup": CLUSTER_ROLE.group, "kind": CLUSTER_ROLE.kind, "name": role.name},
        "subjects": [{"kind": SERVICE_ACCOUNT.kind, "name": name, "namespace": names.UPGRADER_NAMESPACE}],
    }
    return [
        (SERVICE_ACCOUNT, _object(SERVICE_ACCOUNT, name, owner)),
        (CLUSTER_ROLE_BINDING, _object(CLUSTER_ROLE_BINDING, name, owner) | binds),
    ]


def account(role: Object) -> str:
    """The ServiceAccount that has a role."""
    return f"{role.name}-{role.metadata.uid.partition('-')[0]}"


def _container(upgrader: Upgrader, step: NodeStep) -> Tree:
    env = {"NODE_NAME": upgrader.node, "KUBERNETES_VERSION": upgrader.kubernetes_version}
    container: Tree = {
        "name": step.container,
        "image": upgrader.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["upgrader", step.command, *_arguments(upgrader, step)],
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    if step.on_host:
        return container | {
            "env": _env(env | {"HOST_ROOT": HOST_ROOT, UPGRADE: upgrader.upgrade}),
            "securityContext": {"privileged": True},
            "volumeMounts": _mounts(upgrader),
        }
    security = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    return container | {"env": _env(env), "securityContext": security}


def _arguments(upgrader: Upgrader, step: NodeStep) -> list[str]:
    if step is DRAIN:
        return ["--timeout", str(upgrader.drain_seconds)]
    changes = ["--changes", CHANGES_FOLDER] if upgrader.changes and step in (COPY, KUBEADM, KUBELET, DONE) else []
    if step is not KUBEADM:
        return changes
    return [
        *("--role", upgrader.role, "--kubernetes-version", upgrader.kubernetes_version),
        *(("--ignore-preflight-errors", ",".join(upgrader.ignored)) if upgrader.ignored else ()),
        *(("--patches", upgrader.patches) if upgrader.patches else ()),
        *changes,
    ]


def _volumes(upgrader: Upgrader) -> list[Tree]:
    host: Tree = {"name": "host", "hostPath": {"path": "/", "type": "Directory"}}
    brought: Tree = {"name": "changes", "secret": {"secretName": upgrader.changes, "defaultMode": 0o400}}
    return [host, brought] if upgrader.changes else [host]


def _mounts(upgrader: Upgrader) -> list[Tree]:
    host: Tree = {"name": "host", "mountPath": HOST_ROOT}
    brought: Tree = {"name": "changes", "mountPath": CHANGES_FOLDER, "readOnly": True}
    return [host, brought] if upgrader.changes else [host]


def _env(variables: Mapping[str, str]) -> list[Tree]:
    return [{"name": name, "value": value} for name, value in variables.items()]


def _rule(resource: Resource, plural: str, verbs: list[str], only: Collection[str] = ()) -> Tree:
    rule: Tree = {"apiGroups": [resource.group], "resources": [plural], "verbs": verbs}
    return rule | {"resourceNames": list(only)} if only else rule


def _object(resource: Resource, name: str, owner: Tree | None = None) -> Tree:
    metadata = _metadata(resource, name) | ({"ownerReferences": [owner]} if owner else {})
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def _metadata(resource: Resource, name: str) -> Tree:
    metadata: Tree = {"name": name, "labels": {names.UPGRADER_LABEL: "true"}}
    return metadata | {"namespace": names.UPGRADER_NAMESPACE} if resource.namespaced else metadata
