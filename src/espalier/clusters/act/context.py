"""One reconcile of one Cluster: its scope, and the clients and recorders that its steps use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from espalier.api import conditions
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.meta import Condition
from espalier.api.resource import Resource
from espalier.api.text import redaction
from espalier.clusters.design import names
from espalier.clusters.design.drift import gate
from espalier.clusters.design.drift.rate_limit import RateLimits
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.scope import Scope
from espalier.clusters.observe.settling import Settling
from espalier.clusters.plan.drift import Drift, lost_cni
from espalier.clusters.plan.plan import Change, Removal
from espalier.kube.objects import Object
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.events import EventType, Recorder
from espalier.runtime.controllers.sources import Expiry
from espalier.runtime.controllers.writer import Precondition, Writer
from espalier.runtime.workload_clusters.remote import RemoteClients
from espalier.runtime.workload_clusters.remote_tasks import RemoteTasks


@dataclass(frozen=True)
class ClusterTools:
    """Clients, caches and recorders that all reconciles share."""

    observer: ClusterObserver
    writer: Writer
    remotes: RemoteClients
    recorder: Recorder
    clock: Clock
    remote_tasks: RemoteTasks
    rate_limits: RateLimits
    settling: Settling
    copies: Expiry | None
    """Digests of the kubeconfigs whose copies were checked recently; None where kubeconfigs are not copied."""


class ClusterContext:
    """The scope of a reconcile. The desired state is fixed; the Cluster API objects are read again after writes."""

    def __init__(self, tools: ClusterTools, scope: Scope) -> None:
        self.tools = tools
        self.scope = scope
        self.copied: Condition | None = conditions.get(scope.status.conditions, names.KUBECONFIG_COPIED)
        """The reason why there is no copy of the kubeconfig; the last reported one until it is checked again."""
        self.synced: Condition | None = None
        """Condition Synced, once the objects were compared with what is rendered."""
        self._cluster = scope.object
        """The Cluster, with the annotations written during this reconcile."""

    @property
    def object(self) -> Object:
        """The Cluster."""
        return self.scope.object

    async def open_gate(self) -> None:
        """Store in annotations that the cluster is being changed, and digests of its release objects.

        Must be called before each write to the cluster's objects.
        """
        scope = self.scope
        if scope.is_deleted:
            return
        state = scope.gate if scope.takes_credentials else gate.Gate.OPEN
        recorded = self._cluster.metadata.annotations.get(metadata_keys.GATE_ANNOTATION)
        exists = scope.capi_objects.cluster_object is not None
        await self._note(gate.opened(recorded, scope.content_hash, state, exists=exists))

    async def close_gate(self) -> None:
        """Store the content hash: the reconcile is complete."""
        await self._note(self.scope.content_hash)

    async def _note(self, content_hash: str) -> None:
        scope, record = self.scope, self.scope.release_record
        wanted = {metadata_keys.GATE_ANNOTATION: content_hash}
        if record:
            wanted[metadata_keys.RELEASE_ANNOTATION] = record
        if scope.identity:
            wanted[metadata_keys.IDENTITY_ANNOTATION] = scope.identity
        noted = self._cluster.metadata.annotations
        changed = {name: value for name, value in wanted.items() if noted.get(name, "") != value}
        # A settled cluster without an identity is not written for it alone; one with a wrong identity is.
        if changed.keys() - {metadata_keys.IDENTITY_ANNOTATION} or noted.get(metadata_keys.IDENTITY_ANNOTATION):
            self._cluster = await self.annotate(eksa.Cluster.resource, self._cluster, changed)

    async def annotate(self, resource: Resource, object_: Object, annotations: Mapping[str, str | None]) -> Object:
        """Set these annotations on exactly this object; None removes an annotation."""
        patch = {"metadata": {"annotations": dict(annotations)}}
        return await self.tools.writer.merge(resource, object_, patch, Precondition.UID)

    async def write(self, what: Sequence[Change | Removal], reason: str) -> None:
        """Write and delete Cluster API objects, and record an event for each."""
        if not what:
            return
        await self.open_gate()
        writer, cluster_ownership = self.tools.writer, self.scope.cluster_ownership
        for difference in what:
            if isinstance(difference, Change):
                await writer.apply(difference.resource, difference.body, cluster_ownership)
            else:
                await writer.delete(difference.resource, difference.object, cluster_ownership)
        self.event("Normal", reason, ", ".join(map(str, what)))
        self.refresh()

    def event(self, type: EventType, reason: str, message: str) -> None:
        """Record an event of the Cluster."""
        text = redaction.concealed(message, self.scope.secrets)
        self.tools.recorder.event(self.scope.object, type, reason, text)

    def saw_cni(self, drifts: Iterable[Drift]) -> None:
        """Remember which objects of the CNI are missing, given all drift of the CNI."""
        self.scope = msgspec.structs.replace(self.scope, lost_cni=lost_cni(drifts))

    def refresh(self) -> None:
        """Read the Cluster API objects of the Cluster again."""
        self.scope = self.scope.with_capi_objects(self.tools.observer.capi_objects(self.scope.key, self.scope.spec))
