"""Refusals of single tasks, whatever the order of the flow is."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, DEPLOYMENT, NAMESPACE
from espalier.api.definitions.crd import crd_of
from espalier.api.etcd.calls import CopyOperationStatus, InitiateCopyOperation
from espalier.api.etcd.ownership import CopyOperation, Status
from espalier.api.etcd.ownership import Writer as Side
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.garden.backups import BackupBucket, BackupBucketSpec, BackupEntry, BucketProvider
from espalier.api.gardener.garden.credentials_binding import CredentialsBinding
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.meta import Tree
from espalier.kube.objects import Object, encode_json
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.outcome import Continue, Done, Wait
from espalier.runtime.controllers.sources import Expiry
from espalier.runtime.controllers.writer import NameTaken, Writer
from espalier.shoots.flow.graph import Flow
from espalier.shoots.flow.task import Action, Failure, Verdict
from espalier.shoots.garden.roles import in_project
from espalier.shoots.gardenlet import clusters, leases, rendering
from espalier.shoots.gardenlet.comparison import stamped
from espalier.shoots.gardenlet.config import GardenletConfig
from espalier.shoots.gardenlet.context import Live
from espalier.shoots.gardenlet.names import BACKUPS_SINCE, INITIATED_AT, SHOOT_UID, WOKEN_AT
from espalier.shoots.gardenlet.reconciling import steps
from espalier.shoots.gardenlet.reconciling.flows import LEAVE, MIGRATE
from espalier.shoots.gardenlet.scope import ExtensionResource, Scope
from espalier.shoots.gardenlet.tasks import backups, control_plane, extensions, secrets
from espalier.shoots.gardenlet.tasks.acts import CONFIRMED
from espalier.shoots.secrets.names import CA_ETCD_PEER
from espalier.shoots.state import digests
from espalier.shoots.state.stored import StoredState
from tests.support.gardens.gardenlet_scopes import (
    NOW,
    STARTED,
    TECHNICAL_ID,
    an_object,
    context,
    etcd,
    peer_secrets,
    scope,
    shoot,
)
from tests.support.servers.embedded_server import client_of, new_server


def test_no_etcd_is_deployed_before_recorded_epoch() -> None:
    """The next destination would take the data over from the epoch before."""
    for epochs in (Ownership().add("a", "bucket-a"), STARTED.add("b", "bucket-b").start(2, "b"), Ownership()):
        verdict = backups.deploy_etcd(context(scope(epochs)))
        assert isinstance(verdict, Wait)
        assert verdict.reason == "EpochNotStarted"


COPY = an_object(
    Etcd.resource,
    "etcd-main",
    TECHNICAL_ID,
    metadata={"annotations": {metadata_keys.EPOCH: "1"}},
    spec={"replicas": 1, "backup": {"store": {"container": "a"}, "sourceStore": {"container": "b"}}},
)


def infrastructure(last: str, order: str = "", *, is_held: bool = False) -> ExtensionResource:
    kind, state = last.split()
    metadata: Tree = {"annotations": {metadata_keys.OPERATION: order}} if order else {}
    if is_held:
        metadata["finalizers"] = [metadata_keys.finalizer("Infrastructure")]
    status = {"lastOperation": {"type": kind, "state": state}}
    made = an_object(
        Infrastructure.resource, "apple", TECHNICAL_ID, metadata=metadata, spec={"type": "local"}, status=status
    )
    return ExtensionResource(Infrastructure, made)


@pytest.mark.parametrize(
    ("extension_resource", "goes"),
    [
        (infrastructure("Migrate Succeeded"), True),
        (infrastructure("Reconcile Succeeded"), False),
        (infrastructure("Migrate Processing", "migrate"), False),
        (infrastructure("Migrate Error", "migrate"), False),
        (infrastructure("Migrate Succeeded", "restore"), False),
        (infrastructure("Migrate Succeeded", is_held=True), False),  # a word in its status, and nothing else
    ],
)
def test_resource_not_migrated_is_not_removed(extension_resource: ExtensionResource, goes: bool) -> None:
    verdict = extensions.delete_migrated(Infrastructure)(
        context(scope(extensions=(extension_resource,)), OperationType.MIGRATE)
    )
    assert isinstance(verdict, Action if goes else Wait)


@pytest.mark.parametrize("operation", [OperationType.CREATE, OperationType.RECONCILE, OperationType.RESTORE])
def test_what_has_a_state_is_restored_in_any_operation(operation: OperationType) -> None:
    """An operation follows from a status, which says Create where somebody has removed it."""
    entries = [{"kind": "Infrastructure", "name": "apple", "state": "last"}]
    state = an_object(ShootState.resource, "apple", "garden-dev", extensions=entries)
    ctx = context(scope(state=state, object=shoot(last="Create Processing")), operation)
    body: Tree = {"metadata": {"name": "apple", "namespace": TECHNICAL_ID, "annotations": {}}, "spec": {}}
    wanted = rendering.Rendered(Infrastructure, "apple", body)
    verdict = extensions._deploy(ctx, wanted)
    assert isinstance(verdict, Action)
    assert verdict.what == "read the state of Infrastructure apple"
    ctx.live.stored = StoredState(state, {})
    verdict = extensions._deploy(ctx, wanted)
    assert isinstance(verdict, Action)
    assert verdict.what == "apply Infrastructure apple, to wait-for-state"


def test_unneeded_resources_lose_their_states() -> None:
    """One that is merely gone is restored with its state, as is that of a kind which nobody renders here."""
    kinds = (("Infrastructure", "apple"), ("Worker", "apple"), ("Extension", "toy"), ("Foreign", "x"))
    entries = [{"kind": kind, "name": name, "state": "last"} for kind, name in kinds]
    state = an_object(ShootState.resource, "apple", "garden-dev", extensions=entries)
    ctx = context(scope(state=state, extensions=(infrastructure("Create Succeeded"),)))
    ctx.__dict__["rendered"] = (
        rendering.Rendered(Worker, "apple", {}),
        rendering.Rendered(Infrastructure, "apple", {}),
    )
    verdict = extensions.delete_stale(ctx)
    assert isinstance(verdict, Action)
    assert verdict.what == "drop the states of Extension toy"


@pytest.mark.parametrize(("stored", "is_stored"), [(None, False), ("first", False), ("last", True)])
def test_resource_with_an_unstored_state_stays(stored: str | None, is_stored: bool) -> None:
    status: Tree = {"state": "last", "lastOperation": {"type": "Migrate", "state": "Succeeded"}}
    made = an_object(Infrastructure.resource, "apple", TECHNICAL_ID, spec={"type": "local"}, status=status)
    entries = [{"kind": "Infrastructure", "name": "apple", "state": stored}] if stored else []
    state = an_object(ShootState.resource, "apple", "garden-dev", extensions=entries)
    ctx = context(scope(extensions=(ExtensionResource(Infrastructure, made),), state=state), OperationType.MIGRATE)
    verdict = extensions.wait_until_persisted(ctx)
    if is_stored:
        assert isinstance(verdict, Done)
    else:
        assert isinstance(verdict, Wait)
        assert verdict.message == "the state of Infrastructure apple is not in the ShootState yet"


def test_resource_without_its_state_gets_no_order() -> None:
    resource = infrastructure("Reconcile Succeeded", metadata_keys.WAIT_FOR_STATE)
    ctx = context(scope(extensions=(resource,)), OperationType.RESTORE)
    verdict = extensions.deploy(Infrastructure)(ctx)
    assert isinstance(verdict, Failure)
    assert "restore the ShootState; it is not recreated without its state" in verdict.message


class Crashes(Writer):
    """Dies before it gives an order."""

    async def merge(self, *_: object, **__: object) -> Object:
        raise asyncio.CancelledError


async def test_resource_has_its_state_before_a_restore() -> None:
    """Else an extension would find none, and make anew what is there."""
    server = new_server()
    await server.start()
    client = client_of(server)
    await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(Infrastructure))
    await client.create(NAMESPACE, {"metadata": {"name": TECHNICAL_ID}})
    waits = {metadata_keys.OPERATION: metadata_keys.WAIT_FOR_STATE}
    metadata = {"name": "apple", "namespace": TECHNICAL_ID, "annotations": waits}
    made = await client.create(Infrastructure.resource, {"metadata": metadata, "spec": {"type": "local"}})
    parts = scope(extensions=(ExtensionResource(Infrastructure, made),))
    for writer, order in ((Crashes(client, {}), metadata_keys.WAIT_FOR_STATE), (Writer(client, {}), "restore")):
        ctx = context(parts, OperationType.RESTORE, seed=writer)
        ctx.live.stored = cast(StoredState, SimpleNamespace(state_for=lambda *_: b'{"id":7}'))
        verdict = extensions.deploy(Infrastructure)(ctx)
        assert isinstance(verdict, Action)
        with suppress(asyncio.CancelledError):
            await verdict.run()
        resource = await client.get(Infrastructure.resource, "apple", TECHNICAL_ID)
        assert resource.tree["status"]["state"] == {"id": 7}
        assert resource.metadata.annotations[metadata_keys.OPERATION] == order
    await server.close()


@pytest.mark.parametrize(
    ("last", "given", "has", "stored", "is_given"),
    [
        ("Restore Error", "1", "1", "2", True),
        ("Restore Error", "", "", "2", True),  # it was ordered without any
        ("Restore Error", "1", "2", "2", True),  # who gave it died before it said so
        ("Restore Error", "1", "3", "2", False),  # its extension knows more by now
        ("Restore Error", "1", "1", "1", False),
        ("Restore Processing", "1", "1", "2", False),
        ("Restore Succeeded", "1", "1", "2", False),
    ],
)
def test_failing_restore_gets_corrected_state(last: str, given: str, has: str, stored: str, is_given: bool) -> None:
    kind, state = last.split()
    marks = {metadata_keys.OPERATION: metadata_keys.RESTORE}
    if given:
        marks[metadata_keys.GIVEN_STATE] = digests.of_value(given.encode())
    status: Tree = {"lastOperation": {"type": kind, "state": state}, **({"state": int(has)} if has else {})}
    metadata = {"annotations": marks}
    made = an_object(
        Infrastructure.resource, "apple", TECHNICAL_ID, metadata=metadata, spec={"type": "local"}, status=status
    )
    of = scope(STARTED.add("b", "bucket-b"), extensions=(ExtensionResource(Infrastructure, made),))
    ctx = context(of, OperationType.RESTORE)
    ctx.live.stored = cast(StoredState, SimpleNamespace(state_for=lambda *_: stored.encode()))
    verdict = extensions.deploy(Infrastructure)(ctx)
    assert (isinstance(verdict, Action) and verdict.what.startswith("give Infrastructure apple its state")) is is_given


@pytest.mark.demand(G72="task by task")
@pytest.mark.parametrize(
    ("answered", "status", "is_over"), [(1, Status.READY, True), (1, Status.INITIAL, False), (2, Status.READY, False)]
)
async def test_etcd_is_handed_over_once_its_epoch_is_ready(answered: int, status: Status, is_over: bool) -> None:
    asked: list[InitiateCopyOperation] = []

    async def call(_namespace: str, _path: str, body: bytes, _files: object) -> bytes:
        asked.append(msgspec.json.decode(body, type=InitiateCopyOperation))
        return msgspec.json.encode(CopyOperationStatus(1, True, CopyOperation(answered, status, Side.SOURCE)))

    live = etcd(1, **{INITIATED_AT: NOW.isoformat()})
    of = context(scope(etcd=live), OperationType.MIGRATE, call=call, handovers=Expiry())
    verdict = backups.hand_over_etcd(of)
    assert isinstance(verdict, Action)
    assert isinstance(await verdict.run(), Continue if is_over else Wait)
    assert [call.epoch for call in asked] == [1]


@pytest.mark.demand(G73="task by task")
def test_move_after_the_hand_over_is_not_reverted() -> None:
    """It would begin anew from what was there before, or found a second shoot."""

    def operation(live: Object | None) -> object:
        taken_back = shoot("a", "a", "Migrate Processing")
        return steps.operation_of(scope(object=taken_back, etcd=live))

    assert operation(etcd()) is OperationType.RESTORE
    for copy in (operation(etcd(1, **{INITIATED_AT: NOW.isoformat()})), operation(None)):
        assert getattr(copy, "reason", "") == "HandedOver"


def test_uncounted_seed_releases_no_foreign_epoch() -> None:
    """Extensions of the epoch's own seed may still act by their lease, for which the next seed would not wait."""
    of_b = Ownership().add("b", "bucket-b").start(1, "b")
    assert isinstance(backups.record_release(context(scope(of_b), OperationType.MIGRATE)), Done)
    assert isinstance(backups.record_release(context(scope(), OperationType.MIGRATE)), Action)


