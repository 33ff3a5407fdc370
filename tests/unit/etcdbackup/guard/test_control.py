"""The guard and its agent: over their socket, with a program that stands for etcd."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import stat
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from espalier.etcdbackup.guard.child import Child
from espalier.etcdbackup.guard.control import MAX_LINE, Control
from espalier.etcdbackup.guard.proxy import Proxy, since_boot

PATIENCE = 120.0
SLEEPS = [sys.executable, "-c", "import time; time.sleep(600)"]
DEAF = [
    sys.executable,
    "-c",
    "import signal, sys, time; signal.signal(15, signal.SIG_IGN); open(sys.argv[1], 'w').close(); time.sleep(600)",
]
"""Opens what its argument names once it does not hear SIGTERM."""


GRACEFUL = [
    sys.executable,
    "-c",
    "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(7)); open(sys.argv[1], 'w').close(); "
    "time.sleep(600)",
]
"""The same once it would end by itself."""


@dataclass
class Setting:
    proxy: Proxy
    child: Child
    path: Path

    async def agent(self) -> Agent:
        return Agent(*await asyncio.open_unix_connection(self.path))


@dataclass
class Agent:
    """The agent's side of the connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, **request: Any) -> dict[str, Any]:
        self.say(**request)
        return await self.hear()

    def say(self, **request: Any) -> None:
        self.writer.write(json.dumps(request).encode() + b"\n")

    async def hear(self) -> dict[str, Any]:
        async with asyncio.timeout(PATIENCE):
            heard: dict[str, Any] = json.loads(await self.reader.readline())
        return heard

    async def until_hung_up(self) -> bytes:
        """The bytes received before."""
        async with asyncio.timeout(PATIENCE):
            return await self.reader.read()


@asynccontextmanager
async def guard(command: list[str], patience: float = 5) -> AsyncIterator[Setting]:
    with tempfile.TemporaryDirectory(prefix="guard") as name:
        folder = Path(name)
        proxy, child = Proxy(folder / "etcd.sock"), Child(command, patience=patience)
        # Python between fork and exec is safe in the guard, which has one thread; not here, where gRPC may have some.
        vars(child)["_die_with_parent"] = None
        control = Control(proxy, child)
        await control.listen(folder / "guard.sock")
        try:
            yield Setting(proxy, child, folder / "guard.sock")
        finally:
            proxy.close()
            await child.stop()
            control.close()
            await asyncio.sleep(0)


async def test_nothing_runs_before_the_agent_says_so() -> None:
    async with guard(SLEEPS) as setting:
        agent = await setting.agent()
        assert await agent.ask(id=1, do="state") == {"id": 1, "running": False}
        assert await agent.ask(id=2, do="open", until=since_boot() + 60) == {"id": 2}
        assert not setting.proxy.passes, "there is no etcd to be let in to"
        assert await agent.ask(id=3, do="start") == {"id": 3, "running": True}
        assert await agent.ask(id=4, do="open", until=since_boot() + 60) == {"id": 4}
        assert setting.proxy.passes
        shut = await agent.ask(id=5, do="shut")
        assert shut.keys() == {"id", "idleSince"}
        assert not setting.proxy.passes
        agent.writer.close()


async def test_end_of_etcd_is_reported_and_shuts_proxy() -> None:
    async with guard(SLEEPS) as setting:
        agent = await setting.agent()
        await agent.ask(id=1, do="start")
        await agent.ask(id=2, do="open", until=since_boot() + 60)
        assert setting.child._process is not None
        os.kill(setting.child._process.pid, signal.SIGKILL)
        assert await agent.hear() == {"ended": -signal.SIGKILL}
        assert not setting.proxy.passes
        agent.writer.close()


