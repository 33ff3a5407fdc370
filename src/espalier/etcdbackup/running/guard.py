"""The agent's client of the guard: calls wait while the guard is unreachable. Also watches whether etcd runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import structlog

from espalier.api import json_trees
from espalier.etcd.client import Client
from espalier.etcd.errors import EtcdError
from espalier.etcdbackup.guard.control import LONGEST_LINE
from espalier.etcdbackup.running.parts import NotStarted
from espalier.etcdbackup.snapshotter.full import newest_revision

log = structlog.get_logger(__name__)

AGAIN = 0.2
"""Seconds between two attempts to reach the guard, or etcd behind it."""
CONNECT_TIMEOUT = 3.0
"""Seconds after which an unreachable guard counts as running nothing."""


class GuardClient:
    """A `Guard` in another process. `run` must be running; calls before that wait."""

    def __init__(self, path: Path, etcd: Client, *, start_timeout: float = 300.0) -> None:
        self._path = path
        self._etcd = etcd
        self._start_timeout = start_timeout
        self._writer: asyncio.StreamWriter | None = None
        self._connected = asyncio.Event()
        self._not_running = asyncio.Event()
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self.trouble = ""
        """The reason why the guard can't be reached; empty while it can."""
        self._may_run = True
        """False from the report that etcd has ended until it is started: an unreachable guard is told so later."""

    async def run(self) -> NoReturn:
        """Keep connected until cancelled."""
        try:
            while True:
                try:
                    reader, writer = await asyncio.open_unix_connection(self._path, limit=LONGEST_LINE)
                except OSError as error:
                    self._not_reached(error)
                    await asyncio.sleep(AGAIN)
                    continue
                self.trouble = ""
                await self._listened(reader, writer)
        finally:
            self._lost()

    def _not_reached(self, error: OSError) -> None:
        trouble = f"the guard of etcd is unreachable at {self._path}: {error.strerror or error}"
        if trouble != self.trouble:
            log.warning("waiting for the guard of etcd", error=trouble)
        self.trouble = trouble

    async def is_running(self) -> bool:
        """See `Guard`."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                answer = await self._ask({"do": "state"})
        except TimeoutError:
            self._may_run = False
            return False
        return answer.get("running") is True

    async def start(self) -> None:
        """See `Guard`."""
        self._may_run = True
        answer = await self._ask({"do": "start"})
        if "error" in answer:
            raise NotStarted(f"etcd did not start: {answer['error']}")
        answering, ending = asyncio.ensure_future(self._answers_at_all()), asyncio.ensure_future(self.ended())
        try:
            async with asyncio.timeout(self._start_timeout):
                await asyncio.wait((answering, ending), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise NotStarted(f"etcd did not answer within {self._start_timeout:g} s") from None
        finally:
            answering.cancel()
            ending.cancel()
            await asyncio.gather(answering, ending, return_exceptions=True)
        if self._not_running.is_set():
            raise NotStarted("etcd exited before it answered; see its log")

    async def stop(self) -> None:
        """See `Guard`."""
        self._may_run = False
        await self._ask({"do": "stop"})

    async def ended(self) -> None:
        """See `Guard`. If the guard is gone, so is etcd."""
        await self._not_running.wait()

    async def open(self, until: float) -> None:
        """See `Guard`."""
        await self._ask({"do": "open", "until": until})

    async def shut(self) -> float | None:
        """See `Guard`."""
        since = (await self._ask({"do": "shut"})).get("idleSince")
        return float(since) if isinstance(since, int | float) and not isinstance(since, bool) else None

    async def _answers_at_all(self) -> None:
        while True:
            try:
                await newest_revision(self._etcd)
            except EtcdError:
                await asyncio.sleep(AGAIN)
            else:
                return

    async def _ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request. It is sent again if the connection broke before the answer: all requests are
        idempotent."""
        while True:
            await self._connected.wait()
            writer = self._writer
            if writer is None:
                continue
            self._number += 1
            number, coming = self._number, asyncio.get_running_loop().create_future()
            self._answers[number] = coming
            try:
                writer.write(json.dumps({"id": number, **request}).encode() + b"\n")
                answer: dict[str, Any] = await coming
            except ConnectionError:
                continue
            finally:
                self._answers.pop(number, None)
            return answer

    async def _listened(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._connected.set()
        if not self._may_run:
            writer.write(json.dumps({"id": 0, "do": "stop"}).encode() + b"\n")
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                said = json_trees.decode(line, dict[str, Any])
                if "ended" in said:
                    self._not_running.set()
                if said.get("running") is True:  # in the order in which it was said
                    self._not_running.clear()
                if (coming := self._answers.get(said.get("id", 0))) is not None and not coming.done():
                    coming.set_result(said)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            log.warning("lost the connection to the guard of etcd", error=str(error))
        finally:
            writer.close()
            self._lost()

    def _lost(self) -> None:
        self._writer = None
        self._connected.clear()
        self._not_running.set()
        for coming in self._answers.values():
            if not coming.done():
                coming.set_exception(ConnectionError("the guard is gone"))