async def test_the_cluster_of_another_shoot_is_not_written() -> None:
    server = new_server()
    await server.start()
    client = client_of(server)
    await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(Cluster))
    metadata = {"name": TECHNICAL_ID, "annotations": {SHOOT_UID: "2"}}
    before = await client.create(Cluster.resource, {"metadata": metadata, "spec": {}})
    with pytest.raises(NameTaken, match="of the shoot with UID 2"):
        await clusters.sync(Writer(client, {}), scope(), NOW, 120)
    assert (await client.get(Cluster.resource, TECHNICAL_ID)).resource_version == before.resource_version
    await server.close()


async def test_lease_is_renewed_forward_for_the_read_shoot() -> None:
    """A read that took long may end after a later one; and a Cluster of the name may be another shoot's."""
    server = new_server()
    await server.start()
    client = client_of(server)
    await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(Cluster))
    writer = Writer(client, {})
    made = await client.create(Cluster.resource, {"metadata": {"name": TECHNICAL_ID}, "spec": {}})
    for seconds, expires in ((60, "2026-01-01T00:03:00.000000Z"), (0, "2026-01-01T00:03:00.000000Z")):
        await clusters.renew(writer, made, NOW + timedelta(seconds=seconds), 120)
        made = await client.get(Cluster.resource, TECHNICAL_ID)
        assert made.decode(Cluster).spec.lease_expiration == expires
    await server.close()