async def test_agent_that_starts_etcd_again_gets_the_same() -> None:
    """It may have restarted and know of none; two would write to one data directory."""
    async with guard(SLEEPS) as setting:
        agent = await setting.agent()
        await agent.ask(id=1, do="start")
        first = setting.child._process
        assert await agent.ask(id=2, do="start") == {"id": 2, "running": True}
        assert setting.child._process is first
        agent.writer.close()


async def test_stopped_etcd_ends_as_gracefully(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ready")
    async with guard([*GRACEFUL, str(tmp_path / "ready")]) as setting:
        agent = await setting.agent()
        await agent.ask(id=1, do="start")
        await asyncio.to_thread((tmp_path / "ready").read_bytes)
        assert setting.child._process is not None
        os.kill(setting.child._process.pid, signal.SIGSTOP)
        agent.say(id=2, do="stop")
        assert await agent.hear() == {"ended": 7}
        agent.writer.close()


@pytest.mark.demand("G55")
async def test_an_etcd_that_does_not_end_is_killed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "deaf")
    async with guard([*DEAF, str(tmp_path / "deaf")], patience=0.3) as setting:
        agent = await setting.agent()
        await agent.ask(id=1, do="start")
        await asyncio.to_thread((tmp_path / "deaf").read_bytes)
        agent.say(id=2, do="stop")
        assert [await agent.hear(), await agent.hear()][-1] == {"id": 2}
        assert not setting.child.is_running
        agent.writer.close()


async def test_new_agent_is_heard_and_the_old_is_not() -> None:
    async with guard(SLEEPS) as setting:
        old = await setting.agent()
        await old.ask(id=1, do="start")
        new = await setting.agent()
        assert (await new.ask(id=1, do="shut"))["id"] == 1
        old.say(id=2, do="open", until=since_boot() + 60)
        assert await old.until_hung_up() == b""
        assert await new.ask(id=2, do="state") == {"id": 2, "running": True}
        assert not setting.proxy.passes
        for agent in (old, new):
            agent.writer.close()


async def test_silent_agent_is_dropped_for_another() -> None:
    """It would wait for news of etcd which only the new one hears."""
    async with guard(SLEEPS) as setting:
        old = await setting.agent()
        await old.ask(id=1, do="state")
        new = await setting.agent()
        assert await old.until_hung_up() == b""
        for agent in (old, new):
            agent.writer.close()


async def test_pending_requests_of_an_old_agent_are_dropped() -> None:
    """Not what was read from its socket already, while etcd started."""
    async with guard(SLEEPS) as setting:
        start, starts, may_start, started = setting.child.start, asyncio.Event(), asyncio.Event(), asyncio.Event()

        async def slowly() -> None:
            starts.set()
            await may_start.wait()
            await start()
            started.set()

        vars(setting.child)["start"] = slowly
        old = await setting.agent()
        old.say(id=1, do="start")
        old.say(id=2, do="open", until=since_boot() + 60)
        await starts.wait()
        new = await setting.agent()
        assert "error" not in await new.ask(id=1, do="shut")
        may_start.set()
        await started.wait()
        assert await new.ask(id=2, do="state") == {"id": 2, "running": True}
        assert not setting.proxy.passes
        for agent in (old, new):
            agent.writer.close()


