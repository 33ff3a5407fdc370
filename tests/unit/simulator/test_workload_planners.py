"""The planners of workload clusters, driven on a small world in memory until nothing is left to write."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
import pytest

from espalier.api.core import DAEMON_SET, DEPLOYMENT, NODE, POD, POD_DISRUPTION_BUDGET, REPLICA_SET
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.simulator import nodes
from espalier.simulator.addons import coredns, kube_proxy
from espalier.simulator.bootstrap_data import CONTROL_PLANE_TAINT, Kubeadm
from espalier.simulator.workload_controllers import budgets
from espalier.simulator.workload_controllers.controller import PLANNERS
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import Budget, Node, Pod, View, Workload
from espalier.simulator.workload_controllers.writes import Change, Create, Delete, Write

NOW = datetime(2026, 1, 2, tzinfo=UTC)
V = TypeVar("V", bound=View)


class World:
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
            budgets=views(POD_DISRUPTION_BUDGET, Budget),
        )

    def one_pass(self) -> list[Write]:
        """All planners look at the same moment, as one reconcile of the controller does."""
        world = self.snapshot()
        writes = [write for planner in PLANNERS for write in planner(world)]
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
            case Delete(resource, key, uid):
                found = self.objects.pop((resource, key), None)
                assert found is None or found["metadata"]["uid"] == uid


def merge(target: Tree, patch: Tree) -> None:
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict) and isinstance(target.get(name), dict):
            merge(target[name], value)
        else:
            target[name] = value


def kindnet() -> Tree:
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
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "kindnet", "namespace": "kube-system"},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def test_a_node_is_not_ready_until_its_network_runs_on_it() -> None:
    world = World()
    world.add_node("control-plane", control_plane=True)
    world.add(DAEMON_SET, kube_proxy(Kubeadm(version="v1.35.4")))
    world.settle()
    assert not ready(world.named(NODE, "control-plane"))

    world.add(DAEMON_SET, kindnet())
    world.settle()
    node = world.named(NODE, "control-plane")
    assert ready(node)
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["node-role.kubernetes.io/control-plane"]
    assert node["spec"]["podCIDR"] == "192.168.0.0/24"


def test_every_node_gets_a_pod_of_each_daemon_set_and_their_status_says_so() -> None:
    world = running_world("a", "b", "c")
    assert Counter(pod["spec"]["nodeName"] for pod in pods_of(world, "kindnet")) == Counter(["a", "b", "c"])
    assert world.named(DAEMON_SET, "kindnet", "kube-system")["status"] == {
        "currentNumberScheduled": 3,
        "desiredNumberScheduled": 3,
        "numberAvailable": 3,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "observedGeneration": 1,
        "updatedNumberScheduled": 3,
    }


def test_a_deployment_waits_for_a_ready_node_and_then_spreads() -> None:
    world = World()
    world.add(DEPLOYMENT, coredns(Kubeadm(version="v1.35.4")))
    world.add_node("a")
    world.add_node("b")
    world.settle()
    pending = pods_of(world, "coredns")
    assert len(pending) == 2
    assert all(pod["status"]["conditions"][0]["reason"] == "Unschedulable" for pod in pending)

    world.add(DAEMON_SET, kindnet())
    world.settle()
    assert {pod["spec"]["nodeName"] for pod in pods_of(world, "coredns")} == {"a", "b"}
    addresses = [pod["status"]["podIP"] for pod in pods_of(world, "coredns")]
    assert len(set(addresses)) == 2
    status = world.named(DEPLOYMENT, "coredns", "kube-system")["status"]
    assert status["availableReplicas"] == 2
    assert {condition["type"]: condition["status"] for condition in status["conditions"]} == {
        "Available": "True",
        "Progressing": "True",
    }


def test_a_daemon_set_is_replaced_one_by_one() -> None:
    world = running_world("a", "b", "c")
    daemon_set = world.named(DAEMON_SET, "kindnet", "kube-system")
    daemon_set["spec"]["template"]["spec"]["containers"][0]["image"] = "kindnetd:v2"
    daemon_set["metadata"]["generation"] += 1
    fewest = 3
    for _ in range(30):
        if not world.one_pass():
            break
        fewest = min(fewest, sum(map(ready, pods_of(world, "kindnet"))))
    assert fewest == 2
    assert {pod["spec"]["containers"][0]["image"] for pod in pods_of(world, "kindnet")} == {"kindnetd:v2"}
    assert ready(world.named(NODE, "a")), "a node keeps its network while the agent is replaced"


def test_a_deployment_rolls_over_to_a_new_replica_set_and_keeps_enough_pods() -> None:
    world = running_world("a", "b")
    world.add(DEPLOYMENT, coredns(Kubeadm(version="v1.35.4")))
    world.settle()
    deployment = world.named(DEPLOYMENT, "coredns", "kube-system")
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "coredns:new"
    deployment["metadata"]["generation"] += 1
    fewest = 2
    for _ in range(40):
        if not world.one_pass():
            break
        fewest = min(fewest, sum(map(ready, pods_of(world, "coredns"))))
    assert fewest >= 1
    assert [pod["spec"]["containers"][0]["image"] for pod in pods_of(world, "coredns")] == ["coredns:new"] * 2
    assert sorted(owned["spec"]["replicas"] for owned in world.all(REPLICA_SET)) == [0, 2]


def test_pods_of_a_node_that_is_gone_go_too() -> None:
    world = running_world("a", "b")
    del world.objects[NODE, Key("", "b")]
    world.settle()
    assert {pod["spec"]["nodeName"] for pod in world.all(POD)} == {"a"}
    assert world.named(DAEMON_SET, "kindnet", "kube-system")["status"]["desiredNumberScheduled"] == 1


def test_taints_and_node_selectors_keep_pods_away() -> None:
    world = running_world("a")
    world.add_node("control-plane", control_plane=True, labels={"disk": "fast"})
    world.settle()
    deployment = coredns(Kubeadm(version="v1.35.4"))
    spec = deployment["spec"]["template"]["spec"]
    spec["nodeSelector"] = {"disk": "fast"}
    spec["tolerations"] = []
    world.add(DEPLOYMENT, deployment)
    world.settle()
    assert not any(pod["spec"].get("nodeName") for pod in pods_of(world, "coredns"))
    for pod in pods_of(world, "coredns"):
        pod["spec"]["tolerations"] = [{"key": CONTROL_PLANE_TAINT.key, "operator": "Exists"}]
    world.settle()
    assert {pod["spec"]["nodeName"] for pod in pods_of(world, "coredns")} == {"control-plane"}


def test_scaling_in_removes_pods_that_do_nothing_first() -> None:
    world = running_world("a", "b")
    world.add(DEPLOYMENT, coredns(Kubeadm(version="v1.35.4")))
    world.settle()
    survivor, casualty = pods_of(world, "coredns")
    casualty["status"]["conditions"] = []
    casualty["status"]["phase"] = "Running"
    deployment = world.named(DEPLOYMENT, "coredns", "kube-system")
    deployment["spec"]["replicas"] = 1
    deployment["metadata"]["generation"] += 1
    world.settle()
    assert [pod["metadata"]["name"] for pod in pods_of(world, "coredns")] == [survivor["metadata"]["name"]]


@pytest.mark.parametrize(
    ("spec", "wanted", "allowed"),
    [
        ({"minAvailable": 1}, 1, 1),
        ({"minAvailable": 2}, 2, 0),
        ({"minAvailable": "51%"}, 2, 0),
        ({"maxUnavailable": 1}, 1, 1),
        ({"maxUnavailable": "50%"}, 1, 1),
        ({"maxUnavailable": 0}, 2, 0),
    ],
)
def test_a_budget_counts_how_many_pods_may_go(spec: Tree, wanted: int, allowed: int) -> None:
    world = guarded_world(spec)
    status = world.named(POD_DISRUPTION_BUDGET, "coredns", "kube-system")["status"]
    assert (status["currentHealthy"], status["expectedPods"]) == (2, 2)
    assert (status["desiredHealthy"], status["disruptionsAllowed"]) == (wanted, allowed)
    assert status["observedGeneration"] == 1
    assert [each["status"] for each in status["conditions"]] == ["True" if allowed else "False"]


def test_a_granted_eviction_counts_until_the_pod_begins_to_go_or_stays_too_long() -> None:
    world = guarded_world({"minAvailable": 1})
    budget = world.named(POD_DISRUPTION_BUDGET, "coredns", "kube-system")
    first, _ = (pod["metadata"]["name"] for pod in pods_of(world, "coredns"))
    budget["status"] |= {
        "disruptionsAllowed": 0,
        "disruptedPods": {first: "2026-01-02T00:00:00Z", "gone": "2026-01-02T00:00:00Z"},
    }
    world.settle()
    assert budget["status"]["disruptedPods"] == {first: "2026-01-02T00:00:00Z"}
    assert budget["status"]["disruptionsAllowed"] == 0
    budget["status"]["disruptedPods"] = {first: "2026-01-01T23:57:00Z"}
    world.settle()
    assert budget["status"]["disruptedPods"] == {}
    assert budget["status"]["disruptionsAllowed"] == 1


def test_pods_that_are_not_ready_or_on_their_way_out_are_not_counted() -> None:
    world = guarded_world({"maxUnavailable": 1})
    pods_of(world, "coredns")[0]["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:30Z"
    snapshot = world.snapshot()
    (change,) = budgets.plan(snapshot)
    assert isinstance(change, Change)
    assert (change.patch["status"]["currentHealthy"], change.patch["status"]["disruptionsAllowed"]) == (1, 0)


def guarded_world(spec: Tree) -> World:
    """Two pods of a Deployment, and a budget over them."""
    world = running_world("a", "b")
    world.add(DEPLOYMENT, coredns(Kubeadm(version="v1.35.4")))
    metadata = {"name": "coredns", "namespace": "kube-system"}
    world.add(
        POD_DISRUPTION_BUDGET,
        {"metadata": metadata, "spec": {"selector": {"matchLabels": {"k8s-app": "kube-dns"}}, **spec}},
    )
    world.settle()
    return world


def running_world(*names: str) -> World:
    world = World()
    for name in names:
        world.add_node(name)
    world.add(DAEMON_SET, kindnet())
    world.settle()
    return world


def pods_of(world: World, prefix: str) -> list[Tree]:
    return [pod for pod in world.all(POD) if pod["metadata"]["name"].startswith(prefix)]


def ready(object_: Tree) -> bool:
    conditions: Iterable[Tree] = object_.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
