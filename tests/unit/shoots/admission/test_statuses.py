"""Who writes what of a Shoot's status."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from espalier.api.meta import Tree
from espalier.kube.objects import Object
from espalier.kube.transports.wire import ADMIN, User
from espalier.shoots.admission import messages, statuses
from espalier.shoots.admission.shoot_rules.shoots import Garden

MEMBER = User("alice", ("system:authenticated",))
GARDEN = Garden(lambda _name: None, is_taken=lambda _shoot, technical_id: technical_id == "shoot--core--taken")
MIGRATED = {"type": "Migrate", "state": "Succeeded"}


def gardenlet(seed: str) -> User:
    return User(f"gardener.cloud:system:seed:{seed}", ("gardener.cloud:system:seeds",))


def shoot(wanted: str | None, *, name: str = "x", namespace: str = "garden-core", **status: Any) -> Object:
    tree: Tree = {
        "apiVersion": "core.gardener.cloud/v1beta1",
        "kind": "Shoot",
        "metadata": {"name": name, "namespace": namespace, "uid": "1"},
        "spec": {"provider": {"type": "local"}, **({"seedName": wanted} if wanted else {})},
        "status": status,
    }
    return Object(msgspec.json.encode(tree))


def refused(old: Object, user: User, **status: Any) -> list[tuple[str, str]]:
    """The problems of a write of these fields of the status; None takes one away."""
    tree = old.tree
    merged = {**tree["status"], **status}
    tree["status"] = {field: value for field, value in merged.items() if value is not None}
    new = Object(msgspec.json.encode(tree))
    return [(violation.field, violation.message) for violation in statuses.violations(old, new, user, GARDEN)]


NEW = shoot("a")
IDENTITY = {"technicalID": "shoot--core--x", "uid": "1"}
SETTLED = shoot("a", seedName="a", **IDENTITY)
MOVING = shoot("b", seedName="a", **IDENTITY)


def test_chosen_seed_takes_a_new_shoot() -> None:
    begun = {"seedName": "a", **IDENTITY}
    assert refused(NEW, gardenlet("a"), **begun) == []
    assert refused(NEW, gardenlet("b"), **begun) == [("status", messages.STATUS_OF_OTHER_SEED)]
    assert refused(NEW, gardenlet("a"), **{**begun, "seedName": "b"}) == [("status.seedName", messages.SEED_TAKES)]


def test_seed_passes_migrated_shoot_to_wanted_seed() -> None:
    passed = {"seedName": "b", "lastOperation": MIGRATED}
    assert refused(MOVING, gardenlet("a"), **passed) == []
    allowed = [("status.seedName", messages.SEED_HANDS_OVER)]
    assert refused(MOVING, gardenlet("a"), seedName="b") == allowed
    assert refused(MOVING, gardenlet("a"), seedName="b", lastOperation={**MIGRATED, "state": "Processing"}) == allowed
    assert refused(MOVING, gardenlet("a"), seedName="c", lastOperation=MIGRATED) == allowed
    assert refused(MOVING, gardenlet("a"), seedName=None, lastOperation=MIGRATED) == allowed
    assert refused(SETTLED, gardenlet("a"), seedName="b", lastOperation=MIGRATED) == allowed


@pytest.mark.demand(G34="who writes the status", G35="who writes the status", G43="who writes the status")
def test_no_seed_takes_a_shoot_from_another() -> None:
    other = [("status", messages.STATUS_OF_OTHER_SEED)]
    assert refused(MOVING, gardenlet("b"), seedName="b", lastOperation=MIGRATED) == other
    given_up = shoot("b", seedName="b", **IDENTITY, lastOperation={"type": "Migrate", "state": "Aborted"})
    assert refused(given_up, gardenlet("a"), lastOperation={"type": "Migrate", "state": "Processing"}) == other


@pytest.mark.parametrize("identity", [{"technicalID": "shoot--core--y"}, {"uid": "2"}, {"technicalID": None}])
def test_the_identity_of_a_shoot_is_immutable(identity: dict[str, Any]) -> None:
    (field,) = identity
    assert refused(SETTLED, gardenlet("a"), **identity) == [(f"status.{field}", messages.IDENTITY_STAYS)]


def test_identity_of_shoot_follows_from_its_content() -> None:
    assert refused(NEW, gardenlet("a"), technicalID="shoot--core--y") == [("status.technicalID", messages.TECHNICAL_ID)]
    assert refused(NEW, gardenlet("a"), uid="2") == [("status.uid", messages.UID)]
    taken = shoot("a", name="taken")
    refusals = refused(taken, gardenlet("a"), technicalID="shoot--core--taken")
    assert refusals == [("status.technicalID", messages.TECHNICAL_ID_TAKEN)]


def test_people_write_conditions_and_nothing_more() -> None:
    assert refused(SETTLED, MEMBER, conditions=[{"type": "Nice", "status": "True"}]) == []
    for field, value in (("seedName", "b"), ("lastOperation", MIGRATED), ("constraints", []), ("uid", "2")):
        refusals = refused(SETTLED, MEMBER, **{field: value})
        assert refusals == ([(f"status.{field}", messages.STATUS_DECIDES)] if value else [])


def test_operators_correct_statuses_with_known_names() -> None:
    wrong = shoot("a", seedName="a", technicalID="shoot--core--y", uid="2")
    assert refused(wrong, ADMIN, technicalID="shoot--core--x", uid="1") == []
    assert refused(MOVING, ADMIN, seedName="b", lastOperation={"type": "Migrate", "state": "Aborted"}) == []
    assert refused(SETTLED, ADMIN, technicalID="shoot--core--y") == [("status.technicalID", messages.TECHNICAL_ID)]


def test_statuses_of_before_can_still_be_written() -> None:
    wrong = shoot("a", seedName="a", technicalID="shoot--core--taken", uid="2")
    assert refused(wrong, gardenlet("a"), lastOperation={"type": "Reconcile", "state": "Error"}) == []
