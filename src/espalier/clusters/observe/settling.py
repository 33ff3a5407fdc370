"""The settle time: a change of a cluster begins when all that belongs to it has been written.

A Cluster and the objects that it names are written one by one, by `kubectl apply`, a GitOps tool or a person. A change
that begins in between replaces machines twice: for the first object, then for all of them. So a change begins once its
content has not changed for the settle time.

Content is what the gate compares (`clusters/design/drift/gate.py`), without credentials, which replace no machine. This
process records when it saw which content; no other clock counts. A manager that starts in the middle of a change has no
record and waits the settle time anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Key
from espalier.clusters.design.drift import gate
from espalier.clusters.design.drift.gate import Gate
from espalier.clusters.observe.scope import Scope
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Wait

SETTLE_TIME = 3.0
"""Seconds without a change after which a change begins, by default."""

LONGEST = 20
"""A change begins after so many settle times at the latest, however often it is edited meanwhile."""


@dataclass
class _Content:
    """The content of one cluster, as seen by this process."""

    seen: str
    since: float
    """When the content was first seen as it is."""
    first: float
    """When it first differed from the content that was begun."""
    begun: str = ""
    """The content that the cluster has, or that it is being changed to; empty while unknown."""


class Settling:
    """The content of each cluster, and the time since it last changed."""

    def __init__(self, seconds: float = SETTLE_TIME) -> None:
        """A settle time of 0 `seconds` switches it off."""
        self.seconds = seconds
        self._contents: dict[Key, _Content] = {}

    @property
    def longest(self) -> float:
        """Seconds after which a change begins at the latest."""
        return self.seconds * LONGEST

    def judge(self, scope: Scope, now: float) -> Wait | None:
        """The wait of a requested change; None if it may begin, or if there is none.

        Called with each scope that is observed, at the monotonic time `now`. The time of a pause counts as settle time,
        but not towards the longest wait: objects may have been edited until its end.
        """
        if not self.seconds or scope.is_deleted or scope.is_self_managed:
            return None
        content = gate.without_credentials(scope.content_hash)
        known = self._contents.setdefault(scope.key, _Content(content, now, now))
        if known.seen != content:
            if known.seen == known.begun:
                known.first = now
            known.seen, known.since = content, now
        if scope.gate is not Gate.OPEN or self._is_as_created(scope):
            known.begun = content
        if content == known.begun:
            return None
        if scope.is_paused:
            known.first = now
            return None
        due = min(known.since + self.seconds, known.first + self.longest)
        if due <= now:
            known.begun = content
            return None
        message = (
            f"a change was requested; it begins when the Cluster and the objects that it names have not changed for "
            f"{self.seconds:g} s, after {self.longest:g} s at the latest"
        )
        return Wait(Reason.SETTLING, message, after=due - now)

    def forget(self, key: Key) -> None:
        """Remove the record of a deleted Cluster."""
        self._contents.pop(key, None)

    def _is_as_created(self, scope: Scope) -> bool:
        """True for a new cluster whose objects were created together and not edited since: it does not wait.

        An object that existed before may be one of an earlier Cluster, which is about to be replaced.
        """
        if scope.capi_objects.cluster_object is not None:
            return False
        created = _created(scope.object)
        objects = [scope.object, *(child for _, child in scope.children)]
        return all(
            object_.metadata.generation <= 1 and (created - _created(object_)).total_seconds() <= self.seconds
            for object_ in objects
        )


def _created(object_: Object) -> datetime:
    return datetime.fromisoformat(object_.metadata.creation_timestamp or "1970-01-01T00:00:00Z")
