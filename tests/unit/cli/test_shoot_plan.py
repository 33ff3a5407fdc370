"""Plans of moves: the times in them, and what they say where something lacks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import msgspec
import pytest

from espalier.api.etcd.timing import Timing
from espalier.api.gardener import move_times
from espalier.api.gardener.garden.backups import BackupBucket, BackupBucketSpec, BackupBucketStatus, BucketProvider
from espalier.api.gardener.garden.seed import BUCKET_REACHABLE, GARDENLET_READY, CredentialsReference, Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.move_times import MoveTimes
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary.metadata_keys import GIVE_UP_AFTER, OWNERSHIP
from espalier.api.gardener.vocabulary.operations import Condition, LastOperation
from espalier.api.meta import ObjectMeta, Tree
from espalier.api.resource import Resource
from espalier.cli.backups.election_times import read_times
from espalier.cli.kit.failures import Usage
from espalier.cli.programs.garden import config_of
from espalier.cli.shoots.shoot_moves import check_seed
from espalier.cli.shoots.shoot_plan import Plan, Seen, bad_case, good_case
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden
from espalier.kube.objects import Object, encode_json
from espalier.shoots.garden.operations import failure, has_settled, pending_tasks


def seed(name: str, ready: str = "True") -> Seed:
    condition = {"type": GARDENLET_READY, "status": ready, "message": "" if ready == "True" else "it is silent"}
    spec = {"provider": {"type": "local"}, "backup": {"provider": "local"}}
    tree = {"metadata": {"name": name, "uid": f"uid-of-{name}"}, "spec": spec, "status": {"conditions": [condition]}}
    return msgspec.convert(tree, Seed)


def shoot(**status: object) -> Object:
    last = {"type": "Reconcile", "state": "Succeeded", "progress": 100}
    tree: Tree = {
        "apiVersion": Shoot.resource.api_version,
        "kind": "Shoot",
        "metadata": {"name": "apple", "namespace": "garden-dev", "uid": "1"},
        "spec": {"provider": {"type": "local"}, "seedName": "east"},
        "status": {"seedName": "east", "lastOperation": last, **status},
    }
    return Object(encode_json(tree))


def seen(destination: str, *seeds: Seed, of: Object | None = None) -> Seen:
    return Seen(of or shoot(), destination, {seed_.metadata.name: seed_ for seed_ in seeds}, (), {}, {})


def test_silent_source_is_not_waited_for() -> None:
    alive = Plan.of(seen("west", seed("east"), seed("west")))
    silent = Plan.of(seen("west", seed("east", "Unknown"), seed("west")))
    assert {where for where, _ in alive.steps} == {"east", "west"}
    assert {where for where, _ in silent.steps} == {"west"}
    assert alive.at_risk.startswith("nothing that was acknowledged")
    assert "since the last delta snapshot" in silent.at_risk


def test_unready_destination_is_shown_but_not_refused() -> None:
    planned = Plan.of(seen("west", seed("east"), seed("west", "Unknown")))
    assert planned.refusals == ()
    findings = {finding.what: (finding.ready, finding.message) for finding in planned.findings}
    assert findings["destination west is ready"] == (False, "seed west is not ready: it is silent")


def test_bucket_of_a_source_is_that_of_its_data() -> None:
    owned = shoot().tree
    owned["metadata"]["annotations"] = {OWNERSHIP: Ownership().add("east", "uid-1").start(1, "east").render()}
    spec = BackupBucketSpec(
        provider=BucketProvider(type="local"), credentials_ref=CredentialsReference(name="s", namespace="garden")
    )
    done = BackupBucketStatus(last_operation=LastOperation("Create", "Succeeded"))
    bucket = BackupBucket(metadata=ObjectMeta(name="uid-1"), spec=spec, status=done)
    there = replace(seen("west", seed("west"), of=Object(encode_json(owned))), buckets={"uid-1": bucket})
    findings = {finding.what: (finding.ready, finding.message) for finding in Plan.of(there).findings}
    assert findings["source east renews its Lease"] == (False, "there is no such seed")
    assert findings["bucket of source east is ready"][0]
    gone = {finding.what: finding.message for finding in Plan.of(replace(there, buckets={})).findings}
    assert gone["bucket of source east is there"] == "found no BackupBucket uid-1"
    unknown = {finding.what: finding.message for finding in Plan.of(seen("nowhere")).findings}
    assert unknown["bucket of source east is there"] == "there is no Seed east, which names it"


BACKUPS = "backups are current, and others can read them"


def test_unreported_facts_are_not_guessed() -> None:
    findings = {finding.what: finding.ready for finding in Plan.of(seen("west", seed("east"), seed("west"))).findings}
    assert findings[BACKUPS] is None


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", None)])
def test_backups_are_as_last_reported_by_the_source(status: str, ready: bool | None) -> None:
    condition = {"type": "ReadyForDisaster", "status": status, "message": "so it is", "lastUpdateTime": "noon"}
    reported = shoot(conditions=[condition])
    findings = {
        finding.what: finding for finding in Plan.of(seen("west", seed("east"), seed("west"), of=reported)).findings
    }
    assert (findings[BACKUPS].ready, findings[BACKUPS].message) == (ready, "so it is (as of noon)")
    lost = Plan.of(seen("west", seed("east", "Unknown"), seed("west"), of=reported))
    assert lost.at_risk.endswith("(so it is, as of noon)")


@pytest.mark.parametrize(("status", "ready"), [("True", True), ("False", False), ("Unknown", None), ("", None)])
def test_destination_reports_whether_it_reaches_store(status: str, ready: bool | None) -> None:
    west = seed("west")
    condition = Condition(f"{BUCKET_REACHABLE}east", status, message="so it is", last_update_time="noon")
    if status:
        west.status.conditions.append(condition)
    findings = {finding.what: finding for finding in Plan.of(seen("west", seed("east"), west)).findings}
    network = findings["the network of destination west reaches the store of source east"]
    assert network.ready is ready
    assert network.message == ("so it is (as of noon)" if status else "its gardenlet has not reported it yet")


def test_times_are_those_with_which_destination_runs() -> None:
    slow = MoveTimes(Timing(lease_wait=1000), dns_ttl=17)
    base = seen("west", seed("east"), seed("west"))
    plan = Plan.of(replace(base, times={"west": slow}))
    assert {1000, 7} <= {seconds for _, seconds in plan.bad_case.parts}
    assert plan.times_note.startswith("Times are those of the gardenlet of seed west")
    assert Plan.of(base).times_note.startswith("Times are defaults")
    differ = Plan.of(replace(base, times={"west": slow, "east": MoveTimes()}))
    assert differ.times_note.startswith("Seeds east and west run with different times")


@pytest.mark.parametrize(
    ("told", "waits"), [("15", 15), (None, 900), ("soon", 900), ("nan", 900), ("inf", 900), ("-3", 900)]
)
def test_garden_tells_when_it_gives_up(told: str | None, waits: float) -> None:
    east = seed("east")
    if told is not None:
        east.metadata.annotations[GIVE_UP_AFTER] = told
    plan = Plan.of(seen("west", east, seed("west")))
    assert dict(plan.bad_case.parts)["the garden gives up on the source"] == waits
    assert ("does not report its own" in plan.times_note.partition(";")[2]) is (waits != 15)


def test_times_of_a_lease_are_read_back() -> None:
    slow = MoveTimes(Timing(lease_wait=1000), dns_ttl=7)
    assert move_times.parse(slow.render()) == slow
    for text in (None, "", "{", "[]", '{"timing": {"validity": 1}}', "[" * 3000, "{}" + " " * 5000):
        assert move_times.parse(text) is None


@pytest.mark.parametrize(
    ("destination", "sentence"),
    [
        ("north", "spec.seedName: there is no such seed; found north"),
        ("east", "spec.seedName: found east, where the shoot already is, or moves to; name another seed"),
    ],
)
def test_refusals_are_those_of_admission(destination: str, sentence: str) -> None:
    assert Plan.of(seen(destination, seed("east"), seed("west"))).refusals == (sentence,)


def test_times_of_documentation_are_those_of_defaults() -> None:
    assert (good_case(MoveTimes()).total, bad_case(MoveTimes()).total) == (128, 1330)


def test_resolvers_forget_while_programs_start() -> None:
    """A time to live that is over by then costs nothing."""
    assert good_case(MoveTimes(dns_ttl=5)).total == good_case(MoveTimes(dns_ttl=10)).total == 18


def test_a_shoot_has_settled_only_where_it_shall_be() -> None:
    migrated = {"type": "Migrate", "state": "Succeeded"}
    assert has_settled(shoot().decode(Shoot))
    assert not has_settled(shoot(seedName="west").decode(Shoot))
    assert not has_settled(shoot(lastOperation=migrated).decode(Shoot))


def test_wait_of_shoot_is_reported_in_one_sentence() -> None:
    constraint = {"type": "ReadyForMigration", "status": "False", "reason": "DestinationSeedUnready", "message": "no"}
    assert pending_tasks(shoot(constraints=[constraint]).decode(Shoot)) == "DestinationSeedUnready: no"
    failed = {"type": "Restore", "state": "Failed", "description": "Deploy etcd (TaskFailed): broken"}
    errors = [{"description": "broken", "taskID": "Deploy etcd"}]
    sentence = failure(shoot(lastOperation=failed, lastErrors=errors).decode(Shoot))
    assert sentence.startswith("Restore has failed: Deploy etcd: broken")
    assert failure(shoot().decode(Shoot)) == ""


def test_times_that_are_not_safe_are_refused_at_start(tmp_path: Path) -> None:

    file = tmp_path / "timing.json"
    file.write_text('{"validity": 1}')
    with pytest.raises(Usage, match=r"validity: .* too small"):
        read_times(file)
    file.write_text('{"vality": 15}')
    with pytest.raises(Usage, match="vality"):
        read_times(file)
    with pytest.raises(Usage, match="cannot read"):
        read_times(file.with_name("none"))
    with pytest.raises(Usage, match="--give-up-after: found 30s, allowed is --heartbeat-grace"):
        config_of("40s", "30s")


def test_programs_get_names_of_fields_as_elsewhere() -> None:
    facts = Plan.of(seen("west", seed("east"), seed("west"))).facts()
    assert {"goodCase", "badCase", "isSourceAlive", "atRisk", "timesNote"} <= facts.keys()
    assert not [name for name in facts if "_" in name]


async def test_seeds_that_may_not_be_listed_are_not_judged() -> None:
    class Tenant:
        async def list(self, resource: Resource) -> None:
            raise Forbidden.of(f"{resource.plural} is forbidden")

    await check_seed(cast(Client, Tenant()), "mars")
