"""Remote tasks: work in workload clusters, beside reconciles. No reconcile waits for an API server there.

A reconcile sends a remote task and waits a moment for it, if it can begin at once; what takes longer goes on alone, and
the reconcile is told to come again. Few begin at once; one that takes longer than a moment makes way for the next, so
that clusters that give no answer hold up nobody but themselves. A cluster has one remote task at a time.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import structlog

from espalier.api.identity import ClusterIdentity
from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.kube.errors import KubeError
from espalier.runtime.remote import RemoteClients
from espalier.runtime.sources import Source

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_log = structlog.get_logger("espalier.remote_tasks")

A_MOMENT = 0.2
"""Seconds that a reconcile waits for a remote task which it sends, and for which one keeps others from beginning."""

FRESH = 30.0
"""Seconds for which a result is good: a burst of events is one remote task."""

LONGEST = 300.0
"""Seconds after which a remote task is given up. Each request ends much earlier, answered or not."""

REMEMBERED = 1800.0
"""Seconds for which the parts of a remote task that were done count as done. Somebody may have undone them since."""

AT_ONCE = 8
"""Remote tasks that begin at the same moment."""


@dataclass(frozen=True)
class RemoteTask(Generic[T_co]):
    """A task in a workload cluster.

    `name` is that of the kind of task; with `subject` and the kubeconfig it makes a result that of this task.
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
        """Identity of a remote task."""
        return (self.name, self.subject, hashlib.sha256(self.kubeconfig).digest())


@dataclass(frozen=True)
class Failed:
    """A remote task that came to nothing. While the next attempt is under way, this is still what is known."""

    error: Exception


@dataclass
class _Result:
    identity: Hashable
    value: Any
    good_until: float


@dataclass
class _Progress:
    """Number of finished parts of a remote task."""

    identity: Hashable
    done: int
    good_until: float


class RemoteTasks:
    """The remote tasks of a manager that are under way, and what came of those that were."""

    def __init__(self, remotes: RemoteClients) -> None:
        self._remotes = remotes
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._results: dict[Key, dict[str, _Result]] = {}
        self._progress: dict[Key, _Progress] = {}
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._awaited: set[Key] = set()
        self.done = Source()
        """Sends the clusters with a remote task to whose end nobody waited."""

    async def send(self, cluster: ClusterIdentity, remote_task: RemoteTask[T]) -> T | Failed | None:
        """The result of a remote task in a workload cluster; starts it unless the result is known.

        None while it is under way, or waits for another one of the cluster; `done` says when to ask again. A
        failure is returned, and the next call tries again: how soon is up to the caller.
        """
        key = cluster.owner or cluster.capi
        known = self._known(key, remote_task)
        if known is None and key not in self._running:
            begins = not self._turns.locked()
            task = asyncio.get_running_loop().create_task(
                self._do(key, cluster, remote_task), name=f"{remote_task.name} cluster {key}"
            )
            self._running[key] = task
            if begins:
                self._awaited.add(key)
                try:
                    await asyncio.wait({task}, timeout=A_MOMENT)
                finally:
                    self._awaited.discard(key)
                known = self._known(key, remote_task)
        if known is None:
            return self._last_failure(key, remote_task)
        value: T | Failed = self._take_result(key, known, remote_task.writes)
        return value

    def forget(self, key: Key) -> None:
        """The cluster is gone: nothing of it is known any longer, and what is under way ends."""
        self._results.pop(key, None)
        self._progress.pop(key, None)
        if key in self._running:
            self._running[key].cancel()

    async def run(self) -> None:
        """Hold the remote tasks: those that are under way end with this."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            tasks = list(self._running.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _of(self, key: Key, remote_task: RemoteTask[Any]) -> _Result | None:
        result = self._results.get(key, {}).get(remote_task.name)
        return result if result is not None and result.identity == remote_task.identity else None

    def _known(self, key: Key, remote_task: RemoteTask[Any]) -> _Result | None:
        result = self._of(key, remote_task)
        return result if result is not None and asyncio.get_running_loop().time() < result.good_until else None

    def _last_failure(self, key: Key, remote_task: RemoteTask[Any]) -> Failed | None:
        result = self._of(key, remote_task)
        return result.value if result is not None and isinstance(result.value, Failed) else None

    def _take_result(self, key: Key, result: _Result, writes: bool) -> Any:
        if writes and isinstance(result.value, Failed):
            result.good_until = 0.0
        elif writes:
            self._results.pop(key, None)
        return result.value

    async def _do(self, key: Key, cluster: ClusterIdentity, remote_task: RemoteTask[Any]) -> None:
        try:
            value = await self._attempt(key, cluster, remote_task)
            good_until = asyncio.get_running_loop().time() + FRESH
            self._results.setdefault(key, {})[remote_task.name] = _Result(remote_task.identity, value, good_until)
        finally:
            del self._running[key]
            if key not in self._awaited:
                self.done.send(key)

    async def _attempt(self, key: Key, cluster: ClusterIdentity, remote_task: RemoteTask[T]) -> T | Failed:
        try:
            async with self._turn(), asyncio.timeout(LONGEST):
                client = self._remotes.get(cluster, remote_task.kubeconfig)
                await self._do_parts(key, remote_task, client)
                return await remote_task.run(client)
        except (KubeError, ValueError, TimeoutError) as error:
            return Failed(error)
        except Exception as error:
            _log.exception("a remote task failed", remote_task=remote_task.name, cluster=str(key))
            return Failed(error)

    async def _do_parts(self, key: Key, remote_task: RemoteTask[Any], client: Client) -> None:
        """Those that no earlier attempt did: a cluster that is slow gets further each time."""
        if not remote_task.parts:
            return
        loop = asyncio.get_running_loop()
        progress = self._progress.pop(key, None)
        done = 0
        if progress is not None and progress.identity == remote_task.identity and loop.time() < progress.good_until:
            self._progress[key] = progress
            done = progress.done
        for part in remote_task.parts[done:]:
            await part(client)
            done += 1
            self._progress[key] = _Progress(remote_task.identity, done, loop.time() + REMEMBERED)
        self._progress.pop(key, None)

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """One of a few turns to begin. It is over after a moment, or when the remote task is done."""
        await self._turns.acquire()
        with ExitStack() as over:
            over.callback(self._turns.release)
            timer = asyncio.get_running_loop().call_later(A_MOMENT, over.close)
            try:
                yield
            finally:
                timer.cancel()