async def renewals(live: Object, cached: Object, uid: str = "1", conflict: str = "") -> tuple[int, int]:
    """Reads of a Shoot and renewals of its lease in a reconcile of seed `a`, whose Cluster is annotated with `uid`."""
    reads: list[Object] = []
    renewed: list[Object] = []

    async def read(*_: object) -> Object:
        reads.append(live)
        return live

    async def merge(_resource: object, object_: Object, *_: object) -> None:
        renewed.append(object_)

    marks = {"annotations": {SHOOT_UID: uid}}
    cluster = an_object(Cluster.resource, TECHNICAL_ID, metadata=marks, spec={"leaseExpiration": ""})
    watched = SimpleNamespace(get=lambda _key: cluster, subscribe=lambda _changed: None)
    observer = SimpleNamespace(
        shoot=lambda _key: cached,
        technical_id_conflict=lambda _shoot: conflict,
        technical_id=lambda _shoot: TECHNICAL_ID,
        seed={Cluster.resource: watched},
        garden={Shoot.resource: watched},
    )
    tools = SimpleNamespace(
        config=GardenletConfig("a"),
        clock=SystemClock(),
        rng=None,
        garden=SimpleNamespace(client=SimpleNamespace(get=read)),
        seed=SimpleNamespace(merge=merge),
    )
    await leases.controller(cast(Any, observer), cast(Any, tools))._reconcile(live.key)
    return len(reads), len(renewed)


