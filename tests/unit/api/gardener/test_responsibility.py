"""Which seed acts, and what it does: the tables of Gardener."""

from __future__ import annotations

import pytest

from espalier.api.gardener import metadata_keys
from espalier.api.gardener.operations import LastOperation, OperationState, OperationType
from espalier.api.gardener.responsibility import (
    created,
    migrating,
    operation_of_shoot,
    requested_operation,
    responsible_seed,
    seed_of,
)
from espalier.api.gardener.shoot import Provider, Shoot, ShootSpec, ShootStatus
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


@pytest.mark.parametrize(
    ("wanted", "current", "seed"),
    [(None, None, None), (None, "a", None), ("a", None, "a"), ("a", "a", "a"), ("b", "a", "a"), ("", "a", None)],
)
def test_the_seed_that_has_the_shoot_acts_until_it_has_left(
    wanted: str | None, current: str | None, seed: str | None
) -> None:
    assert responsible_seed(wanted, current) == seed
    assert seed_of(shoot(wanted, current)) == seed


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
def test_a_shoot_migrates_then_restores_then_reconciles(case: Shoot, operation: OperationType) -> None:
    assert operation_of_shoot(case) is operation


def test_the_order_is_also_read_where_the_proposal_once_puts_it() -> None:
    assert requested_operation(ObjectMeta(annotations={metadata_keys.OLDER_OPERATION: "restore"})) == "restore"


def test_a_shoot_migrates_only_between_two_seeds() -> None:
    assert migrating(shoot("b", "a"))
    assert not any(migrating(shoot(*seeds)) for seeds in [("a", "a"), ("a", None), (None, "a"), (None, None)])


def test_a_shoot_is_created_once_its_creation_succeeded() -> None:
    """G33."""
    assert not created(shoot("a", None))
    assert not created(shoot("a", "a", (CREATE, PROCESSING)))
    assert created(shoot("a", "a", (CREATE, SUCCEEDED)))
    assert created(shoot("a", "a", (RECONCILE, ERROR)))


def test_finalizers_of_extension_kinds_are_gardeners() -> None:
    assert metadata_keys.finalizer("Infrastructure") == "extensions.gardener.cloud/infrastructure"
    assert metadata_keys.finalizer("OperatingSystemConfig") == "extensions.gardener.cloud/operatingsystemconfigs"
