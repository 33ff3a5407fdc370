"""Somebody edits an object in the namespace of a settled shoot: what it had comes back by itself.

With the extensions of type `local` on the simulated cloud.
"""

from __future__ import annotations

import asyncio

import pytest

from espalier.api import core
from espalier.api.gardener import names
from espalier.api.meta import Tree
from espalier.kube.client import PatchType
from espalier.runtime import virtual
from espalier.shoots.secrets import names as secret_names
from tests.support.gardens.gardens import EPOCH, garden

ID = names.technical_id("dev", "apple")
EDITS: dict[str, Tree] = {
    "another value": {"data": {"token": "eA=="}},
    "nothing": {"data": None},
}


@pytest.mark.parametrize("edit", EDITS)
def test_edited_credentials_are_copied_again(edit: str) -> None:
    async def main(simulation: virtual.Simulation) -> None:
        async with garden(simulation, with_cloud=True, delay=0.5) as world:
            await world.create_shoot()
            await world.healthy("a")
            await asyncio.sleep(30)
            client, name = world.seeds["a"].client, secret_names.CLOUD_PROVIDER
            before = await client.get(core.SECRET, name, ID)
            assert before.tree["data"]
            await client.patch(core.SECRET, name, ID, patch=EDITS[edit], type=PatchType.MERGE)
            await asyncio.sleep(60)
            assert (await client.get(core.SECRET, name, ID)).tree["data"] == before.tree["data"]
            await world.healthy("a", seconds=1)

    virtual.run(main, epoch=EPOCH, seed=1)
