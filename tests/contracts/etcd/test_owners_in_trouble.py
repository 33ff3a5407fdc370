"""Moves on real processes while a bucket is cut off, crawls or is back, and while clocks are moved.

Witnesses at both seeds testify, as in `test_owners`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from espalier.api.etcd.timing import Timing
from espalier.assets.component import Component
from espalier.assets.recipes import ETCD
from tests.support.etcd.owners import seats
from tests.support.etcd.real_etcd import built
from tests.support.servers.buckets import BUCKET, s3_files, s3_server
from tests.support.servers.faulty_http import faulty_http
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="session")
UNHURRIED = Timing(
    poll_period=1.2,
    store_timeout=1.2,
    validity=4.5,
    serving_grace=0.2,
    progress_period=1,
    progress_timeout=20,
    snapshot_timeout=20,
    copy_timeout=40,
)
"""The bucket's server shares a process with the witnesses."""


@pytest.fixture(
    params=[
        pytest.param(None, id="embedded", marks=pytest.mark.embedded),
        pytest.param(ETCD, id="etcd", marks=[pytest.mark.envtest, pytest.mark.soak]),
    ]
)
def component(request: pytest.FixtureRequest) -> Component | None:
    chosen: Component | None = request.param
    if chosen is not None and built(chosen) is None:
        pytest.skip(f"etcd {chosen.version} was not built: run make real-assets")
    return chosen


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with s3_server() as url:
        yield url


@pytest.mark.demand(G47="a copy from S3 with its files")
@pytest.mark.soak
async def test_source_serves_until_its_bucket_is_lost_twice(
    tmp_path: Path, component: Component | None, server: str
) -> None:
    """Cut by a network: it closes within its validity, serves once it is back, and never again after a move."""
    async with faulty_http(server) as proxy, seats(tmp_path, component, UNHURRIED) as moves:
        files = s3_files(tmp_path / "cut", proxy.url)
        url = f"s3://{BUCKET}/{tmp_path.name}/1"
        source = await moves.founded(url, {"AWS_APPLICATION_CREDENTIALS": str(files)})

        proxy.away = True
        await eventually(lambda: source.etcd_pid() is None, told=source.logs)
        closed = moves.witnesses.count(1)
        assert not await source.is_ready()
        proxy.away = False
        await source.serves()
        await eventually(lambda: moves.witnesses.count(1) > closed + 50, told=source.logs)

        proxy.away = True
        source.environment = {"AWS_APPLICATION_CREDENTIALS": str(s3_files(tmp_path / "open", server))}
        destination = moves.seat()
        await moves.taken_over(destination)
        closed = moves.witnesses.count(1)
        proxy.away = False
        await eventually(lambda: moves.witnesses.count(2) > 200)
        assert moves.witnesses.count(1) == closed
        assert not await source.is_ready()


@pytest.mark.soak
async def test_moved_clocks_end_nothing_and_open_nothing(tmp_path: Path, component: Component | None) -> None:
    """Deadlines count on the clock that nobody sets; the other one names snapshots, which are found all the same."""
    async with seats(tmp_path, component) as moves:
        source = moves.seat()
        source.move_clock(0)
        await moves.begun(source)
        for seconds in (3600, -7200):
            source.move_clock(seconds)
            await moves.witnesses.more(source, 100)
            await eventually(source.is_ready, told=source.logs)
            assert (await source.ask("POST", "/snapshot/full"))[0] == 200

        await source.initiated()
        destination = moves.seat()
        destination.move_clock(-86400)
        await moves.taken_over(destination)
        assert await moves.missing(destination) == []


@pytest.mark.soak
async def test_clock_set_back_lets_no_frozen_source_serve(tmp_path: Path, component: Component | None) -> None:
    async with seats(tmp_path, component) as moves:
        source = moves.seat()
        source.move_clock(0)
        await moves.begun(source)
        thaw = source.freeze()
        destination = moves.seat()
        await moves.taken_over(destination)
        before = moves.witnesses.count(1)
        source.move_clock(-86400)
        thaw()
        await eventually(lambda: source.etcd_pid() is None, told=source.logs)
        await eventually(lambda: moves.witnesses.count(2) > 200)
        assert moves.witnesses.count(1) == before
