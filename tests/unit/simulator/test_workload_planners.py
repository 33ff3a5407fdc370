"""The planners of workload clusters, driven on a small environment in memory until nothing is left to write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pytest

from espalier.api.core import DAEMON_SET, DEPLOYMENT, NODE, POD, POD_DISRUPTION_BUDGET, REPLICA_SET
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.simulator.addons import coredns, kube_proxy
from espalier.simulator.bootstrap_data import CONTROL_PLANE_TAINT, Kubeadm
from espalier.simulator.workload_controllers.planners import budgets
from espalier.simulator.workload_controllers.writes import Change
from tests.support.environments.pod_network import pod_network
from tests.support.histories.planned_cluster import Environment


def test_node_is_ready_once_its_network_runs() -> None:
    env = Environment()
    env.add_node("control-plane", control_plane=True)
    env.add(DAEMON_SET, kube_proxy(Kubeadm(version="v1.35.4")))
    env.settle()
    assert not ready(env.named(NODE, "control-plane"))

    env.add(DAEMON_SET, pod_network())
    env.settle()
    node = env.named(NODE, "control-plane")
    assert ready(node)
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["node-role.kubernetes.io/control-plane"]
    assert node["spec"]["podCIDR"] == "192.168.0.0/24"


def test_node_gets_a_pod_of_each_daemon_set() -> None:
    env = running_environment("a", "b", "c")
    assert Counter(pod["spec"]["nodeName"] for pod in pods_of(env, "kindnet")) == Counter(["a", "b", "c"])
    assert env.named(DAEMON_SET, "kindnet", "kube-system")["status"] == {
        "currentNumberScheduled": 3,
        "desiredNumberScheduled": 3,
        "numberAvailable": 3,
        "numberMisscheduled": 0,
        "numberReady": 3,
        "observedGeneration": 1,
        "updatedNumberScheduled": 3,
    }


def test_deployment_waits_for_a_ready_node() -> None:
    env = Environment()
    env.add(DEPLOYMENT, coredns(Kubeadm(version="v1.35.4")))
    env.add_node("a")
    env.add_node("b")
    env.settle()
    pending = pods_of(env, "coredns")
    assert len(pending) == 2
    assert all(pod["status"]["conditions"][0]["reason"] == "Unschedulable" for pod in pending)

    env.add(DAEMON_SET, pod_network())
    env.settle()
    assert {pod["spec"]["nodeName"] for pod in pods_of(env, "coredns")} == {"a", "b"}
    addresses = [pod["status"]["podIP"] for pod in pods_of(env, "coredns")]
    assert len(set(addresses)) == 2
    status = env.named(DEPLOYMENT, "coredns", "kube-system")["status"]
    assert status["availableReplicas"] == 2
    assert {condition["type"]: condition["status"] for condition in status["conditions"]} == {
        "Available": "True",
        "Progressing": "True",
    }


def test_a_daemon_set_is_replaced_one_by_one() -> None:
    env = running_environment("a", "b", "c")
    daemon_set = env.named(DAEMON_SET, "kindnet", "kube-system")
    daemon_set["spec"]["template"]["spec"]["containers"][0]["image"] = "kindnetd:v2"
    daemon_set["metadata"]["generation"] += 1
    fewest = 3
    for _ in range(30):
        if not env.one_pass():
            break
        fewest = min(fewest, sum(map(ready, pods_of(env, "kindnet"))))
    assert fewest == 2
    assert {pod["spec"]["containers"][0]["image"] for pod in pods_of(env, "kindnet")} == {"kindnetd:v2"}
    assert ready(env.named(NODE, "a")), "a node keeps its network while the agent is replaced"


def test_deployment_rolls_and_keeps_enough_pods() -> None:
    env = running_environment("a", "b")
    env.add(DEPLOYMENT, coredns(Kubeadm(version="v1.35.4")))
    env.settle()
    deployment = env.named(DEPLOYMENT, "coredns", "kube-system")
    deployment["spec"]["template"]["spec"]["containers"][0]["image"] = "coredns:new"
    deployment["metadata"]["generation"] += 1
    fewest = 2
    for _ in range(40):
        if not env.one_pass():
            break
        fewest = min(fewest, sum(map(ready, pods_of(env, "coredns"))))
    assert fewest >= 1
    assert [pod["spec"]["containers"][0]["image"] for pod in pods_of(env, "coredns")] == ["coredns:new"] * 2
    assert sorted(owned["spec"]["replicas"] for owned in env.all(REPLICA_SET)) == [0, 2]


def test_pods_of_a_node_that_is_gone_go_too() -> None:
    env = running_environment("a", "b")
    del env.objects[NODE, Key("", "b")]
    env.settle()
    assert {pod["spec"]["nodeName"] for pod in env.all(POD)} == {"a"}
    assert env.named(DAEMON_SET, "kindnet", "kube-system")["status"]["desiredNumberScheduled"] == 1


def test_taints_and_node_selectors_keep_pods_away() -> None:
    env = running_environment("a")
    env.add_node("control-plane", control_plane=True, labels={"disk": "fast"})
    env.settle()
    deployment = coredns(Kubeadm(version="v1.35.4"))
    spec = deployment["spec"]["template"]["spec"]
    spec["nodeSelector"] = {"disk": "fast"}
    spec["tolerations"] = []
    env.add(DEPLOYMENT, deployment)
    env.settle()
    assert not any(pod["spec"].get("nodeName") for pod in pods_of(env, "coredns"))
    for pod in pods_of(env, "coredns"):
        pod["spec"]["tolerations"] = [{"key": CONTROL_PLANE_TAINT.key, "operator": "Exists"}]
    env.settle()
    assert {pod["spec"]["nodeName"] for pod in pods_of(env, "coredns")} == {"control-plane"}


def test_scaling_in_removes_pods_that_do_nothing_first() -> None:
    env = running_environment("a", "b")
    env.add(DEPLOYMENT, coredns(Kubeadm(version="v1.35.4")))
    env.settle()
    survivor, casualty = pods_of(env, "coredns")
    casualty["status"]["conditions"] = []
    casualty["status"]["phase"] = "Running"
    deployment = env.named(DEPLOYMENT, "coredns", "kube-system")
    deployment["spec"]["replicas"] = 1
    deployment["metadata"]["generation"] += 1
    env.settle()
    assert [pod["metadata"]["name"] for pod in pods_of(env, "coredns")] == [survivor["metadata"]["name"]]


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
    env = guarded_environment(spec)
    status = env.named(POD_DISRUPTION_BUDGET, "coredns", "kube-system")["status"]
    assert (status["currentHealthy"], status["expectedPods"]) == (2, 2)
    assert (status["desiredHealthy"], status["disruptionsAllowed"]) == (wanted, allowed)
    assert status["observedGeneration"] == 1
    assert [condition["status"] for condition in status["conditions"]] == ["True" if allowed else "False"]


def test_eviction_counts_until_the_pod_goes() -> None:
    env = guarded_environment({"minAvailable": 1})
    budget = env.named(POD_DISRUPTION_BUDGET, "coredns", "kube-system")
    first, _ = (pod["metadata"]["name"] for pod in pods_of(env, "coredns"))
    budget["status"] |= {
        "disruptionsAllowed": 0,
        "disruptedPods": {first: "2026-01-02T00:00:00Z", "gone": "2026-01-02T00:00:00Z"},
    }
    env.settle()
    assert budget["status"]["disruptedPods"] == {first: "2026-01-02T00:00:00Z"}
    assert budget["status"]["disruptionsAllowed"] == 0
    budget["status"]["disruptedPods"] = {first: "2026-01-01T23:57:00Z"}
    env.settle()
    assert budget["status"]["disruptedPods"] == {}
    assert budget["status"]["disruptionsAllowed"] == 1


def test_unready_and_leaving_pods_do_not_count() -> None:
    env = guarded_environment({"maxUnavailable": 1})
    pods_of(env, "coredns")[0]["metadata"]["deletionTimestamp"] = "2026-01-02T00:00:30Z"
    snapshot = env.snapshot()
    (change,) = budgets.plan(snapshot)
    assert isinstance(change, Change)
    assert (change.patch["status"]["currentHealthy"], change.patch["status"]["disruptionsAllowed"]) == (1, 0)


def guarded_environment(spec: Tree) -> Environment:
    """Two pods of a Deployment, and a budget over them."""
    env = running_environment("a", "b")
    env.add(DEPLOYMENT, coredns(Kubeadm(version="v1.35.4")))
    metadata = {"name": "coredns", "namespace": "kube-system"}
    env.add(
        POD_DISRUPTION_BUDGET,
        {"metadata": metadata, "spec": {"selector": {"matchLabels": {"k8s-app": "kube-dns"}}, **spec}},
    )
    env.settle()
    return env


def running_environment(*names: str) -> Environment:
    env = Environment()
    for name in names:
        env.add_node(name)
    env.add(DAEMON_SET, pod_network())
    env.settle()
    return env


def pods_of(env: Environment, prefix: str) -> list[Tree]:
    return [pod for pod in env.all(POD) if pod["metadata"]["name"].startswith(prefix)]


def ready(object_: Tree) -> bool:
    conditions: Iterable[Tree] = object_.get("status", {}).get("conditions", [])
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
