"""Errors of an extension that are in a status already: the same failure is not written again and again."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.vocabulary.metadata_keys import TIMESTAMP
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.meta import Tree
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.outcome import Fault, Outcome, Wait
from espalier.shoots.extension.attempt import Attempt, AttemptTools, Extension
from espalier.shoots.extension.controller import _is_reported, _report
from espalier.shoots.extension.steps import LEASE
from tests.support.gardens.gardenlet_scopes import TECHNICAL_ID, an_object

REPORTED, LATER = "2026-01-01T00:01:00Z", "2026-01-01T00:02:00Z"


SAME: Any = object()


def is_reported(*, requested: str | None = None, state: str = "Error", stored: Any = SAME, **present: Any) -> bool:
    """True if an error is reported already; `present` are the fields in which that of the status differs, `stored`
    stands in its place."""
    error = {"description": "out of quota", "lastUpdateTime": LATER}
    before: Tree = {**error, "lastUpdateTime": REPORTED, **present}
    status = {"lastOperation": {"type": "Reconcile", "state": state}, "lastError": before}
    metadata = {"annotations": {TIMESTAMP: requested}} if requested is not None else {}
    result = an_object(
        Infrastructure.resource, "apple", TECHNICAL_ID, metadata=metadata, spec={"type": "local"}, status=status
    )
    clock = SimpleNamespace(now=lambda: datetime(2026, 1, 1, 1, tzinfo=UTC))
    attempt: Any = SimpleNamespace(
        object=result,
        present=status if stored is SAME else {**status, "lastError": stored},
        operation=OperationType.RECONCILE,
        tools=SimpleNamespace(clock=clock),
    )
    return _is_reported(attempt, error)


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        ({}, True),
        ({"description": "no quota"}, False),
        ({"state": "Processing"}, False),
        ({"requested": REPORTED}, True),
        ({"requested": "2026-01-01T00:01:00.9Z"}, True),  # statuses have whole seconds
        ({"requested": LATER}, False),
        ({"requested": "nonsense"}, True),
        ({"requested": REPORTED, "lastUpdateTime": "nonsense"}, False),
        ({"requested": REPORTED, "lastUpdateTime": None}, False),
        ({"lastUpdateTime": None}, True),
    ],
)
def test_an_error_is_written_once_for_each_request(present: dict[str, Any], expected: bool) -> None:
    assert is_reported(**present) is expected


@pytest.mark.parametrize("present", [None, "out of quota", []])
def test_an_error_that_was_edited_away_is_written(present: Any) -> None:
    assert not is_reported(stored=present)


TOO_MANY = Fault("TooManyWrites", "it is written too often")


@pytest.mark.parametrize(
    ("outcome", "last", "is_reported"),
    [
        (Wait("ShootFailed", "the Shoot has failed"), "Processing", False),
        (Wait("Superseded", "it must be migrated"), "Processing", False),
        (Wait("PlanOutdated", "it has changed"), "Processing", False),
        (Wait("PondFills", "the pond fills"), "Processing", True),
        (Wait(min(LEASE), "it is left alone"), "Processing", True),
        (TOO_MANY, "Error", False),
        (TOO_MANY, "Processing", True),
    ],
    ids=str,
)
def test_status_has_what_concerns_its_operation(outcome: Outcome, last: str, is_reported: bool) -> None:
    """All else would cover up the error, or the progress, that is there."""
    error = {"description": "the spade broke", "lastUpdateTime": "2026-01-01T00:00:00Z"}
    operation = {"type": "Reconcile", "state": last, "progress": 1, "description": "the spade broke"}
    live = an_object(
        Infrastructure.resource,
        "apple",
        TECHNICAL_ID,
        spec={"type": "garden"},
        status={"lastOperation": operation, "lastError": error},
    )
    extension: Extension[Any] = Extension(Infrastructure.resource, "garden", cast(Any, None))
    unused: Any = None
    attempt = Attempt(AttemptTools(extension, unused, unused, unused, SystemClock(), 60), live)
    assert (_report(attempt, outcome) is not None) is is_reported
