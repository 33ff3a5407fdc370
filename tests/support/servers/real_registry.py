"""The real registry of images (distribution), where it was built."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from espalier.assets.cache import assets_folder, is_finished
from espalier.assets.recipes import REGISTRY
from tests.support.child_process import ChildProcess
from tests.support.servers.image_registry import USER
from tests.support.servers.ports import free_port
from tests.support.waiting import eventually, is_listened_to

HASHED = "$2b$05$sXt.YrnuPHEP3BCqwNLE9.zDXg0D3PcCFfrMC.ODictZeXC9dmuN2"
"""`PASSWORD`, by bcrypt."""
_HOME = REGISTRY.home(assets_folder())
NEEDED = pytest.mark.skipif(
    not is_finished(_HOME), reason="the registry was not built: run make real-assets REAL=registry"
)


@dataclass
class RealRegistry:
    """A registry that keeps its images in a folder, and may be killed and started again."""

    folder: Path
    guarded: bool
    """True if it wants the account of `USER`."""
    port: int = field(default_factory=free_port)
    _running: ChildProcess | None = None

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    @property
    def images(self) -> int:
        """The number of tags that it has."""
        return len([*(self.folder / "stored").glob("**/_manifests/tags/*/current/link")])

    async def start(self) -> None:
        """Return when it listens."""
        self.folder.mkdir(exist_ok=True)
        (self.folder / "users").write_text(f"{USER}:{HASHED}\n")
        configuration = {
            "version": 0.1,
            "storage": {"filesystem": {"rootdirectory": str(self.folder / "stored")}},
            "http": {"addr": self.address},
            "auth": {"htpasswd": {"realm": "images", "path": str(self.folder / "users")}} if self.guarded else {},
        }
        (self.folder / "config.yml").write_text(json.dumps(configuration))
        running = ChildProcess([_HOME / "registry", "serve", self.folder / "config.yml"], folder=self.folder)
        self._running = running

        async def listens() -> bool:
            running.check()
            return await is_listened_to(self.port)

        await eventually(listens)

    async def kill(self) -> None:
        """End it at once, whatever it is doing."""
        assert self._running is not None
        os.kill(self._running.pid, signal.SIGKILL)
        await self.stop()

    async def stop(self) -> None:
        """Return when it is gone."""
        if self._running is not None:
            await self._running.stop()
            self._running = None


@asynccontextmanager
async def real_registry(folder: Path, *, guarded: bool) -> AsyncIterator[RealRegistry]:
    """A running registry."""
    registry = RealRegistry(folder, guarded)
    try:
        await registry.start()
        yield registry
    finally:
        await registry.stop()
