"""States of extension kinds that gardenlets do not render: to which resources, and when, they are given."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.meta import Tree
from espalier.kube.objects import Object
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.outcome import Done, Wait
from espalier.shoots.gardenlet.states import other_kinds
from espalier.shoots.gardenlet.states.other_kinds import OtherKinds
from espalier.shoots.state import digests
from tests.support.gardens.gardenlet_scopes import STARTED, TECHNICAL_ID, an_object, shoot

WAITS = {"annotations": {metadata_keys.OPERATION: metadata_keys.WAIT_FOR_STATE}}
STATE = b'{"sandboxes":3}'


class Seed:
    """Records what is written, in order."""

    def __init__(self) -> None:
        self.written: list[Tree] = []
        self.client = self

    async def patch(self, *_: object, patch: Tree, **__: object) -> None:
        self.written.append(patch)

    async def merge(self, _resource: object, _live: object, patch: Tree, _precondition: object) -> None:
        self.written.append(patch)


async def given(
    monkeypatch: pytest.MonkeyPatch, epochs: Ownership, metadata: Tree, state: bytes | None = STATE
) -> tuple[Any, list[Tree]]:
    """The outcome for a shoot of seed a with one resource, and what was written."""
    resource = an_object(
        Infrastructure.resource, "gvisor", TECHNICAL_ID, metadata=metadata, spec={"type": "gvisor"}, status={}
    )
    monkeypatch.setattr(other_kinds, "RENDERED_KINDS", frozenset())  # as a kind that nobody renders
    seed = Seed()
    observer: Any = SimpleNamespace(resources_of=lambda _namespace: [(Infrastructure, resource)])

    async def read(_shoot: Object) -> Object:
        return resource

    async def stored(_live: Object) -> Any:
        return SimpleNamespace(state_for=lambda *_: state)

    states: Any = SimpleNamespace(read=read, stored=stored)
    writer: Any = seed
    others = OtherKinds(observer, states, writer, "a", SystemClock())
    return await others.reconcile(shoot(**{metadata_keys.OWNERSHIP: epochs.render()})), seed.written


async def test_waiting_resource_gets_its_state_first(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, (status, request) = await given(monkeypatch, STARTED, WAITS)
    assert isinstance(outcome, Done)
    assert status["metadata"] == {"uid": "uid of gvisor"}, "a later one of this name gets nothing"
    annotations = request["metadata"]["annotations"]
    assert annotations[metadata_keys.OPERATION] == metadata_keys.RESTORE
    assert annotations[metadata_keys.GIVEN_STATE] == digests.of_value(STATE)


@pytest.mark.parametrize(
    ("epochs", "metadata"),
    [
        (STARTED, {}),
        (STARTED, {"annotations": {metadata_keys.OPERATION: metadata_keys.RESTORE}}),
        (STARTED, {**WAITS, "deletionTimestamp": "2026-01-01T00:00:00Z"}),
        (Ownership().add("a", "bucket-a"), WAITS),
        (STARTED.add("b", "bucket-b").start(2, "b"), WAITS),
    ],
    ids=["does not wait", "is restored", "is being deleted", "before the start", "of another seed"],
)
async def test_no_other_resource_gets_a_state(
    monkeypatch: pytest.MonkeyPatch, epochs: Ownership, metadata: Tree
) -> None:
    outcome, written = await given(monkeypatch, epochs, metadata)
    assert isinstance(outcome, Done)
    assert written == []


async def test_resource_without_a_state_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome, written = await given(monkeypatch, STARTED, WAITS, state=None)
    assert isinstance(outcome, Wait)
    assert "Infrastructure gvisor waits for its state, but the ShootState has none" in outcome.message
    assert "restore the ShootState, or remove the annotation" in outcome.message
    assert written == []
