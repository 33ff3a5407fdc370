"""Drain and uncordon, through the API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from espalier.simulator.hosts.programs import Host
from espalier.upgrader import draining
from espalier.upgrader.draining import CORDONED_ANNOTATION, DRAIN_BLOCKED_ANNOTATION, Cordon
from espalier.upgrader.host import Clock, StepFailed
from tests.support.environments.simulated_node import NAME, NEW, Cluster, Doom, KillableApi, Killed, register

PODS = "/api/v1/namespaces/default/pods"
NEEDS = "The disruption budget web needs 1 healthy pods and has 1 currently"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


class Scene:
    """A node with pods on it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.time = 0.0
        self.doom = Doom()
        self.later: dict[float, Callable[[], None]] = {}
        """Events in the environment, by time."""
        self.api = KillableApi(cluster, Host.__new__(Host), self.doom)

    def again(self, doom: Doom) -> Scene:
        scene = Scene(self.cluster)
        scene.doom = doom
        scene.api = KillableApi(self.cluster, Host.__new__(Host), doom)
        return scene

    def drain(self, timeout: float = 10) -> str:
        return draining.drain(self._cordon(), NEW, timeout=timeout)

    def uncordon(self) -> str:
        return draining.uncordon(self._cordon())

    def _cordon(self) -> Cordon:
        return Cordon(NAME, self.api, Clock(lambda: self.time, self._wait))

    def _wait(self, seconds: float) -> None:
        self.time += seconds
        for due in [due for due in self.later if due <= self.time]:
            self.later.pop(due)()
        for pod in self.pods():  # as a kubelet does with pods that were evicted
            if pod["metadata"].get("deletionTimestamp") and "slow" not in pod["metadata"]["name"]:
                body = {"gracePeriodSeconds": 0}
                self.cluster.request("DELETE", f"{PODS}/{pod['metadata']['name']}", body, "application/json")

    def pods(self) -> list[Any]:
        return list(self.cluster.ask("GET", PODS)[1]["items"])

    def names(self) -> set[str]:
        return {pod["metadata"]["name"] for pod in self.pods()}

    def node(self) -> Any:
        return self.cluster.ask("GET", f"/api/v1/nodes/{NAME}")[1]

    def make(self, name: str, owner: str = "ReplicaSet", **metadata: Any) -> None:
        owners = [self._owner(owner)] if owner else []
        self.cluster.make(
            PODS,
            apiVersion="v1",
            kind="Pod",
            metadata={"name": name, "ownerReferences": owners, **metadata},
            spec={"nodeName": NAME, "containers": [{"name": "main", "image": "web"}]},
        )

    def guard(self, name: str) -> None:
        """A budget that wants this pod, which runs, and was counted."""
        running = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        assert self.cluster.ask("PATCH", f"{PODS}/{name}", {"metadata": {"labels": {"guarded": "yes"}}})[0] == 200
        assert self.cluster.ask("PATCH", f"{PODS}/{name}/status", {"status": running})[0] == 200
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"guarded": "yes"}}}
        self.cluster.make(
            BUDGETS, apiVersion="policy/v1", kind="PodDisruptionBudget", metadata={"name": "web"}, spec=spec
        )
        counted = {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1, "disruptionsAllowed": 0}
        assert self.cluster.ask("PATCH", f"{BUDGETS}/web/status", {"status": counted})[0] == 200

    def give_way(self) -> None:
        counted = {"currentHealthy": 2, "disruptionsAllowed": 1}
        assert self.cluster.ask("PATCH", f"{BUDGETS}/web/status", {"status": counted})[0] == 200

    def _owner(self, kind: str) -> Any:
        """A reference to an object that is there: pods of others are garbage."""
        if kind == "Node":
            owner = {"apiVersion": "v1", "kind": kind, "name": NAME, "uid": self.node()["metadata"]["uid"]}
        else:
            path = f"/apis/apps/v1/namespaces/default/{kind.lower()}s"
            labels = {"app": "web"}
            template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "web"}]}}
            if self.cluster.ask("GET", f"{path}/web")[0] != 200:
                spec = {"selector": {"matchLabels": labels}, "template": template}
                self.cluster.make(path, apiVersion="apps/v1", kind=kind, metadata={"name": "web"}, spec=spec)
            uid = self.cluster.ask("GET", f"{path}/web")[1]["metadata"]["uid"]
            owner = {"apiVersion": "apps/v1", "kind": kind, "name": "web", "uid": uid}
        return {**owner, "controller": True}


@pytest.fixture
def scene() -> Iterator[Scene]:
    cluster = Cluster()
    register(cluster)
    yield Scene(cluster)
    cluster.close()


