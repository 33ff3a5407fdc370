"""All that alarms: Warning events, failures in a status, and errors in the log. In a story in which nothing went wrong
there is none of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from structlog.testing import capture_logs

from espalier.api.core import CORE_EVENT
from espalier.api.eksa.cluster import Cluster
from espalier.api.meta import Tree
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache


class Alarms:
    """Watches Clusters, in whose status a failure is short-lived, from its creation on."""

    def __init__(self, clusters: Cache) -> None:
        self._failures: list[str] = []
        self._logs: list[Any] = []
        clusters.subscribe(self._changed)

    def _changed(self, _old: Object | None, new: Object | None, _first: bool) -> None:
        if new is None:
            return
        status = new.decode(Cluster).status
        results = [
            f"{condition.type}: {condition.reason}: {condition.message}"
            for condition in status.conditions
            if condition.type == "SpecValid"
        ]
        if status.failure_reason:
            results.append(f"failureReason: {status.failure_reason}: {status.failure_message}")
        self._failures += [item for item in results if item not in self._failures]

    @contextmanager
    def listening(self) -> Iterator[Alarms]:
        """Follow the log within the block."""
        with capture_logs() as self._logs:
            yield self

    async def raised(self, client: Client, *, but: Callable[[Tree], bool] = lambda _event: False) -> list[str]:
        """The alarms so far, but for these events."""
        events = [item.tree for item in (await client.list(CORE_EVENT)).items]
        warned = [
            f"{event['involvedObject']['kind']} {event['reason']}: {event.get('message', '')}"
            for event in events
            if event["type"] == "Warning" and not but(event)
        ]
        # What the API server answers to whoever writes is about the manifest: examples have no SSH keys, for one.
        logs = [log for log in self._logs if log["event"] != "the API server warns"]
        logged = [str(log) for log in logs if log["log_level"] in ("warning", "error", "critical")]
        return [*self._failures, *warned, *logged]
