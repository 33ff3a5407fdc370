"""Restores into a data directory, without an etcd.

- a full snapshot and deltas of a million events: `espalier etcd-agent restore`; nobody else does it without an etcd;
- a database of some hundred MiB (argument: MiB) without deltas, beside `etcdutl snapshot restore` where it was built,
  alternating.

What is measured is the whole command, with its start.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import io
import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.bench_backups import CREATED, measured
from benchmarks.measure import PROGRAM, arguments, report, size, spread
from espalier.assets.cache import assets_folder
from espalier.etcd.database.backend import Record, State, write_backend
from espalier.etcd.messages import rpc_pb2 as rpc
from espalier.etcdbackup.snapshots.deltas import KeyValue, event
from espalier.etcdbackup.snapshots.names import Compression, Kind, Snapshot
from espalier.etcdbackup.snapshots.writing import DeltaBuilder
from espalier.etcdbackup.stores.local import LocalStore

EVENTS, RUNS, VALUE = size(1_000_000, 1000), size(3, 1), 4096


async def with_deltas(folder: Path) -> None:
    """A store with a small full snapshot, and deltas of many events on 5,000 keys."""
    store = LocalStore(folder)
    write_full(folder / Snapshot(Kind.FULL, 0, 1, CREATED).key, iter(()), State(revision=1))
    for part in range(10):
        first, last = 2 + part * EVENTS // 10, 2 + (part + 1) * EVENTS // 10
        with DeltaBuilder(Compression.GZIP) as builder:
            for begin in range(first, last, 1000):
                revisions = range(begin, min(begin + 1000, last))
                keys = [
                    KeyValue(b"/registry/pods/%d" % (revision % 5000), revision, revision, 1, b"v" * 100)
                    for revision in revisions
                ]
                builder.add([event(key, CREATED * 10**9 + key.mod_revision) for key in keys])
            await builder.store(store, first, CREATED + part + 1)


def write_full(path: Path, records: Iterator[Record], state: State) -> None:
    """The content of a full snapshot as a file. Not in memory: children begin with what this process has."""
    path.parent.mkdir(parents=True)
    with path.open("w+b") as file:
        write_backend(file, records, state)
        file.seek(0)
        digest = hashlib.file_digest(file, "sha256")
        file.seek(0, io.SEEK_END)
        file.write(digest.digest())


def records(mib: int) -> Iterator[Record]:
    """So many MiB of objects."""
    rng = random.Random(1)
    for number in range(mib * (1 << 20) // VALUE):
        revision, key = number + 2, b"/registry/pods/%d" % number
        value = rng.randbytes(VALUE // 2) + bytes(VALUE // 2)
        kv = rpc.KeyValue(key=key, value=value, create_revision=revision, mod_revision=revision, version=1)
        yield Record(revision, 0, False, kv)


def restored(command: list[str], data: Path) -> tuple[float, float]:
    """Seconds and MiB of a restore."""
    shutil.rmtree(data, ignore_errors=True)
    return measured([*command, str(data)])


def main() -> None:
    """Print both."""
    parser = arguments(__doc__)
    parser.add_argument("mib", type=int, nargs="?", default=size(256, 1), help="size of the database without deltas")
    mib = parser.parse_args().mib
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        asyncio.run(with_deltas(folder / "deltas"))
        ours = [*PROGRAM, "etcd-agent", "restore", f"file://{folder}/deltas", "--data-dir"]
        runs = [restored(ours, folder / "data") for _ in range(RUNS)]
        report(
            f"restore of {EVENTS:,} events",
            spread([seconds for seconds, _ in runs]),
            f"{max(memory for _, memory in runs):.0f} MiB",
        )
        count = mib * (1 << 20) // VALUE
        file = folder / "full" / Snapshot(Kind.FULL, 0, count + 1, CREATED).key
        write_full(file, records(mib), State(revision=count + 1))
        packed = folder / "packed" / Snapshot(Kind.FULL, 0, count + 1, CREATED, Compression.GZIP).key
        packed.parent.mkdir(parents=True)
        with file.open("rb") as plain, gzip.open(packed, "wb", 6) as target:
            shutil.copyfileobj(plain, target, 1 << 20)
        unbumped = ["--bump-revision", "0", "--data-dir"]
        restoring = [*PROGRAM, "etcd-agent", "restore"]
        commands = {
            "espalier": [*restoring, f"file://{folder}/full", *unbumped],
            "espalier, gzip": [*restoring, f"file://{folder}/packed", *unbumped],
        }
        programs = sorted(assets_folder().glob("etcdutl-*/etcdutl"))
        if programs:
            commands["etcdutl"] = [str(programs[-1]), "snapshot", "restore", str(file), "--data-dir"]
        results: dict[str, list[tuple[float, float]]] = {title: [] for title in commands}
        for _ in range(RUNS):
            for title, command in commands.items():
                results[title].append(restored(command, folder / "data"))
        report(
            f"restore of {file.stat().st_size >> 20} MiB, {count:,} objects",
            *(
                f"{title:16} {spread([item for item, _ in runs])}, {max(memory for _, memory in runs):.0f} MiB"
                for title, runs in results.items()
            ),
        )


if __name__ == "__main__":
    main()
