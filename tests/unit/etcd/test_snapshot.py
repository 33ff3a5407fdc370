"""Snapshots whose bytes are not those of their hash, or that end in the middle."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from grpc import StatusCode
from hypothesis import given
from hypothesis import strategies as st

from espalier.etcd.client import connect
from espalier.etcd.errors import Corrupt, EtcdError, NotEtcd, Unavailable
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.etcd.messages.services import SNAPSHOT, CallContext
from tests.support.etcd.etcd_members import Member, running

DATABASE = random.Random(1).randbytes(2048)
SNAPSHOT_BYTES = DATABASE + hashlib.sha256(DATABASE).digest()


class Snapped(Member):
    """Sends blobs as a snapshot; then fails, says nothing more, or ends."""

    def __init__(self, address: str, *blobs: bytes, then: str = "") -> None:
        super().__init__(address)
        self.blobs = blobs
        self.then = then
        self.others = [SNAPSHOT.answered_by(self._snapshot)]

    async def _snapshot(
        self, request: rpc.SnapshotRequest, context: CallContext[rpc.SnapshotRequest, rpc.SnapshotResponse]
    ) -> AsyncIterator[rpc.SnapshotResponse]:
        for blob in self.blobs:
            yield rpc.SnapshotResponse(blob=blob)
        if self.then == "hang":
            await asyncio.Event().wait()
        elif self.then:
            await context.abort(StatusCode.UNAVAILABLE, self.then)


async def read(tmp_path: Path, *blobs: bytes, then: str = "", timeout: float = 10.0) -> bytes:
    member = Snapped(f"unix:{tmp_path}/a", *blobs, then=then)
    content = b""
    async with (
        running(member),
        connect(f"unix://{tmp_path}/a") as client,
        aclosing(client.snapshot(timeout=timeout)) as chunks,
    ):
        async for chunk in chunks:
            content += chunk.data
    return content


@pytest.mark.soak
@given(st.lists(st.integers(0, len(SNAPSHOT_BYTES)), max_size=6).map(sorted))
def test_a_snapshot_may_be_cut_anywhere(cuts: list[int]) -> None:
    bounds = [0, *cuts, len(SNAPSHOT_BYTES)]
    blobs = [SNAPSHOT_BYTES[start:end] for start, end in itertools.pairwise(bounds)]
    with tempfile.TemporaryDirectory() as folder:
        assert asyncio.run(read(Path(folder), *blobs)) == SNAPSHOT_BYTES


@pytest.mark.parametrize("at", [0, 1000, 2047, 2048, 2079])
async def test_a_flipped_bit_is_found(tmp_path: Path, at: int) -> None:
    broken = bytearray(SNAPSHOT_BYTES)
    broken[at] ^= 1
    with pytest.raises(Corrupt, match="the 2048 bytes of a snapshot have another sha256"):
        await read(tmp_path, bytes(broken))


@pytest.mark.parametrize("size", [0, 31, 32, 33, 512, 1024 + 32, 2048, 2079])
async def test_a_snapshot_that_ends_early_is_none(tmp_path: Path, size: int) -> None:
    with pytest.raises((NotEtcd, Corrupt)):
        await read(tmp_path, SNAPSHOT_BYTES[:size])


async def test_the_hash_comes_only_if_it_is_right(tmp_path: Path) -> None:
    member = Snapped(f"unix:{tmp_path}/a", DATABASE, b"\0" * 32)
    content = b""
    async with running(member), connect(f"unix://{tmp_path}/a") as client:
        chunks = client.snapshot()
        with pytest.raises(EtcdError):  # noqa: PT012 - how far it came is the point
            async for chunk in chunks:
                content += chunk.data
    assert content == DATABASE


async def test_a_broken_connection_is_reported(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="etcdserver: server stopped"):
        await read(tmp_path, DATABASE, then="etcdserver: server stopped")


async def test_a_member_that_stops_sending_is_left(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"etcd sent nothing of a snapshot for 0\.5 s"):
        await read(tmp_path, DATABASE, then="hang", timeout=0.5)
