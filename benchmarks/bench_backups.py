"""Verification of backups in a local folder, beside the programs that read the same bytes and do less.

- a full snapshot of 1 GiB, half of it zero as databases are: `espalier etcd-agent verify` beside `sha256sum`, and its
  gzip beside `gzip -t`, alternating; all of them read from the page cache;
- a delta of a million events: hash, JSON, and the order of all revisions.

What is measured is the whole command, with its start.
"""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, Sequence
from hashlib import sha256
from pathlib import Path

from benchmarks.measure import PROGRAM, arguments, report, size, spread
from espalier.etcdbackup.snapshots.codecs import compress
from espalier.etcdbackup.snapshots.deltas import KeyValue, event
from espalier.etcdbackup.snapshots.names import Compression, Kind, Snapshot
from espalier.etcdbackup.snapshots.writing import DeltaBuilder
from espalier.etcdbackup.stores.local import LocalStore

MIB = 1 << 20
SIZE, EVENTS, RUNS = size(1024, 1), size(1_000_000, 1000), size(3, 1)
CREATED = 1_700_000_000


async def database() -> AsyncGenerator[bytes, None]:
    """So many MiB, and their hash."""
    block = random.Random(1).randbytes(MIB // 2) + bytes(MIB // 2)
    digest = sha256()
    for _ in range(SIZE):
        digest.update(block)
        yield block
    yield digest.digest()


async def make_full(folder: Path, compression: Compression) -> Path:
    """A store with one full snapshot; its file."""
    snapshot = Snapshot(Kind.FULL, 0, 1, CREATED, compression)
    await LocalStore(folder).upload(snapshot.key, compress(database(), compression))
    return folder / snapshot.key


async def make_delta(folder: Path) -> Path:
    """A store with a small full snapshot and a delta of many events; the delta's file."""
    store = LocalStore(folder)
    await store.put(Snapshot(Kind.FULL, 0, 1, CREATED).key, bytes(512) + sha256(bytes(512)).digest())
    with DeltaBuilder(Compression.GZIP) as builder:
        for first in range(2, EVENTS + 2, 1000):
            revisions = range(first, first + 1000)
            keys = [
                KeyValue(b"/registry/pods/%d" % (revision % 5000), revision, revision, 1, b"v" * 100)
                for revision in revisions
            ]
            builder.add([event(key, CREATED * 10**9 + key.mod_revision) for key in keys])
        return folder / (await builder.store(store, 2, CREATED)).key


def measured(command: Sequence[str]) -> tuple[float, float]:
    """Seconds of a command, and MiB of its memory at most."""
    begun = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.monotonic() - begun, usage.ru_maxrss / 1024


def side_by_side(folder: Path, file: Path, peer: Sequence[str], work: float, unit: str) -> list[str]:
    """Lines about a store's verification, and about a peer's on its file. `work`: what is done in a run."""
    commands = {"espalier": [*PROGRAM, "etcd-agent", "verify", f"file://{folder}"]}
    if peer:
        commands[peer[0]] = [*peer, str(file)]
    runs = [{name: measured(command) for name, command in commands.items()} for _ in range(RUNS)]
    return [
        f"{name}: {spread([work / run[name][0] for run in runs], unit)}, at most {memory:.0f} MiB"
        for name in commands
        for memory in (max(run[name][1] for run in runs),)
    ]


def main() -> int:
    """Measure, and say so."""
    arguments(__doc__).parse_args()
    with tempfile.TemporaryDirectory() as made:
        for compression, peer in ((Compression.NONE, ["sha256sum"]), (Compression.GZIP, ["gzip", "-t"])):
            folder = Path(made) / compression.word
            file = asyncio.run(make_full(folder, compression))
            lines = side_by_side(folder, file, peer, SIZE, "MiB/s of content")
            report(f"verify a full snapshot, {compression.word}", *lines)
            shutil.rmtree(folder)
        file = asyncio.run(make_delta(Path(made)))
        lines = side_by_side(Path(made), file, [], EVENTS / 1000, "thousand events/s")
        report(f"verify a delta of {EVENTS:,} events, gzip", *lines)
    return 0


if __name__ == "__main__":
    sys.exit(main())
