"""A cluster in memory that does what an API server does with the writes of planners."""

from __future__ import annotations

import random
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec

from espalier.api.core import (
    DAEMON_SET,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    REPLICA_SET,
    SERVICE,
    STATEFUL_SET,
)
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.simulator import nodes
from espalier.simulator.bootstrap_data import CONTROL_PLANE_TAINT, Kubeadm
from espalier.simulator.workload_controllers.controller import PLANNERS
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import (
    Budget,
    Claim,
    EndpointSlice,
    Node,
    Pod,
    Service,
    View,
    Volume,
    Workload,
)
from espalier.simulator.workload_controllers.writes import Change, Create, Delete, Write

NOW = datetime(2026, 1, 2, tzinfo=UTC)
V = TypeVar("V", bound=View)


class Environment:
    """Objects of a workload cluster, and what a server does with writes to them."""

    def __init__(self) -> None:
        self.objects: dict[tuple[Resource, Key], Tree] = {}
        self.random = random.Random(1)
        self.uids = 0
        self.writes: list[Write] = []

    def add(self, resource: Resource, body: Tree) -> Tree:
        metadata = body["metadata"]
        self.uids += 1
        metadata.setdefault("uid", f"uid-{self.uids}")
        metadata["generation"] = 1
        self.objects[resource, Key(metadata.get("namespace", ""), metadata["name"])] = body
        return body

    def add_node(self, name: str, *, control_plane: bool = False, **fields: Any) -> None:
        taints = [CONTROL_PLANE_TAINT] if control_plane else []
        kubeadm = Kubeadm(version="v1.35.4", control_plane=control_plane, node_name=name, taints=taints, **fields)
        body = nodes.node(kubeadm, provider_id=name, address="172.16.0.1", container_runtime="2.1.5", now="")
        self.add(NODE, body)

    def all(self, resource: Resource) -> list[Tree]:
        return [body for (kind, _), body in self.objects.items() if kind == resource]

    def named(self, resource: Resource, name: str, namespace: str = "") -> Tree:
        return self.objects[resource, Key(namespace, name)]

    def snapshot(self) -> Snapshot:
        def views(resource: Resource, type_: type[V]) -> tuple[V, ...]:
            return tuple(msgspec.json.decode(msgspec.json.encode(body), type=type_) for body in self.all(resource))

        return Snapshot(
            now=NOW,
            random=self.random,
            pod_range="192.168.0.0/16",
            nodes=views(NODE, Node),
            pods=views(POD, Pod),
            daemon_sets=views(DAEMON_SET, Workload),
            deployments=views(DEPLOYMENT, Workload),
            replica_sets=views(REPLICA_SET, Workload),
            stateful_sets=views(STATEFUL_SET, Workload),
            claims=views(PERSISTENT_VOLUME_CLAIM, Claim),
            volumes=views(PERSISTENT_VOLUME, Volume),
            services=views(SERVICE, Service),
            endpoint_slices=views(ENDPOINT_SLICE, EndpointSlice),
            budgets=views(POD_DISRUPTION_BUDGET, Budget),
        )

    def one_pass(self) -> list[Write]:
        """All planners look at the same moment, as one reconcile of the controller does."""
        env = self.snapshot()
        writes = [write for planner in PLANNERS for write in planner(env)]
        for write in writes:
            self.make(write)
        self.writes += writes
        return writes

    def settle(self, passes: int = 30) -> None:
        for _ in range(passes):
            if not self.one_pass():
                return
        raise AssertionError(f"the world does not settle: {self.writes[-5:]}")

    def make(self, write: Write) -> None:
        match write:
            case Create(resource, body):
                self.add(resource, msgspec.json.decode(msgspec.json.encode(body)))
            case Change(resource, key, patch, subresource):
                body = self.objects[resource, key]
                merge(body, patch)
                if subresource is None and "spec" in patch:
                    body["metadata"]["generation"] += 1
                if "deletionTimestamp" in body["metadata"] and not body["metadata"].get("finalizers"):
                    del self.objects[resource, key]
            case Delete(resource, key, uid, graceful):
                value = self.objects.get((resource, key))
                assert value is None or value["metadata"]["uid"] == uid
                self.delete(resource, key, graceful=graceful)

    def delete(self, resource: Resource, key: Key, *, graceful: bool = False) -> None:
        """Delete an object, or mark it as being deleted where a node or a finalizer still holds it."""
        value = self.objects.get((resource, key))
        if value is None:
            return
        held = value["metadata"].get("finalizers") or (graceful and value["spec"].get("nodeName"))
        if held:
            value["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:30Z"
        else:
            del self.objects[resource, key]


def merge(target: Tree, patch: Tree) -> None:
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict) and isinstance(target.get(name), dict):
            merge(target[name], value)
        else:
            target[name] = value
