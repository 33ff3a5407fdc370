"""Errors of an extension that are in a status already: the same failure is not written again and again."""

from __future__ import annotations

from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.vocabulary.metadata_keys import TIMESTAMP
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.meta import Tree
from espalier.shoots.extension.controller import _is_reported
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
    found = an_object(
        Infrastructure.resource, "apple", TECHNICAL_ID, metadata=metadata, spec={"type": "local"}, status=status
    )
    clock = SimpleNamespace(now=lambda: datetime(2026, 1, 1, 1, tzinfo=UTC))
    attempt: Any = SimpleNamespace(
        object=found,
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
