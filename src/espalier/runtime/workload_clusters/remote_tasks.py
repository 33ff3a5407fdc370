"""Remote tasks: work in workload clusters outside of reconciles, so that no reconcile waits for an API server there.

A reconcile sends a remote task and waits for it for a moment, if it can start at once; a longer task continues in the
background, and its end causes another reconcile. Only a few start at the same time; one that takes longer than a moment
makes way for the next, so that unreachable clusters delay no others. Each cluster has one remote task at a time.
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
from espalier.runtime.controllers.sources import Source
from espalier.runtime.workload_clusters.remote import RemoteClients

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

_log = structlog.get_logger("espalier.remote_tasks")

WAIT_SECONDS = 0.2
"""Seconds that a reconcile waits for its remote task, and for which a task keeps others from starting."""

RESULT_TTL = 30.0
"""Seconds for which a result is valid, so that a burst of events causes one remote task."""

TASK_TIMEOUT = 300.0
"""The timeout of a remote task in seconds. That of each request is much shorter."""

PROGRESS_TTL = 1800.0
"""Seconds for which finished parts of a remote task count as done. Somebody may have reverted them since."""

MAX_STARTING = 8
"""The number of remote tasks that may start at the same time."""


@dataclass(frozen=True)
class RemoteTask(Generic[T_co]):
    """A task in a workload cluster.

    `name` is the kind of task; together with `subject` and the kubeconfig, it identifies a result.
    The result of a task that `writes` is returned once: then earlier results are invalid, and a failure is retried.
    `run` may raise any exception, and must not return None. `parts` run before it, in order; the next attempt continues
    with the first unfinished one.
    """

    name: str
    subject: Hashable
    kubeconfig: bytes
    run: Callable[[Client], Awaitable[T_co]]
    writes: bool = False
    parts: Sequence[Callable[[Client], Awaitable[object]]] = ()

    @property
    def identity(self) -> Hashable:
        """The identity of a remote task."""
        return (self.name, self.subject, hashlib.sha256(self.kubeconfig).digest())


@dataclass(frozen=True)
class Failed:
    """A failed remote task. It remains the known result while the next attempt is running."""

    error: Exception


@dataclass
class _Result:
    identity: Hashable
    value: Any
    expires_at: float


@dataclass
class _Progress:
    """The number of finished parts of a remote task."""

    identity: Hashable
    done: int
    expires_at: float


class RemoteTasks:
    """The running remote tasks of a manager, and the results of finished ones."""

    def __init__(self, remotes: RemoteClients) -> None:
        self._remotes = remotes
        self._start_slots = asyncio.Semaphore(MAX_STARTING)
        self._results: dict[Key, dict[str, _Result]] = {}
        self._progress: dict[Key, _Progress] = {}
        self._running: dict[Key, asyncio.Task[None]] = {}
        self._awaited: set[Key] = set()
        self.done = Source()
        """Sends the clusters of tasks that ended in the background."""

    async def send(self, cluster: ClusterIdentity, remote_task: RemoteTask[T]) -> T | Failed | None:
        """The result of a remote task in a workload cluster; starts it unless the result is known.

        None while it is running, or waiting for another task of the cluster; `done` reports when to call again. A
        failure is returned, and the next call retries: the caller decides how soon.
        """
        key = cluster.owner or cluster.capi
        known = self._valid_result(key, remote_task)
        if known is None and key not in self._running:
            starts_now = not self._start_slots.locked()
            task = asyncio.get_running_loop().create_task(
                self._do(key, cluster, remote_task), name=f"{remote_task.name} cluster {key}"
            )
            self._running[key] = task
            if starts_now:
                self._awaited.add(key)
                try:
                    await asyncio.wait({task}, timeout=WAIT_SECONDS)
                finally:
                    self._awaited.discard(key)
                known = self._valid_result(key, remote_task)
        if known is None:
            return self._last_failure(key, remote_task)
        value: T | Failed = self._take_result(key, known, remote_task.writes)
        return value

    def forget(self, key: Key) -> None:
        """Forget a deleted cluster, and cancel its task."""
        self._results.pop(key, None)
        self._progress.pop(key, None)
        if key in self._running:
            self._running[key].cancel()

    async def run(self) -> None:
        """Run until cancelled, which also cancels all running tasks."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            tasks = list(self._running.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _stored_result(self, key: Key, remote_task: RemoteTask[Any]) -> _Result | None:
        result = self._results.get(key, {}).get(remote_task.name)
        return result if result is not None and result.identity == remote_task.identity else None

    def _valid_result(self, key: Key, remote_task: RemoteTask[Any]) -> _Result | None:
        result = self._stored_result(key, remote_task)
        return result if result is not None and asyncio.get_running_loop().time() < result.expires_at else None

    def _last_failure(self, key: Key, remote_task: RemoteTask[Any]) -> Failed | None:
        result = self._stored_result(key, remote_task)
        return result.value if result is not None and isinstance(result.value, Failed) else None

    def _take_result(self, key: Key, result: _Result, writes: bool) -> Any:
        if writes and isinstance(result.value, Failed):
            result.expires_at = 0.0
        elif writes:
            self._results.pop(key, None)
        return result.value

    async def _do(self, key: Key, cluster: ClusterIdentity, remote_task: RemoteTask[Any]) -> None:
        try:
            value = await self._attempt(key, cluster, remote_task)
            expires_at = asyncio.get_running_loop().time() + RESULT_TTL
            self._results.setdefault(key, {})[remote_task.name] = _Result(remote_task.identity, value, expires_at)
        finally:
            del self._running[key]
            if key not in self._awaited:
                self.done.send(key)

    async def _attempt(self, key: Key, cluster: ClusterIdentity, remote_task: RemoteTask[T]) -> T | Failed:
        try:
            async with self._start_slot(), asyncio.timeout(TASK_TIMEOUT):
                client = self._remotes.get(cluster, remote_task.kubeconfig)
                await self._do_parts(key, remote_task, client)
                return await remote_task.run(client)
        except (KubeError, ValueError, TimeoutError) as error:
            return Failed(error)
        except Exception as error:
            _log.exception("a remote task failed", remote_task=remote_task.name, cluster=str(key))
            return Failed(error)

    async def _do_parts(self, key: Key, remote_task: RemoteTask[Any], client: Client) -> None:
        """Run the parts that no earlier attempt finished, so that a slow cluster progresses with each attempt."""
        if not remote_task.parts:
            return
        loop = asyncio.get_running_loop()
        progress = self._progress.pop(key, None)
        done = 0
        if progress is not None and progress.identity == remote_task.identity and loop.time() < progress.expires_at:
            self._progress[key] = progress
            done = progress.done
        for part in remote_task.parts[done:]:
            await part(client)
            done += 1
            self._progress[key] = _Progress(remote_task.identity, done, loop.time() + PROGRESS_TTL)
        self._progress.pop(key, None)

    @asynccontextmanager
    async def _start_slot(self) -> AsyncIterator[None]:
        """One of a few slots for starting tasks, released after a moment, or when the task is done."""
        await self._start_slots.acquire()
        with ExitStack() as stack:
            stack.callback(self._start_slots.release)
            timer = asyncio.get_running_loop().call_later(WAIT_SECONDS, stack.close)
            try:
                yield
            finally:
                timer.cancel()
