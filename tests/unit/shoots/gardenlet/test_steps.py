"""The steps of a reconcile of a shoot: what its extensions are told, and what is left alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.gardener.vocabulary.reasons import ControllerReason
from espalier.api.meta import Tree
from espalier.kube.errors import Conflict
from espalier.kube.objects import Object, encode_json
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers import steps as running
from espalier.runtime.controllers.outcome import Continue, Done, Fault, Wait
from espalier.runtime.controllers.writer import Precondition
from espalier.shoots.flow.status import FlowStatus
from espalier.shoots.gardenlet import clusters
from espalier.shoots.gardenlet.config import GardenletConfig
from espalier.shoots.gardenlet.context import Live
from espalier.shoots.gardenlet.reconciling import steps
from espalier.shoots.gardenlet.scope import ExtensionResource, Scope
from espalier.shoots.state.document import UnreadableShootState
from espalier.shoots.state.store import EpochOver
from espalier.shoots.state.stored import StaleState
from tests.support.gardens.gardenlet_scopes import NOW, STARTED, TECHNICAL_ID, an_object, scope, shoot

ORDERED = {metadata_keys.OPERATION: metadata_keys.RECONCILE}


class Place:
    """The garden and the seed: what is asked of their writers, in order."""

    def __init__(self, object_: Object) -> None:
        self.object_ = object_
        self.log: list[str] = []
        self.clusters: list[Tree] = []
        self.preconditions: list[Precondition] = []
        self.client = self

    async def get(self, *_: object) -> Object:
        return self.object_

    async def status(self, _: object, live: Object, wanted: Any, precondition: Precondition, **__: object) -> Object:
        self.preconditions.append(precondition)
        self.log.append("status")
        return Object(encode_json({**live.tree, "status": msgspec.to_builtins(wanted)}))

    async def merge(self, resource: Any, live: Object, patch: Tree, *_: object) -> Object:
        self.log.append(f"merge {resource.kind} {patch['metadata']['annotations'].get(metadata_keys.OPERATION, '')}")
        return live

    async def add_finalizer(self, _: object, live: Object, _finalizer: str) -> Object:
        self.log.append("hold")
        return live

    async def remove_finalizer(self, *_: object) -> None:
        self.log.append("remove finalizer")

    async def release(self, _shoot: Object) -> None:
        self.log.append("release")


def attempted(
    live: Object, *, place: Place | None = None, claims: str = "", **parts: Any
) -> tuple[steps.Attempt, Place]:
    """An attempt of seed `a`, as far as it has observed the shoot."""
    place = place or Place(live)

    def observed(of: Live, _now: object) -> Scope:
        return scope(**{"object": of.shoot, **parts})

    observer = SimpleNamespace(scope=observed, technical_id_conflict=lambda _shoot: claims)
    tools = SimpleNamespace(config=GardenletConfig("a"), garden=place, seed=place, states=place, clock=SystemClock())
    attempt = steps.Attempt(cast(Any, observer), cast(Any, tools), Live(live, None), NOW)
    attempt.scope = observed(attempt.live, NOW)
    return attempt, place


def infrastructure(last: str, **metadata: Any) -> ExtensionResource:
    kind, state = last.split()
    status = {"lastOperation": {"type": kind, "state": state}}
    live = an_object(
        Infrastructure.resource, "apple", TECHNICAL_ID, metadata=metadata, spec={"type": "local"}, status=status
    )
    return ExtensionResource(Infrastructure, live)


def changed_since(live: Object) -> Object:
    """A Shoot of a generation that no gardenlet has seen: Gardener's API server makes a requested retry one."""
    return Object(encode_json({**live.tree, "metadata": {**live.tree["metadata"], "generation": 2}}))


