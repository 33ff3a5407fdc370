"""A real node, seen from the machine that carries it: its files as they change, its processes, its commands."""

from __future__ import annotations

import asyncio
import ctypes
import hashlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path

from espalier.realnodes.nspawn import container
from espalier.realnodes.nspawn.container import Running
from espalier.realnodes.nspawn.system import processes
from espalier.realnodes.nspawn.system.processes import Process
from espalier.realnodes.nspawn.system.state import State
from tests.support.environments.real_environment import RealEnvironment

BIN, PLUGINS = "/usr/local/bin", "/opt/cni/bin"
"""Where the programs of our nodes lie."""
OTHER_BUILDS = f"""
set -e
for program in {BIN}/containerd {BIN}/containerd-shim-runc-v2 {BIN}/ctr {PLUGINS}/*; do
    cp -p $program $program.other
    echo >> $program.other
    mv $program.other $program
done
"""
"""Our nodes have the same containerd and plugins for all versions: a byte more makes them others, that are replaced."""
_PROGRAM = b"upgrader"
_MADE, _MOVED_HERE = 0x100, 0x80
"""IN_CREATE and IN_MOVED_TO (inotify(7))."""
_HEAD = struct.Struct("iIII")
_LIBC = ctypes.CDLL(None, use_errno=True)


class Host:
    """A node that is on."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self.root = Path(f"/proc/{running.init.pid}/root")

    @classmethod
    def find(cls, env: RealEnvironment, name: str) -> Host:
        """A node by its name."""
        state = State(env.home.nodes)
        record = next(record for record in state.nodes() if record.name == name)
        running = container.find(state.folder(record.id))
        assert running is not None, f"node {name} is off"
        return cls(running)

    def place(self, path: str) -> Path:
        """Where a path of the node lies here."""
        return self.root / path.lstrip("/")

    def checksum(self, path: str) -> str:
        """SHA-256 of a file."""
        with self.place(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def at_work(self, step: str = "") -> Process | None:
        """The process of the node program that is at a step; of any, when none is named."""
        space = os.readlink(f"/proc/{self._running.init.pid}/ns/pid")
        for pid in processes.running():
            try:
                if os.readlink(f"/proc/{pid}/ns/pid") != space:
                    continue
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            except OSError:  # it has ended
                continue
            names = [word.rpartition(b"/")[2] for word in words]
            if _PROGRAM in names and step.encode() in (b"", names[names.index(_PROGRAM) + 1]):
                return processes.identify(pid)
        return None

    async def run(self, *command: str) -> None:
        """A command on the node that succeeds."""
        process = await asyncio.create_subprocess_exec(*container.inside(self._running, *command))
        assert await process.wait() == 0, command

    async def appears(self, path: str, *, within: float) -> None:
        """Wait until something of that path is made, also for a moment only; the folders above may come later too."""
        place = self.place(path)
        descriptor = _LIBC.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        assert descriptor >= 0, os.strerror(ctypes.get_errno())
        told: asyncio.Queue[list[str]] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        loop.add_reader(descriptor, lambda: told.put_nowait(list(_names(os.read(descriptor, 65536)))))
        try:
            async with asyncio.timeout(within):
                while not place.exists():
                    folder = _deepest(place)
                    _LIBC.inotify_add_watch(descriptor, os.fsencode(folder), _MADE | _MOVED_HERE)
                    if place.exists() or folder != _deepest(place):
                        continue
                    if place.name in await told.get() and folder == place.parent:
                        return
        finally:
            loop.remove_reader(descriptor)
            os.close(descriptor)


def _deepest(place: Path) -> Path:
    return next(folder for folder in place.parents if folder.is_dir())


def _names(events: bytes) -> Iterator[str]:
    while events:
        *_, length = _HEAD.unpack_from(events)
        yield events[_HEAD.size : _HEAD.size + length].rstrip(b"\0").decode()
        events = events[_HEAD.size + length :]
