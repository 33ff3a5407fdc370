"""As much of a cluster as an upgrade in place looks at: nodes, static pods and Machines, made for a test."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any

import msgspec
import pytest

from espalier.api.capi.machine import Machine
from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.meta import Tree
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL
from espalier.kube.errors import Conflict, NotFound
from espalier.kube.objects import Object, encode_json
from espalier.runtime.controllers.outcome import Continue, Outcome, Wait
from espalier.upgrades.node import pod
from espalier.upgrades.node.context import NodeUpgradeContext
from espalier.upgrades.node.observe import NodeScope
from espalier.upgrades.observed import health
from espalier.upgrades.observed.cluster_view import MachineView
from espalier.upgrades.observed.views import Node, Pod

OLD, NEW = "v1.35.4-eks-1-35-1", "v1.36.3-eks-1-36-1"


def made(tree: Tree) -> Object:
    """An object with this content."""
    return Object(encode_json(tree))


def node(
    name: str,
    *,
    ready: bool = True,
    kubelet: str = OLD,
    control_plane: bool = True,
    annotations: dict[str, str] | None = None,
) -> Node:
    """A node, of the control plane unless it is said not to be."""
    labels = {health.CONTROL_PLANE: ""} if control_plane else {}
    status = {
        "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
        "nodeInfo": {"kubeletVersion": kubelet},
    }
    metadata = {"name": name, "labels": labels, "annotations": annotations or {}}
    return msgspec.convert({"metadata": metadata, "status": status}, Node)


def pods(*nodes: str, broken: str = "") -> list[Pod]:
    """Static pods of nodes; `broken` is the name of one that is not ready."""
    return [
        msgspec.convert(
            {
                "metadata": {"name": f"{component}-{name}", "labels": {"component": component}},
                "spec": {"nodeName": name},
                "status": {
                    "conditions": [{"type": "Ready", "status": "False" if broken == f"{component}-{name}" else "True"}]
                },
            },
            Pod,
        )
        for name in nodes
        for component in ("etcd", "kube-apiserver")
    ]


def static_pods(*versions: str) -> list[Pod]:
    """The static pods of node a whose images have a version of Kubernetes."""
    return [
        msgspec.convert(
            {
                "metadata": {"name": f"{name}-a", "labels": {"component": name}},
                "spec": {"nodeName": "a", "containers": [{"name": name, "image": f"registry:5000/{name}:{version}"}]},
            },
            Pod,
        )
        for name, version in zip(
            ("kube-apiserver", "kube-controller-manager", "kube-scheduler"), versions, strict=False
        )
    ]


def machine(name: str, *, version: str = OLD, going: bool = False, control_plane: bool = False) -> MachineView:
    """A Machine whose node is called like it; `going` is being deleted."""
    role = {CONTROL_PLANE_LABEL: ""} if control_plane else {}
    metadata: Tree = {"name": name, "labels": {CLUSTER_NAME_LABEL: "c"} | role}
    if going:
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    reference = {"apiGroup": "g", "kind": "K", "name": name}
    tree = {
        "apiVersion": Machine.resource.api_version,
        "kind": Machine.resource.kind,
        "metadata": metadata,
        "spec": {"clusterName": "c", "bootstrap": {}, "infrastructureRef": reference, "version": version},
        "status": {"nodeRef": {"name": name}},
    }
    return MachineView(made(tree), None, None, None)


def cluster_view(
    *machines: MachineView, nodes: list[Node] | None = None, static_pods: list[Pod] | None = None, silent: float = 0.0
) -> Any:
    """Both sides of a cluster that answers."""
    result = nodes or []
    workload = SimpleNamespace(
        nodes=lambda: result,
        node=lambda name: next((item for item in result if item.metadata.name == name), None),
        control_plane_pods=lambda: static_pods or [],
        silent_for=silent,
    )
    capi_objects = SimpleNamespace(
        caches={Machine.resource: SimpleNamespace(list=lambda: [item.object for item in machines])},
        machines_of=lambda _owner: list(machines),
        control_planes=[],
    )
    return SimpleNamespace(capi_objects=capi_objects, workload=workload, is_being_read=False)


def rights_taken(monkeypatch: pytest.MonkeyPatch, steps: ModuleType) -> list[str]:
    """The nodes whose upgraders these steps take rights from."""
    taken: list[str] = []

    async def delete_orphaned_rbac(_workload: Any, name: str) -> None:
        taken.append(name)

    monkeypatch.setattr(steps, "delete_orphaned_rbac", delete_orphaned_rbac)
    return taken


def scope_of(nodes: list[Node], *, first: bool = False, claimed_by: str = "", broken: str = "") -> NodeScope:
    """An upgrade of node a to the new version, before its pod is made."""
    spec: Tree = {
        "machine": {"name": "a"},
        "kubernetesVersion": NEW,
        "nodeType": "ControlPlane",
        "firstNodeToBeUpgraded": first,
    }
    metadata = {"name": "a-node-upgrader", "namespace": "eksa-system", "uid": "1"}
    api_version = NodeUpgrade.resource.api_version
    result = made({"apiVersion": api_version, "kind": "NodeUpgrade", "metadata": metadata, "spec": spec})
    view = cluster_view(nodes=nodes, static_pods=pods(*(item.metadata.name for item in nodes), broken=broken))
    plane = {
        "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
        "kind": "KubeadmControlPlane",
        "metadata": {"name": "garden"},
        "spec": {
            "version": NEW,
            "replicas": len(nodes),
            "machineTemplate": {"spec": {"infrastructureRef": {"apiGroup": "g", "kind": "K", "name": "t"}}},
        },
    }
    return NodeScope(
        object=result,
        upgrade=result.decode(NodeUpgrade),
        cluster="garden",
        cluster_view=view,
        machine=machine("a", control_plane=True),
        node=view.workload.node("a"),
        pod_object=None,
        earlier=None,
        taken_by="",
        control_plane=made(plane),
        control_plane_machines=tuple(machine(item.metadata.name, control_plane=True) for item in nodes),
        claimed_by=claimed_by,
        configuration=None,
        image="image",
        images=(),
    )


def ended(step: Any, scope: NodeScope, *, is_late: bool = False) -> tuple[Outcome, list[Tree]]:
    """How a step ends, and what it wrote; `is_late` is whether somebody else has written before."""
    written: list[Tree] = []

    async def merge(_resource: Any, _stored: Any, patch: Tree) -> None:
        if is_late:
            raise Conflict.of("the object was changed")
        written.append(patch)

    async def get(_resource: Any, name: str, _namespace: str) -> Object:
        raise NotFound.of(name)

    tools: Any = SimpleNamespace(writer=SimpleNamespace(merge=merge, client=SimpleNamespace(get=get)))
    return asyncio.run(step(NodeUpgradeContext(tools, scope))), written


def reason(outcome: Outcome) -> str:
    assert isinstance(outcome, Wait | Continue)
    return outcome.reason if isinstance(outcome, Wait) else ""


def working(*, silent: float = 0.0, **spec: Any) -> NodeScope:
    """An upgrade of node a whose pod is at its first step."""
    scope = scope_of([node("a")], **spec)
    wanted = pod.pod(pod.Upgrader("eksa-system/a-node-upgrader", "a", "image", "control-plane", NEW, "account"))
    names = [container["name"] for container in wanted["spec"]["initContainers"]]
    running = [{"name": names[0], "state": {"running": {}}}]
    view = cluster_view(nodes=[node("a")], static_pods=pods("a"), silent=silent)
    view.waiting_for = "its API server does not answer"
    return replace(scope, pod_object=made({**wanted, "status": {"initContainerStatuses": running}}), cluster_view=view)
