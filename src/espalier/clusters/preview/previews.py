"""The preview of a cluster: the requested changes, the resulting writes of a manager, and the effects on machines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import partial

import msgspec
from msgspec.structs import replace

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text import redaction
from espalier.clusters.admission.admission import Admission
from espalier.clusters.design.cluster_objects import object_names
from espalier.clusters.design.drift.gate import Isolation
from espalier.clusters.design.layers import Layer
from espalier.clusters.design.provider import RenderInput, infrastructures
from espalier.clusters.effects import machines
from espalier.clusters.effects.diff import ObjectChange, field_changes
from espalier.clusters.effects.duration import Duration, duration, in_place
from espalier.clusters.effects.machines import Fleet, Group
from espalier.clusters.effects.simulate import CNIChange, simulate
from espalier.clusters.observe.observe import ClusterObserver
from espalier.clusters.observe.references import Missing
from espalier.clusters.observe.rules import messages
from espalier.clusters.observe.scope import Scope, read
from espalier.clusters.preview import apply
from espalier.clusters.report import validity
from espalier.kube.errors import StatusCause
from espalier.kube.objects import Object, encode_json
from espalier.kube.transports.wire import ADMIN
from espalier.runtime.caches.snapshot import Snapshot
from espalier.runtime.servers.admission import AdmissionRequest, Operation


class Preview(msgspec.Struct, frozen=True):
    """The effects of a change on one cluster."""

    key: Key
    asked: tuple[ObjectChange, ...] = ()
    """Changes of the manifest to the Cluster and the objects that it links."""
    refusals: tuple[StatusCause, ...] = ()
    """All reasons for which the API server would reject that; then nothing below happens."""
    warnings: tuple[str, ...] = ()
    stops: str = ""
    settled: bool = False
    objects: tuple[ObjectChange, ...] = ()
    drift: tuple[str, ...] = ()
    """Objects that differ from what is rendered and stay so."""
    drifted: tuple[ObjectChange, ...] = ()
    """The writes that would correct those: each field as it is, and as it is rendered."""
    cni: CNIChange | None = None
    workload: tuple[ObjectChange, ...] = ()
    """Changes of the provider's objects in the workload cluster."""
    groups: tuple[Group, ...] = ()
    workers_wait: bool = False
    """True if worker node groups stay unchanged until all of the control plane has its version."""
    duration: Duration | None = None
    in_place: Duration | None = None
    """How long nodes are out of service, one after the other, during in-place upgrades."""
    offered: tuple[Layer, ...] = ()
    """Patches available to the cluster that it does not consent to."""

    @property
    def is_unknown(self) -> bool:
        """True if the effects depend on values that the provider has not resolved yet."""
        return self.stops.partition(":")[0] == Reason.VALUES_NOT_RESOLVED and not self.objects

    @property
    def is_empty(self) -> bool:
        """True if nothing would change or be rejected."""
        return not (self.asked or self.refusals or self.objects or self.cni or self.workload or self.groups)


Judge = Callable[[Tree, Tree | None], Iterable[StatusCause]]
"""Judges an object, new or replacing another, by the rules of its CustomResourceDefinition, as API servers do."""


