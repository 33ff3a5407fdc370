"""Which operation a resource asks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.gardener.vocabulary import metadata_keys as keys
from espalier.api.gardener.vocabulary.operations import LastOperation, OperationState, OperationType
from espalier.api.meta import ObjectMeta
from espalier.shoots.extension import operation_of

MIGRATED = LastOperation("Migrate", "Succeeded")
DELETED = "2026-01-01T00:00:00Z"


def metadata(
    asks: str = "", *, deleted: bool = False, key: str = keys.OPERATION, confirmed: str = "true"
) -> ObjectMeta:
    annotations = {keys.CONFIRM_DELETION: confirmed} if deleted and confirmed else {}
    if asks:
        annotations[key] = asks
    return ObjectMeta(annotations=annotations, deletion_timestamp=DELETED if deleted else None)


@pytest.mark.parametrize(
    ("asks", "deleted", "last", "due"),
    [
        ("", False, None, "Create"),
        ("reconcile", False, None, "Create"),
        ("wait-for-state", False, None, None),
        ("restore", False, None, "Restore"),
        ("", False, LastOperation("Create", "Succeeded"), None),
        ("reconcile", False, LastOperation("Create", "Succeeded"), "Reconcile"),
        ("", False, LastOperation("Create", "Error"), "Create"),
        ("", False, LastOperation("Restore", "Processing"), "Restore"),
        ("", False, LastOperation("Migrate", "Error"), "Migrate"),
        ("", False, LastOperation("Reconcile", "Error"), "Reconcile"),
        ("", False, LastOperation("Strange", "Strange"), "Reconcile"),
        ("", True, LastOperation("Create", "Error"), "Delete"),
        ("restore", True, LastOperation("Create", "Succeeded"), "Delete"),
        ("migrate", True, LastOperation("Create", "Succeeded"), "Migrate"),
        ("", True, MIGRATED, None),
        ("reconcile", False, MIGRATED, None),
        ("restore", False, MIGRATED, "Restore"),
        ("restore", True, MIGRATED, None),
    ],
)
def test_the_operation_that_is_due(asks: str, deleted: bool, last: LastOperation | None, due: str | None) -> None:
    assert operation_of(metadata(asks, deleted=deleted), last) == due


@pytest.mark.parametrize("confirmed", ["", "false", "yes"])
@pytest.mark.parametrize("asks", ["", "reconcile", "restore", "wait-for-state"])
def test_unconfirmed_deletion_deletes_nothing(asks: str, confirmed: str) -> None:
    for last in (None, LastOperation("Create", "Succeeded"), LastOperation("Delete", "Processing")):
        assert operation_of(metadata(asks, deleted=True, confirmed=confirmed), last) is None
    assert operation_of(metadata("migrate", deleted=True, confirmed=confirmed), None) is OperationType.MIGRATE


def test_key_that_proposal_names_once_is_understood() -> None:
    assert operation_of(metadata("restore", key=keys.OLDER_OPERATION), None) is OperationType.RESTORE


LASTS = st.none() | st.builds(LastOperation, st.sampled_from(OperationType), st.sampled_from(OperationState))
ASKS = st.sampled_from(["", "reconcile", "migrate", "restore", "wait-for-state", "nonsense"])


@given(ASKS, st.booleans(), LASTS)
def test_migrated_resource_is_not_reconciled(asks: str, deleted: bool, last: LastOperation | None) -> None:
    due = operation_of(metadata(asks, deleted=deleted), last)
    assert asks != "migrate" or due is OperationType.MIGRATE
    if last is not None and last.is_(OperationType.MIGRATE, OperationState.SUCCEEDED):
        assert due in (None, OperationType.MIGRATE, OperationType.RESTORE)
