"""One pass over one Cluster: what it knows, and the tools its steps act with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from espalier.api.kinds import KubeObject
from espalier.clusters import plan
from espalier.clusters.observe import Observer
from espalier.clusters.plan import Removal
from espalier.clusters.scope import Scope
from espalier.clusters.writing import Writer
from espalier.runtime.clock import Clock
from espalier.runtime.events import EventType, Recorder
from espalier.runtime.remote import RemoteClients


@dataclass(frozen=True)
class Tools:
    """What all passes share."""

    observer: Observer
    writer: Writer
    remotes: RemoteClients
    recorder: Recorder
    clock: Clock
    copies_kubeconfigs: bool = True
    """Whether a copy of each kubeconfig lies beside its Cluster."""


class Pass:
    """The scope of a pass. What is asked for stays; what was made of it is read again after writes."""

    def __init__(self, tools: Tools, scope: Scope) -> None:
        self.tools = tools
        self.scope = scope

    async def apply(self, wanted: Iterable[KubeObject], reason: str) -> None:
        """Write the objects of Cluster API in which something of ours differs; an event says which."""
        changes = plan.changes(wanted, self.scope.machinery)
        for change in changes:
            await self.tools.writer.apply(change)
        self._changed(reason, changes)

    async def remove(self, removals: Sequence[Removal], reason: str) -> None:
        """Delete objects of Cluster API; an event says which."""
        for removal in removals:
            await self.tools.writer.remove(removal)
        self._changed(reason, removals)

    def event(self, type: EventType, reason: str, message: str) -> None:
        """Tell people who look at the Cluster."""
        self.tools.recorder.event(self.scope.object, type, reason, message)

    def look_again(self) -> None:
        """Read again what was made for the Cluster."""
        self.scope = self.scope.with_machinery(self.tools.observer.machinery(self.scope.key))

    def _changed(self, reason: str, what: Sequence[object]) -> None:
        if what:
            self.event("Normal", reason, ", ".join(map(str, what)))
            self.look_again()
