"""Local environments that versions before this one left behind: archives of `tests/stored`, opened to go on."""

from __future__ import annotations

import asyncio
import json
import subprocess
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.apiserver.storage.sqlite import SqliteStore
from espalier.apiserver.storage.store import MemoryStore, Store
from espalier.simulator.workload_clusters.stores import FolderStores, MemoryStores
from tests.support.environments.recording import copied

ARCHIVES = sorted((Path(__file__).parents[2] / "stored").glob("*.tar.xz"))


@dataclass(frozen=True)
class Stored:
    """The content of an environment's stores when it was killed, in memory, and when that was."""

    management: Store
    workloads: MemoryStores
    at: datetime


def unpack(archive: Path, home: Path) -> Stored:
    """Open an archive in this folder, by the code that opens the files of any environment."""
    subprocess.run(["tar", "-xf", archive, "-C", home], check=True)  # Python 3.11.2 has no filters for it
    at = datetime.fromisoformat(json.loads((home / "killed.json").read_text())["at"])
    return asyncio.run(_read(home, at))


async def _read(home: Path, at: datetime) -> Stored:
    management = await _read_file(SqliteStore(home / "management.db"))
    folders, workloads = FolderStores(home), MemoryStores()
    for key in management.table("clusters.cluster.x-k8s.io").objects:
        assert folders.exists(key), f"the archive has no store of cluster {key}"
        copied(await _read_file(folders.open(Key(SYSTEM_NAMESPACE, key.name))), workloads.open(key))
    return Stored(management, workloads, at)


async def _read_file(file: Store) -> Store:
    await file.start()
    try:
        return copied(file, MemoryStore())
    finally:
        await file.close()
