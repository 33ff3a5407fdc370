"""The upgrader pod, and the rights of its ServiceAccount: to patch its own node, and to evict pods. Pure."""

from __future__ import annotations

import base64
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from espalier.api.core import CLUSTER_ROLE, CLUSTER_ROLE_BINDING, NODE, POD, SECRET, SERVICE_ACCOUNT
from espalier.api.eksa.vocabulary.upgrade_keys import NODE_UPGRADE_ANNOTATION, UPGRADER_LABEL
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.objects import Object
from espalier.runtime.controllers import owners
from espalier.upgrades import names
from espalier.upgrades.node.containers import (
    COPY,
    DONE,
    DRAIN,
    KUBEADM,
    KUBELET,
    ONLY_CERTIFICATES,
    STEPS,
    UNCORDON,
    NodeStep,
)
from espalier.upgrades.observed.evidence import UPGRADE

Role = Literal["first-control-plane", "control-plane", "worker"]

HOST_ROOT = "/host"
CHANGES_FOLDER, CHANGES_FILE = "/upgrader-changes", "changes.json"
"""Where the upgrader finds the files and kubelet flags to change.

It is passed as an argument: an upgrader that does not know it fails, instead of ignoring the changes."""
PRIVILEGED_LABEL = "pod-security.kubernetes.io/enforce=privileged"
"""The label of a namespace that allows privileged pods, whatever Pod Security enforces by default."""
NAMESPACE_OF_PODS: Tree = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": names.UPGRADER_NAMESPACE, "labels": dict([PRIVILEGED_LABEL.split("=")])},
}
"""In the workload cluster."""


@dataclass(frozen=True, slots=True)
class Upgrader:
    """The parameters of an upgrader pod."""

    node_upgrade: str
    """Namespace and name of the NodeUpgrade."""
    node: str
    image: str
    role: Role
    kubernetes_version: str
    account: str
    """The ServiceAccount it runs with."""
    upgrade: str = ""
    """The uid of the NodeUpgrade; the upgrader does not continue what another NodeUpgrade started."""
    etcd_version: str = ""
    """The tag of the image of etcd that kubeadm is to start; empty for kubeadm's own."""
    changes: str = ""
    """The Secret with the files and kubelet flags to change; empty without any."""
    done: frozenset[str] = frozenset()
    """The conditions of the steps that are done."""
    drains: bool = True
    drain_seconds: int = 0
    """How long the drain waits for pods to terminate; 0 for no limit."""
    ignored: tuple[str, ...] = ()
    """The preflight checks of kubeadm to ignore."""
    patches: str = ""
    """The directory on the node with patches for kubeadm."""
    certificates_only: bool = False
    """True if nothing but the renewal of certificates is due."""


def remaining_steps(done: Collection[str], *, drains: bool) -> tuple[NodeStep, ...]:
    """The steps of a pod, in order: those that are not done, with copying first if any of them needs the components."""
    drains = drains or DRAIN.condition in done
    due = [step for step in STEPS if step.condition not in done and (drains or step not in (DRAIN, UNCORDON))]
    needs_components = any(step.on_host and step is not DONE for step in due)
    return tuple([COPY, *due] if needs_components and COPY not in due else due)


def pod(upgrader: Upgrader) -> Tree:
    """The pod. It runs once; to run it again, delete it."""
    if upgrader.certificates_only:
        due: Sequence[NodeStep] = ONLY_CERTIFICATES
    else:
        due = remaining_steps(upgrader.done, drains=upgrader.drains)
    containers = [_container(upgrader, step) for step in due]
    *init_containers, main = containers
    return _object(POD, names.upgrader(upgrader.node)) | {
        "spec": {
            "nodeName": upgrader.node,
            "hostPID": True,
            "hostNetwork": True,  # to upgrade a node even if its pod network is broken
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
        | {"annotations": {NODE_UPGRADE_ANNOTATION: upgrader.node_upgrade}},
    }


def changes(account: str, role: Object, content: bytes) -> Tree:
    """The Secret with the files and kubelet flags to change. The pod mounts it; its ServiceAccount can't read it."""
    owner = msgspec.to_builtins(owners.owner_reference(role, controller=False, block_owner_deletion=False))
    data = {CHANGES_FILE: base64.b64encode(content).decode()}
    return _object(SECRET, names.changes(account, content), owner) | {"data": data, "immutable": True}


def role(node: str) -> Tree:
    """The ClusterRole of the pod. It owns the ServiceAccount and the binding, which are deleted with it."""
    rules = [
        _rule(NODE, "nodes", ["get", "patch"], [node]),
        _rule(POD, "pods", ["get", "list"]),
        _rule(POD, "pods/eviction", ["create"]),
    ]
    return _object(CLUSTER_ROLE, names.upgrader(node)) | {"rules": rules}


def role_dependents(role: Object) -> list[tuple[Resource, Tree]]:
    """The ServiceAccount of a role, and the binding.

    Their names have the role's uid, as those of an earlier role of the same name may not be garbage-collected yet.
    """
    name = account(role)
    owner = msgspec.to_builtins(owners.owner_reference(role, controller=False, block_owner_deletion=False))
    binding = {
        "roleRef": {"apiGroup": CLUSTER_ROLE.group, "kind": CLUSTER_ROLE.kind, "name": role.name},
        "subjects": [{"kind": SERVICE_ACCOUNT.kind, "name": name, "namespace": names.UPGRADER_NAMESPACE}],
    }
    return [
        (SERVICE_ACCOUNT, _object(SERVICE_ACCOUNT, name, owner)),
        (CLUSTER_ROLE_BINDING, _object(CLUSTER_ROLE_BINDING, name, owner) | binding),
    ]


def account(role: Object) -> str:
    """The name of a role's ServiceAccount."""
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
    if step is COPY and upgrader.etcd_version:
        env["ETCD_VERSION"] = upgrader.etcd_version
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
    changes_: Tree = {"name": "changes", "secret": {"secretName": upgrader.changes, "defaultMode": 0o400}}
    return [host, changes_] if upgrader.changes else [host]


def _mounts(upgrader: Upgrader) -> list[Tree]:
    host: Tree = {"name": "host", "mountPath": HOST_ROOT}
    changes_: Tree = {"name": "changes", "mountPath": CHANGES_FOLDER, "readOnly": True}
    return [host, changes_] if upgrader.changes else [host]


def _env(variables: Mapping[str, str]) -> list[Tree]:
    return [{"name": name, "value": value} for name, value in variables.items()]


def _rule(resource: Resource, plural: str, verbs: list[str], only: Collection[str] = ()) -> Tree:
    rule: Tree = {"apiGroups": [resource.group], "resources": [plural], "verbs": verbs}
    return rule | {"resourceNames": list(only)} if only else rule


def _object(resource: Resource, name: str, owner: Tree | None = None) -> Tree:
    metadata = _metadata(resource, name) | ({"ownerReferences": [owner]} if owner else {})
    return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def _metadata(resource: Resource, name: str) -> Tree:
    metadata: Tree = {"name": name, "labels": {UPGRADER_LABEL: "true"}}
    return metadata | {"namespace": names.UPGRADER_NAMESPACE} if resource.namespaced else metadata
