"""Each annotation and status field that we read, edited by hand: a move ends as undisturbed, or a message says what is
wrong, and the shoot is whole again once it was put right.

Past the webhooks, as by an administrator, or as in a garden or a seed that was restored from a backup. Never do two
seeds serve, and never is anything made or deleted in the infrastructure.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

import msgspec
import pytest

from espalier.api import core
from espalier.api.gardener import move_times, names
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.extensions.operating_system_config import OperatingSystemConfig
from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.garden.backups import BackupBucket, BackupEntry
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.vocabulary import metadata_keys as keys
from espalier.api.gardener.vocabulary.metadata_keys import FORCE_RESTORE
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.cli import pages
from espalier.cli.programs.garden_components import VALIDATING_WEBHOOKS
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import BadRequest, Forbidden, Invalid, KubeError, NotFound
from espalier.kube.objects import Object
from espalier.runtime import virtual
from espalier.shoots.control_plane.accounts import MACHINE_CONTROLLER_MANAGER, SHOOT_ROLES
from espalier.shoots.gardenlet import names as of_gardenlet
from espalier.shoots.secrets import names as secret_names
from tests.support.gardens.gardens import EPOCH, NAMESPACE, World, garden
from tests.support.sampling import sampled

ID = names.technical_id("dev", "apple")
Moment = Literal["settled", "moving", "restoring", "source lost"]
MOMENTS: dict[Moment, float] = {"settled": 0, "moving": 0.6, "restoring": 4.5, "source lost": 2.0}
"""Seconds after a move was requested; when the source is lost, after it was given up."""

EPOCHS = (None, "", "x", "-1", "0", "1", "02", "3", "99", "9" * 20)
"""The present one is 2, that of the move 3."""
TIMES = (None, "", "x", "2026-01-01T00:01:00", "2020-01-01T00:00:00Z", "2099-01-01T00:00:00+01:00")
FLAGS = (None, "", "x", "True", "true", "false")
TEXTS = (None, "", "x")
OPERATIONS = (None, "", "x", "reconcile", "retry", "migrate", "restore", "wait-for-state")


def owned(*epochs: tuple[int, str, bool]) -> str:
    return json.dumps(
        [{"epoch": n, "seed": seed, "bucket": f"bucket-{seed}", "started": is_} for n, seed, is_ in epochs]
    )


OWNERSHIPS = (None, "", "x", "[]", "null", '[{"epoch": 1}]', owned((2, "a", True), (1, "b", True)))
"""Each malformed in its way. Lists that can be parsed are trusted: nobody but the garden may write them."""


ANOTHER_SHOOTS = json.dumps(dict.fromkeys(secret_names.PERSISTED, "0123456789abcdef"))
OLDER = json.dumps({secret_names.CA_KUBELET: "0123456789abcdef"})
"""Of secrets that one of them, or all, were before."""
DIGESTS = (*TEXTS, "[]", "{}", '{"ca": "x"}', '{"ca": 1}', '{"x": "x"}', ANOTHER_SHOOTS, OLDER)


@dataclass(frozen=True)
class Target:
    """The objects that are edited."""

    resource: Resource
    name: str | None = "apple"
    """None: all of the kind."""
    namespace: str | None = None
    is_in_seeds: bool = True


SHOOT = Target(Shoot.resource, namespace=NAMESPACE, is_in_seeds=False)
STATE = Target(ShootState.resource, namespace=NAMESPACE, is_in_seeds=False)
ENTRY = Target(BackupEntry.resource, None, NAMESPACE, is_in_seeds=False)
BUCKETS = Target(BackupBucket.resource, None, is_in_seeds=False)
SEEDS = Target(Seed.resource, None, is_in_seeds=False)
LEASES = Target(core.LEASE, None, names.SEED_LEASES, is_in_seeds=False)
WORKER, INFRASTRUCTURE = Target(Worker.resource, namespace=ID), Target(Infrastructure.resource, namespace=ID)
ETCD, CLUSTER, SPACE = Target(Etcd.resource, "etcd-main", ID), Target(Cluster.resource, ID), Target(core.NAMESPACE, ID)
CREDENTIALS = Target(core.SECRET, secret_names.CLOUD_PROVIDER, ID)
ACCOUNT = Target(core.SERVICE_ACCOUNT, MACHINE_CONTROLLER_MANAGER, ID)

ANNOTATIONS: list[tuple[str, tuple[Target, ...], tuple[str | None, ...]]] = [
    (keys.OPERATION, (SHOOT, WORKER, INFRASTRUCTURE), OPERATIONS),
    (keys.OLDER_OPERATION, (SHOOT, INFRASTRUCTURE), OPERATIONS),
    (keys.TIMESTAMP, (WORKER, INFRASTRUCTURE), TIMES),
    (keys.CONFIRM_DELETION, (INFRASTRUCTURE, SEEDS), FLAGS),
    (keys.FORCE_RESTORE, (SHOOT,), FLAGS),
    (keys.OWNERSHIP, (SHOOT,), OWNERSHIPS),
    (keys.GIVE_UP_AFTER, (SEEDS,), EPOCHS),
    (keys.RELEASED_EPOCH, (SHOOT,), EPOCHS),
    (keys.RESTORED_EPOCH, (SHOOT,), EPOCHS),
    (keys.STATE_REVISION, (SHOOT, STATE), EPOCHS),
    (keys.SECRET_DIGESTS, (SHOOT,), DIGESTS),
    (keys.EPOCH, (ETCD, INFRASTRUCTURE, CLUSTER, SPACE, STATE), EPOCHS),
    (keys.SOURCE_EPOCH, (ETCD,), EPOCHS),
    (keys.FOUNDING, (ETCD,), FLAGS),
    (keys.PLAIN_CLIENTS, (ETCD,), FLAGS),
    (keys.GIVEN_STATE, (WORKER, INFRASTRUCTURE), TEXTS),
    (keys.RESULT_DIGESTS, (WORKER, INFRASTRUCTURE), (*TEXTS, "[]", "{}", '{"providerStatus": "x"}', '{"x": 1}')),
    (of_gardenlet.INITIATED_AT, (ETCD,), TIMES),
    (of_gardenlet.WOKEN_AT, (ETCD,), TIMES),
    (of_gardenlet.COPIED_EPOCH, (ENTRY,), EPOCHS),
    (of_gardenlet.BACKUPS_SINCE, (ENTRY,), EPOCHS),
    (of_gardenlet.CREDENTIALS_OF, (CREDENTIALS,), TEXTS),
    (of_gardenlet.RENDERED, (ETCD, INFRASTRUCTURE, CLUSTER, CREDENTIALS), TEXTS),
    (of_gardenlet.SHOOT_UID, (SPACE, CLUSTER), TEXTS),
    (SHOOT_ROLES, (ACCOUNT,), TEXTS),
    (move_times.KEY, (LEASES,), (*TEXTS, "{}", "[]", '{"validity": 1e9}')),
]

FAILED = {"description": "by hand", "lastUpdateTime": "2099-01-01T00:00:00Z", "codes": ["X"]}
ERROR = {"type": "Reconcile", "state": "Error", "progress": 1, "description": "by hand"}
FALSE = [{"type": "LeaseValid", "status": "False", "reason": "X", "message": "by hand"}]
GENERATIONS, SEED_NAMES = (None, 0, 99), (None, "", "a", "b", "nowhere")

OTHER_NETWORK = {"network": "net-9"}
"""As valid as the present one: machines in it would be other machines."""

COMMON: dict[str, tuple[Any, ...]] = {
    "conditions": (None, [], FALSE),
    "lastOperation": (None, ERROR),
    "observedGeneration": GENERATIONS,
}
OF_EXTENSIONS: dict[str, tuple[Any, ...]] = {
    **COMMON,
    "lastError": (None, FAILED),
    "providerStatus": (None, {}, {"x": 1}, OTHER_NETWORK),
    "resources": (None, [], [{"name": "x", "resourceRef": {"apiVersion": "v1", "kind": "Secret", "name": "x"}}]),
    "state": (None, {}, "x", [1], {"older": True}),
}
STATUSES: list[tuple[Target, type[msgspec.Struct], dict[str, tuple[Any, ...]]]] = [
    (
        SHOOT,
        Shoot,
        {
            **COMMON,
            "constraints": (None, [{"type": "ReadyForMigration", "status": "False", "reason": "X", "message": "x"}]),
            "gardener": (None, {"name": "x", "id": "x", "version": "0"}),
            "hibernated": (None, True),
            "lastErrors": (None, [FAILED]),
            "retryCycleStartTime": (None, "2020-01-01T00:00:00Z", "2099-01-01T00:00:00Z"),
            "seedName": SEED_NAMES,
            "technicalID": (None, "", "x", "shoot--dev--pear"),
            "uid": (None, "", "x"),
        },
    ),
    (WORKER, Worker, {**OF_EXTENSIONS, "machineDeployments": (None, []), "machineDeploymentsLastUpdateTime": (None,)}),
    (
        INFRASTRUCTURE,
        Infrastructure,
        {**OF_EXTENSIONS, "nodesCIDR": (None, "10.9.0.0/16"), "egressCIDRs": (None, []), "networking": (None,)},
    ),
    (
        ETCD,
        Etcd,
        {
            **COMMON,
            "lastErrors": (None, [FAILED]),
            "replicas": (None, 9),
            "currentReplicas": (None, 9),
            "readyReplicas": (None, 9),
            "ready": (None, False, True),
            "selector": (None, "x"),
        },
    ),
    (
        ENTRY,
        BackupEntry,
        {name: COMMON.get(name, (None, FAILED)) for name in ("lastOperation", "lastError", "observedGeneration")}
        | {"seedName": SEED_NAMES},
    ),
    (
        BUCKETS,
        BackupBucket,
        {
            **{name: COMMON[name] for name in ("lastOperation", "observedGeneration")},
            "lastError": (None, FAILED),
            "providerStatus": (None, {}, {"x": 1}),
            "generatedSecretRef": (None, {"name": "x", "namespace": "garden"}),
        },
    ),
    (
        SEEDS,
        Seed,
        {
            **COMMON,
            "gardener": (None,),
            "kubernetesVersion": (None, "x"),
            "clusterIdentity": (None, "x"),
            "capacity": (None, {"shoots": 0}, {"shoots": "x"}),
            "allocatable": (None, {"shoots": 0}, {"shoots": "x"}),
        },
    ),
]

UNREAD = {"checksum/etcd-config"}
"""Of pods, which these seeds have none of."""


@dataclass(frozen=True)
class Edit:
    """One field of some objects, with another value."""

    target: Target
    annotation: str
    """Empty: `field` is one of the status."""
    field: str
    value: Any

    def __str__(self) -> str:
        value = json.dumps(self.value)[:24]
        return f"{self.target.resource.kind} {self.annotation or f'status.{self.field}'} {value}"

    def read(self, live: Object) -> Any:
        if self.annotation:
            return live.metadata.annotations.get(self.annotation)
        return (live.tree.get("status") or {}).get(self.field)

    async def write(self, client: Client, live: Object, value: Any) -> None:
        # A merge keeps fields of the present value, so that is removed first.
        for fromkey in dict.fromkeys((None, json.dumps(value))):
            new = json.loads(fromkey) if fromkey is not None else None
            patch: Tree = (
                {"metadata": {"annotations": {self.annotation: new}}}
                if self.annotation
                else {"status": {self.field: new}}
            )
            await client.patch(
                self.target.resource,
                live.name,
                live.namespace or None,
                patch=patch,
                type=PatchType.MERGE,
                subresource="" if self.annotation else "status",
            )


def all_edits() -> Iterator[Edit]:
    for key, targets, values in ANNOTATIONS:
        yield from (Edit(target, key, "", value) for target in targets for value in values)
    for target, _, fields in STATUSES:
        yield from (Edit(target, "", field, value) for field, values in fields.items() for value in values)


EDITS = {str(edit): edit for edit in all_edits()}
VARIANTS = [(what, moment) for what in EDITS for moment in MOMENTS]
ALWAYS: list[tuple[str, Moment]] = [
    (f'Etcd {of_gardenlet.INITIATED_AT} "2026-01-01T00:01:00"', "moving"),
    (f'Namespace {keys.EPOCH} "1"', "settled"),
    (f'BackupEntry {of_gardenlet.COPIED_EPOCH} "3"', "moving"),
    (f'Infrastructure {keys.OLDER_OPERATION} "x"', "restoring"),
    (f"Shoot {keys.OWNERSHIP} null", "settled"),
    ("Infrastructure status.providerStatus null", "restoring"),
    (f"Infrastructure {keys.RESULT_DIGESTS} null", "settled"),
    (f'Infrastructure {keys.RESULT_DIGESTS} "x"', "restoring"),
    (str(Edit(SHOOT, keys.SECRET_DIGESTS, "", ANOTHER_SHOOTS)), "settled"),
    (str(Edit(SHOOT, keys.SECRET_DIGESTS, "", ANOTHER_SHOOTS)), "source lost"),
]


def test_sweep_has_every_annotation_and_status_field() -> None:
    assert {key for key, _, _ in ANNOTATIONS} == {key for key, _ in pages.metadata_of_shoots()[0]} - UNREAD
    for _, kind, fields in STATUSES:
        status = next(field for field in msgspec.structs.fields(kind) if field.name == "status").type
        assert set(fields) == {field.encode_name for field in msgspec.structs.fields(status)}


async def applied(world: World, edit: Edit) -> list[tuple[Client, Object, Any]]:
    """Make an edit; return what stood there. Nothing where the API server refuses the value."""
    clients = [world.seeds[item].client for item in "ab"] if edit.target.is_in_seeds else [world.client]
    before: list[tuple[Client, Object, Any]] = []
    for client in clients:
        try:
            if edit.target.name is None:
                results = (await client.list(edit.target.resource, edit.target.namespace)).items
            else:
                results = [await client.get(edit.target.resource, edit.target.name, edit.target.namespace)]
        except (NotFound, KubeError):
            continue  # not there, or its seed is off
        for live in results:
            try:
                await edit.write(client, live, edit.value)
            except (Forbidden, Invalid, BadRequest, NotFound):
                continue
            before.append((client, live, edit.read(live)))
    return before


async def put_right(edit: Edit, before: Iterable[tuple[Client, Object, Any]]) -> None:
    for client, live, value in before:
        try:
            await edit.write(client, live, value)
        except (NotFound, Invalid, KubeError):
            continue


async def restore_states(world: World, before: Object) -> None:
    """Restore the ShootState, as from a backup of the garden."""
    live = await world.client.get(ShootState.resource, "apple", NAMESPACE)
    await world.client.replace(ShootState.resource, {**live.tree, "extensions": before.tree["extensions"]})


def inventory(world: World) -> list[str]:
    kinds: tuple[Literal["VirtualMachine", "Network"], ...] = ("VirtualMachine", "Network")
    return sorted(f"{kind} {item.name} {item.id}" for kind in kinds for item in world.cloud.inventory.all(kind))


async def end_of(world: World, edit: Edit, moment: Moment) -> str:
    """The end of a move in which, or before which, an edit was made: "whole", or the message, after which it was put
    right."""
    await world.create_shoot(seed="b")
    await world.healthy("b")
    await world.move("a")  # so that epoch 2 is the present one
    await world.healthy("a")
    await world.gone("b")
    await asyncio.sleep(60)  # machines and all states are there
    await world.client.delete(core.VALIDATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOKS)
    made, states = inventory(world), await world.client.get(ShootState.resource, "apple", NAMESPACE)
    if moment == "settled":
        before = await applied(world, edit)
        await asyncio.sleep(30)
    if moment == "source lost":
        await world.seeds["a"].power_off()
    await world.move("b")
    if moment == "source lost":
        await world.patch({"metadata": {"annotations": {FORCE_RESTORE: "true"}}})
    if moment != "settled":
        await asyncio.sleep(MOMENTS[moment])
        before = await applied(world, edit)
    end = "whole" if before else "not there, or refused"
    try:
        await world.healthy("b", seconds=900)
    except TimeoutError:
        shoot = await world.shoot()
        last = shoot.status.last_operation
        message = "; ".join(
            filter(None, [last.description if last else "", *(e.description for e in shoot.status.last_errors)])
        )
        end = message or "nothing was said"
        await put_right(edit, before)
        if edit.field == "state":
            await restore_states(world, states)
        await world.healthy("b", seconds=1800)
    if moment == "source lost":
        await world.seeds["a"].power_on()
    await world.gone("a", seconds=1800)
    await asyncio.sleep(60)
    await world.healthy("b", seconds=600)
    assert inventory(world) == made
    assert world.witness.serving == {ID: "b"}
    return end


@pytest.mark.parametrize(("what", "moment"), sampled(VARIANTS, *map(VARIANTS.index, ALWAYS)))
def test_an_edit_by_hand_ends_whole_or_with_its_remedy(what: str, moment: Moment) -> None:
    edit, ends = EDITS[what], list[str]()

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=0.5, with_cloud=True, has_clients=True) as world:
            ends.append(await end_of(world, edit, moment))
            written = sorted((list(data) for data in world.buckets.data.values()), key=len)
            assert all(after[: len(before)] == before for before, after in pairwise(written))

    virtual.run(main, epoch=EPOCH, seed=1)
    (end,) = ends
    assert end in ("whole", "not there, or refused") or (edit.annotation or edit.field) in end


def test_lost_provider_status_is_restored_by_a_remedy() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=0.5, with_cloud=True, has_clients=True) as world:
            await world.create_shoot(seed="a")
            await world.healthy("a")
            await asyncio.sleep(60)
            made = inventory(world)
            await world.move("b")
            await asyncio.sleep(MOMENTS["restoring"])
            await applied(world, Edit(INFRASTRUCTURE, keys.RESULT_DIGESTS, "", None))  # as of other extensions
            assert await applied(world, EDITS["Infrastructure status.providerStatus null"])
            with pytest.raises(TimeoutError):
                await world.healthy("b", seconds=900)
            (error,) = (await world.shoot()).status.last_errors
            command = f"kubectl annotate infrastructure apple -n {ID} {keys.OPERATION}={keys.RECONCILE}"
            assert "status.providerStatus of the Infrastructure" in error.description
            assert command in error.description
            patch = {"metadata": {"annotations": {keys.OPERATION: keys.RECONCILE}}}
            await world.seeds["b"].client.patch(
                Infrastructure.resource, "apple", ID, patch=patch, type=PatchType.MERGE, subresource=""
            )
            await world.healthy("b", seconds=900)
            assert inventory(world) == made

    virtual.run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("moment", ["settled", "moving", "restoring", "restored"])
def test_an_edited_network_rolls_no_machine(moment: str) -> None:
    edit = Edit(INFRASTRUCTURE, "", "providerStatus", OTHER_NETWORK)

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=0.5, with_cloud=True, has_clients=True) as world:
            await world.create_shoot(seed="a")
            await world.healthy("a")
            await asyncio.sleep(60)
            made, seed = inventory(world), "a" if moment == "settled" else "b"
            reported = await provider_status(world, "a")
            if moment != "settled":
                await world.move("b")
                await asyncio.sleep({"moving": 0.3, "restoring": 4.5, "restored": 8.0}[moment])
            assert await applied(world, edit)
            await asyncio.sleep(120)
            await world.healthy(seed, seconds=600)
            assert inventory(world) == made
            assert await provider_status(world, seed) == reported

    virtual.run(main, epoch=EPOCH, seed=1)


async def provider_status(world: World, seed: str) -> Any:
    live = await world.seeds[seed].client.get(Infrastructure.resource, "apple", ID)
    return (live.tree.get("status") or {}).get("providerStatus")


def test_results_of_older_extensions_get_digests() -> None:
    """Without a machine rolled, when they are next reconciled."""
    edits = [Edit(target, keys.RESULT_DIGESTS, "", None) for target in (WORKER, INFRASTRUCTURE)]

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=0.5, with_cloud=True, has_clients=True) as world:
            await world.create_shoot(seed="a")
            await world.healthy("a")
            await asyncio.sleep(60)
            made = inventory(world)
            for edit in edits:
                assert [value for _, _, value in await applied(world, edit) if value]
            await asyncio.sleep(60)
            await world.healthy("a")
            client = world.seeds["a"].client
            for target in (WORKER, INFRASTRUCTURE):
                live = await client.get(target.resource, "apple", ID)
                assert keys.RESULT_DIGESTS not in live.metadata.annotations, "accepted as it is"
                await Edit(target, keys.OPERATION, "", keys.RECONCILE).write(client, live, keys.RECONCILE)
            await asyncio.sleep(60)
            for target in (WORKER, INFRASTRUCTURE):
                live = await client.get(target.resource, "apple", ID)
                assert keys.RESULT_DIGESTS in live.metadata.annotations
            await world.healthy("a")
            assert inventory(world) == made

    virtual.run(main, epoch=EPOCH, seed=1)


def test_edited_user_data_are_not_passed_on() -> None:
    """The name of an existing Secret with user data of another content is as valid as that of the extension's own."""
    config = Target(OperatingSystemConfig.resource, "pool-provision", ID)
    edit = Edit(config, "", "cloudConfig", {"secretRef": {"name": "another", "namespace": ID}})

    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, delay=0.5, with_cloud=True, has_clients=True) as world:
            await world.create_shoot(seed="a")
            await world.healthy("a")
            await asyncio.sleep(60)
            made, client = inventory(world), world.seeds["a"].client
            another = {"metadata": {"name": "another", "namespace": ID}, "data": {"cloud_config": "e30="}}
            await client.create(core.SECRET, {"apiVersion": "v1", "kind": "Secret", **another})
            ((_, _, reported),) = await applied(world, edit)
            references: set[str] = set()
            for _ in range(240):
                worker = (await client.get(Worker.resource, "apple", ID)).decode(Worker)
                references |= {p.user_data_secret_ref.name for p in worker.spec.pools if p.user_data_secret_ref}
                await asyncio.sleep(0.5)
            await world.healthy("a")
            assert references == {reported["secretRef"]["name"]}
            assert edit.read(await client.get(config.resource, "pool-provision", ID)) == reported
            assert inventory(world) == made

    virtual.run(main, epoch=EPOCH, seed=1)
