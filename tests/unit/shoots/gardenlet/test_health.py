"""Conditions of a shoot: what is said by what was observed, and that nothing is said anew while nothing happens."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from espalier.api.etcd.calls import BackupStatus
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.garden.seed import Seed, SeedProvider, SeedSpec
from espalier.api.gardener.garden.shoot import (
    API_SERVER_AVAILABLE,
    CONTROL_PLANE_HEALTHY,
    EVERY_NODE_READY,
    READY_FOR_DISASTER,
    SYSTEM_COMPONENTS_HEALTHY,
    Shoot,
)
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary.conditions import merged
from espalier.api.gardener.vocabulary.operations import Condition
from espalier.api.meta import ObjectMeta, Tree
from espalier.kube.objects import Object, encode_json
from espalier.shoots.gardenlet.context import ShootHealth
from espalier.shoots.gardenlet.names import API_SERVER, CONTROLLERS
from espalier.shoots.gardenlet.reports.health import BackupHealth, ReachReport, conditions, ready_for_disaster
from espalier.shoots.gardenlet.scope import Scope

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
SEED = Seed(metadata=ObjectMeta(name="east"), spec=SeedSpec(provider=SeedProvider(type="local")))
PROGRAMS = (API_SERVER, *CONTROLLERS)
CURRENT = BackupStatus(1, True, 20, "2026-03-01T11:00:00Z", "2026-03-01T11:59:50Z", "2026-03-01T11:59:55Z")


def typed(kind: Any, metadata: Tree, **fields: object) -> Object:
    tree = {"apiVersion": kind.resource.api_version, "kind": kind.resource.kind, "metadata": metadata, **fields}
    return Object(encode_json(tree))


def scope(*, available: tuple[str, ...] = PROGRAMS, etcd: bool = True, state: str = "Succeeded", **spec: Any) -> Scope:
    status = {"seedName": "east", "lastOperation": {"type": "Reconcile", "state": state, "progress": 100}}
    shoot = typed(
        Shoot,
        {"name": "apple", "namespace": "garden-dev", "uid": "1"},
        spec={"provider": {"type": "local"}, "seedName": "east", **spec},
        status=status,
    )
    main = typed(Etcd, {"name": "etcd-main"}, spec={"replicas": 1}, status={"ready": etcd})
    running = {
        program: Object(encode_json({"status": {"availableReplicas": int(program in available)}}))
        for program in PROGRAMS
    }
    fields: dict[str, Any] = dict.fromkeys(Scope.__dataclass_fields__)
    fields |= {name: {} for name in ("secrets", "services", "service_accounts", "role_bindings")}
    return Scope(
        **fields
        | {"object": shoot, "now": NOW, "seed_name": "east", "ownership": Ownership(()), "etcd": main, "seed": SEED}
        | {"deployments": running, "pod_roles": frozenset(), "extensions": (), "backup_resources": ()}
    )


def states(of: Scope, backups: BackupHealth | None = None) -> dict[str, tuple[str, str]]:
    return {condition.type: (condition.status, condition.reason) for condition in conditions(of, backups)}


def test_control_plane_is_healthy_with_all_parts() -> None:
    assert states(scope()) == {
        API_SERVER_AVAILABLE: ("True", "DeploymentAvailable"),
        CONTROL_PLANE_HEALTHY: ("True", "ControlPlaneRunning"),
    }
    for lacking in PROGRAMS:
        reported = states(scope(available=tuple(program for program in PROGRAMS if program != lacking)))
        assert reported[CONTROL_PLANE_HEALTHY] == ("False", "ComponentsNotReady")
        assert (reported[API_SERVER_AVAILABLE][0] == "False") is (lacking == API_SERVER)
    assert states(scope(etcd=False))[CONTROL_PLANE_HEALTHY][0] == "False"


def test_running_operation_has_one_sentence() -> None:
    some, none = scope(available=PROGRAMS[1:], state="Processing"), scope(available=(), etcd=False, state="Processing")
    assert conditions(some, None)[1] == conditions(none, None)[1]
    assert states(none)[CONTROL_PLANE_HEALTHY] == ("Progressing", "OperationInProgress")


def test_a_shoot_that_sleeps_wants_nothing() -> None:
    asleep = scope(available=(), etcd=False, hibernation={"enabled": True})
    assert {status for status, _ in states(asleep, BackupHealth()).values()} == {"True"}


WORKERS = {"type": "local", "workers": [{"name": "pool", "machine": {"type": "m"}, "minimum": 2, "maximum": 3}]}


@pytest.mark.parametrize(
    ("shoot", "nodes", "components", "message"),
    [
        (ShootHealth(nodes=2), "True", "True", ""),
        (ShootHealth(nodes=1), "False", "True", "found 1 nodes, but the shoot's workers need at least 2"),
        (ShootHealth(nodes=3, unready_nodes=("a", "b")), "False", "True", "not ready: a, b"),
        (ShootHealth(nodes=9, unready_nodes=tuple("abcdefghijkl")), "False", "True", "i, j and 2 more"),
        (ShootHealth(nodes=2, unready_components=("DaemonSet kube-proxy",)), "True", "False", "DaemonSet kube-proxy"),
        (ShootHealth(unreachable="refused"), "Unknown", "Unknown", "is unreachable"),
    ],
)
def test_nodes_are_as_the_api_server_says(shoot: ShootHealth, nodes: str, components: str, message: str) -> None:
    reported = {condition.type: condition for condition in conditions(scope(provider=WORKERS), None, shoot)}
    assert (reported[EVERY_NODE_READY].status, reported[SYSTEM_COMPONENTS_HEALTHY].status) == (nodes, components)
    assert message in reported[EVERY_NODE_READY].message + reported[SYSTEM_COMPONENTS_HEALTHY].message


def test_varying_failures_are_reported_once() -> None:
    first, other = (ShootHealth(unreachable=why) for why in ("connection refused", "no answer"))
    assert conditions(scope(), None, first) == conditions(scope(), None, other)
    under_way = {condition.status for condition in conditions(scope(state="Processing"), None, first)[2:]}
    assert under_way == {"Progressing"}


@pytest.mark.parametrize(
    ("changed", "backups", "status", "reason"),
    [
        ({}, {}, "True", "BackupsCurrent"),
        ({"unstored_since": ""}, {}, "True", "BackupsCurrent"),
        ({"unstored_since": "2026-03-01T11:58:00Z"}, {}, "False", "BackupsLate"),
        ({"unstored_since": "2026-02-30T11:58:00Z"}, {}, "False", "BackupsLate"),
        ({"latest_full": ""}, {}, "False", "NoFullSnapshot"),
        ({"store_unreadable_since": "2026-03-01T11:58:00Z"}, {}, "False", "StoreUnreadable"),
        ({}, {"status": None}, "Unknown", "AgentUnreachable"),
        ({}, {"unreadable": "access denied"}, "False", "BucketUnreadable"),
        ({}, {"unstored": "the ShootState can't be read"}, "False", "StateNotPersisted"),
    ],
)
def test_unready_for_disaster_says_why(
    changed: dict[str, Any], backups: dict[str, Any], status: str, reason: str
) -> None:
    asked = replace(BackupHealth(msgspec.structs.replace(CURRENT, **changed), NOW), **backups)
    reported = ready_for_disaster(scope(), asked)
    assert (reported.status, reported.reason) == (status, reason)
    assert reported.message


@pytest.mark.parametrize(
    ("others", "status", "end"),
    [
        ((), "True", "and no other seed has tried to reach it"),
        ((ReachReport("west"),), "True", "and seed west reaches it"),
        (
            (ReachReport("north"), ReachReport("south", "refused"), ReachReport("west")),
            "True",
            "and seeds north, west reach it",
        ),
        ((ReachReport("west", "refused"),), "False", "no other seed reaches its bucket: seed west: refused"),
        (tuple(ReachReport(f"s{n}", "refused") for n in range(12)), "False", "seed s9: refused; and 2 more"),
    ],
)
def test_one_seed_has_to_reach_the_bucket(others: tuple[ReachReport, ...], status: str, end: str) -> None:
    for shoot in (scope(), scope(hibernation={"enabled": True})):
        reported = ready_for_disaster(shoot, BackupHealth(CURRENT, NOW, others=others))
        assert reported.status == status
        assert reported.message.endswith(end)
        assert (reported.reason == "BucketNotReachedByOthers") is (status == "False")


def test_reports_on_other_places_do_not_count() -> None:
    reported = ready_for_disaster(
        scope(), BackupHealth(CURRENT, NOW, others=(ReachReport("west", "refused"),), is_elsewhere=True)
    )
    assert reported.status == "True"
    assert "other seeds can't try it: spec.backup.providerConfig of its Seed lacks the endpoint" in reported.message


def test_shoot_of_a_deleted_seed_says_so() -> None:
    for backups in (None, BackupHealth(CURRENT, NOW)):
        reported = conditions(replace(scope(), seed=None), backups)[-1]
        assert (reported.type, reported.status, reported.reason) == (READY_FOR_DISASTER, "False", "SeedMissing")
        assert "there is no Seed east any more" in reported.message


def test_untried_bucket_is_not_called_good() -> None:
    untested = BackupHealth(CURRENT, NOW, is_checked=False)
    reported = ready_for_disaster(scope(), untested)
    assert (reported.status, reported.reason) == ("Unknown", "BucketNotTested")
    assert ready_for_disaster(scope(), replace(untested, others=(ReachReport("west"),))).status == "True"


def test_older_answer_is_not_late() -> None:
    """It was fresh when it was given; the agent is asked once a minute."""
    given = NOW - timedelta(minutes=5)
    answer = msgspec.structs.replace(CURRENT, unstored_since="2026-03-01T11:54:50Z")
    assert ready_for_disaster(scope(), BackupHealth(answer, given)).status == "True"


def test_deltas_change_nothing_of_the_message() -> None:
    first = ready_for_disaster(scope(), BackupHealth(CURRENT, NOW))
    later = msgspec.structs.replace(CURRENT, latest_delta="2026-03-01T12:30:00Z", unstored_since="")
    assert ready_for_disaster(scope(), BackupHealth(later, NOW + timedelta(minutes=30))) == first


def test_an_unchanged_condition_keeps_its_times() -> None:
    was = Condition("A", "True", "Fine", "", "then", "then")
    other = Condition("B", "True", "Fine", "", "then", "then")
    assert merged([was, other], [Condition("A", "True", "Fine", "")], NOW) == [was, other]
    at = "2026-03-01T12:00:00Z"
    assert merged([was], [Condition("A", "True", "Fine", "more")], NOW) == [
        Condition("A", "True", "Fine", "more", "then", at)
    ]
    assert merged([was], [Condition("A", "False", "Bad", "")], NOW) == [Condition("A", "False", "Bad", "", at, at)]