class Previews:
    """Previews of clusters from a snapshot of all their objects."""

    def __init__(
        self,
        snapshot: Snapshot,
        observer: ClusterObserver,
        fleets: dict[str, Fleet],
        *,
        now: datetime,
        secrets: Sequence[Object] = (),
        judge: Judge = lambda _new, _old: (),
    ) -> None:
        """`secrets` are those of the system's namespace that Cluster API would find for new clusters; `judge` is
        called for linked objects. Clusters are judged by admission.
        """
        self._snapshot = snapshot
        self._observer = observer
        self._admission = Admission(observer, lambda: now, names_others=True)
        self._fleets = fleets
        self._now = now
        self._secrets = secrets
        self._judge = judge

    def of_change(self, key: Key, manifest: Sequence[Tree], *, by_espalier: bool = False) -> Preview:
        """The effects of applying a manifest (a Cluster and the objects that it links): see `apply.applied`.

        Afterwards the snapshot contains the requested objects.
        """
        live = [object_.tree for tree in manifest if (object_ := self.live(tree)) is not None]
        secrets = redaction.secrets_of(*live, *manifest)
        return _concealed(self._of_change(key, manifest, by_espalier=by_espalier), secrets)

    def _of_change(self, key: Key, manifest: Sequence[Tree], *, by_espalier: bool) -> Preview:
        last = self._last_render_input(key)
        asked: list[ObjectChange] = []
        warnings: list[str] = []
        refusals: list[StatusCause] = []
        refused: Iterable[StatusCause]
        for tree in sorted(manifest, key=lambda body: body["kind"] == eksa.Cluster.resource.kind):
            live = self.live(tree)
            new = apply.applied(live, tree, now=self._now, by_espalier=by_espalier)
            if new.kind == eksa.Cluster.resource.kind:
                new, hints, refused = self._admitted(live, new)
                warnings += hints
            else:
                refused = self._linked_refusals(live, new)
            refusals += refused
            change = _asked(live, new)
            if change is not None:
                asked.append(change)
            if not refusals:
                self._snapshot.put(new)
        if refusals:
            return Preview(key, tuple(asked), tuple(refusals), tuple(warnings))
        scope = self._observer.scope(key)
        if scope is None:
            raise LookupError(f"there is no Cluster {key}")
        is_record = (
            scope.is_management and scope.has_machines and MOVE_ANNOTATION not in scope.cluster.metadata.annotations
        )
        # A plan is that of `espalier upgrade cluster`: whatever else writes the record changes no machine.
        preview = self._preview(replace(scope, is_upgraded_record=True) if is_record else scope, last)
        if is_record and (asked or not preview.is_empty):
            warnings.append(messages.CHANGED_BY_UPGRADE)
        return replace(preview, asked=tuple(asked), warnings=(*warnings, *preview.warnings))

    def _linked_refusals(self, live: Object | None, new: Object) -> list[StatusCause]:
        """All reasons for which a linked object would be rejected, each with its kind and name."""
        where = f"{new.kind} {new.name}"
        causes = self._judge(new.tree, live.tree if live is not None else None)
        return [replace(cause, field=f"{where}: {cause.field}") for cause in causes]

    def refusals(self, cluster: Tree) -> list[StatusCause]:
        """All reasons for which a Cluster would be rejected when this program applies it."""
        live = self.live(cluster)
        return list(self._admitted(live, apply.applied(live, cluster, now=self._now, by_espalier=True))[2])

    def lacks_address(self, cluster: Tree) -> bool:
        """True if a Cluster that does not exist yet names an address that another cluster has. Admission does not say
        so: not everybody may know the addresses of others.

        Afterwards the snapshot contains the Cluster.
        """
        if self.live(cluster) is not None:
            return False
        now = self._now + timedelta(seconds=1)  # it becomes the youngest; of the same second, names decide
        new, _, _ = self._admitted(None, apply.applied(None, cluster, now=now, by_espalier=True))
        self._snapshot.put(new)
        try:
            scope = self._observer.scope(new.key)
        except msgspec.ValidationError:
            return False
        return scope is not None and scope.lacks_address

    def absent(self, cluster: Tree, before: Object | None) -> list[Missing]:
        """The objects that a Cluster links, that do not exist, and that it did not lack `before`; none if it can't be
        decoded.
        """
        try:
            absent = self._observer.linked.absent(read(Object(encode_json(cluster))))
            lacked = self._observer.linked.absent(read(before)) if before is not None else []
        except msgspec.ValidationError:
            return []
        return [missing for missing in absent if missing.what not in {each.what for each in lacked}]

    def as_it_is(self, key: Key) -> Preview:
        """The writes of a manager to a cluster whose Cluster does not change."""
        return self._of_stored(key)

    def at_next_change(self, key: Key) -> Preview:
        """The additional writes of a manager at the next change of a cluster, whatever it is."""
        return self._of_stored(key, Isolation.OFF)

    def _of_stored(self, key: Key, isolation: Isolation | None = None) -> Preview:
        try:
            scope = self._observer.scope(key)
        except msgspec.ValidationError as error:
            return Preview(key, stops=f"{Reason.CLUSTER_INVALID}: the stored Cluster is invalid: {error}")
        if scope is None:
            raise LookupError(f"there is no Cluster {key}")
        preview = self._preview(replace(scope, isolation=isolation or scope.isolation), scope.render_input)
        return _concealed(preview, redaction.secrets_of(scope.object.tree))

    def _preview(self, scope: Scope, last: RenderInput | None) -> Preview:
        left_over = object_names.left_over(scope.key, self._secrets)
        simulated = simulate(replace(scope, left_over=left_over), last)
        fleet = self._fleets.get(scope.key.name, Fleet())
        known = infrastructures(scope.providers)
        is_held = simulated.stops and not (scope.is_settled or scope.is_paused or scope.is_deleted)
        conflict = validity.conflict(scope) if is_held and not scope.is_self_managed else None
        hidden = conflict is not None and conflict.message not in simulated.stops
        then = (f"then the cluster waits again: {conflict.reason}: {conflict.message}",) if conflict and hidden else ()
        groups = machines.groups(simulated, fleet, known) if simulated.acts else machines.refused_groups(simulated)
        return Preview(
            key=scope.key,
            warnings=then,
            stops=simulated.stops
            or machines.refused_in_place(groups, scope.key.name)
            or machines.paused(scope, groups),
            settled=simulated.settled,
            objects=simulated.objects,
            drift=simulated.drift,
            drifted=simulated.drifted,
            cni=simulated.cni,
            workload=simulated.workload,
            groups=groups,
            workers_wait=simulated.workers_wait,
            duration=duration(groups, fleet, workers_wait=simulated.workers_wait) if groups else None,
            in_place=in_place(groups, fleet),
            offered=scope.offered,
        )

    def live(self, tree: Tree) -> Object | None:
        """The existing object of this kind and name."""
        metadata = tree["metadata"]
        key = Key(metadata.get("namespace", ""), metadata["name"])
        return self._snapshot.get(tree["apiVersion"], tree["kind"], key)

    def _last_render_input(self, key: Key) -> RenderInput | None:
        try:
            scope = self._observer.scope(key)
        except msgspec.ValidationError:
            return None
        return scope.render_input if scope is not None else None

    def _admitted(self, live: Object | None, new: Object) -> tuple[Object, Iterable[str], Iterable[StatusCause]]:
        """The Cluster with its defaults, the warnings about it, and the reasons why it is rejected."""
        operation: Operation = "CREATE" if live is None else "UPDATE"
        request = AdmissionRequest(operation, new.kind, new.namespace, new.name, ADMIN, new, live)
        defaulted = self._admission.default(request)
        if defaulted.changed is not None:
            new = Object(msgspec.json.encode(defaulted.changed))
        request = AdmissionRequest(operation, new.kind, new.namespace, new.name, ADMIN, new, live)
        response = self._admission.validate(request)
        warnings = (*defaulted.warnings, *response.warnings)
        if response.allowed:
            return new, warnings, ()
        return new, warnings, response.causes or (StatusCause(response.reason, response.message, ""),)