@pytest.mark.parametrize(("uid", "conflict"), [("1", ""), ("2", ""), ("1", "it belongs to another shoot")])
async def test_lease_of_a_foreign_cluster_is_not_renewed(uid: str, conflict: str) -> None:
    assert await renewals(shoot(), shoot(), uid, conflict) == (1, uid == "1" and not conflict)


@pytest.mark.parametrize("live", [shoot("b", "b"), shoot("b", "a")], ids=["elsewhere", "migrating"])
async def test_no_lease_is_renewed_of_a_shoot_that_leaves(live: Object) -> None:
    """The cache does not show it yet; the next seed waits until the last lease is over."""
    assert await renewals(live, shoot()) == (1, 0)


async def test_shoots_of_other_seeds_are_not_read_for_leases() -> None:
    """Each seed would read each Shoot of the garden live, several times a minute."""
    assert await renewals(shoot("b", "b"), shoot("b", "b")) == (0, 0)


def test_lost_shoots_etcd_waits_for_the_next_start() -> None:
    """If the next one never starts, the data are still here."""
    counted = STARTED.add("b", "bucket-b")
    assert isinstance(backups.wait_for_successor(context(scope(counted))), Wait)
    assert isinstance(backups.wait_for_successor(context(scope(counted.start(2, "b")))), Done)


AGAIN = STARTED.add("b", "bucket-b").add("a", "bucket-a")
"""The shoot is back at seed `a` in epoch 3; `b` never started."""


