"""Seeds lose their power and get it back, and are cut off from others."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from espalier.api.core import CONFIG_MAP, NODE
from espalier.api.meta import Tree
from espalier.kube.errors import Unreachable
from espalier.runtime.caches.cache import Cache, Caches
from espalier.simulator.connections import Link
from espalier.simulator.seeds import Seed, SeedDown
from tests.support.gardens.seeds import SHOOT, on_a_seed, until


def nothing(_image: str) -> None:
    """No image has a program."""


def note(name: str) -> Tree:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": SHOOT}}


def test_powerless_seed_is_silent_and_keeps_objects() -> None:
    async def story(seed: Seed) -> None:
        client = seed.client()
        await client.create(CONFIG_MAP, note("before"))
        await seed.destroy()
        with pytest.raises(Unreachable, match="seed a has no power"):
            await client.get(CONFIG_MAP, "before", SHOOT)
        with pytest.raises(SeedDown):
            _ = seed.workload

        await seed.start()
        assert (await client.get(CONFIG_MAP, "before", SHOOT)).name == "before"
        assert [node.name for node in (await client.list(NODE)).items] == ["a-0"]

    on_a_seed(nothing, story)


def test_watches_go_on_when_cut_link_is_restored() -> None:
    async def story(seed: Seed) -> None:
        link = Link("the way to seed a")
        client = seed.client(link=link)
        caches = Caches(client)
        cache: Cache = caches.of(CONFIG_MAP)
        following: asyncio.Task[Any] = asyncio.create_task(caches.run())
        await caches.wait_synced()

        link.cut()
        with pytest.raises(Unreachable, match="the way to seed a is disconnected"):
            await client.get(NODE, "a-0")
        await seed.client().create(CONFIG_MAP, note("meanwhile"))
        await asyncio.sleep(60)
        assert not any(object_.name == "meanwhile" for object_ in cache.list())

        link.restore()
        await until(lambda: any(object_.name == "meanwhile" for object_ in cache.list()))
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)

    on_a_seed(nothing, story)
