"""Refusals and waits of the tasks for backups, one by one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, SECRET
from espalier.api.definitions.crd import crd_of
from espalier.api.gardener import names
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.garden.backups import BackupBucket, BackupBucketSpec, BackupEntry, BucketProvider
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.ownership import Ownership
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.meta import Tree
from espalier.kube.client import PatchType
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Done, Wait
from espalier.runtime.controllers.sources import Expiry
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.flow.task import Action, Failure
from espalier.shoots.gardenlet.names import COPIED_EPOCH, INITIATED_AT
from espalier.shoots.gardenlet.tasks import backups
from tests.support.gardens.gardenlet_scopes import STARTED, TECHNICAL_ID, an_object, context, etcd, scope, shoot
from tests.support.servers.embedded_server import client_of, new_server

BACK = Ownership().add("b", "bucket-b").start(1, "b").add("a", "bucket-a")
"""Seed `a` is to restore what `b` had."""
READY: Tree = {"lastOperation": {"type": "Reconcile", "state": "Succeeded"}, "seedName": "a"}
SECRETS = {names.BACKUP_SECRET: an_object(SECRET, names.BACKUP_SECRET, TECHNICAL_ID)}


def backup_entry(seed: str = "a", status: Tree | None = None, **metadata: Any) -> Object:
    spec = {"bucketName": f"bucket-{seed}", "seedName": seed}
    return an_object(BackupEntry.resource, "entry", "garden-dev", metadata=metadata, spec=spec, status=status or READY)


async def test_moved_entry_forgets_what_was_copied() -> None:
    """In the next bucket nothing is copied yet, whatever somebody has written on the entry."""
    written: list[Tree] = []

    async def merge(_resource: object, _live: object, patch: Tree) -> None:
        written.append(patch)

    live = backup_entry("b", annotations={COPIED_EPOCH: "2"})
    ctx = context(scope(BACK, backup_entry=live), OperationType.RESTORE, garden=SimpleNamespace(merge=merge))
    verdict = backups.deploy_backup_entry(ctx)
    assert isinstance(verdict, Action)
    await verdict.run()
    [patch] = written
    assert patch["metadata"]["annotations"] == {COPIED_EPOCH: None}
    assert patch["spec"] == {"bucketName": "bucket-a", "seedName": "a"}


@pytest.mark.parametrize(
    ("status", "secrets", "is_ready"),
    [
        (READY, SECRETS, True),
        (READY, {}, False),
        ({**READY, "seedName": "b"}, SECRETS, False),
        ({"seedName": "a"}, SECRETS, False),
        ({**READY, "lastOperation": {"type": "Reconcile", "state": "Processing"}}, SECRETS, False),
    ],
    ids=["ready", "no Secret in the seed", "reported by another seed", "never reported", "not done"],
)
def test_entry_is_ready_here_and_with_its_secret(status: Tree, secrets: dict[str, Object], is_ready: bool) -> None:
    """Else an etcd would start without access to its bucket."""
    of = scope(BACK, backup_entry=backup_entry(status=status), secrets=secrets)
    verdict = backups.deploy_backup_entry(context(of, OperationType.RESTORE))
    assert isinstance(verdict, Done if is_ready else Wait)


@pytest.mark.parametrize("state", ["Error", "Failed"])
def test_failed_entry_is_an_error_with_its_codes(state: str) -> None:
    status = {
        "lastOperation": {"type": "Reconcile", "state": state},
        "lastError": {"description": "access denied", "codes": ["ERR_INFRA_UNAUTHORIZED"]},
    }
    of = scope(BACK, backup_entry=backup_entry(status=status))
    verdict = backups.deploy_backup_entry(context(of, OperationType.RESTORE))
    assert verdict == Failure(f"BackupEntry {of.entry_name}: access denied", ("ERR_INFRA_UNAUTHORIZED",))


def test_copy_waits_for_the_secret_of_its_members() -> None:
    """Its agent would answer nobody."""
    bucket = BackupBucket(spec=BackupBucketSpec(BucketProvider("local")))
    verdict = backups.copy_backups(context(scope(BACK, bucket=bucket, secrets={}), OperationType.RESTORE))
    assert isinstance(verdict, Wait)
    assert verdict.reason == "PlanOutdated"


async def test_access_to_the_source_ends_with_the_copy() -> None:
    """The Secret with it would stay in a seed that has no more use for it."""
    deleted: list[str] = []

    async def delete(_resource: object, live: Object, _owner: object) -> None:
        deleted.append(live.name)

    secret = an_object(SECRET, names.SOURCE_BACKUP_SECRET, TECHNICAL_ID)
    of = scope(BACK, secrets={names.SOURCE_BACKUP_SECRET: secret})
    verdict = backups.delete_source_backup_entry(
        context(of, OperationType.RESTORE, seed=SimpleNamespace(delete=delete))
    )
    assert isinstance(verdict, Action)
    await verdict.run()
    assert deleted == [names.SOURCE_BACKUP_SECRET]
    assert isinstance(backups.delete_source_backup_entry(context(scope(BACK))), Done)


async def test_start_is_not_recorded_over_a_newer_epoch() -> None:
    """The garden has added another seed's since the Shoot was read: that one would take nothing over."""
    server = new_server()
    await server.start()
    client = client_of(server)
    await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(Shoot))
    await client.create(NAMESPACE, {"metadata": {"name": "garden-dev"}})
    marks = {metadata_keys.OWNERSHIP: BACK.render()}
    metadata = {"name": "apple", "namespace": "garden-dev", "annotations": marks}
    read = await client.create(Shoot.resource, {"metadata": metadata, "spec": shoot().tree["spec"]})
    newer = BACK.add("c", "bucket-c").render()
    patch = {"metadata": {"annotations": {metadata_keys.OWNERSHIP: newer}}}
    await client.patch(Shoot.resource, "apple", "garden-dev", patch=patch, type=PatchType.MERGE)
    ctx = context(scope(BACK, object=read), OperationType.RESTORE, garden=Writer(client, {}))
    verdict = backups.record_start(ctx)
    assert isinstance(verdict, Action)
    outcome = await verdict.run()
    assert isinstance(outcome, Wait)
    assert outcome.reason == "PlanOutdated"
    live = await client.get(Shoot.resource, "apple", "garden-dev")
    assert live.metadata.annotations[metadata_keys.OWNERSHIP] == newer
    await server.close()


