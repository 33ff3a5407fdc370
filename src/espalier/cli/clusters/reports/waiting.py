"""Waiting until a Cluster is Ready, or gone, by watch and never by polling."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Self

from espalier.api import conditions as condition_list
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition
from espalier.api.resource import Key
from espalier.cli.kit.failures import Failure, Overdue
from espalier.cli.kit.follow import follow
from espalier.cli.kit.printing.progress import Progress
from espalier.clusters.observe.scope import read as read_cluster
from espalier.kube.client import Client
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object
from espalier.runtime.clock import SystemClock

if TYPE_CHECKING:
    from espalier.clusters.effects.upgrade_progress import UpgradeProgress


TICK = 1.0
"""Seconds after which a terminal shows the time again."""

PATIENCE = 3.0
"""Seconds for which a failure must last before a command gives up."""

BACKGROUND = "It continues in the background while a manager runs; `espalier get clusters -A` shows its status"


async def until_ready(client: Client, key: Key, *, generation: int, timeout: float, progress: Progress) -> Cluster:
    """The Cluster once it is Ready at `generation` or later.

    Raises `Failure` with its failure reason, `Overdue` after `timeout` seconds with what is still waited for. A failure
    counts once it has lasted for `PATIENCE` seconds: the first one seen may be older than what was asked for just now.
    """
    waiting, failure = "waiting for the first reconcile", ""
    try:
        async with (
            asyncio.timeout(timeout),
            aclosing(follow(client, Cluster.resource, key)) as states,
            _NodeByNode(client, progress) as nodes,
        ):
            while True:
                state = await _next(states, failure)
                if state is None:
                    raise Failure(f"cluster {key} was deleted meanwhile")
                cluster = read_cluster(state)
                ready = condition(cluster, "Ready")
                if ready and ready.observed_generation >= generation:
                    if ready.status == "True":
                        return cluster
                    waiting, failure = blocking(cluster), _failure(cluster)
                nodes.follow(cluster, waiting)
    except TimeoutError:
        raise Overdue(f"cluster {key} is not ready after {timeout:g} s: {waiting}. {BACKGROUND}") from None


class _NodeByNode:
    """Shows what a Cluster waits for; while its nodes are upgraded in place, how far each of them is."""

    def __init__(self, client: Client, progress: Progress) -> None:
        self._client, self._progress = client, progress
        self._waiting = ""
        self._cluster: Cluster | None = None
        self._changed = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._began = SystemClock().now()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def follow(self, cluster: Cluster, waiting: str) -> None:
        """Show `waiting`, unless more can be said of the upgrade of its nodes."""
        ready = condition(cluster, "Ready")
        is_in_place = ready is not None and ready.reason == Reason.IN_PLACE_UPGRADE_IN_PROGRESS
        self._cluster = cluster if is_in_place else None
        self._waiting = waiting
        self._changed.set()
        if not is_in_place or all(task.done() for task in self._tasks):
            self._progress.wait(waiting)
        if is_in_place and not self._tasks:
            name = cluster.metadata.name
            self._tasks = [asyncio.create_task(self._show()), asyncio.create_task(self._notice_steps(name))]

    async def _notice_steps(self, name: str) -> None:
        from espalier.cli.clusters.reports import upgrade_progress  # noqa: PLC0415  few commands wait for such an upgrade

        with suppress(KubeError):
            async for _ in upgrade_progress.changes(self._client, name):
                self._changed.set()

    async def _show(self) -> None:
        from espalier.cli.clusters.reports import upgrade_progress  # noqa: PLC0415

        latest: UpgradeProgress | None = None
        shown: tuple[int, tuple[str, ...]] | None = None
        with suppress(KubeError):  # whoever may not read these objects sees what the status says
            while True:
                if self._changed.is_set():
                    self._changed.clear()
                    cluster, now = self._cluster, SystemClock().now()
                    latest = await upgrade_progress.read(self._client, cluster, now) if cluster is not None else None
                if self._cluster is not None and latest is None:
                    self._progress.wait(self._waiting)
                elif self._cluster is not None and latest is not None:
                    # Without a terminal, each line stays: one for each step, none for the time that passes.
                    if self._progress.is_live or (latest.done, latest.nodes) != shown:
                        self._progress.wait(latest.sentence(SystemClock().now(), self._began))
                    shown = (latest.done, latest.nodes)
                with suppress(TimeoutError):
                    async with asyncio.timeout(TICK if self._progress.is_live else None):
                        await self._changed.wait()


async def _next(states: AsyncGenerator[Object | None, None], failure: str) -> Object | None:
    """The next state; raises a failure after its time, unless another state comes first."""
    try:
        async with asyncio.timeout(PATIENCE if failure else None):
            return await anext(states)
    except TimeoutError:
        raise Failure(failure) from None


def _failure(cluster: Cluster) -> str:
    status, metadata = cluster.status, cluster.metadata
    if not status.failure_reason:
        return ""
    return f"cluster {metadata.namespace}/{metadata.name} failed: {status.failure_reason}: {status.failure_message}"


async def until_gone(client: Client, key: Key, *, timeout: float, progress: Progress) -> None:
    """Returns once the Cluster is gone. Raises `Failure` with its failure reason, as `until_ready` does, and `Overdue`
    after `timeout` seconds with what is still waited for."""
    waiting, failure = "its machines are being removed", ""
    try:
        async with asyncio.timeout(timeout), aclosing(follow(client, Cluster.resource, key)) as states:
            while True:
                state = await _next(states, failure)
                if state is None:
                    return
                cluster = read_cluster(state)
                waiting = blocking(cluster)
                # What blocked it before its deletion no longer does.
                failure = _failure(cluster) if cluster.status.phase == "Deleting" else ""
                progress.wait(waiting)
    except TimeoutError:
        raise Overdue(f"cluster {key} is not gone after {timeout:g} s: {waiting}. {BACKGROUND}") from None


def condition(cluster: Cluster, type_: str) -> Condition | None:
    """The condition of that type, if the Cluster has it."""
    return condition_list.get(cluster.status.conditions, type_)


def blocking(cluster: Cluster) -> str:
    """The message of the condition that the cluster waits for."""
    ready = condition(cluster, "Ready")
    return ready.message if ready and ready.message else "waiting for the first status"
