"""Write an archive of a settled cluster of every provider: `python -m tests.stored.make_every_provider NAME`."""

from __future__ import annotations

import asyncio
import json
import sys
import tarfile
import tempfile
from pathlib import Path

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.apiserver.storage.sqlite import SqliteStore
from espalier.apiserver.storage.store import Store
from espalier.simulator.workload_clusters.stores import FolderStores
from tests.support.environments.recording import copied
from tests.support.environments.tenants_of_every_provider import Settled, settled

FOLDER = Path(__file__).parent / "every_provider"


async def _write(value: Settled, home: Path) -> None:
    await _copy(value.store, SqliteStore(home / "management.db"))
    folders = FolderStores(home)
    for key in value.store.table("clusters.cluster.x-k8s.io").objects:
        await _copy(value.stores.open(key), folders.open(Key(SYSTEM_NAMESPACE, key.name)))
    (home / "killed.json").write_text(json.dumps({"at": value.at.isoformat()}))


async def _copy(source: Store, target: Store) -> None:
    await target.start()
    copied(source, target)
    await target.close()


def make(target: Path) -> None:
    """All in one archive, as `tests/support/environments/stored.py` opens it."""
    target.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        asyncio.run(_write(settled(), home))
        with tarfile.open(target, "w:xz", preset=9) as archive:
            for path in sorted(path for path in home.rglob("*") if path.is_file() and path.suffix != ".db-shm"):
                entry = archive.gettarinfo(path, str(path.relative_to(home)))
                entry.uid = entry.gid = 0
                entry.uname = entry.gname = ""
                with path.open("rb") as file:
                    archive.addfile(entry, file)


if __name__ == "__main__":
    make(FOLDER / f"{sys.argv[1]}.tar.xz")
