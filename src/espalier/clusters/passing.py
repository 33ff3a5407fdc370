"""One pass over one Cluster: what it knows, and the tools its steps act with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from espalier.api import redaction
from espalier.api.eksa import cluster as eksa
from espalier.api.kinds import KubeObject
from espalier.api.meta import Condition
from espalier.clusters import gate, names, plan
from espalier.clusters.observe import Observer
from espalier.clusters.plan import Removal
from espalier.clusters.resting import Rests
from espalier.clusters.scope import Scope
from espalier.clusters.writing import Writer
from espalier.runtime.clock import Clock
from espalier.runtime.errands import Errands
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
    errands: Errands
    rests: Rests
    copies_kubeconfigs: bool = True
    """Whether a copy of each kubeconfig lies beside its Cluster."""


class Pass:
    """The scope of a pass. What is asked for stays; what was made of it is read again after writes."""

    def __init__(self, tools: Tools, scope: Scope) -> None:
        self.tools = tools
        self.scope = scope
        self.synced: Condition | None = None
        """Whether what was made is as it is rendered, once that was looked at."""
        self._mark = scope.cluster.metadata.annotations.get(names.GATE_ANNOTATION)

    async def open_gate(self) -> None:
        """Durably note that the cluster is being changed. To be called before each write to what is made for it."""
        scope = self.scope
        if not scope.is_deleted:
            await self._set_mark(gate.opened(scope.mark, scope.gate) if scope.takes_credentials else gate.OPENED)

    async def close_gate(self) -> None:
        """Note that what is asked for is there, to its end."""
        await self._set_mark(self.scope.mark)

    async def _set_mark(self, mark: str) -> None:
        if self._mark != mark:
            await self.tools.writer.annotate(eksa.Cluster.resource, self.scope.object, names.GATE_ANNOTATION, mark)
            self._mark = mark

    async def apply(self, wanted: Iterable[KubeObject], reason: str) -> None:
        """Write the objects of Cluster API in which something of ours differs; an event says which."""
        changes = plan.changes(wanted, self.scope.machinery)
        if changes:
            await self.open_gate()
        for change in changes:
            await self.tools.writer.apply(change)
        self._changed(reason, changes)

    async def remove(self, removals: Sequence[Removal], reason: str) -> None:
        """Delete objects of Cluster API; an event says which."""
        if removals:
            await self.open_gate()
        for removal in removals:
            await self.tools.writer.remove(removal)
        self._changed(reason, removals)

    def event(self, type: EventType, reason: str, message: str) -> None:
        """Tell people who look at the Cluster."""
        said = redaction.concealed(message, self.scope.secrets)
        self.tools.recorder.event(self.scope.object, type, reason, said)

    def look_again(self) -> None:
        """Read again what was made for the Cluster."""
        self.scope = self.scope.with_machinery(self.tools.observer.machinery(self.scope.key))

    def _changed(self, reason: str, what: Sequence[object]) -> None:
        if what:
            self.event("Normal", reason, ", ".join(map(str, what)))
            self.look_again()
