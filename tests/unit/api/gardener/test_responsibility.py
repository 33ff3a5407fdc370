"""Which seed acts, and what it does: the tables of Gardener."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.gardener.garden.shoot import Provider, Shoot, ShootSpec, ShootStatus
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.responsibility import (
    created,
    migrating,
    operation_of_shoot,
    requested_operation,
    responsible_seed,
    restoring,
    seed_of,
)
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import LastOperation, OperationState, OperationType
from espalier.api.meta import ObjectMeta

CREATE, RECONCILE, DELETE, MIGRATE, RESTORE = OperationType
PENDING, PROCESSING, SUCCEEDED, ERROR, FAILED, ABORTED = OperationState
Last = tuple[OperationType, OperationState] | None


def last_operation(last: Last) -> LastOperation | None:
    return LastOperation(*last) if last else None


def shoot(wanted: str | None, current: str | None, last: Last = None, *, deleted: bool = False) -> Shoot:
    return Shoot(
        metadata=ObjectMeta(name="a", deletion_timestamp="2026-01-01T00:00:00Z" if deleted else None),
        spec=ShootSpec(provider=Provider(type="local"), seed_name=wanted),
        status=ShootStatus(seed_name=current, last_operation=last_operation(last)),
    )


@pytest.mark.demand("G39")
@pytest.mark.parametrize(
    ("wanted", "current", "seed"),
    [(None, None, None), (None, "a", None), ("a", None, "a"), ("a", "a", "a"), ("b", "a", "a"), ("", "a", None)],
)
def test_seed_that_has_shoot_acts_until_it_has_left(wanted: str | None, current: str | None, seed: str | None) -> None:
    assert responsible_seed(wanted, current) == seed
    assert seed_of(shoot(wanted, current)) == seed


@pytest.mark.demand("G41")
@pytest.mark.parametrize(
    ("case", "operation"),
    [
        (shoot("a", None), CREATE),
        (shoot("a", "a", (CREATE, ERROR)), CREATE),
        (shoot("a", "a", (CREATE, SUCCEEDED)), RECONCILE),
        (shoot("a", "a", (RECONCILE, FAILED)), RECONCILE),
        (shoot("b", "a", (RECONCILE, SUCCEEDED)), MIGRATE),
        (shoot("b", "a", (MIGRATE, ERROR)), MIGRATE),
        (shoot("b", "b", (MIGRATE, SUCCEEDED)), RESTORE),
        (shoot("b", "b", (MIGRATE, ABORTED)), RESTORE),
        (shoot("b", "b", (RESTORE, PROCESSING)), RESTORE),
        (shoot("b", "b", (RESTORE, SUCCEEDED)), RECONCILE),
        (shoot("a", "a", (RECONCILE, SUCCEEDED), deleted=True), DELETE),
        (shoot("b", "a", (RECONCILE, SUCCEEDED), deleted=True), MIGRATE),
        (shoot("b", "b", (MIGRATE, SUCCEEDED), deleted=True), RESTORE),
        (shoot("b", "b", (RESTORE, ERROR), deleted=True), DELETE),
    ],
)
def test_shoot_migrates_then_restores_then_reconciles(case: Shoot, operation: OperationType) -> None:
    assert operation_of_shoot(case) is operation


EPOCHS = Ownership().add("a", "x").start(1, "a")
WORDS: tuple[Last, ...] = (None, *((type, state) for type in OperationType for state in OperationState))


def of_epochs(value: Shoot, owned: Ownership, restored: int | None = None) -> Shoot:
    annotations = {metadata_keys.OWNERSHIP: owned.render()}
    if restored is not None:
        annotations[metadata_keys.RESTORED_EPOCH] = str(restored)
    return msgspec.structs.replace(value, metadata=msgspec.structs.replace(value.metadata, annotations=annotations))


@pytest.mark.parametrize("deleted", [False, True])
@pytest.mark.parametrize("last", WORDS)
def test_no_status_ends_the_restore_of_an_epoch(last: Last, deleted: bool) -> None:
    moved = shoot("b", "b", last, deleted=deleted)
    later = EPOCHS.add("b", "y")
    for owned, restored in ((EPOCHS, None), (later, None), (later.start(2, "b"), None), (later.start(2, "b"), 1)):
        unrestored = of_epochs(moved, owned, restored)
        assert operation_of_shoot(unrestored) is RESTORE
        assert restoring(unrestored)


@pytest.mark.parametrize("last", WORDS)
def test_a_shoot_that_was_moved_is_never_created(last: Last) -> None:
    moved = of_epochs(shoot("b", "b", last), EPOCHS.add("b", "y").start(2, "b"), 2)
    assert operation_of_shoot(moved) is not CREATE
    assert created(moved)


def test_a_shoot_of_one_epoch_is_not_restored() -> None:
    assert operation_of_shoot(of_epochs(shoot("a", "a", None), EPOCHS)) is CREATE
    assert not restoring(of_epochs(shoot("a", "a", (RECONCILE, SUCCEEDED)), EPOCHS))
    assert not restoring(of_epochs(shoot("a", "a", None), Ownership().add("a", "x").add("a", "y")))


def test_order_is_read_in_both_places_of_the_proposal() -> None:
    assert requested_operation(ObjectMeta(annotations={metadata_keys.OLDER_OPERATION: "restore"})) == "restore"


@pytest.mark.demand("G34")
def test_a_shoot_migrates_only_between_two_seeds() -> None:
    assert migrating(shoot("b", "a"))
    assert not any(migrating(shoot(*seeds)) for seeds in [("a", "a"), ("a", None), (None, "a"), (None, None)])


def test_shoot_is_created_once_its_creation_succeeded() -> None:
    """G33."""
    assert not created(shoot("a", None))
    assert not created(shoot("a", "a", (CREATE, PROCESSING)))
    assert created(shoot("a", "a", (CREATE, SUCCEEDED)))
    assert created(shoot("a", "a", (RECONCILE, ERROR)))


def test_finalizers_of_extension_kinds_are_gardeners() -> None:
    assert metadata_keys.finalizer("Infrastructure") == "extensions.gardener.cloud/infrastructure"
    assert metadata_keys.finalizer("OperatingSystemConfig") == "extensions.gardener.cloud/operatingsystemconfigs"
