"""etcdbrctl of etcd-backup-restore, where it was built: our backups and its own are tried on each other."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from espalier.assets.recipes import ETCDBRCTL
from espalier.etcdbackup.stores.opening import open_store
from espalier.etcdbackup.stores.store import Store
from espalier.realnodes.management.processes import killed_with_parent
from tests.support.etcd.real_etcd import built
from tests.support.waiting import eventually

_PROGRAMS = built(ETCDBRCTL)
PROGRAM = None if _PROGRAMS is None else _PROGRAMS / "etcdbrctl"
PREFIX = "main"
START_SECONDS = 300.0
ETCD_CONFIGURATION = """\
name: default
data-dir: data
initial-cluster: default=unix://peer:0
initial-cluster-token: etcd-cluster
initial-advertise-peer-urls: {default: ["unix://peer:0"]}
"""


@dataclass(frozen=True)
class SharedStore:
    """A store for both."""

    scheme: str
    provider: str
    container: str
    """A bucket; of a local store, the folder."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Where its credentials are."""

    @classmethod
    def local(cls, folder: Path) -> SharedStore:
        """One in a folder, which must be in the home of etcdbrctl."""
        return cls("file", "Local", str(folder))

    @property
    def url(self) -> str:
        """As we name it."""
        return f"{self.scheme}://{self.container}/{PREFIX}"

    def flags(self, side: str = "") -> tuple[str, ...]:
        """As etcdbrctl names it."""
        return (
            f"--{side}storage-provider={self.provider}",
            f"--{side}store-container={Path(self.container).name}",
            f"--{side}store-prefix={PREFIX}",
        )

    def open(self) -> Store:
        """For the test itself."""
        return open_store(self.url, self.environment)


async def peer(folder: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
    """Run it, with a folder as its home. Raises `AssertionError` with the end of what it printed when it fails."""
    assert PROGRAM is not None
    process = await asyncio.create_subprocess_exec(
        *killed_with_parent([PROGRAM, *arguments]), cwd=folder, env={**_environment(folder), **(environment or {})},
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    printed, _ = await process.communicate()
    assert process.returncode == 0, printed.decode()[-3000:]


async def restored_by_peer(folder: Path, store: SharedStore, data: Path) -> None:
    """A data directory, made by it from a store."""
    await peer(folder, "restore", *_flags_of_restore(folder, store, data), environment=store.environment)


async def compacted_by_peer(folder: Path, store: SharedStore) -> None:
    """The latest set as a full snapshot alone, made by it."""
    flags = ("--enable-snapshot-lease-renewal=false", "--metrics-scrape-wait-duration=0s")
    restoring = _flags_of_restore(folder, store, folder / "compacted")
    await peer(folder, "compact", *restoring, *flags, environment=store.environment)


def _flags_of_restore(folder: Path, store: SharedStore, data: Path) -> tuple[str, ...]:
    return (
        f"--data-dir={data}",
        *store.flags(),
        "--name=default",
        "--initial-cluster-token=etcd-cluster",
        "--initial-cluster=default=unix://peer:0",
        "--initial-advertise-peer-urls=unix://peer:0",
        f"--restoration-temp-snapshots-dir={folder}/parts",
        f"--snapstore-temp-directory={folder}",
    )


def _environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HOME": str(folder),
        "ETCD_CONF": f"{folder}/etcd.yaml",
        "POD_NAME": "etcd-main-0",
        "POD_NAMESPACE": "default",
    }


@dataclass
class PeerServer:
    """`etcdbrctl server`, which takes snapshots."""

    address: str

    async def ask(self, path: str) -> Any:
        """The answer as JSON, as soon as it takes snapshots."""

        async def answer() -> tuple[int, str]:
            async with aiohttp.ClientSession() as session, session.get(self.address + path) as response:
                return response.status, await response.text()

        _, text = await eventually(
            answer,
            lambda answer: answer[0] == 200,
            within=START_SECONDS,
            every=0.1,
            despite=aiohttp.ClientConnectionError,
        )
        return json.loads(text)


@contextlib.asynccontextmanager
async def peer_server(folder: Path, store: SharedStore, endpoint: str, *flags: str) -> AsyncIterator[PeerServer]:
    """One that backs up an etcd, until the context is left."""
    assert PROGRAM is not None
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
    arguments: list[str | Path] = [
        PROGRAM,
        "server",
        f"--server-port={port}",
        f"--endpoints={endpoint}",
        f"--service-endpoints={endpoint}",
        f"--data-dir={folder}/data",
        *store.flags(),
        f"--snapstore-temp-directory={folder}",
        *flags,
    ]
    (folder / "etcd.yaml").write_text(ETCD_CONFIGURATION)
    with (folder / "etcdbrctl.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *killed_with_parent(arguments),
            cwd=folder,
            env={**_environment(folder), **store.environment},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield PeerServer(f"http://127.0.0.1:{port}")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        await process.wait()
