"""The care of shoots: the shoots whose conditions a gardenlet reports, and when it says nothing."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.garden.backups import BackupBucket
from espalier.api.gardener.garden.shoot import CONTROL_PLANE_HEALTHY
from espalier.api.gardener.ownership import Ownership, OwnershipError
from espalier.kube.errors import NotFound, Unreachable
from espalier.kube.objects import Object
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.runtime.controllers.writer import Precondition
from espalier.shoots.gardenlet.config import GardenletConfig
from espalier.shoots.gardenlet.reports import care
from espalier.shoots.gardenlet.reports.care import Care
from espalier.shoots.gardenlet.scope import Scope
from tests.support.gardens.gardenlet_scopes import STARTED, TECHNICAL_ID, an_object, scope, shoot


def caring(epochs: Ownership = STARTED, claims: str = "", *, invalid: bool = False, renewed: bool = True) -> Care:
    """The care of seed `a`, in which there is nothing yet."""

    def observed(live: Any, _now: object) -> Scope:
        if invalid:
            raise OwnershipError("these are not valid epochs")
        return scope(epochs, object=live.shoot)

    observer = SimpleNamespace(scope=observed, technical_id_conflict=lambda _shoot: claims)
    tools = SimpleNamespace(
        config=GardenletConfig("a"), clock=SystemClock(), shoots=None, read_backup=None, bucket_providers={}
    )
    return Care(cast(Any, observer), cast(Any, tools), random.Random(1), lambda: renewed)


async def checked(of: Care, object_: Object) -> tuple[Outcome, Any]:
    observation = of.observe(object_)
    assert observation is not None
    outcome = await of.check(observation)
    return outcome, care._report(observation, outcome)


async def test_conditions_are_written_to_the_seen_version() -> None:
    """The garden writes conditions beside them."""
    outcome, report = await checked(caring(), shoot())
    assert isinstance(outcome, Wait)
    assert CONTROL_PLANE_HEALTHY in [condition.type for condition in report.status.conditions]
    assert report.precondition is Precondition.VERSION


@pytest.mark.parametrize(
    ("of", "reason"),
    [
        (caring(renewed=False), "SeedLeaseNotRenewed"),
        (caring(STARTED.add("b", "bucket-b")), ""),
        (caring(Ownership()), ""),
        (caring(invalid=True), ""),
    ],
    ids=["the garden reports them", "another seed's", "nobody's", "unreadable epochs"],
)
async def test_foreign_shoots_are_not_reported(of: Care, reason: str) -> None:
    outcome, report = await checked(of, shoot())
    assert isinstance(outcome, Wait if reason else Done)
    assert getattr(outcome, "reason", "") == reason
    assert report is None


@pytest.mark.parametrize(
    ("object_", "claims", "is_observed"),
    [
        (shoot(), "", True),
        (shoot(wanted="b"), "", False),
        (shoot(wanted="b", has="b"), "", False),
        (shoot(), "it is another's", False),
    ],
    ids=["own", "leaves", "another seed's", "claims another's objects"],
)
def test_leaving_shoot_is_not_observed(object_: Object, claims: str, is_observed: bool) -> None:
    assert (caring(claims=claims).observe(object_) is not None) is is_observed


async def test_answers_go_with_the_shoot_and_epoch() -> None:
    """Answers about another etcd than the present one say nothing."""
    of, live = caring(), shoot()
    await checked(of, live)
    asked = of._checks[live.key]
    await checked(of, live)
    assert of._checks[live.key] is asked
    asked.epoch += 1
    await checked(of, live)
    assert of._checks[live.key] is not asked
    of.forget(live.key)
    assert of._checks == {}


@pytest.mark.parametrize(("epoch", "counts"), [(1, True), (2, False)])
async def test_answer_counts_for_its_own_epoch_alone(epoch: int, counts: bool) -> None:
    async def call(*_: object) -> bytes:
        return msgspec.json.encode({"epoch": epoch, "serves": True, "deltaPeriod": 60})

    of = caring()
    of._tools = cast(Any, SimpleNamespace(call=call))
    assert (await of._agent_status(scope()) is not None) is counts


@pytest.mark.parametrize(
    ("error", "problem"), [(NotFound.of("gone"), "does not exist"), (Unreachable("no answer"), None)]
)
async def test_missing_secret_is_reported_and_outage_is_not(error: Exception, problem: str | None) -> None:
    async def get(*_: object) -> Object:
        raise error

    of = caring()
    writer = SimpleNamespace(client=SimpleNamespace(get=get))
    of._tools = cast(Any, SimpleNamespace(garden=writer, read_backup=None, bucket_providers={}))
    reference = {"name": "backup-a", "namespace": "garden"}
    spec = {"provider": {"type": "local", "region": "here"}, "seedName": "a", "credentialsRef": reference}
    bucket = an_object(BackupBucket.resource, "bucket-a", spec=spec).decode(BackupBucket)
    stored = {"replicas": 1, "backup": {"store": {"container": "a"}}}
    etcd = an_object(Etcd.resource, "etcd-main", TECHNICAL_ID, spec=stored)
    result = await of._bucket(scope(etcd=etcd, bucket=bucket))
    assert (result is None) is (problem is None)
    assert result is None or (str(problem) in result[0] and result[1:] == (True, False))