async def test_etcd_dies_with_its_guard() -> None:
    """By the kernel: one that nobody guards would let clients in for ever."""
    with tempfile.TemporaryDirectory(prefix="guard") as name:
        folder = Path(name)
        options = {
            "command": ["/bin/sleep", "60"],
            "etcd": f"{folder}/etcd.sock",
            "control": f"{folder}/guard.sock",
            "host": "127.0.0.1",
            "port": 0,
            "liveness": None,
            "patience": 5,
            "plain": None,
        }
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "espalier.etcdbackup.guard", json.dumps(options), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        async with asyncio.timeout(PATIENCE):
            assert b"guarding" in await process.stdout.readline()
            agent = Agent(*await asyncio.open_unix_connection(folder / "guard.sock"))
            assert await agent.ask(id=1, do="start") == {"id": 1, "running": True}
            (etcd,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            group = os.getpgid(int(etcd))
            process.kill()
            await process.stdout.read()  # it ends with the last process that has it: the guard, and its etcd
            await process.wait()
            agent.writer.close()
            with contextlib.suppress(ConnectionError):
                await agent.writer.wait_closed()
        assert group == int(etcd), "a Ctrl-C of the terminal is for its guard alone"


async def test_invalid_request_is_reported_without_effect() -> None:
    async with guard(SLEEPS) as setting:
        agent = await setting.agent()
        for request in ({"id": 1, "do": "dance"}, {"id": 2, "do": "open"}, {"id": 3}):
            assert "error" in await agent.ask(**request)
        agent.writer.write(b"no json\n")
        assert "error" in await agent.hear()
        agent.writer.write(b"[" * 3000 + b"\n")
        assert "error" in await agent.hear()
        assert await agent.ask(id=4, do="start") == {"id": 4, "running": True}
        assert "until" in (await agent.ask(id=5, do="open", until=1e30))["error"]
        assert "error" in await agent.ask(id=6, do="open", until=10**400)
        agent.writer.write(b"x" * 2 * MAX_LINE)
        assert await agent.until_hung_up() == b""
        agent.writer.close()


async def test_the_socket_is_its_owners_alone() -> None:
    async with guard(SLEEPS) as setting:
        assert stat.S_IMODE(setting.path.stat().st_mode) == 0o600


async def test_second_guard_takes_no_agent_of_a_living() -> None:
    async with guard(SLEEPS) as setting:
        agent = await setting.agent()
        other = Control(Proxy(setting.path.with_name("other.sock")), Child(SLEEPS, patience=1))
        with pytest.raises(OSError, match=r"another guard is using this socket; stop it first.*guard\.sock"):
            await other.listen(setting.path)
        assert await agent.ask(id=1, do="state") == {"id": 1, "running": False}
        agent.writer.close()


async def test_the_socket_of_a_guard_that_is_gone_is_taken() -> None:
    with tempfile.TemporaryDirectory(prefix="guard") as name:
        path = Path(name) / "guard.sock"
        for _ in range(2):
            control = Control(Proxy(Path(name) / "etcd.sock"), Child(SLEEPS, patience=1))
            await control.listen(path)
            control.close()
            await asyncio.sleep(0)


async def test_a_program_that_is_not_there_is_named() -> None:
    async with guard(["/nowhere/etcd"]) as setting:
        agent = await setting.agent()
        assert "/nowhere/etcd" in (await agent.ask(id=1, do="start"))["error"]
        agent.writer.close()


async def test_a_file_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("data")
    control = Control(Proxy(tmp_path / "etcd.sock"), Child(SLEEPS, patience=1))
    with pytest.raises(FileExistsError, match="precious"):
        await control.listen(precious)
    assert precious.read_text() == "data"
    with pytest.raises(FileNotFoundError, match="nowhere"):
        await control.listen(tmp_path / "nowhere" / "guard.sock")


async def test_guard_that_could_not_listen_blocks_no_other() -> None:
    with tempfile.TemporaryDirectory(prefix="guard") as name:
        path = Path(name) / "guard.sock"
        path.write_text("data")
        failed, other = (Control(Proxy(Path(name) / "etcd.sock"), Child(SLEEPS, patience=1)) for _ in range(2))
        with pytest.raises(FileExistsError):
            await failed.listen(path)
        path.unlink()
        await other.listen(path)
        other.close()
        await asyncio.sleep(0)


async def test_link_in_place_of_lock_makes_no_file_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "guard.sock.lock").symlink_to(tmp_path / "elsewhere")
    control = Control(Proxy(tmp_path / "etcd.sock"), Child(SLEEPS, patience=1))
    with pytest.raises(OSError, match="symbolic links"):
        await control.listen(tmp_path / "guard.sock")
    assert not (tmp_path / "elsewhere").exists()
