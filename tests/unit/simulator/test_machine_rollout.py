"""How a MachineDeployment goes from one template to the next, as steps on counted machines."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from hypothesis import given
from hypothesis import strategies as st

from espalier.api.capi.cluster import ContractReference
from espalier.api.capi.machine import (
    Bootstrap,
    Machine,
    MachineDeployment,
    MachineDeploymentSpec,
    MachineSet,
    MachineSetSpec,
    MachineSpec,
    MachineStatus,
    MachineTemplate,
)
from espalier.api.label_selectors import LabelSelector
from espalier.api.meta import Condition, Head, ObjectMeta
from espalier.clusterapi.machines import removal
from espalier.kube.objects import Object
from espalier.simulator.capi.controllers.machine_deployment import Observed, OwnedSet, scale

SPEC = MachineSpec(
    cluster_name="garden",
    bootstrap=Bootstrap(),
    infrastructure_ref=ContractReference(api_group="infrastructure.cluster.x-k8s.io", kind="DockerMachine", name="x"),
)


@dataclass(frozen=True)
class Set:
    """A set with so many machines available, and so many that still start."""

    replicas: int
    available: int
    starting: int = 0

    @property
    def machines(self) -> int:
        return self.available + self.starting


def machine(name: str, *, available: bool) -> Machine:
    status: Literal["True", "False"] = "True" if available else "False"
    conditions = [Condition(type=type_, status=status, reason="Because") for type_ in ("Available", "Ready")]
    return Machine(metadata=ObjectMeta(name=name), spec=SPEC, status=MachineStatus(conditions=conditions))


def owned(name: str, counts: Set) -> OwnedSet:
    spec = MachineSetSpec(
        cluster_name="garden",
        selector=LabelSelector(),
        template=MachineTemplate(spec=SPEC),
        replicas=counts.replicas,
    )
    machines = tuple(machine(f"{name}-{i}", available=i < counts.available) for i in range(counts.machines))
    return OwnedSet(Object(b"", Head(metadata=ObjectMeta(name=name))), MachineSet(spec=spec), machines)


def step(wanted: int, limits: tuple[int, int], new: Set, old: Set) -> tuple[Set, Set]:
    """The replicas that the deployment requests of both sets."""
    newest, oldest = owned("new", new), owned("old", old)
    answer = {of.object.name: replicas for of, replicas in scale(wanted, limits, newest, [oldest])}
    return replace(new, replicas=answer["new"]), replace(old, replicas=answer["old"])


def settle(counts: Set, *, start: bool) -> Set:
    """Make and remove machines as a set does; those that started are available if `start`."""
    available = counts.available + (counts.starting if start else 0)
    starting = 0 if start else counts.starting
    missing = counts.replicas - available - starting
    if missing >= 0:
        return Set(counts.replicas, available, starting + missing)
    removed_starting = min(starting, -missing)
    return Set(counts.replicas, available + missing + removed_starting, starting - removed_starting)


def test_one_more_machine_first_then_one_less() -> None:
    new, old = Set(0, 0), Set(2, 2)
    new, old = step(2, (1, 0), new, old)
    assert (new.replicas, old.replicas) == (1, 2)
    new = settle(new, start=False)
    assert step(2, (1, 0), new, old) == (new, old), "a machine that starts does not count yet"
    new = settle(new, start=True)
    new, old = step(2, (1, 0), new, old)
    assert (new.replicas, old.replicas) == (1, 1)


def test_without_surge_a_machine_goes_first() -> None:
    new, old = step(3, (0, 1), Set(0, 0), Set(3, 3))
    assert (new.replicas, old.replicas) == (0, 2)
    new, old = step(3, (0, 1), new, settle(old, start=True))
    assert (new.replicas, old.replicas) == (1, 2)


def test_old_machines_that_never_worked_go_at_once() -> None:
    _, old = step(2, (1, 0), Set(1, 0, 1), Set(2, 1, 1))
    assert old.replicas == 1


@given(
    wanted=st.integers(0, 6),
    present=st.integers(0, 6),
    limits=st.tuples(st.integers(0, 3), st.integers(0, 3)).filter(any),
    patience=st.lists(st.booleans(), min_size=1, max_size=60),
)
def test_every_rollout_keeps_its_limits_and_ends(
    wanted: int, present: int, limits: tuple[int, int], patience: list[bool]
) -> None:
    surge, missing = limits
    new, old = Set(0, 0), Set(present, present)
    floor = min(present, wanted - missing)
    for starts in [*patience, *[True] * 40]:
        new, old = step(wanted, limits, new, old)
        new, old = settle(new, start=starts), settle(old, start=True)
        assert new.machines + old.machines <= max(present, wanted + surge)
        assert new.available + old.available >= min(floor, wanted)
        floor = max(floor, min(new.available + old.available, wanted - missing))
    assert (new, old) == (Set(wanted, wanted), Set(0, 0))


def test_scaling_in_takes_annotated_machines_first() -> None:
    healthy = machine("a", available=True)
    unhealthy = machine("b", available=False)
    marked = machine("c", available=True)
    marked.metadata.annotations = {"cluster.x-k8s.io/delete-machine": ""}
    assert [m.metadata.name for m in sorted([healthy, unhealthy, marked], key=removal.machine_set_order)] == [
        "c",
        "b",
        "a",
    ]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=4))
def test_set_with_most_replicas_is_kept(replicas: list[int]) -> None:
    """Of several with the same template, as after a restart that was taken back; of equal ones the oldest."""
    deployment = MachineDeployment(
        spec=MachineDeploymentSpec(
            cluster_name="garden", selector=LabelSelector(), template=MachineTemplate(spec=SPEC), replicas=3
        )
    )
    sets = tuple(owned(str(at), Set(count, count)) for at, count in enumerate(replicas))
    nothing = Object(b"", Head(metadata=ObjectMeta(name="garden")))
    observed = Observed(nothing, deployment, nothing, sets, datetime(2026, 1, 1, tzinfo=UTC))
    assert observed.newest is sets[replicas.index(max(replicas))]
