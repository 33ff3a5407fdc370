"""A shoot that tolerates the failure of a node: its etcd has three real members, which move between seeds."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from espalier.api.core import PERSISTENT_VOLUME_CLAIM, POD, SECRET, STATEFUL_SET
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.meta import Tree
from espalier.cli.local.environment.garden.migration_scenario import DELTA_PERIOD, TECHNICAL_ID, Move
from espalier.kube.client import PatchType
from espalier.kube.errors import KubeError
from espalier.shoots.secrets.names import CA_ETCD_PEER
from tests.support.gardens.real_shoots import QUICK, RealShoot, real_shoot
from tests.support.waiting import eventually

pytestmark = pytest.mark.envtest
TOLERANT: Tree = {"spec": {"controlPlane": {"highAvailability": {"failureTolerance": {"type": "node"}}}}}


@pytest.mark.soak
async def test_shoot_gets_three_members_and_moves(tmp_path: Path) -> None:
    async with real_shoot(tmp_path) as shoot:
        live = await shoot.scenario.shoot()
        garden = shoot.garden.client
        name, namespace = live.metadata.name, live.metadata.namespace
        await garden.patch(Shoot.resource, name, namespace, patch=TOLERANT, type=PatchType.MERGE)
        await eventually(lambda: has_members(shoot, "east"), within=200, told=shoot.logs)
        await eventually(shoot.scenario.writer.changed, lambda changed: changed == [], despite=KubeError)
        await authority_renewed(shoot, "east")
        await eventually(shoot.scenario.writer.changed, lambda changed: changed == [], despite=KubeError)

        good = await moved(shoot, "east", "west")
        assert (good.lost, good.left) == (0, ())
        assert await shoot.scenario.writer.changed() == []
        await eventually(lambda: has_members(shoot, "west"), within=200, told=shoot.logs)

        bad = await moved(shoot, "west", "east", destroy_source=True, give_up_source=True)
        assert bad.lost <= (DELTA_PERIOD + QUICK.store_timeout) / shoot.scenario.writer.period + 1
        await eventually(lambda: has_members(shoot, "east"), within=200, told=shoot.logs)


@pytest.mark.soak
async def test_members_with_empty_claims_join_again(tmp_path: Path) -> None:
    """Somebody deletes claim and pod of each: what comes back has no data, and the others know it as a member."""
    async with real_shoot(tmp_path) as shoot:
        live = await shoot.scenario.shoot()
        name, namespace = live.metadata.name, live.metadata.namespace
        await shoot.garden.client.patch(Shoot.resource, name, namespace, patch=TOLERANT, type=PatchType.MERGE)
        await eventually(lambda: has_members(shoot, "east"), within=200, told=shoot.logs)
        for ordinal in (1, 0):  # the first would begin a cluster of its own if it asked nobody
            await lose_claim(shoot, ordinal)
            await eventually(lambda: has_members(shoot, "east"), within=200, told=shoot.logs)
            await eventually(shoot.scenario.writer.changed, lambda changed: changed == [], despite=KubeError)


async def lose_claim(shoot: RealShoot, ordinal: int) -> None:
    """Delete the claim of a member, and its pod; wait until there is another claim."""
    client, claim = shoot.seed("east").client, f"etcd-main-etcd-main-{ordinal}"
    before = await client.get(PERSISTENT_VOLUME_CLAIM, claim, TECHNICAL_ID)
    await client.delete(PERSISTENT_VOLUME_CLAIM, claim, TECHNICAL_ID)
    await client.delete(POD, f"etcd-main-{ordinal}", TECHNICAL_ID)

    async def is_new() -> bool:
        return (await client.get(PERSISTENT_VOLUME_CLAIM, claim, TECHNICAL_ID)).metadata.uid != before.metadata.uid

    await eventually(is_new, within=100, despite=KubeError, told=shoot.logs)


async def has_members(shoot: RealShoot, seed: str) -> bool:
    """True if three members are ready."""
    client = shoot.seed(seed).client
    etcd = (await client.get(Etcd.resource, "etcd-main", TECHNICAL_ID)).decode(Etcd)
    pods = (await client.get(STATEFUL_SET, "etcd-main", TECHNICAL_ID)).tree.get("status") or {}
    return (etcd.spec.replicas, etcd.status.ready, pods.get("readyReplicas")) == (3, True, 3)


async def authority_renewed(shoot: RealShoot, seed: str) -> None:
    """Renew the authority by which members know each other. They restart three times, one after the other."""
    client = shoot.seed(seed).client

    async def secrets() -> dict[str, Tree]:
        listed = (await client.list(SECRET, TECHNICAL_ID)).items
        return {secret.name: secret.tree["data"] for secret in listed if "etcd-peer" in secret.name}

    before = await secrets()
    await client.delete(SECRET, CA_ETCD_PEER, TECHNICAL_ID)

    async def is_over() -> bool:
        now = await secrets()
        authority = now.get(CA_ETCD_PEER, before[CA_ETCD_PEER])["ca.crt"]
        is_new = authority != before[CA_ETCD_PEER]["ca.crt"]
        return is_new and len(now) == 2 and all(data["ca.crt"] == authority for data in now.values())

    await eventually(is_over, within=400, told=shoot.logs)
    await eventually(lambda: has_members(shoot, seed), within=200, told=shoot.logs)


async def moved(
    shoot: RealShoot, source: str, destination: str, *, destroy_source: bool = False, give_up_source: bool = False
) -> Move:
    """Move it; two seeds never served at once."""
    since = time.monotonic()
    move = await shoot.scenario.move(destination, "", destroy_source=destroy_source, give_up_source=give_up_source)
    await eventually(lambda: shoot.witnesses.count(destination, since) > 0)
    shoot.witnesses.check(source, destination, since)
    return move
