"""Snapshots of a real etcd through store and copy: what comes out is what etcdctl saved, and etcd's tools take it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from espalier.assets.cache import assets_folder
from espalier.etcdbackup.copying.copier import Copier
from espalier.etcdbackup.copying.plan import LATEST
from espalier.etcdbackup.snapshots.codecs import compress
from espalier.etcdbackup.snapshots.names import Compression, Kind, Snapshot
from espalier.etcdbackup.snapshots.reading import download, read_inventory
from espalier.etcdbackup.snapshots.verification import verify
from espalier.etcdbackup.stores.local import LocalStore
from espalier.runtime.clock import SystemClock
from tests.support.environments.control_plane import find_assets, why_no_assets
from tests.support.etcd.backups import EPOCH, chunks
from tests.support.servers.ports import free_ports

pytestmark = pytest.mark.envtest


@contextmanager
def running_etcd(programs: Path, folder: Path) -> Iterator[list[str]]:
    """A member alone; the command of etcdctl that reaches it."""
    urls = [f"http://127.0.0.1:{port}" for port in free_ports(2)]
    flags = ["--data-dir", str(folder), "--listen-client-urls", urls[0], "--advertise-client-urls", urls[0]]
    peers = ["--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1]]
    member = ["--initial-cluster", f"default={urls[1]}", "--log-level", "error", "--unsafe-no-fsync"]
    with subprocess.Popen([str(programs / "etcd"), *flags, *peers, *member]) as etcd:
        try:
            control = [str(programs / "etcdctl"), "--endpoints", urls[0], "--command-timeout", "30s"]
            yield control
        finally:
            etcd.kill()


def saved(tmp_path: Path) -> Path:
    """The file of `etcdctl snapshot save`: a hundred keys, written at revision 2."""
    programs = find_assets()
    if programs is None:
        pytest.skip(why_no_assets())
    path = tmp_path / "saved.db"
    with running_etcd(programs, tmp_path / "data") as control:
        puts = "\n".join(f"put /registry/pods/{number} {'x' * 2000}" for number in range(100))
        transaction = f"\n{puts}\n\n\n"
        subprocess.run([*control, "txn"], input=transaction, text=True, check=True, capture_output=True)
        subprocess.run([*control, "snapshot", "save", str(path)], check=True, capture_output=True)
    return path


@pytest.mark.parametrize("compression", [Compression.GZIP, Compression.ZLIB, Compression.NONE])
async def test_etcd_snapshot_passes_stores_unchanged(tmp_path: Path, compression: Compression) -> None:
    path = saved(tmp_path)
    data = path.read_bytes()
    source, target = LocalStore(tmp_path / "source"), LocalStore(tmp_path / "target")
    snapshot = Snapshot(Kind.FULL, 0, 2, EPOCH, compression, is_final=True)
    packed: AsyncGenerator[bytes, None] = compress(chunks(data, 100_000), compression)
    await source.upload(snapshot.key, packed)
    await Copier(source, target, SystemClock()).run(LATEST)
    latest = (await read_inventory(target)).latest
    assert latest is not None
    assert (await verify(target, latest)).problems == []
    assert await download(target, latest.full, tmp_path / "db") == len(data) - 32
    assert (tmp_path / "db").read_bytes() == data[:-32]


def test_etcds_own_tool_takes_what_is_taken_for_whole(tmp_path: Path) -> None:
    tools = sorted(assets_folder().glob("etcdutl-*/etcdutl"))
    if not tools:
        pytest.skip("run make real-assets")
    path = saved(tmp_path)
    command = [str(tools[-1]), "snapshot", "status", str(path), "-w", "json"]
    status = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    assert (status["revision"], status["totalKey"]) == (2, 100)
    assert path.stat().st_size % 512 == 32