DELETED: dict[str, Any] = {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a"]}


@pytest.mark.parametrize(
    ("live", "extension_resource", "is_told"),
    [
        (shoot(**ORDERED), infrastructure("Reconcile Succeeded"), True),
        (shoot(wanted="b", **ORDERED), infrastructure("Migrate Succeeded"), False),
        (shoot(wanted="b", **ORDERED), infrastructure("Migrate Error"), True),
        (shoot(**ORDERED), infrastructure("Delete Error", **DELETED), False),
    ],
    ids=["settled", "migrated", "failed", "deleted"],
)
async def test_order_wakes_no_released_extension(
    live: Object, extension_resource: ExtensionResource, is_told: bool
) -> None:
    attempt, place = attempted(live, extensions=(extension_resource,))
    for step in (candidate for candidate in steps.STEPS if candidate in (steps.decide, steps.pass_on_request)):
        assert isinstance(await step(attempt), Continue)
    assert ("merge Infrastructure reconcile" in place.log) is is_told


@pytest.mark.parametrize(
    ("last", "state", "is_told"),
    [("Failed", "Failed", True), ("Failed", "Succeeded", False), ("Error", "Failed", False)],
)
async def test_a_new_generation_of_a_failed_shoot_is_a_retry(last: str, state: str, is_told: bool) -> None:
    failed = infrastructure(f"Reconcile {state}")
    attempt, place = attempted(changed_since(shoot(last=f"Reconcile {last}")), extensions=(failed,))
    for step in (steps.decide, steps.pass_on_request):
        assert isinstance(await step(attempt), Continue)
    assert ("merge Infrastructure reconcile" in place.log) is is_told
    assert ("status" in place.log) is (last == "Failed")


@pytest.mark.parametrize(("wanted", "has", "renews"), [("a", "a", True), ("b", "a", False), ("b", "b", False)])
async def test_lease_is_not_renewed_once_shoot_is_to_leave(
    wanted: str, has: str, renews: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Extensions of the next seed wait until it has expired."""
    began: list[object] = []

    async def sync(_seed: object, _scope: object, read_began: object, _validity: float) -> None:
        began.append(read_began)

    monkeypatch.setattr(clusters, "sync", sync)
    attempt, _ = attempted(shoot(wanted, has))
    assert isinstance(await steps.sync_cluster(attempt), Continue)
    assert began == [NOW if renews else None]


@pytest.mark.parametrize(
    ("epochs", "there", "is_written"),
    [
        (STARTED, None, True),
        (STARTED.add("b", "bucket-b"), an_object(Cluster.resource, TECHNICAL_ID), True),
        (STARTED.add("b", "bucket-b"), None, False),
        (Ownership(), None, False),
    ],
)
async def test_seed_without_the_shoot_makes_no_cluster(
    epochs: Ownership, there: Object | None, is_written: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    did: list[str] = []

    async def sync(*_: object) -> None:
        did.append("sync")

    monkeypatch.setattr(clusters, "sync", sync)
    attempt, _ = attempted(shoot(), ownership=epochs, cluster=there)
    assert isinstance(await steps.sync_cluster(attempt), Continue)
    assert bool(did) is is_written


async def test_nothing_starts_without_the_cluster_object(monkeypatch: pytest.MonkeyPatch) -> None:
    async def sync(*_: object) -> None:
        raise Conflict.of("changed meanwhile")

    monkeypatch.setattr(clusters, "sync", sync)
    attempt, _ = attempted(shoot())
    outcome = await steps.sync_cluster(attempt)
    assert isinstance(outcome, Fault)
    assert outcome.reason == ControllerReason.FLOW_NOT_STARTED


def ran(monkeypatch: pytest.MonkeyPatch, place: Place) -> None:
    """All flows are done at once."""

    async def done(*_: object) -> FlowStatus:
        place.log.append("run")
        return FlowStatus("flow", {})

    monkeypatch.setattr(steps, "_run", done)


async def test_unchanged_shoot_alone_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Named again in time, this seed has it: a status by which another one has it would be wrong."""
    attempt, place = attempted(shoot(wanted="b"))
    ran(monkeypatch, place)
    attempt.operation = OperationType.MIGRATE
    assert isinstance(await steps.advance(attempt), Done)
    assert (place.log, place.preconditions) == (["run", "status"], [Precondition.VERSION])


async def test_a_deleted_shoot_loses_its_finalizer_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it is gone, nobody would release its ShootState; and Gardener lets it go by its status."""
    attempt, place = attempted(shoot(deletionTimestamp=DELETED["deletionTimestamp"]))
    ran(monkeypatch, place)
    attempt.operation = OperationType.DELETE
    assert isinstance(await steps.advance(attempt), Done)
    assert place.log == ["run", "release", "status", "remove finalizer"]
    last = attempt.live.shoot.tree["status"]["lastOperation"]
    assert (last["type"], last["state"]) == ("Delete", "Succeeded")


def changed(live: Object, uid: str) -> Object:
    return Object(encode_json({**live.tree, "metadata": {**live.tree["metadata"], "uid": uid}}))


@pytest.mark.parametrize(
    ("object_", "stops"),
    [
        (shoot(wanted="b"), False),
        (shoot(), True),
        (shoot(wanted="b", has="b"), True),
        (shoot(wanted="b", has="c"), True),
        (changed(shoot(wanted="b"), "2"), True),
    ],
    ids=["migrating", "taken back", "passed on", "another seed's", "recreated"],
)
async def test_migration_tasks_begin_while_the_shoot_leaves(object_: Object, stops: bool) -> None:
    attempt, _ = attempted(shoot(wanted="b"), place=Place(object_))
    objection = await steps._guard(attempt)()
    assert isinstance(objection, Wait) is stops
    assert (attempt.live.shoot is object_) is not stops


async def test_shoot_that_is_being_deleted_gets_no_finalizer() -> None:
    """The API server refuses one, and the reconcile would end there."""
    for live, is_held in ((shoot(), True), (shoot(deletionTimestamp="2026-01-01T00:00:00Z"), False)):
        attempt, place = attempted(live)
        assert isinstance(await steps.begin(attempt), Continue)
        assert ("hold" in place.log) is is_held


@pytest.mark.parametrize("technical_id", [TECHNICAL_ID, ""])
async def test_shoot_with_objects_here_is_held(technical_id: str) -> None:
    live = shoot(deletionTimestamp="2026-01-01T00:00:00Z")
    live = Object(encode_json({**live.tree, "status": {**live.tree["status"], "technicalID": technical_id}}))
    attempt, place = attempted(live, claims="it is another's")
    outcome = await steps.check_claims(attempt)
    assert isinstance(outcome, Wait if technical_id else Done)
    assert place.log == ([] if technical_id else ["remove finalizer"])


async def test_cluster_has_identity_that_shoot_has_just_got(monkeypatch: pytest.MonkeyPatch) -> None:
    """Extensions may act on it at once."""
    written: list[str | None] = []

    async def sync(_seed: object, of: Scope, *_: object) -> None:
        written.append(of.shoot.status.technical_id)

    monkeypatch.setattr(clusters, "sync", sync)
    live = shoot()
    attempt, _ = attempted(Object(encode_json({**live.tree, "status": {}})))
    until = steps.STEPS.index(steps.sync_cluster) + 1
    assert await running.run(steps.STEPS[:until], attempt) == Done()
    assert written == [TECHNICAL_ID]


@pytest.mark.parametrize("operation", [OperationType.MIGRATE, OperationType.RECONCILE, OperationType.DELETE])
async def test_migration_alone_reads_shoot_before_each_task(
    operation: OperationType, monkeypatch: pytest.MonkeyPatch
) -> None:
    guards: list[object] = []

    async def run(_flow: object, _observe: object, guard: object) -> FlowStatus:
        guards.append(guard)
        return FlowStatus("flow", {})

    monkeypatch.setattr(steps, "run", run)
    attempt, _ = attempted(shoot(wanted="b"))
    await steps._run(steps._flow(operation), attempt, operation)
    assert [guard is not None for guard in guards] == [operation is OperationType.MIGRATE]


def of_generation(live: Object, generation: int, seen: int) -> Object:
    metadata, status = {**live.tree["metadata"], "generation": generation}, {**live.tree["status"]}
    return Object(encode_json({**live.tree, "metadata": metadata, "status": {**status, "observedGeneration": seen}}))


@pytest.mark.parametrize(
    ("object_", "is_over"),
    [
        (of_generation(shoot(last="Reconcile Failed"), 2, 2), True),
        (of_generation(shoot(last="Reconcile Failed"), 2, 1), False),
        (of_generation(shoot(last="Reconcile Failed", **ORDERED), 2, 2), False),
        (of_generation(shoot(last="Reconcile Error"), 2, 2), False),
        (of_generation(shoot(wanted="b", last="Reconcile Failed"), 2, 2), False),
    ],
    ids=["failed", "changed since", "ordered", "tried again", "another operation"],
)
async def test_failed_operation_rests_until_a_change(object_: Object, is_over: bool) -> None:
    attempt, _ = attempted(object_)
    assert isinstance(await steps.decide(attempt), Done if is_over else Continue)


@pytest.mark.parametrize("error", [EpochOver("over"), StaleState("stale"), UnreadableShootState("odd")], ids=str)
async def test_a_shoot_is_not_restored_without_its_state(error: Exception) -> None:
    attempt, place = attempted(shoot())

    async def read(_shoot: Object) -> Object:
        return place.object_

    async def claim(*_: object) -> None:
        raise error

    attempt.tools.states.read, attempt.tools.states.claim = read, claim  # type: ignore[method-assign, assignment]
    attempt.operation = OperationType.RESTORE
    outcome = await steps.claim_state(attempt)
    assert outcome == Fault(ControllerReason.FLOW_NOT_STARTED, str(error))
    assert attempt.not_started is OperationType.RESTORE