def _concealed(preview: Preview, secrets: frozenset[str]) -> Preview:
    """The preview without secrets of the requested objects, wherever a message or a field quotes them."""

    def concealed(change: ObjectChange) -> ObjectChange:
        fields = (field._replace(old=every(field.old), new=every(field.new)) for field in change.fields)
        return change._replace(fields=tuple(fields))

    every = partial(redaction.all_concealed, secrets=secrets)
    text = partial(redaction.concealed, secrets=secrets)
    cni = preview.cni
    return replace(
        preview,
        asked=tuple(map(concealed, preview.asked)),
        refusals=tuple(replace(refusal, message=text(refusal.message)) for refusal in preview.refusals),
        warnings=tuple(map(text, preview.warnings)),
        stops=text(preview.stops),
        objects=tuple(map(concealed, preview.objects)),
        drift=tuple(map(text, preview.drift)),
        drifted=tuple(map(concealed, preview.drifted)),
        cni=replace(cni, objects=tuple(map(concealed, cni.objects))) if cni is not None else None,
        workload=tuple(map(concealed, preview.workload)),
    )


def _asked(live: Object | None, new: Object) -> ObjectChange | None:
    named = (new.head.api_version, new.kind, new.namespace, new.name)
    if live is None:
        return ObjectChange("create", *named)
    fields = tuple(change for change in field_changes(live.tree, new.tree) if apply.LAST_APPLIED not in change.field)
    return ObjectChange("change", *named, fields) if fields else None
