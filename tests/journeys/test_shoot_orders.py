"""Annotation `gardener.cloud/operation` on a Shoot, as users of Gardener write it."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.core import VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.gardener.vocabulary.metadata_keys import OLDER_OPERATION, OPERATION
from espalier.cli.programs.garden_components import VALIDATING_WEBHOOKS
from espalier.kube.errors import Forbidden
from espalier.runtime import virtual
from tests.support.gardens.gardens import EPOCH, World, garden
from tests.support.sampling import sampled


@pytest.mark.soak
@pytest.mark.parametrize("key", sampled([OPERATION, OLDER_OPERATION], 1))
def test_reconcile_order_reconciles_once_and_goes(key: str) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, "a") as world:
            await world.create_shoot()
            before = await world.healthy("a")
            await asyncio.sleep(60)
            looked = seen(world)
            await order(world, "reconcile", key)
            await asyncio.sleep(60)
            after = await world.healthy("a")
            assert key not in after.metadata.annotations
            assert seen(world) == {kind: count + 1 for kind, count in looked.items()}
            last, earlier = after.status.last_operation, before.status.last_operation
            assert last is not None
            assert earlier is not None
            assert (last.type, last.state) == ("Reconcile", "Succeeded")
            assert last.last_update_time > earlier.last_update_time

    virtual.run(main, epoch=EPOCH, seed=1)


def test_internal_operations_are_no_orders() -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, "a") as world:
            world.seeds["a"].troubles.failing["Infrastructure"] = "no quota"
            world.seeds["a"].troubles.codes.append("ERR_INFRA_QUOTA_EXCEEDED")
            await world.create_shoot()
            await world.until(lambda shoot: "Failed" in str(shoot.status.last_operation))
            world.seeds["a"].troubles.failing.clear()
            await order(world, "reconcile")
            settled = await world.healthy("a")
            assert OPERATION not in settled.metadata.annotations
            for internal in ("migrate", "restore"):
                with pytest.raises(Forbidden, match=r"this operation is unknown.*found \"?" + internal):
                    await order(world, internal)
            await world.client.delete(VALIDATING_WEBHOOK_CONFIGURATION, VALIDATING_WEBHOOKS)
            for internal in ("migrate", "restore"):
                await order(world, internal)
                await asyncio.sleep(60)
                assert (await world.shoot()).status == settled.status
                assert world.witness.serving == {"shoot--dev--apple": "a"}

    virtual.run(main, epoch=EPOCH, seed=1)


async def order(world: World, what: str, key: str = OPERATION) -> None:
    await world.patch({"metadata": {"annotations": {key: what}}})


def seen(world: World) -> dict[str, int]:
    """How often each extension called its provider."""
    kinds = [kind for _, _, _, kind, _ in world.infrastructures.log]
    return {kind: kinds.count(kind) for kind in kinds}
