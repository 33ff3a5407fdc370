"""The agent's side of a guard that is away: what is said of it, and what it is told when it is back."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from espalier.etcd.client import connect
from espalier.etcdbackup.running import guard as guards
from espalier.etcdbackup.running.guard import GuardClient
from espalier.etcdbackup.running.parts import NotStarted
from tests.support.waiting import eventually

PATIENCE = 120.0


@asynccontextmanager
async def client(path: Path, *, start_timeout: float = 300) -> AsyncIterator[GuardClient]:
    async with connect("http://127.0.0.1:1") as etcd:
        made = GuardClient(path, etcd, start_timeout=start_timeout)
        running = asyncio.create_task(made.run())
        try:
            yield made
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_a_guard_that_is_not_there_is_reported(tmp_path: Path) -> None:
    async with client(tmp_path / "guard.sock") as guard:
        await eventually(lambda: guard.trouble)
        assert guard.trouble == f"the guard of etcd is unreachable at {tmp_path}/guard.sock: No such file or directory"


async def test_guard_assumed_idle_is_told_to_end_its_etcd(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The agent went on as if etcd had ended, and restored its data, say."""
    monkeypatch.setattr(guards, "CONNECT_TIMEOUT", 0.01)
    heard: asyncio.Queue[bytes] = asyncio.Queue()

    async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.put_nowait(await reader.readline())
        writer.close()

    with tempfile.TemporaryDirectory(prefix="guard") as name:
        path = Path(name) / "guard.sock"
        async with client(path) as guard:
            assert not await guard.is_running()
            server = await asyncio.start_unix_server(hear, path)
            try:
                async with asyncio.timeout(PATIENCE):
                    assert json.loads(await heard.get())["do"] == "stop"
                assert not guard.trouble
            finally:
                server.close()


async def test_a_guard_that_cannot_start_etcd_says_why() -> None:
    """Otherwise the agent would wait for an etcd that does not run, and say that it does not answer."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            asked = json.loads(line)
            answer = {"error": "no such program"} if asked["do"] == "start" else {"running": False}
            writer.write(json.dumps({**asked, **answer}).encode() + b"\n")
            await writer.drain()
        writer.close()

    with tempfile.TemporaryDirectory(prefix="guard") as name:
        path = Path(name) / "guard.sock"
        server = await asyncio.start_unix_server(refuse, path)
        try:
            async with client(path, start_timeout=1) as guard:
                with pytest.raises(NotStarted, match="etcd did not start: no such program"):
                    await guard.start()
        finally:
            server.close()


async def test_an_etcd_that_exits_at_once_is_not_started() -> None:
    async def exit_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(json.dumps({**json.loads(line), "running": True}).encode() + b"\n" + b'{"ended": 1}\n')
            await writer.drain()
        writer.close()

    with tempfile.TemporaryDirectory(prefix="guard") as name:
        path = Path(name) / "guard.sock"
        server = await asyncio.start_unix_server(exit_at_once, path)
        try:
            async with client(path) as guard:
                with pytest.raises(NotStarted, match="etcd exited before it answered"):
                    await guard.start()
        finally:
            server.close()