async def test_each_epoch_has_its_own_time_to_hand_over() -> None:
    """A handover that took too long must not cost the next one its final snapshot."""
    handovers, expired = Expiry(), asyncio.Event()
    handovers.subscribe(lambda _key: expired.set())

    def verdict(epochs: Ownership) -> Any:
        current = epochs.current
        assert current is not None
        live = etcd(current.epoch, **{INITIATED_AT: "2026-01-01T00:00:00Z"})
        namespace = an_object(NAMESPACE, TECHNICAL_ID, metadata={"annotations": live.metadata.annotations})
        of = scope(epochs, etcd=live, namespace=namespace)
        return backups.hand_over_etcd(context(of, OperationType.MIGRATE, handovers=handovers))

    handovers.keep(context(scope()).live.shoot.key, "hand over 1/1", 0)
    await expired.wait()
    assert isinstance(verdict(STARTED), Done)
    later = STARTED.add("b", "bucket-b").start(2, "b").add("a", "bucket-a").start(3, "a")
    asking = verdict(later)
    assert isinstance(asking, Action)
    assert asking.what == "have the agent hand etcd over"


def test_an_etcd_that_is_being_deleted_serves_nobody() -> None:
    live = an_object(
        Etcd.resource,
        "etcd-main",
        TECHNICAL_ID,
        metadata={"generation": 1, "deletionTimestamp": "2026-01-01T00:00:00Z"},
        spec={"replicas": 3},
        status={"readyReplicas": 3, "observedGeneration": 1},
    )
    of = scope(etcd=live)
    typed = of.typed_etcd
    assert typed is not None
    assert not backups._is_served(typed, of)


@pytest.mark.parametrize(("pods", "is_settled"), [(0, True), (1, False)])
def test_pods_of_an_etcd_that_falls_asleep_still_count(pods: int, is_settled: bool) -> None:
    """Certificates that they use are not replaced before they have ended."""
    live = an_object(Etcd.resource, "etcd-main", TECHNICAL_ID, spec={"replicas": 0}, status={"replicas": pods})
    assert scope(etcd=live).peer_use.is_settled is is_settled
