"""The check that the pods of a node have room on the others."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.meta import Tree
from espalier.api.text.quantities import amount
from espalier.kube.client import Client
from espalier.kube.objects import ObjectList
from espalier.upgrades.node import capacity
from espalier.upgrades.node.capacity import PodRequest, fits, has_room
from espalier.upgrades.observed.views import Node
from tests.support.objects.observed_upgrades import made

READY = [{"type": "Ready", "status": "True"}]


def node(name: str, cpu: str = "4", **spec: Any) -> Node:
    status = {"conditions": READY, "allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "3"}}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec, "status": status}, Node)


def pod(where: str, cpu: str = "", owner: str = "ReplicaSet", phase: str = "Running", **spec: Any) -> PodRequest:
    owners: list[Tree] = [{"apiVersion": "v1", "kind": owner, "name": "o", "uid": "1", "controller": True}]
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu} if cpu else {}}}]
    tree = {
        "metadata": {"name": "p", "ownerReferences": owners if owner else []},
        "spec": {"nodeName": where, "containers": containers, **spec},
        "status": {"phase": phase},
    }
    return msgspec.convert(tree, PodRequest)


@pytest.mark.parametrize(
    ("pods", "has_room"),
    [
        ([pod("a", "2"), pod("b", "2")], True),
        ([pod("a", "2"), pod("b", "2500m")], False),
        ([pod("a", "2"), pod("b", "2500m", phase="Succeeded")], True),
        ([pod("a", "5", owner="DaemonSet")], True),
        ([pod("a", "5", owner="")], True),
        ([pod("a")] * 3, True),
        ([pod("a")] * 4, False),  # the number of pods counts as well
        ([pod("a", "1", initContainers=[{"name": "i", "resources": {"requests": {"cpu": "5"}}}])], False),
        ([pod("a", "1", overhead={"cpu": "4"})], False),
        ([pod("elsewhere", "4"), pod("a", "4")], True),
    ],
)
def test_evicted_pods_have_to_fit_by_requests(pods: list[PodRequest], has_room: bool) -> None:
    assert fits(pods, [node("a"), node("b")], "a") is has_room


def test_equal_pods_are_placed_by_cpu() -> None:
    """The other way round the small one takes the room of the large one, and a node would not be drained."""
    moving = [pod("a", "1"), pod("a", "3")]
    assert fits(moving, [node("a"), node("b", cpu="3"), node("c", cpu="1")], "a")


def test_sidecars_count_beside_the_containers() -> None:
    sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "2"}}}
    assert not fits([pod("a", "3", initContainers=[sidecar])], [node("a"), node("b")], "a")


MALFORMED: list[Tree] = [
    {"metadata": {"name": "p"}, "spec": {"containers": "none"}},
    {"metadata": {"name": "p"}, "spec": {"containers": [{"resources": {"requests": {"cpu": ["1"]}}}]}},
    {"spec": {}},
    {
        "metadata": {"name": "p"},
        "spec": {"nodeName": "b", "containers": [{"resources": {"requests": {"cpu": "much"}}}]},
    },
]


class Cluster(Client):
    """A workload cluster that lists these pods."""

    def __init__(self, *pods: Tree) -> None:
        self._pods = pods

    async def pages(self, *_: Any, **__: Any) -> AsyncGenerator[ObjectList, None]:
        yield ObjectList([made(tree) for tree in self._pods], "1")


@pytest.mark.parametrize("malformed", MALFORMED)
async def test_malformed_pods_leave_it_to_the_drain(malformed: Tree) -> None:
    moving = msgspec.to_builtins(pod("a", "3"))
    assert not await has_room(Cluster(moving), [node("a"), node("b", "1")], "a")
    assert await has_room(Cluster(moving, malformed), [node("a"), node("b", "1")], "a")


async def test_too_many_pods_leave_it_to_the_drain(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster that lists pods without an end fills no memory."""
    moving, nodes = msgspec.to_builtins(pod("a", "3")), [node("a"), node("b", "1")]
    monkeypatch.setattr(capacity, "MOST_PODS", 2)
    assert not await has_room(Cluster(moving, moving), nodes, "a")
    assert await has_room(Cluster(moving, moving, moving), nodes, "a")


def test_nodes_that_take_no_pods_have_no_room() -> None:
    tainted = node("b", taints=[{"key": "k", "effect": "NoSchedule"}])
    assert not fits([pod("a", "1")], [node("a"), tainted], "a")
    assert not fits([pod("a", "1")], [node("a"), node("b", unschedulable=True)], "a")
    assert fits([pod("a", "1")], [node("a"), tainted, node("c")], "a")


@given(st.lists(st.integers(1, 4), max_size=3), st.lists(st.integers(1, 4), max_size=3))
def test_more_room_never_makes_it_worse(moving: list[int], staying: list[int]) -> None:
    pods = [*(pod("a", str(cpu)) for cpu in moving), *(pod("b", str(cpu)) for cpu in staying)]
    if fits(pods, [node("a"), node("b")], "a"):
        assert fits(pods, [node("a"), node("b"), node("c")], "a")


@pytest.mark.parametrize(
    ("text", "number"), [("250m", "0.25"), ("1.5Gi", "1610612736"), ("2e3", "2000"), ("3", "3"), ("5k", "5000")]
)
def test_quantities_stand_for_numbers(text: str, number: str) -> None:
    assert amount(text) == Decimal(number)
