"""Clusters of every provider that earlier builds made are looked after by this one, which writes nothing but statuses.

Each archive of `tests/stored/every_provider` is what a build left behind, and its name is the commit.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path

import pytest

from espalier.apiserver.storage.store import Change
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import managed_environment
from tests.support.environments.manager_upgrades import RESYNC, is_content
from tests.support.environments.stored import unpack
from tests.support.environments.tenants_of_every_provider import key_of
from tests.support.histories.isolation_stories import machines
from tests.support.histories.tenant_stories import ALICE, BOB
from tests.support.providers.every_provider import KINDS

pytestmark = pytest.mark.embedded

ARCHIVES = sorted((Path(__file__).parents[1] / "stored" / "every_provider").glob("*.tar.xz"))


@pytest.mark.soak
@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name.partition(".")[0])
def test_clusters_of_earlier_builds_stay_as_they_are(archive: Path, tmp_path: Path) -> None:
    stored = unpack(archive, tmp_path)

    async def main(simulation: Simulation) -> None:
        more: list[str] = []
        seen = asyncio.Event()

        def look(change: Change) -> None:
            if is_content(change):
                more.append(f"{change.table} {change.key}")
                seen.set()

        async with managed_environment(
            simulation.clock,
            seed=2,
            store=stored.management,
            stores=stored.workloads,
            copies_to=(ALICE, BOB),
            resync=RESYNC,
        ) as env:
            before = await machines(env.client)
            assert len(before) > 2 * len(KINDS)
            stored.management.follow(look)
            with suppress(TimeoutError):
                async with asyncio.timeout(10 * 1.1 * RESYNC):
                    await seen.wait()
            assert not more, f"this manager wrote more than statuses: {more}"
            assert await machines(env.client) == before
            for kind in KINDS:
                await env.until_ready(key_of(kind), seconds=1)

    run(main, epoch=stored.at, seed=1)
