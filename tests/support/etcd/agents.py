"""`espalier etcd-agent run` as a process that tests ask, kill and start again."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.waiting import eventually

START_SECONDS = 300.0


@dataclass
class AgentProcess:
    """One agent. It dies with the test."""

    store: str
    etcd: str
    log: Path
    flags: Sequence[str] = ()
    context: ssl.SSLContext | None = None
    """How it is asked over HTTPS."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables beside those of the test."""
    address: str = ""
    _process: asyncio.subprocess.Process | None = field(default=None, repr=False)

    async def start(self) -> None:
        """Start it; returns when it answers."""
        flags = ["--endpoints", self.etcd, "--listen", "127.0.0.1:0", *self.flags]
        environment = {**os.environ, **self.environment}
        with self.log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, "-u", "-m", "espalier.cli", "etcd-agent", "run", self.store, *flags,
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log, env=environment,
            )  # fmt: skip
        assert self._process.stdout is not None
        async with asyncio.timeout(START_SECONDS):
            line = (await self._process.stdout.readline()).decode()
        match = re.search(r"https?://\S+$", line)
        assert match, f"{line}{self.log.read_text()[-2000:]}"
        self.address = match[0]

    @property
    def pid(self) -> int:
        """Of its process, which must run."""
        assert self._process is not None
        return self._process.pid

    async def ask(self, path: str, *, method: str = "GET", until_taken: bool = False) -> Any:
        """The answer as JSON; with `until_taken` as soon as it takes snapshots."""

        def is_taken(answer: tuple[int, Any]) -> bool:
            assert answer[0] == 200 or (until_taken and answer[0] in (500, 503)), answer
            return answer[0] == 200

        return (await eventually(lambda: self.answer(path, method=method), is_taken))[1]

    async def answer(self, path: str, *, method: str = "GET") -> tuple[int, Any]:
        """Status and answer."""
        async with aiohttp.ClientSession() as session:
            options: dict[str, Any] = {} if self.context is None else {"ssl": self.context}
            async with session.request(method, self.address + path, **options) as response:
                if response.content_type == "application/json":
                    return response.status, await response.json()
                return response.status, await response.text()

    async def stop(self) -> int:
        """SIGTERM; its exit code."""
        return await self._end(signal.SIGTERM)

    async def kill(self) -> None:
        """SIGKILL; idempotent."""
        if self._process is not None:
            await self._end(signal.SIGKILL)

    async def _end(self, by: signal.Signals) -> int:
        process, self._process = self._process, None
        assert process is not None
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, by)
        return await process.wait()


@contextlib.asynccontextmanager
async def running_agent(
    store: str,
    etcd: str,
    log: Path,
    *flags: str,
    context: ssl.SSLContext | None = None,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[AgentProcess]:
    """An agent, until the context is left."""
    agent = AgentProcess(store, etcd, log, flags, context, environment or {})
    try:
        await agent.start()
        yield agent
    finally:
        await agent.kill()
