"""Errands: what passes have done in workload clusters, by tasks of their own. No pass waits for an API server there.

A pass sends an errand and waits a moment for it, if it can begin at once; what takes longer goes on alone, and the pass
is told to come again. Few errands begin at once; one that takes longer than a moment makes way for the next, so that
clusters that give no answer hold up nobody but themselves. A cluster has one errand at a time.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.kube.errors import KubeError
from espalier.runtime.remote import RemoteClients

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_log = structlog.get_logger("espalier.errands")

A_MOMENT = 0.2
"""Seconds for which a pass waits for the errand that it sends, and for which an errand keeps others from beginning."""

FRESH = 30.0
"""Seconds for which a result is good: a burst of events is one errand."""

LONGEST = 300.0
"""Seconds after which an errand is given up. Each request ends much earlier, answered or not."""

REMEMBERED = 1800.0
"""Seconds for which the parts of an errand that were done count as done. Somebody may have undone them since."""

AT_ONCE = 8
"""Errands that begin at the same moment."""


@dataclass(frozen=True)
class Errand(Generic[T_co]):
    """What is to be done in a workload cluster.

    `name` is that of the kind of errand; with `subject` and the kubeconfig it makes a result that of this errand.
    One that `writes` is told of once: then whatever was seen before counts no longer, and a failure is tried again.
    `run` may raise whatever it likes, and returns something. `parts` come before it, in their order; the next attempt
    goes on with the first that was not done.
    """

    name: str
    subject: Hashable
    kubeconfig: bytes
    run: Callable[[Client], Awaitable[T_co]]
    writes: bool = False
    parts: Sequence[Callable[[Client], Awaitable[object]]] = ()

    @property
    def identity(self) -> Hashable:
        """What makes a result that of this errand."""
        return (self.name, self.subject, hashlib.sha256(self.kubeconfig).digest())


@dataclass(frozen=True)
class Failed:
    """An errand that came to nothing. While the next attempt is under way, this is still what is known."""

    error: Exception


@dataclass
class _Result:
    identity: Hashable
    value: Any
    good_until: float


@dataclass
class _Progress:
    """How many parts of an errand are done."""

    identity: Hashable
    done: int
    good_until: float


class Errands:
    """The errands of a manager that are under way, and what came of those that were."""

    def __init__(self, remotes: RemoteClients) -> None:
        self._remotes = remotes
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._results: dict[Key, dict[str, _Result]] = {}
        self._progress: dict[Key, _Progress] = {}
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._awaited: set[Key] = set()
        self.when_done: Callable[[Key], None] = lambda _key: None
        """Called when an errand is done to whose end nobody waited."""

    async def send(self, key: Key, errand: Errand[T]) -> T | Failed | None:
        """What came of an errand in the workload cluster of a Cluster; it is sent there unless that is known.

        None while it is under way, or waits for another one of the cluster; `when_done` says when to ask again. A
        failure is told, and the next call tries again: how soon is up to the caller.
        """
        known = self._known(key, errand)
        if known is None and key not in self._running:
            begins = not self._turns.locked()
            task = asyncio.get_running_loop().create_task(self._do(key, errand), name=f"{errand.name} cluster {key}")
            self._running[key] = task
            if begins:
                self._awaited.add(key)
                try:
                    await asyncio.wait({task}, timeout=A_MOMENT)
                finally:
                    self._awaited.discard(key)
                known = self._known(key, errand)
        if known is None:
            return self._last_failure(key, errand)
        told: T | Failed = self._told(key, known, errand.writes)
        return told

    def forget(self, key: Key) -> None:
        """The cluster is gone: nothing of it is known any longer, and what is under way ends."""
        self._results.pop(key, None)
        self._progress.pop(key, None)
        if key in self._running:
            self._running[key].cancel()

    async def run(self) -> None:
        """Hold the errands: those that are under way end with this."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            tasks = list(self._running.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _of(self, key: Key, errand: Errand[Any]) -> _Result | None:
        result = self._results.get(key, {}).get(errand.name)
        return result if result is not None and result.identity == errand.identity else None

    def _known(self, key: Key, errand: Errand[Any]) -> _Result | None:
        result = self._of(key, errand)
        return result if result is not None and asyncio.get_running_loop().time() < result.good_until else None

    def _last_failure(self, key: Key, errand: Errand[Any]) -> Failed | None:
        result = self._of(key, errand)
        return result.value if result is not None and isinstance(result.value, Failed) else None

    def _told(self, key: Key, result: _Result, writes: bool) -> Any:
        if writes and isinstance(result.value, Failed):
            result.good_until = 0.0
        elif writes:
            self._results.pop(key, None)
        return result.value

    async def _do(self, key: Key, errand: Errand[Any]) -> None:
        try:
            value = await self._tried(key, errand)
            good_until = asyncio.get_running_loop().time() + FRESH
            self._results.setdefault(key, {})[errand.name] = _Result(errand.identity, value, good_until)
        finally:
            del self._running[key]
            if key not in self._awaited:
                self.when_done(key)

    async def _tried(self, key: Key, errand: Errand[T]) -> T | Failed:
        try:
            async with self._turn(), asyncio.timeout(LONGEST):
                client = self._remotes.get(key, errand.kubeconfig)
                await self._do_parts(key, errand, client)
                return await errand.run(client)
        except (KubeError, ValueError, TimeoutError) as error:
            return Failed(error)
        except Exception as error:
            _log.exception("an errand went wrong", errand=errand.name, cluster=str(key))
            return Failed(error)

    async def _do_parts(self, key: Key, errand: Errand[Any], client: Client) -> None:
        """Those that no earlier attempt did: a cluster that is slow gets further each time."""
        if not errand.parts:
            return
        loop = asyncio.get_running_loop()
        progress = self._progress.pop(key, None)
        done = 0
        if progress is not None and progress.identity == errand.identity and loop.time() < progress.good_until:
            self._progress[key] = progress
            done = progress.done
        for part in errand.parts[done:]:
            await part(client)
            done += 1
            self._progress[key] = _Progress(errand.identity, done, loop.time() + REMEMBERED)
        self._progress.pop(key, None)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """One of a few turns to begin. It is over after a moment, or when the errand is done."""
        await self._turns.acquire()
        with ExitStack() as over:
            over.callback(self._turns.release)
            timer = asyncio.get_running_loop().call_later(A_MOMENT, over.close)
            try:
                yield
            finally:
                timer.cancel()
