"""Looks into workload clusters: what differs there from what was installed. No watch stands there; it is asked for.

A look may take long, or find nobody: passes wait for it only a moment, and come again when it is done. Few run at once.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import structlog

from espalier.api.resource import Key
from espalier.clusters import drift
from espalier.clusters.drift import Drift
from espalier.clusters.rendered import Manifest
from espalier.kube.client import Client
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.objects import Object
from espalier.runtime.remote import RemoteClients

_log = structlog.get_logger("espalier.looks")

FRESH = 30.0
"""Seconds for which a look is good: a burst of events is one look."""

PATIENCE = 1.0
"""Seconds for which a pass waits for a look."""

LONGEST = 20.0
"""Seconds after which a look is given up."""

AT_ONCE = 8
"""Looks that run at the same time."""


class Question(NamedTuple):
    """What is looked at, and how: an answer to another question is none."""

    manifests: Sequence[Manifest]
    mark: str
    """A digest of the manifests."""
    kubeconfig: bytes
    wish: str
    """What is to be done about drift: who changes that wants to know at once."""

    @property
    def identity(self) -> tuple[str, bytes, str]:
        """What makes an answer that of this question."""
        return (self.mark, hashlib.sha256(self.kubeconfig).digest(), self.wish)


class Answer(NamedTuple):
    """What was seen."""

    drifts: tuple[Drift, ...] = ()
    failure: str = ""
    """Why nothing could be seen: the name of an error, whose text may be another each time it is written."""


class _Running(NamedTuple):
    task: asyncio.Task[None]
    identity: tuple[str, bytes, str]


class Looks:
    """The looks of a manager, and what they saw a moment ago."""

    def __init__(self, remotes: RemoteClients) -> None:
        self._remotes = remotes
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._seen: dict[Key, tuple[tuple[str, bytes, str], Answer]] = {}
        self._running: dict[Key, _Running] = {}
        self._awaited: set[Key] = set()
        self.when_done: Callable[[Key], None] = lambda _key: None
        """Called when a look is done for whose answer nobody waited to the end."""

    async def ask(self, key: Key, question: Question) -> Answer | None:
        """What a workload cluster has of this. None when that takes longer; `when_done` says when to ask again."""
        known = self._known(key, question)
        if known is not None:
            return known
        running = self._running.get(key)
        if running is None:
            task = asyncio.get_running_loop().create_task(self._look(key, question), name=f"look at cluster {key}")
            running = self._running[key] = _Running(task, question.identity)
        if running.identity != question.identity:
            return None
        self._awaited.add(key)
        await asyncio.wait({running.task}, timeout=PATIENCE)
        self._awaited.discard(key)
        return self._known(key, question)

    def forget(self, key: Key) -> None:
        """What was seen is no longer so: it was corrected, or the cluster is gone."""
        self._seen.pop(key, None)

    async def run(self) -> None:
        """Hold the looks: those that are under way end with this."""
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            tasks = [running.task for running in self._running.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _known(self, key: Key, question: Question) -> Answer | None:
        identity, answer = self._seen.get(key, (None, None))
        return answer if identity == question.identity else None

    async def _look(self, key: Key, question: Question) -> None:
        try:
            async with self._turn:
                answer = await self._answer(key, question)
            seen = self._seen[key] = (question.identity, answer)
            asyncio.get_running_loop().call_later(FRESH, self._forget_this, key, seen)
        finally:
            del self._running[key]
            if key not in self._awaited:
                self.when_done(key)

    async def _answer(self, key: Key, question: Question) -> Answer:
        try:
            async with asyncio.timeout(LONGEST):
                client = self._remotes.get(key, question.kubeconfig)
                live = [await _read(client, manifest) for manifest in question.manifests]
        except (KubeError, ValueError, TimeoutError) as error:
            return Answer(failure=type(error).__name__)
        except Exception as error:
            _log.exception("a look went wrong", cluster=str(key))
            return Answer(failure=type(error).__name__)
        return Answer(tuple(drift.of_manifests(question.manifests, live)))

    def _forget_this(self, key: Key, seen: tuple[tuple[str, bytes, str], Answer]) -> None:
        if self._seen.get(key) is seen:
            del self._seen[key]


async def _read(client: Client, manifest: Manifest) -> Object | None:
    metadata = manifest.body["metadata"]
    try:
        return await client.get(manifest.resource, metadata["name"], metadata.get("namespace"))
    except NotFound:
        return None