@pytest.mark.parametrize(
    ("epochs", "left", "named", "leaves"),
    [
        (AGAIN, 1, "a", True),
        (AGAIN, 3, "a", False),
        (AGAIN, None, "a", False),
        (STARTED, 1, "a", False),
        (STARTED.add("b", "bucket-b"), 1, "a", False),
        (STARTED.add("b", "bucket-b"), 1, "b", True),
        (STARTED, 1, "b", False),
        (Ownership(), 1, "b", False),
    ],
    ids=[
        "earlier stay",
        "this stay",
        "nothing left",
        "present",
        "not counted here yet",
        "lost",
        "not counted there yet",
        "no epochs",
    ],
)
async def test_leftovers_go_once_a_later_epoch_counts(
    epochs: Ownership, left: int | None, named: str, leaves: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one namespace a later epoch would take over what the earlier one has stopped, or never carried."""
    did: list[str] = []
    marks = {"annotations": {metadata_keys.EPOCH: str(left)}} if left else {}
    there = an_object(NAMESPACE, TECHNICAL_ID, metadata=marks)
    live = shoot(named, named)
    looked = scope(epochs, object=live, namespace=there)
    observer = cast(Any, SimpleNamespace(scope=lambda _live, _now: looked))
    tools = cast(Any, SimpleNamespace(config=SimpleNamespace(seed="a"), clock=SystemClock()))

    async def ran(flow: Flow[Any], *_: object) -> Any:
        did.append(flow.name)
        return SimpleNamespace(outcome=Done())

    monkeypatch.setattr(steps, "_run", ran)
    attempt = steps.Attempt(observer, tools, Live(live, None), NOW)
    await steps.observe_shoot(attempt)
    outcome = await steps.leave(attempt)
    assert did == ([LEAVE.name] if leaves else [])
    assert isinstance(outcome, Done if leaves or named != "a" else Continue)


@pytest.mark.parametrize(
    ("epochs", "live", "hands_over"),
    [
        (AGAIN, etcd(1), True),
        (STARTED.add("b", "bucket-b").start(2, "b").add("a", "bucket-a"), etcd(1), False),
        (AGAIN, COPY, False),
    ],
    ids=["it has the data", "another seed has later data", "a copy"],
)
def test_earlier_etcd_is_handed_over_if_it_is_newest(epochs: Ownership, live: Object, hands_over: bool) -> None:
    """The copy takes what it last stored: what it has not stored yet would be lost with it."""
    verdict = backups.wait_for_successor(context(scope(epochs, etcd=live), OperationType.MIGRATE))
    assert isinstance(verdict, Action if hands_over else Done)


def test_etcd_of_shoot_that_is_gone_is_kept_for_nobody() -> None:
    counted = STARTED.add("b", "bucket-b")
    assert isinstance(backups.wait_for_successor(context(scope(counted), OperationType.DELETE)), Done)


def test_etcd_that_never_started_makes_way_for_a_copy() -> None:
    back = Ownership().add("b", "bucket-b").start(1, "b").add("a", "bucket-a")
    verdict = backups.copy_backups(context(scope(back, etcd=etcd(2))))
    assert isinstance(verdict, Action)
    assert verdict.what == "confirm the deletion of Etcd etcd-main"
    verdict = backups.copy_backups(context(scope(back, etcd=etcd(2, **CONFIRMED))))
    assert isinstance(verdict, Action)
    assert verdict.what == "delete Etcd etcd-main"


@pytest.mark.parametrize(
    ("seconds", "observed", "is_over"),
    [(0, 1, False), (0, 2, True), (Timing().snapshot_timeout + 1, 1, True)],
    ids=["old", "ready", "too late"],
)
def test_woken_etcd_is_awaited_as_requested_now(seconds: float, observed: int, is_over: bool) -> None:
    """It slept, so it has nothing that its bucket has not: a move goes on without it in the end."""
    woken = (NOW - timedelta(seconds=seconds)).isoformat()
    live = an_object(
        Etcd.resource,
        "etcd-main",
        TECHNICAL_ID,
        metadata={"generation": 2, "annotations": {WOKEN_AT: woken}},
        spec={"replicas": 1},
        status={"ready": True, "observedGeneration": observed},
    )
    assert isinstance(backups.wake_etcd(context(scope(etcd=live))), Done) == is_over


def test_program_has_ended_once_its_pods_have() -> None:
    stopped = control_plane.stop("kube-apiserver")
    assert isinstance(stopped(context(scope(pod_roles=frozenset({"apiserver"})))), Wait)
    assert isinstance(stopped(context(scope())), Done)


@pytest.mark.demand("G38")
@pytest.mark.parametrize(("replicas", "due"), [(None, True), (0, True), (1, False)])
def test_extensions_migrate_while_api_server_ends(replicas: int | None, due: bool) -> None:
    migrate = MIGRATE.tasks["Migrate extension resources"].evaluate
    live = {} if replicas is None else {"kube-apiserver": _deployment(replicas)}
    verdict = migrate(context(scope(deployments=live, pod_roles=frozenset({"apiserver"})), OperationType.MIGRATE))
    assert verdict == (Done() if due else Wait("PodsStopping", "kube-apiserver is stopped first", 5.0))


def _deployment(replicas: int) -> Object:
    return an_object(DEPLOYMENT, "kube-apiserver", TECHNICAL_ID, spec={"replicas": replicas}, status={"replicas": 1})


async def test_recreated_entry_is_not_deleted() -> None:
    """The new one may be of the next epoch, with all backups."""
    asked: list[dict[str, object]] = []

    async def delete(*_: object, **options: object) -> None:
        asked.append(options)

    seen = an_object(BackupEntry.resource, "entry", "garden-dev", spec={"bucketName": "bucket-a"})
    garden = SimpleNamespace(client=SimpleNamespace(delete=delete))
    verdict = backups.delete_backup_entries(context(scope(backup_entry=seen), OperationType.DELETE, garden=garden))
    assert isinstance(verdict, Action)
    await verdict.run()
    assert asked == [{"uid": "uid of entry"}]


BACK = Ownership().add("b", "bucket-b").start(1, "b").add("a", "bucket-a")
"""Seed `a` is to restore what `b` had."""
DELETED = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def backup_entry(seed: str, **metadata: Any) -> Object:
    spec = {"bucketName": f"bucket-{seed}", "seedName": seed}
    return an_object(BackupEntry.resource, "entry", "garden-dev", metadata=metadata, spec=spec)


@pytest.mark.parametrize("is_source", [False, True])
def test_entry_deleted_by_lost_seed_is_taken_over(is_source: bool) -> None:
    """Else the destination would wait for the finalizer of a gardenlet that is gone; one of its own it removes."""
    task, field = (
        (backups.deploy_source_backup_entry, "source_backup_entry")
        if is_source
        else (backups.deploy_backup_entry, "backup_entry")
    )
    for seed in "ba":
        live = backup_entry(seed, **DELETED)
        verdict = task(context(scope(BACK, object=shoot(**DELETED), **{field: live}), OperationType.RESTORE))
        assert isinstance(verdict, Action if seed == "b" else Wait)


def test_entry_of_a_staying_shoot_is_not_taken() -> None:
    """Its deletion deletes the backups in the bucket to which it belongs then."""
    live = backup_entry("b", **DELETED)
    assert isinstance(backups.deploy_backup_entry(context(scope(BACK, backup_entry=live), OperationType.RESTORE)), Wait)


@pytest.mark.parametrize(
    ("since", "of_shoot", "is_copied"),
    [("2", DELETED, False), ("1", DELETED, False), ("0", DELETED, True), ("", DELETED, True), ("2", {}, True)],
    ids=["deleted with the shoot", "before the last epoch", "later ones exist", "kept", "of a shoot that stays"],
)
def test_etcd_starts_empty_after_deletion_of_backups(since: str, of_shoot: Tree, is_copied: bool) -> None:
    live = backup_entry("a", annotations={BACKUPS_SINCE: since})
    looked = scope(BACK, object=shoot(**of_shoot), backup_entry=live)
    assert (backups.skip_copy(context(looked, OperationType.RESTORE)) == "") == is_copied
    annotations = rendering.etcd(looked, replicas=1)["metadata"]["annotations"]
    assert (metadata_keys.FOUNDING in annotations) == (not is_copied)
    assert (
        backups.skip_lease_wait(context(looked, OperationType.RESTORE)) == ""
    )  # extensions of the lost seed may still act


async def test_only_new_entry_of_deleted_shoot_has_none() -> None:
    created: list[Tree] = []

    async def create(_resource: object, body: Tree) -> None:
        created.append(body)

    for ownership, of_shoot in ((BACK, DELETED), (BACK, {}), (BACK.start(2, "a"), DELETED)):
        looked = scope(ownership, object=shoot(**of_shoot))
        verdict = backups.deploy_backup_entry(
            context(looked, OperationType.RESTORE, garden=SimpleNamespace(create=create))
        )
        assert isinstance(verdict, Action)
        await verdict.run()
    assert [entry["metadata"]["annotations"] for entry in created] == [{BACKUPS_SINCE: "2"}, {}, {}]


@pytest.mark.parametrize(
    ("members", "ready", "observed", "is_over"),
    [(3, 1, 2, True), (3, 0, 2, False), (3, 1, 1, False), (1, 1, 2, False)],
)
def test_one_ready_member_of_three_is_enough(members: int, ready: int, observed: int, is_over: bool) -> None:
    """API servers start with the first, while the others join: they take five seconds and more each."""
    tolerance = {"highAvailability": {"failureTolerance": {"type": "node"}}} if members == 3 else None
    bucket = BackupBucket(spec=BackupBucketSpec(BucketProvider("local")))
    tree = shoot().tree
    tree["spec"]["controlPlane"] = tolerance
    here: dict[str, Any] = {
        "bucket": bucket,
        "object": Object(encode_json(tree)),
    }
    body = stamped(rendering.etcd(scope(**here), replicas=members))
    body["metadata"] |= {"generation": 2, "creationTimestamp": NOW.isoformat()}
    body["status"] = {"ready": False, "readyReplicas": ready, "observedGeneration": observed}
    looked = scope(**here, etcd=Object(encode_json(body)))
    assert isinstance(backups.deploy_etcd(context(looked)), Done) == is_over


def three(**here: Any) -> dict[str, Any]:
    """A shoot with three members of etcd."""
    tree = shoot().tree
    tree["spec"]["controlPlane"] = {"highAvailability": {"failureTolerance": {"type": "node"}}}
    bucket = BackupBucket(spec=BackupBucketSpec(BucketProvider("local")))
    return {"bucket": bucket, "object": Object(encode_json(tree)), **here}


def test_etcd_of_three_waits_for_certificates() -> None:
    verdict = backups.deploy_etcd(context(scope(**three(secrets={}))))
    assert isinstance(verdict, Wait)
    assert verdict.reason == "PlanOutdated"
    assert isinstance(backups.deploy_etcd(context(scope(**three()))), Action)


async def test_renewal_goes_on_once_pods_are_ready() -> None:
    """The Etcd names the next Secret only when all its pods have the last one."""
    secrets_here = dict(peer_secrets())
    [before] = [name for name in secrets_here if name.startswith("etcd-peer-")]
    del secrets_here[CA_ETCD_PEER]
    body = stamped(rendering.etcd(scope(**three()), replicas=3))
    body["metadata"] |= {"generation": 2, "creationTimestamp": NOW.isoformat()}

    async def delete(_resource: object, object_: Object, _owner: object) -> None:
        del secrets_here[object_.name]

    async def apply(_resource: object, written: Tree, _owner: object) -> None:
        secrets_here[written["metadata"]["name"]] = Object(encode_json(written))

    def looked(*, is_ready: bool) -> Scope:
        body["status"] = {"ready": is_ready, "readyReplicas": 3, "observedGeneration": 2}
        return scope(**three(secrets=secrets_here, etcd=Object(encode_json(body))))

    async def renewed(*, is_ready: bool) -> str:
        ctx = context(looked(is_ready=is_ready), seed=SimpleNamespace(apply=apply, delete=delete), rng=None)
        if isinstance(verdict := secrets.renew_peers(ctx), Action):
            assert isinstance(await verdict.run(), Continue)
        name = rendering.peer_secret(looked(is_ready=is_ready))
        body["spec"]["etcd"]["peerUrlTls"]["serverTLSSecretRef"]["name"] = name
        return name

    preparing = [await renewed(is_ready=is_ready) for is_ready in (True, False, False)]
    assert before not in preparing
    assert preparing == [preparing[0]] * 3
    assert before in secrets_here, "a pod that starts again has it"
    completing = [await renewed(is_ready=is_ready) for is_ready in (True, False)]
    assert completing[0] == completing[1] != preparing[0]
    assert before not in secrets_here


async def test_deleted_secret_of_members_is_written_again() -> None:
    """Agents answer who has it alone, and the tasks of a move derive no Secrets."""
    secrets_here = dict(peer_secrets())
    body = stamped(rendering.etcd(scope(), replicas=1))
    body["metadata"]["annotations"][INITIATED_AT] = NOW.isoformat()
    named = body["spec"]["etcd"]["peerUrlTls"]["serverTLSSecretRef"]["name"]
    del secrets_here[named]

    async def apply(_resource: object, written: Tree, _owner: object) -> None:
        secrets_here[written["metadata"]["name"]] = Object(encode_json(written))

    def handed_over() -> Verdict:
        looked = scope(secrets=secrets_here, etcd=Object(encode_json(body)))
        tools = {"seed": SimpleNamespace(apply=apply), "rng": None, "handovers": Expiry()}
        return backups.hand_over_etcd(context(looked, OperationType.MIGRATE, **tools))

    verdict = handed_over()
    assert isinstance(verdict, Action)
    assert (verdict.what, await verdict.run()) == ("renew the certificates of etcd's members", Continue())
    assert named in secrets_here
    asking = handed_over()
    assert isinstance(asking, Action)
    assert asking.what == "have the agent hand etcd over"


@pytest.mark.parametrize("error", ["", "spec.backup.store: found none"])
async def test_etcd_that_does_not_start_says_why(error: str) -> None:
    async def answers(*_: object) -> bytes:
        return msgspec.json.encode(CopyOperationStatus(1, False, None, "clients may have written to this etcd"))

    bucket = BackupBucket(spec=BackupBucketSpec(BucketProvider("local")))
    body = stamped(rendering.etcd(scope(bucket=bucket), replicas=1))
    body["metadata"]["creationTimestamp"] = NOW.isoformat()
    body["status"] = {"lastErrors": [{"description": error}]} if error else {}
    looked = scope(bucket=bucket, etcd=Object(encode_json(body)))
    known = f"etcd-main is not ready{f': {error}' if error else ''}"
    assert backups.deploy_etcd(context(looked)) == Wait("EtcdNotReady", known, 5.0)
    verdict = backups.deploy_etcd(context(replace(looked, now=NOW + timedelta(minutes=1)), call=answers))
    assert isinstance(verdict, Action)
    outcome = await verdict.run()
    assert isinstance(outcome, Wait)
    assert outcome.message == f"{known}{';' if error else ':'} clients may have written to this etcd"


@pytest.mark.parametrize("of_shoot", [DELETED, {}], ids=["deleted", "kept"])
async def test_waiting_copy_says_for_what(of_shoot: Tree) -> None:
    problem = "epoch 1 has no first-start marker in s3://bucket-b"

    async def answers(_namespace: str, path: str, _body: bytes, _files: object) -> bytes:
        assert path == "copyop/status"
        return msgspec.json.encode(CopyOperationStatus(2, False, None, problem))

    async def silent(*_: object) -> bytes:
        raise ConnectionError("no route to host")

    looked = scope(BACK, object=shoot(**of_shoot), bucket=BackupBucket(spec=BackupBucketSpec(BucketProvider("local"))))
    copy = stamped(rendering.copy_etcd(looked))
    copy["metadata"]["creationTimestamp"] = NOW.isoformat()
    looked = replace(looked, etcd=Object(encode_json(copy)))
    assert isinstance(backups.copy_backups(context(looked, OperationType.RESTORE)), Wait)  # it has only just begun
    looked = replace(looked, now=NOW + timedelta(minutes=1))
    for call, why in ((answers, problem), (silent, "the agent of etcd-main: no route to host")):
        verdict = backups.copy_backups(context(looked, OperationType.RESTORE, call=call))
        assert isinstance(verdict, Action)
        outcome = await verdict.run()
        assert isinstance(outcome, Wait)
        assert outcome.message.startswith(f"copying backups of epoch 1: {why}")
        assert ("delete BackupEntry shoot--dev--apple--1" in outcome.message) == bool(of_shoot)


@pytest.mark.parametrize(("revision", "waits"), [("", True), ("2", True), ("3", False), ("4", False)])
def test_no_move_begins_with_an_older_shoot_state(revision: str, waits: bool) -> None:
    metadata = {"annotations": {metadata_keys.STATE_REVISION: revision}}
    state = an_object(ShootState.resource, "apple", "garden-dev", metadata=metadata, extensions=[])
    looked = scope(state=state, object=shoot(**{metadata_keys.STATE_REVISION: "3"}))
    verdict = extensions.wait_until_persisted(context(looked, OperationType.MIGRATE))
    assert isinstance(verdict, Wait if waits else Done)


@pytest.mark.parametrize(
    ("epoch", "state", "recorded"), [(2, "", True), (2, "it is copying", False), (1, "", False), (0, "", False)]
)
async def test_a_copy_ends_when_its_agent_says_so(epoch: int, state: str, recorded: bool) -> None:
    written: list[object] = []

    async def answers(*_: object) -> bytes:
        if not epoch:
            raise ConnectionError("no route to host")
        return msgspec.json.encode(CopyOperationStatus(epoch, False, None, state))

    async def merge(_resource: object, _live: object, patch: object, _precondition: object) -> None:
        written.append(patch)

    bucket = BackupBucket(spec=BackupBucketSpec(BucketProvider("local")))
    looked = scope(BACK, bucket=bucket, backup_entry=an_object(BackupEntry.resource, "entry", "garden-dev"))
    copy = stamped(rendering.copy_etcd(looked))
    copy["status"] = {"ready": True}
    looked = replace(looked, etcd=Object(encode_json(copy)))
    garden = SimpleNamespace(merge=merge)
    verdict = backups.copy_backups(context(looked, OperationType.RESTORE, call=answers, garden=garden))
    assert isinstance(verdict, Action)
    assert isinstance(await verdict.run(), Wait)
    assert bool(written) == recorded


@pytest.mark.parametrize(
    ("answer", "metadata", "seconds", "recorded"),
    [
        (CopyOperationStatus(2, False, None, ""), {}, 0, True),
        (CopyOperationStatus(2, False, None, "it is Copying"), {}, 0, False),
        (CopyOperationStatus(1, False, None, ""), {}, 0, False),
        (None, {}, 0, False),
        (CopyOperationStatus(2, False, None, ""), {"generation": 2}, 0, None),
        (CopyOperationStatus(2, False, None, ""), {"deletionTimestamp": NOW.isoformat()}, 0, None),
        (CopyOperationStatus(2, False, None, ""), {}, 11, None),
    ],
)
async def test_new_copy_is_asked_before_a_probe(
    answer: CopyOperationStatus | None, metadata: Tree, seconds: float, recorded: bool | None
) -> None:
    written: list[object] = []

    async def call(*_: object) -> bytes:
        if answer is None:
            raise ConnectionError("its pod is being started")
        return msgspec.json.encode(answer)

    async def merge(_resource: object, _live: object, patch: object, _precondition: object) -> None:
        written.append(patch)

    bucket = BackupBucket(spec=BackupBucketSpec(BucketProvider("local")))
    looked = scope(BACK, bucket=bucket, backup_entry=an_object(BackupEntry.resource, "entry", "garden-dev"))
    copy = stamped(rendering.copy_etcd(looked))
    copy["metadata"] |= {"creationTimestamp": NOW.isoformat(), "generation": 1} | metadata
    looked = replace(looked, etcd=Object(encode_json(copy)), now=NOW + timedelta(seconds=seconds))
    asking = context(looked, OperationType.RESTORE, call=call, garden=SimpleNamespace(merge=merge))
    verdict = backups.copy_backups(asking)
    if recorded is None:  # its status decides
        assert not isinstance(verdict, Action) or verdict.what == "ask the agent of etcd-main"
        return
    assert isinstance(verdict, Action)
    outcome = await verdict.run()
    assert isinstance(outcome, Wait)
    assert bool(written) == recorded
    if not recorded:
        assert outcome == Wait("Copying", "copying backups of epoch 1", 0.2)


@pytest.mark.parametrize("epochs", [STARTED, STARTED.add("b", "bucket-b")])
def test_seed_of_the_newest_epoch_has_state_rights(epochs: Ownership) -> None:
    moving = shoot("b", "a", **{metadata_keys.OWNERSHIP: epochs.render()})
    owner = epochs.current.seed if epochs.current else ""
    for seed in "ab":
        rights = in_project(seed, [moving])
        read = [right.names for right in rights if ShootState.resource in right.resources and "get" in right.verbs]
        assert read == ([("apple",)] if seed == owner else [])  # without names it would be all
        assert any(Shoot.resource in right.resources and right.names == ("apple",) for right in rights)


def test_the_owner_reads_what_its_binding_names() -> None:
    bound = shoot("a", "a", **{metadata_keys.OWNERSHIP: STARTED.render()})
    tree = bound.tree
    tree["spec"]["credentialsBindingName"] = "cloud"
    reference = {"kind": "Secret", "name": "account", "namespace": "garden-dev"}
    binding = {
        "apiVersion": CredentialsBinding.resource.api_version,
        "kind": "CredentialsBinding",
        "metadata": {"name": "cloud", "namespace": "garden-dev"},
        "credentialsRef": reference,
    }

    def read(*bindings: Tree) -> dict[str, tuple[str, ...]]:
        rights = in_project("a", [Object(encode_json(tree))], [Object(encode_json(binding)) for binding in bindings])
        return {right.resources[0].plural: right.names for right in rights if right.verbs == ("get",)}

    assert read() == {"credentialsbindings": ("cloud",), "secrets": ("cloud",)}
    assert read(binding) == {"credentialsbindings": ("cloud",), "secrets": ("account",)}
    assert "secrets" not in read({**binding, "credentialsRef": {**reference, "namespace": "garden-other"}})
