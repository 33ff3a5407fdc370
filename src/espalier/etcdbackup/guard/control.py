"""The protocol between agent and guard: lines of JSON over a unix socket that only its owner can open.

    {"id": 1, "do": "open", "until": 1234.5}    {"id": 1}
    {"id": 2, "do": "shut"}                     {"id": 2, "idleSince": 1230.5}   nothing is connected, since then
    {"id": 3, "do": "start"}                    {"id": 3, "running": true}
    {"id": 4, "do": "stop"}                     {"id": 4}       it has ended
    {"id": 5, "do": "state"}                    {"id": 5, "running": true}
                                                {"ended": 0}    it has ended, by itself or not
    anything else                               {"id": 6, "error": "..."}

Only the agent that connected last is served. Requests of an earlier agent that were not read yet are dropped.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import json
import os
import stat
from pathlib import Path
from typing import Any

from espalier.etcdbackup.guard.child import Child
from espalier.etcdbackup.guard.proxy import Proxy

MAX_LINE = 4096


class Control:
    """The guard's side of the protocol."""

    def __init__(self, proxy: Proxy, child: Child) -> None:
        self._proxy = proxy
        self._child = child
        child.ended = self._on_child_ended
        self._agent: asyncio.StreamWriter | None = None
        self._server: asyncio.Server | None = None
        self._lock_descriptor: int | None = None
        """Descriptor of a lock, which the kernel releases when this process ends."""
        self._stopping: set[asyncio.Task[None]] = set()

    async def listen(self, path: Path) -> None:
        """Listen. Replaces a socket that an earlier guard left, and nothing else. Raises `OSError`, also if that guard
        is alive: its agent would otherwise get this guard's events."""
        self._lock_descriptor = _lock(path.with_name(f"{path.name}.lock"))
        try:
            await self._bind(path)
        except OSError:
            self._unlock()
            raise

    async def _bind(self, path: Path) -> None:
        if os.path.lexists(path) and not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(errno.EEXIST, "the path is not a socket", str(path))
        path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._serve_agent, path, limit=MAX_LINE)
        except OSError as error:
            raise OSError(error.errno, error.strerror or str(error), str(path)) from None
        finally:
            os.umask(before)

    def _on_child_ended(self, code: int) -> None:
        """etcd has ended. Shut its proxy: the next etcd may have other data."""
        self._proxy.shut()
        self._send(self._agent, {"ended": code})

    def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
        if self._agent is not None:
            self._agent.close()
        self._unlock()

    def _unlock(self) -> None:
        descriptor, self._lock_descriptor = self._lock_descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    async def _serve_agent(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        before, self._agent = self._agent, writer
        if before is not None:
            before.close()
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                if self._agent is not writer:  # a later agent has connected
                    break
                await self._handle(writer, line)
        except (ValueError, ConnectionError):
            pass  # a line that is too long; the agent is gone
        finally:
            if self._agent is writer:
                self._agent = None
            writer.close()

    async def _handle(self, writer: asyncio.StreamWriter, line: bytes) -> None:
        answer: dict[str, Any] = {}
        try:
            request = json.loads(line)
            answer["id"] = request["id"]
            match request["do"]:
                case "open":
                    until = float(request["until"])
                    if self._child.is_running:
                        self._proxy.open(until)
                case "shut":
                    answer["idleSince"] = self._proxy.shut()
                case "start":
                    await self._child.start()
                    answer["running"] = True
                case "stop":
                    task = asyncio.create_task(self._stop_and_answer(writer, answer))
                    self._stopping.add(task)
                    task.add_done_callback(self._stopping.discard)
                    return
                case "state":
                    answer["running"] = self._child.is_running
                case other:
                    raise ValueError(f"do: found {other!r}, allowed are open, shut, start, stop and state")
        except (ValueError, KeyError, TypeError, OverflowError, RecursionError, OSError) as error:
            answer["error"] = str(error)
        self._send(writer, answer)

    async def _stop_and_answer(self, writer: asyncio.StreamWriter, answer: dict[str, Any]) -> None:
        await self._child.stop()
        self._send(writer, answer)

    def _send(self, writer: asyncio.StreamWriter | None, message: dict[str, Any]) -> None:
        if writer is not None and not writer.is_closing():
            with contextlib.suppress(ConnectionError):
                writer.write(json.dumps(message).encode() + b"\n")


def _lock(path: Path) -> int:
    """Lock a file for as long as its descriptor is open. Raises `OSError`."""
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise OSError(errno.EADDRINUSE, "another guard is using this socket; stop it first", str(path)) from None
    return descriptor
