"""Shoots and seeds: where control planes are, and the timelines of their moves."""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from espalier.api.gardener.garden.seed import GARDENLET_READY, Seed
from espalier.api.gardener.garden.shoot import API_SERVER_AVAILABLE, READY_FOR_DISASTER, Shoot
from espalier.api.gardener.vocabulary.metadata_keys import OWNERSHIP
from espalier.api.gardener.vocabulary.reasons import ShootReason
from espalier.api.meta import Tree
from espalier.dashboard.html import garden as html
from espalier.dashboard.models.garden import (
    MOST_MOMENTS,
    Timeline,
    advanced,
    advice,
    page_of,
    row_of,
    seed_of,
)
from espalier.dashboard.models.health import Health
from espalier.kube.objects import Object, to_bytes
from tests.support.objects.hostile_html import HOSTILE, Elements

NOW = datetime(2026, 1, 1, tzinfo=UTC)
T0 = "2026-01-01T00:00:00Z"


def at(seconds: float) -> str:
    return (NOW + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(type_: str, status: str, reason: str = "Why", message: str = "", time: str = T0) -> Tree:
    times = {"lastTransitionTime": time, "lastUpdateTime": time}
    return {"type": type_, "status": status, "reason": reason, "message": message, **times}


def operation(type_: str, state: str, progress: int = 100, description: str = "", time: str = T0) -> Tree:
    return {
        "type": type_,
        "state": state,
        "progress": progress,
        "description": description,
        "lastUpdateTime": time,
    }


def shoot(
    *conditions: Tree,
    seed: str | None = "east",
    wanted: str | None = "east",
    last: Tree | None = None,
    metadata: Tree | None = None,
    epochs: str = "",
    **status: Any,
) -> Object:
    annotations = {OWNERSHIP: epochs} if epochs else {}
    return Object(
        to_bytes(
            {
                "apiVersion": Shoot.resource.api_version,
                "kind": "Shoot",
                "metadata": {"name": "apple", "namespace": "dev", "annotations": annotations, **(metadata or {})},
                "spec": {"provider": {"type": "local"}, "kubernetes": {"version": "1.35.4"}, "seedName": wanted},
                "status": {
                    "conditions": list(conditions),
                    "lastOperation": last or operation("Reconcile", "Succeeded"),
                    "seedName": seed,
                    **status,
                },
            }
        )
    )


@pytest.mark.parametrize(
    ("object_", "health", "word"),
    [
        (shoot(), Health.READY, "Ready"),
        (shoot(wanted="west"), Health.CHANGING, "Moving"),
        (shoot(last=operation("Restore", "Processing", 40)), Health.CHANGING, "Moving"),
        (shoot(last=operation("Create", "Processing", 40)), Health.CHANGING, "Create"),
        (shoot(last=operation("Reconcile", "Error", 40)), Health.FAILING, "Retrying"),
        (shoot(last=operation("Reconcile", "Failed", 40)), Health.FAILING, "Failed"),
        (shoot(condition(API_SERVER_AVAILABLE, "False")), Health.FAILING, "Unhealthy"),
        (shoot(condition("EveryNodeReady", "Unknown")), Health.UNKNOWN, "Unknown"),
        (shoot(condition(READY_FOR_DISASTER, "False")), Health.READY, "Ready"),
        (shoot(hibernated=True), Health.PAUSED, "Hibernated"),
        (shoot(metadata={"deletionTimestamp": T0}), Health.CHANGING, "Deleting"),
        (Object(b'{"kind":"Shoot","metadata":{"name":"a"},"spec":7}'), Health.FAILING, "Unreadable"),
    ],
)
def test_state_of_a_shoot_is_what_it_reports(object_: Object, health: Health, word: str) -> None:
    assert row_of(object_).state == (health, word)


def test_shoot_that_moves_has_both_seeds() -> None:
    row = row_of(shoot(wanted="west", last=operation("Migrate", "Processing", 30, "Hand over etcd (Waits): x")))
    assert (row.seed, row.wanted, row.progress) == ("east", "west", 30)
    assert row.message == "Migrate 30 %: Hand over etcd (Waits): x"
    assert "moves to" in html.shoot(row, "/r/", NOW).html


@pytest.mark.parametrize(
    ("status", "health", "word"),
    [
        ("True", Health.READY, "Yes"),
        ("False", Health.FAILING, "No"),
        ("Unknown", Health.UNKNOWN, "Unknown"),
    ],
)
def test_disaster_is_what_the_gardenlet_says(status: str, health: Health, word: str) -> None:
    row = row_of(shoot(condition(READY_FOR_DISASTER, status, message="writes since 10:00 are in no snapshot")))
    assert row.disaster == (health, word)
    assert (row.backups, row.checked) == ("writes since 10:00 are in no snapshot", T0)
    assert ("exposed" in html.shoot(row, "/r/", NOW).html) is (status != "True")


def seed(*conditions: Tree, **metadata: str) -> Object:
    return Object(
        to_bytes(
            {
                "apiVersion": Seed.resource.api_version,
                "kind": "Seed",
                "metadata": {"name": "east", **metadata},
                "spec": {"provider": {"type": "local", "region": "a"}},
                "status": {"conditions": list(conditions)},
            }
        )
    )


@pytest.mark.parametrize(
    ("object_", "health", "word"),
    [
        (seed(), Health.UNKNOWN, "Not reported yet"),
        (seed(condition(GARDENLET_READY, "True")), Health.READY, "Ready"),
        (seed(condition(GARDENLET_READY, "Unknown", message="silent")), Health.FAILING, "Silent"),
        (seed(condition(GARDENLET_READY, "False")), Health.FAILING, "Not ready"),
        (seed(condition(GARDENLET_READY, "True"), deletionTimestamp=T0), Health.CHANGING, "Deleting"),
    ],
)
def test_state_of_a_seed_is_that_of_its_gardenlet(object_: Object, health: Health, word: str) -> None:
    assert seed_of(object_, [], "").state == (health, word)


def test_seed_counts_its_shoots_and_those_that_move() -> None:
    shoots = [
        each.decode(Shoot)
        for each in (shoot(), shoot(wanted="west"), shoot(seed="west"), shoot(seed="west", wanted="west"))
    ]
    row = seed_of(seed(), shoots, T0)
    assert (row.shoots, row.coming, row.leaving, row.renewed) == (2, 1, 1, T0)


def test_tasks_are_those_of_the_flow() -> None:
    last = operation("Reconcile", "Processing", 50, "Deploy etcd (EtcdNotReady): etcd-main is not ready")
    page = page_of(shoot(last=last))
    states = {task.name: task.state for task in page.tasks}
    assert states["Deploy etcd"] == "current"
    assert {"done", "open"} <= set(states.values())
    assert page_of(shoot()).tasks == ()


def test_epochs_and_their_faults_are_shown() -> None:
    started = '[{"epoch":1,"seed":"east","bucket":"a","started":true},{"epoch":2,"seed":"west","bucket":"b"}]'
    page = page_of(shoot(epochs=started))
    assert [(each.number, each.seed, each.started) for each in page.epochs] == [(1, "east", True), (2, "west", False)]
    broken = page_of(shoot(epochs="[7]"))
    assert broken.epochs == ()
    assert "not valid epochs" in html.epochs(broken.epochs, broken.problem)


def available(status: str, seconds: float) -> Tree:
    return condition(API_SERVER_AVAILABLE, status, time=at(seconds))


def test_timeline_has_moments_of_a_move_and_its_gap() -> None:
    before = '[{"epoch":1,"seed":"east","bucket":"a","started":true}]'
    both = (
        '[{"epoch":1,"seed":"east","bucket":"a","started":true},{"epoch":2,"seed":"west","bucket":"b","started":true}]'
    )
    states = [
        (0, shoot(available("True", -9), epochs=before)),
        (1, shoot(available("True", -9), wanted="west", epochs=before)),
        (
            2,
            shoot(
                available("True", -9), wanted="west", epochs=before, last=operation("Migrate", "Processing", time=at(2))
            ),
        ),
        (
            3,
            shoot(
                available("Progressing", 3),
                wanted="west",
                seed="west",
                epochs=before,
                last=operation("Restore", "Processing", time=at(3)),
            ),
        ),
        (
            4,
            shoot(
                available("Progressing", 3),
                wanted="west",
                seed="west",
                epochs=both,
                last=operation("Restore", "Processing", time=at(3)),
            ),
        ),
        (
            9,
            shoot(
                available("True", 8),
                wanted="west",
                seed="west",
                epochs=both,
                last=operation("Restore", "Succeeded", time=at(9)),
            ),
        ),
    ]
    line = Timeline()
    lost = []
    for (_, old), (seconds, new) in itertools.pairwise(states):
        line = advanced(line, old, new, at(seconds))
        lost.append(line.lost_at)
    assert [(moment.time, moment.kind, moment.text) for moment in line.moments] == [
        (at(1), "request", "a move from east to west is requested"),
        (at(2), "operation", "Migrate Processing"),
        (at(3), "operation", "Restore Processing"),
        (at(3), "handover", "east has handed over to west"),
        (at(3), "lost", "the API server is not reported as available"),
        (at(4), "operation", "etcd of epoch 2 may start on west"),
        (at(9), "end", "Restore Succeeded"),
        (at(8), "back", "the API server is available again after 5 s"),
    ]
    assert (line.gap, line.lost_at) == (5.0, "")
    assert lost == ["", "", at(3), at(3), ""]
    assert "API gap: 5 s" in html.timeline(line, NOW)


def test_timeline_of_a_cancelled_move_says_so() -> None:
    line = advanced(Timeline(), shoot(wanted="west"), shoot(), T0)
    assert [moment.text for moment in line.moments] == ["the move is cancelled: the shoot stays on east"]


def test_timeline_stays_as_it_is_without_a_moment() -> None:
    line = Timeline()
    assert advanced(line, shoot(), shoot(metadata={"labels": {"a": "b"}}), T0) is line
    assert advanced(line, None, shoot(wanted="west"), T0) is line
    assert advanced(line, shoot(), Object(b'{"kind":"Shoot","metadata":{"name":"a"},"spec":7}'), T0) is line


def test_timeline_is_bounded() -> None:
    line = Timeline()
    for _ in range(MOST_MOMENTS):
        line = advanced(line, shoot(), shoot(wanted="west"), T0)
        line = advanced(line, shoot(wanted="west"), shoot(), T0)
    assert len(line.moments) == MOST_MOMENTS


def test_advice_on_shoots_is_the_prose_of_a_reason() -> None:
    meaning, takes = advice(ShootReason.STORE_UNREADABLE)
    assert meaning.startswith("etcd's agent can't read its bucket")
    assert takes == "somebody has to act"
    assert advice("OfSomebodyElse") == ("", "")


def test_no_part_of_a_shoot_is_an_element_of_a_tenant() -> None:
    errors = [{"description": HOSTILE, "taskID": HOSTILE}]
    page = page_of(
        shoot(
            condition(HOSTILE, "False", HOSTILE, HOSTILE),
            seed=HOSTILE,
            last=operation(HOSTILE, HOSTILE, 40, HOSTILE),
            epochs=HOSTILE,
            lastErrors=errors,
            technicalID=HOSTILE,
        )
    )
    line = advanced(Timeline(), shoot(), shoot(wanted=HOSTILE), T0)
    row = seed_of(seed(condition(GARDENLET_READY, "False", message=HOSTILE)), [], HOSTILE)
    parser = Elements()
    for text in (
        html.shoot(page.row, "/r/", NOW).html,
        html.seed(row, NOW).html,
        html.head(page, NOW),
        html.tasks(page.tasks),
        html.conditions(page, NOW),
        html.epochs(page.epochs, page.problem),
        html.timeline(line, NOW),
    ):
        parser.feed(text)
        assert not re.search("[\u202e\x1b]", text)
    assert parser.active == set()
