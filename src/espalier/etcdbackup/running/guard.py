"""The agent's client of the guard: calls wait while the guard is unreachable. Also watches whether etcd runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, NoReturn

import msgspec
import structlog

from espalier.api.trees import json_trees
from espalier.etcd.client import Client
from espalier.etcd.errors import EtcdError
from espalier.etcdbackup.guard.control import MAX_LINE
from espalier.etcdbackup.running.parts import NotStarted
from espalier.etcdbackup.snapshotter.full import newest_revision

log = structlog.get_logger(__name__)

RETRY_AFTER = 0.2
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
        self._ended = asyncio.Event()
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._number = 0
        self.trouble = ""
        """The reason why the guard can't be reached; empty while it can."""
        self._may_run = True
        """False after `stop`, or after etcd was reported as not running, until `start`. A guard that returns then gets
        `stop`."""

    async def run(self) -> NoReturn:
        """Keep connected until cancelled."""
        try:
            while True:
                try:
                    reader, writer = await asyncio.open_unix_connection(self._path, limit=MAX_LINE)
                except OSError as error:
                    self._record_unreachable(error)
                    await asyncio.sleep(RETRY_AFTER)
                    continue
                self.trouble = ""
                await self._read_messages(reader, writer)
        finally:
            self._disconnected()

    def _record_unreachable(self, error: OSError) -> None:
        trouble = f"the guard of etcd is unreachable at {self._path}: {error.strerror or error}"
        if trouble != self.trouble:
            log.warning("waiting for the guard of etcd", error=trouble)
        self.trouble = trouble

    async def is_running(self) -> bool:
        """See `Guard`."""
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                answer = await self._request({"do": "state"})
        except TimeoutError:
            self._may_run = False
            return False
        return answer.get("running") is True

    async def start(self) -> None:
        """See `Guard`."""
        self._may_run = True
        answer = await self._request({"do": "start"})
        if "error" in answer:
            raise NotStarted(f"etcd did not start: {answer['error']}")
        answering, ending = asyncio.ensure_future(self._wait_for_answer()), asyncio.ensure_future(self.ended())
        try:
            async with asyncio.timeout(self._start_timeout):
                await asyncio.wait((answering, ending), return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise NotStarted(f"etcd did not answer within {self._start_timeout:g} s") from None
        finally:
            answering.cancel()
            ending.cancel()
            await asyncio.gather(answering, ending, return_exceptions=True)
        if self._ended.is_set():
            raise NotStarted("etcd exited before it answered; see its log")

    async def stop(self) -> None:
        """See `Guard`."""
        self._may_run = False
        await self._request({"do": "stop"})

    async def ended(self) -> None:
        """See `Guard`. If the guard is gone, so is etcd."""
        await self._ended.wait()

    async def open(self, until: float) -> None:
        """See `Guard`."""
        await self._request({"do": "open", "until": until})

    async def shut(self) -> float | None:
        """See `Guard`."""
        since = (await self._request({"do": "shut"})).get("idleSince")
        return float(since) if isinstance(since, int | float) and not isinstance(since, bool) else None

    async def _wait_for_answer(self) -> None:
        while True:
            try:
                await newest_revision(self._etcd)
            except EtcdError:
                await asyncio.sleep(RETRY_AFTER)
            else:
                return

    async def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request. It is sent again if the connection broke before the answer: all requests are
        idempotent."""
        while True:
            await self._connected.wait()
            writer = self._writer
            if writer is None:
                continue
            self._number += 1
            number, answered = self._number, asyncio.get_running_loop().create_future()
            self._answers[number] = answered
            try:
                writer.write(json.dumps({"id": number, **request}).encode() + b"\n")
                answer: dict[str, Any] = await answered
            except ConnectionError:
                continue
            finally:
                self._answers.pop(number, None)
            return answer

    async def _read_messages(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._connected.set()
        if not self._may_run:
            writer.write(json.dumps({"id": 0, "do": "stop"}).encode() + b"\n")
        try:
            while (line := await reader.readline()).endswith(b"\n"):
                message = json_trees.decode(line, dict[str, Any])
                if "ended" in message:
                    self._ended.set()
                if message.get("running") is True:  # in the order of the messages
                    self._ended.clear()
                if (answered := self._answers.get(message.get("id", 0))) is not None and not answered.done():
                    answered.set_result(message)
        except (OSError, ValueError, msgspec.MsgspecError) as error:
            log.warning("lost the connection to the guard of etcd", error=str(error))
        finally:
            writer.close()
            self._disconnected()

    def _disconnected(self) -> None:
        self._writer = None
        self._connected.clear()
        self._ended.set()
        for answered in self._answers.values():
            if not answered.done():
                answered.set_exception(ConnectionError("the guard is gone"))
