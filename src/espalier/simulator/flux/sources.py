"""GitRepositories: fetched at intervals, and kept in memory for what is applied from them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import msgspec

from espalier.api import conditions
from espalier.api.core import SECRET, Secret
from espalier.api.flux import REQUESTED, Artifact, GitRepository, GitRepositorySpec
from espalier.api.meta import Condition
from espalier.api.resource import Key
from espalier.api.text import durations
from espalier.kube.client import Client
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.outcome import Done, Outcome
from espalier.runtime.controllers.writer import Writer

BY = "by Espalier's stand-in for Flux"
READY = "Ready"
_KNOWN = {
    "GitRepository": frozenset({"url", "interval", "ref", "secretRef", "suspend", "timeout"}),
    "ref": frozenset({"branch"}),
}


@dataclass(frozen=True)
class Fetched:
    """A commit of a branch, and its files by path."""

    commit: str
    files: Mapping[str, bytes]


class FetchFailed(Exception):
    """A repository that can't be fetched; `reason` is Flux's."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


Fetch = Callable[[GitRepositorySpec, Mapping[str, bytes]], Awaitable[Fetched]]
"""Fetches a repository with the content of its Secret. Raises `FetchFailed`."""


class Refused(Exception):
    """An object of Flux that the stand-in does not act on."""


class Sources:
    """Fetches the repositories."""

    def __init__(self, cache: Cache, client: Client, writer: Writer, clock: Clock, fetch: Fetch) -> None:
        self._cache = cache
        self._client = client
        self._writer = writer
        self._clock = clock
        self._fetch = fetch
        self._subscribers: list[Callable[[Key], None]] = []
        self._fetched: dict[Key, tuple[str, Fetched]] = {}

    def subscribe(self, fetched: Callable[[Key], None]) -> None:
        """Call `fetched` for each repository that has another revision; after a start, for each one."""
        self._subscribers.append(fetched)

    def fetched(self, key: Key) -> tuple[str, Fetched] | None:
        """The revision of a repository that was fetched last, and its files."""
        return self._fetched.get(key)

    async def reconcile(self, key: Key) -> Outcome:
        """Fetch a repository and report its revision."""
        object_ = self._cache.get(key)
        if object_ is None or object_.metadata.deletion_timestamp is not None:
            self._fetched.pop(key, None)
            return Done()
        try:
            refuse_unknown(object_, _KNOWN)
            source = object_.decode(GitRepository)
            interval = interval_of(source.spec.interval)
        except (Refused, msgspec.ValidationError) as error:
            await self._report(object_, "False", "NotSupported", str(error), None)
            return Done()
        if source.spec.suspend:
            return Done()
        try:
            fetched = await self._fetch(source.spec, await self._credentials(source))
        except FetchFailed as error:
            await self._report(object_, "False", error.reason, f"{error}, {BY}", source.status.artifact)
            return Done(after=interval)
        revision = f"{source.spec.ref.branch or 'master'}@sha1:{fetched.commit}"
        before, self._fetched[key] = self._fetched.get(key), (revision, fetched)
        message = f"stored artifact for revision '{revision}', {BY}"
        if before is None or before[0] != revision:
            for told in self._subscribers:
                told(key)
        await self._report(object_, "True", "Succeeded", message, Artifact(revision=revision))
        return Done(after=interval)

    async def _credentials(self, source: GitRepository) -> Mapping[str, bytes]:
        if source.spec.secret_ref is None:
            return {}
        name, namespace = source.spec.secret_ref.name, source.metadata.namespace
        try:
            return (await self._client.get(SECRET, name, namespace)).decode(Secret).data
        except NotFound:
            message = f"spec.secretRef: Secret {namespace}/{name} does not exist; create it"
            raise FetchFailed("AuthenticationFailed", message) from None

    async def _report(
        self,
        object_: Object,
        status: Literal["True", "False"],
        reason: str,
        message: str,
        artifact: Artifact | None,
    ) -> None:
        new_status = judged(object_, status, reason, message, self._clock.now())
        if artifact is not None:
            new_status["artifact"] = msgspec.to_builtins(artifact)
        await self._writer.status(GitRepository.resource, object_, new_status)


def refuse_unknown(object_: Object, known: Mapping[str, frozenset[str]]) -> None:
    """Raises `Refused` for fields that the stand-in does not know: to leave them out would be to do something else."""
    spec = object_.tree.get("spec") or {}
    others = [f"spec.{name}" for name in spec if name not in known[object_.kind]]
    for part, names in known.items():
        inner = spec.get(part)
        if isinstance(inner, dict):
            others += [f"spec.{part}.{name}" for name in inner if name not in names]
    if others:
        raise Refused(f"found {', '.join(others)}, which Flux knows and its stand-in here does not; take it out")


def interval_of(text: str) -> float:
    """Seconds of an interval. Raises `Refused`."""
    try:
        return max(float(durations.exact_seconds(text)), 0.1)
    except ValueError as error:
        raise Refused(f"spec.interval: {error}") from None


def judged(
    object_: Object, status: Literal["True", "False"], reason: str, message: str, now: datetime
) -> dict[str, object]:
    """The common part of a status: condition Ready, and the generation that it is about."""
    before = msgspec.convert((object_.tree.get("status") or {}).get("conditions") or [], list[Condition])
    generation = object_.metadata.generation
    ready = msgspec.structs.replace(
        conditions.condition(READY, status, reason, message), observed_generation=generation
    )
    ready_conditions = [condition for condition in conditions.set(before, ready, now) if condition.type == READY]
    handled = object_.metadata.annotations.get(REQUESTED)
    return {
        "observedGeneration": generation,
        "conditions": msgspec.to_builtins(ready_conditions),
        **({"lastHandledReconcileAt": handled} if handled else {}),
    }
