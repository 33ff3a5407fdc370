"""Refusals and waits of the tasks for extension resources, one by one."""

from __future__ import annotations

from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.meta import Tree
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Done, Wait
from espalier.shoots.flow.task import Action, Failure
from espalier.shoots.gardenlet import rendering
from espalier.shoots.gardenlet.comparison import stamped
from espalier.shoots.gardenlet.scope import ExtensionResource
from espalier.shoots.gardenlet.tasks import extensions
from espalier.shoots.gardenlet.tasks.acts import CONFIRMED
from espalier.shoots.state import digests
from espalier.shoots.state.limits import LARGEST_STATE
from espalier.shoots.state.stored import StoredState
from tests.support.gardens.gardenlet_scopes import NOW, TECHNICAL_ID, an_object, context, scope

BACK = Ownership().add("b", "bucket-b").start(1, "b").add("a", "bucket-a")
"""Seed `a` is to restore what `b` had."""
FINALIZER = metadata_keys.finalizer("Infrastructure")
DELETED = "2026-01-01T00:00:00Z"
LATER = NOW + timedelta(minutes=1)
RENDERED: Tree = {
    "metadata": {"name": "apple", "namespace": TECHNICAL_ID, "annotations": {}},
    "spec": {"type": "local"},
}


def restoring(order: str, given: bytes = b"", **status: Any) -> Object:
    marks = {metadata_keys.OPERATION: order}
    if given:
        marks[metadata_keys.GIVEN_STATE] = digests.of_value(given)
    metadata = {"annotations": marks, "resourceVersion": "7"}
    return an_object(
        Infrastructure.resource, "apple", TECHNICAL_ID, metadata=metadata, spec={"type": "local"}, status=status
    )


def deployed(live: Object, **tools: Any) -> Any:
    resource = ExtensionResource(Infrastructure, live)
    ctx = context(scope(BACK, extensions=(resource,)), OperationType.RESTORE, **tools)
    ctx.live.stored = cast(StoredState, SimpleNamespace(state_for=lambda *_: b"2"))
    return extensions.deploy(Infrastructure)(ctx)


@pytest.mark.parametrize(("order", "version"), [("restore", "7"), ("wait-for-state", None)])
async def test_corrected_state_replaces_no_newer_one(order: str, version: str | None) -> None:
    """An extension that restores may save a state at any time; one that waits has none."""
    preconditions: list[Tree] = []

    async def patch(*_: object, patch: Tree, **__: object) -> Object:
        preconditions.append(patch["metadata"])
        return live

    async def merge(*_: object) -> None: ...

    error = {"lastOperation": {"type": "Restore", "state": "Error"}, "state": 1}
    live = restoring(order, b"1", **error)
    verdict = deployed(live, seed=SimpleNamespace(client=SimpleNamespace(patch=patch), merge=merge))
    assert isinstance(verdict, Action)
    await verdict.run()
    [precondition] = preconditions
    assert precondition["uid"] == live.metadata.uid
    assert precondition.get("resourceVersion") == version


def test_an_unreadable_newer_state_is_not_replaced() -> None:
    """Its extension has saved it since: it may be all that is known of what was made."""
    large = restoring("restore", lastOperation={"type": "Restore", "state": "Error"}, state="x" * (LARGEST_STATE + 1))
    verdict = deployed(large)
    assert isinstance(verdict, Action)
    assert verdict.what == "apply Infrastructure apple, to restore"


def infrastructure(last: str = "Reconcile Succeeded", **metadata: Any) -> ExtensionResource:
    """As it is rendered."""
    kind, state = last.split()
    marks = {**stamped(RENDERED)["metadata"]["annotations"], **metadata.pop("annotations", {})}
    error = {"description": "out of quota", "codes": ["ERR_INFRA_QUOTA_EXCEEDED"], "lastUpdateTime": DELETED}
    status = {"lastOperation": {"type": kind, "state": state}, **({"lastError": error} if state == "Error" else {})}
    live = an_object(
        Infrastructure.resource,
        "apple",
        TECHNICAL_ID,
        metadata={"annotations": marks, **metadata},
        spec=RENDERED["spec"],
        status=status,
    )
    return ExtensionResource(Infrastructure, live)


def verdict_on(resource: ExtensionResource) -> Any:
    ctx = context(scope(extensions=(resource,)))
    return extensions._deploy(ctx, rendering.Rendered(Infrastructure, "apple", RENDERED))


def test_a_resource_as_rendered_needs_nothing() -> None:
    assert verdict_on(infrastructure()) == Done()


def test_migrated_resource_is_restored_in_any_flow() -> None:
    """Its extension has let go of it, and would never reconcile it."""
    verdict = verdict_on(infrastructure("Migrate Succeeded"))
    assert isinstance(verdict, Action)
    assert verdict.what == "request restore of Infrastructure apple"


@pytest.mark.parametrize(
    ("finalizers", "is_released"), [([FINALIZER], True), (["of.somebody/else"], False)], ids=["held", "released"]
)
def test_release_is_requested_of_who_holds_it(finalizers: list[str], is_released: bool) -> None:
    """Nobody would answer a request for a resource that its extension has released already."""
    deleted = infrastructure(deletionTimestamp=DELETED, finalizers=finalizers)
    verdict = verdict_on(deleted)
    assert isinstance(verdict, Action if is_released else Wait)
    released = extensions.release_all(context(scope(extensions=(deleted,))))
    assert isinstance(released, Action if is_released else Done)


def test_confirmed_deletion_does_not_become_a_release() -> None:
    """Nobody would delete the rest any more, once it is released."""
    annotations = {metadata_keys.CONFIRM_DELETION: "true"}
    confirmed = infrastructure(deletionTimestamp=DELETED, finalizers=[FINALIZER], annotations=annotations)
    assert extensions.release_all(context(scope(extensions=(confirmed,)))) == Done()


@pytest.mark.parametrize(
    ("requested", "is_older"),
    [("2025-12-31T23:59:59.9Z", False), ("2026-01-01T00:00:00.9Z", False), ("2026-01-01T00:00:01Z", True)],
)
def test_an_error_since_the_request_is_reported(requested: str, is_older: bool) -> None:
    """Times of statuses are whole seconds: one of the same second is not of the attempt before."""
    annotations = {metadata_keys.OPERATION: metadata_keys.RECONCILE, metadata_keys.TIMESTAMP: requested}
    resource = infrastructure("Reconcile Error", annotations=annotations)
    ctx = context(scope(extensions=(resource,), now=LATER))
    verdict = extensions._wait_until_succeeded(ctx, resource.object, resource.typed.status, metadata_keys.RECONCILE)
    assert isinstance(verdict, Wait if is_older else Failure)


def test_failing_deletion_is_an_error_with_its_codes() -> None:
    deleted = {"deletionTimestamp": DELETED, "finalizers": [FINALIZER], "annotations": CONFIRMED}
    failing = infrastructure("Delete Error", **deleted)
    verdict = extensions.delete(Infrastructure)(context(scope(extensions=(failing,)), OperationType.DELETE))
    assert verdict == Failure("Infrastructure apple: out of quota", ("ERR_INFRA_QUOTA_EXCEEDED",))