@pytest.mark.demand("U41")
def test_replaceable_pods_are_evicted_others_stay(scene: Scene) -> None:
    scene.make("web-1")
    scene.make("web-2", "StatefulSet")
    scene.make("agent", "DaemonSet")
    scene.make("static", "Node", annotations={"kubernetes.io/config.mirror": "1"})
    scene.make("by-hand", "")
    scene.make("upgrader", labels={"eks-d-upgrader": "true"})

    assert scene.drain() == "the node is drained; 2 pods were evicted"

    assert scene.names() == {"agent", "static", "by-hand", "upgrader"}
    assert scene.node()["spec"]["unschedulable"] is True


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_have_ended_are_not_evicted(scene: Scene, phase: str) -> None:
    """Their results and logs would be gone, and a budget could hold the node for them."""
    scene.make("ended")
    assert scene.cluster.ask("PATCH", f"{PODS}/ended/status", {"status": {"phase": phase}})[0] == 200
    assert scene.drain() == "the node is drained; 0 pods were evicted"
    assert scene.names() == {"ended"}


def test_uncordon_takes_back_what_drain_did(scene: Scene) -> None:
    scene.drain()

    assert scene.uncordon() == "the node is uncordoned"

    assert not scene.node()["spec"].get("unschedulable")
    assert CORDONED_ANNOTATION not in (scene.node()["metadata"].get("annotations") or {})
    assert scene.uncordon() == "the node is not cordoned"


def test_an_operators_own_cordon_stays(scene: Scene) -> None:
    scene.cluster.ask("PATCH", f"/api/v1/nodes/{NAME}", {"spec": {"unschedulable": True}})

    scene.drain()

    assert scene.uncordon() == "the node is cordoned by somebody else and stays cordoned"
    assert scene.node()["spec"]["unschedulable"] is True


@pytest.mark.demand(U41="the embedded server's own budgets")
def test_blocking_pods_are_named_with_their_budget(scene: Scene) -> None:
    scene.make("web-1")
    scene.make("web-2")
    scene.guard("web-2")

    with pytest.raises(StepFailed) as caught:
        scene.drain()

    assert "the node was not drained within 10 s, 1 pods are left" in str(caught.value)
    assert f"default/web-2: {NEEDS}" in str(caught.value)
    assert scene.names() == {"web-2"}
    assert scene.node()["spec"]["unschedulable"] is True


def test_a_budget_that_gives_way_is_waited_for(scene: Scene) -> None:
    test_blocking_pods_are_named_with_their_budget(scene)
    scene.give_way()

    assert scene.drain() == "the node is drained; 1 pods were evicted"
    scene.uncordon()
    assert not scene.node()["spec"].get("unschedulable")


@pytest.mark.demand(U41="left out where nothing can move")
@pytest.mark.soak
def test_unlimited_drain_names_what_it_waits_for(scene: Scene, capsys: pytest.CaptureFixture[str]) -> None:
    scene.make("web-2")
    scene.guard("web-2")
    messages = []

    def after_an_hour() -> None:
        messages.append(scene.node()["metadata"]["annotations"][DRAIN_BLOCKED_ANNOTATION])
        scene.give_way()

    scene.later[4.0] = lambda: messages.append(scene.node()["metadata"]["annotations"][DRAIN_BLOCKED_ANNOTATION])
    scene.later[3600.0] = after_an_hour

    assert scene.drain(timeout=0) == "the node is drained; 1 pods were evicted"

    assert messages == [f"default/web-2: {NEEDS}"] * 2
    assert capsys.readouterr().out.count(NEEDS) == 1
    assert DRAIN_BLOCKED_ANNOTATION not in scene.node()["metadata"]["annotations"]


def test_pods_that_are_about_to_go_are_not_reported(scene: Scene) -> None:
    scene.make("web-1")
    written: list[str] = []
    scene.later[2.0] = lambda: written.append(str(scene.node()["metadata"]["annotations"]))

    scene.drain()

    assert len(written) == 1
    assert DRAIN_BLOCKED_ANNOTATION not in written[0]


def test_aborted_drain_leaves_no_note_once_uncordoned(scene: Scene) -> None:
    test_blocking_pods_are_named_with_their_budget(scene)
    assert NEEDS in scene.node()["metadata"]["annotations"][DRAIN_BLOCKED_ANNOTATION]

    scene.uncordon()

    assert DRAIN_BLOCKED_ANNOTATION not in (scene.node()["metadata"].get("annotations") or {})


def test_a_pod_that_does_not_end_is_named(scene: Scene) -> None:
    scene.make("slow-web", finalizers=["example.org/slow"])

    with pytest.raises(StepFailed, match="default/slow-web: it is still terminating"):
        scene.drain()


def test_api_server_that_is_away_leaves_node_as_it_is(scene: Scene) -> None:
    scene.api.down = True

    with pytest.raises(StepFailed, match="the node was left as it is"):
        scene.drain()


@pytest.mark.demand("U42")
def test_killed_drain_and_uncordon_end_well_next_time(scene: Scene) -> None:
    moments = 0
    for at in range(100):
        scene.make(f"web-{at}")
        doomed = scene.again(Doom(at))
        try:
            doomed.drain()
            doomed.uncordon()
        except Killed:
            moments += 1
        else:
            break
        survivor = scene.again(Doom())
        survivor.drain()
        survivor.uncordon()
        assert not survivor.node()["spec"].get("unschedulable")
        assert CORDONED_ANNOTATION not in (survivor.node()["metadata"].get("annotations") or {})
        assert survivor.names() == set()
    assert moments == 6
