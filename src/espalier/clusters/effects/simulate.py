"""The objects that a manager would write until a cluster is as requested: all its reconciles at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

import msgspec
from msgspec.structs import replace

from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Resource
from espalier.clusterapi import external_etcd
from espalier.clusters.act.cni_steps import install_cni
from espalier.clusters.act.step import ClusterStep, Write, foreseen
from espalier.clusters.act.steps import steps_of
from espalier.clusters.design import cni, names
from espalier.clusters.design.drift import ownership
from espalier.clusters.design.drift.drift_policy import policy
from espalier.clusters.design.drift.gate import Isolation
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.effects.diff import ObjectChange, field_changes
from espalier.clusters.observe.rules import messages
from espalier.clusters.observe.scope import ClusterAPIObjects, Scope
from espalier.clusters.plan import decisions, drift, workload_objects
from espalier.clusters.plan.in_place import OwnerChange
from espalier.clusters.plan.plan import Change, Removal
from espalier.clusters.report import synced
from espalier.kube.objects import Object, encode_json
from espalier.runtime.controllers.outcome import Done, Wait


class CNIChange(msgspec.Struct, frozen=True):
    """A CNI that is applied to the workload cluster."""

    content_hash: str
    """Its name, and a digest of its content."""
    installed: str
    """The same of the last CNI applied to the workload cluster; empty before the first installation."""
    objects: tuple[ObjectChange, ...] = ()
    is_exact: bool = False
    """True if `objects` are all changes; else the whole manifest is applied over the existing objects."""


class Simulated(msgspec.Struct, frozen=True):
    """The writes of a manager, and the objects afterwards."""

    before: ClusterAPIObjects
    after: ClusterAPIObjects
    stops: str = ""
    """The reason why nothing, or nothing more, would happen, as `Reason: sentence`; empty when the cluster gets
    ready."""
    settled: bool = False
    """True if nothing was changed since the last reconcile."""
    objects: tuple[ObjectChange, ...] = ()
    """In the order in which they are written."""
    drift: tuple[str, ...] = ()
    """Objects that differ from what is rendered and stay so. The workload cluster is unknown."""
    drifted: tuple[ObjectChange, ...] = ()
    """The writes that would correct those, as far as one write does: each field as it is, and as it is rendered."""
    cni: CNIChange | None = None
    workload: tuple[ObjectChange, ...] = ()
    """Changes of the provider's objects in the workload cluster."""
    workers_wait: bool = False
    """True if worker node groups stay unchanged until all of the control plane has its version."""
    owner_changes: tuple[OwnerChange, ...] = ()
    """Pending changes of the control plane and groups with in-place upgrades, as first classified."""
    gone: frozenset[str] = msgspec.field(default_factory=frozenset)
    """Names of MachineDeployments that are deleted with their machines."""

    @property
    def acts(self) -> bool:
        """True if anything is done: for a settled cluster only if drift is corrected."""
        return bool(self.objects) or not (self.settled or self.stops)


def simulate(scope: Scope, last: RenderInput | None = None) -> Simulated:
    """The writes of a cluster's reconciles from here on, if nobody changes anything else.

    It uses the decisions of the cluster's own steps, in their order. Waits that end by themselves are over at once;
    waits for somebody are not, unless the plan changes their cause. `last` is the render input of the last reconcile,
    if known: it determines the changes in the workload cluster, which is not read.
    """
    planned = decisions.of(scope) if not scope.is_settled else None
    changes = tuple(planned.owner_changes) if planned is not None else ()
    here = Simulated(scope.capi_objects, scope.capi_objects, owner_changes=changes)
    if scope.is_deleted:
        return replace(here, stops="Deleting: the cluster is being deleted")
    sequence = steps_of(scope)
    if not sequence:
        return replace(here, stops=f"{Reason.PAUSED}: {_pause(scope)}")
    written: list[Change | Removal] = []
    stops, network = "", None
    of_provider: tuple[ObjectChange, ...] = ()
    for step in sequence:
        if step is install_cni and scope.render_input is not None:
            network = _cni(scope, scope.render_input, last)
            of_provider = _of_provider(scope, last)
        match foreseen(step.decide(scope)) if isinstance(step, ClusterStep) else None:
            case Write(what):
                # What was foreseen already has no owner yet by which it could be compared.
                bodies = [change.body for change in written if isinstance(change, Change)]
                new = [change for change in what if not (isinstance(change, Change) and change.body in bodies)]
                written += new
                scope = scope.with_capi_objects(_after(scope.capi_objects, new))
            case Done():
                return _settled(scope, here, written)
            case Wait(reason, message) if _stops(step, reason, written):
                stops = f"{reason}: {message}"
                break
    return replace(
        _simulated(here, scope.capi_objects, written),
        stops=stops,
        settled=scope.is_settled,
        cni=network,
        workload=of_provider,
        workers_wait=_workers_wait(here.before, scope.capi_objects),
    )


def _pause(scope: Scope) -> str:
    if not scope.is_management:
        return "the cluster is paused: nothing is done until the annotation is removed"
    return messages.CHANGED_BY_UPGRADE if scope.has_machines else messages.WITHOUT_MACHINES


def _stops(step: Callable[..., object], reason: str, written: Iterable[object]) -> bool:
    """True if somebody has to act before anything follows, as far as a plan can tell."""
    awaits = isinstance(step, ClusterStep) and step.awaits
    return not awaits or (reason in names.FAILURES and not written)


def _settled(scope: Scope, here: Simulated, written: list[Change | Removal]) -> Simulated:
    """As `drift_correction.correct_drift`: the drift of a settled cluster is corrected as far as its annotation
    allows.
    """
    render_input, capi_objects = scope.render_input, scope.capi_objects
    here = replace(_simulated(here, capi_objects, written), settled=True)
    if scope.isolation is not Isolation.LAYERS or capi_objects.cluster is None:
        return here
    why = synced.incomparable(scope)
    if why or render_input is None:  # without a render input, there is a reason
        return replace(here, stops=f"{Reason.NOT_COMPARABLE}: {why}")
    drifts = drift.of_capi_objects(render_input, capi_objects, scope.wanted_cni if scope.compares_cni else None)
    corrected = drift.correctable(drifts, policy(scope.cluster.metadata.annotations))
    remedies = [item.remedy for item in corrected if isinstance(item.remedy, Change | Removal)]
    remedies.sort(key=lambda remedy: isinstance(remedy, Removal))
    left = [item for item in drifts if item not in corrected]
    return replace(
        _simulated(here, _after(capi_objects, remedies), [*written, *remedies]),
        drift=tuple(map(str, left)),
        drifted=tuple(_drifted(left, capi_objects)),
    )


def _drifted(drifts: Iterable[drift.Drift], capi_objects: ClusterAPIObjects) -> Iterator[ObjectChange]:
    for item in drifts:
        if isinstance(item.remedy, Removal):
            yield _removed(item.remedy)
        elif isinstance(item.remedy, Change):
            yield _shown(item.remedy, capi_objects, {})


def _simulated(here: Simulated, after: ClusterAPIObjects, written: Iterable[Change | Removal]) -> Simulated:
    """The objects to write, in the form of a preview."""
    before = here.before
    instead = _replaced_templates(before, after)
    removed = [removal for removal in written if isinstance(removal, Removal)]
    return replace(
        here,
        after=after,
        objects=tuple(
            _removed(change) if isinstance(change, Removal) else _shown(change, before, instead) for change in written
        ),
        gone=frozenset(removal.object.name for removal in removed if removal.resource == MachineDeployment.resource),
    )


def _workers_wait(before: ClusterAPIObjects, after: ClusterAPIObjects) -> bool:
    live, wanted = before.control_plane, after.control_plane
    versions = (live.spec.version if live else None, wanted.spec.version if wanted else None)
    return not before.is_available or versions[0] != versions[1]


def _after(capi_objects: ClusterAPIObjects, written: Iterable[Change | Removal]) -> ClusterAPIObjects:
    """The Cluster API objects after these writes. Fields reported by controllers stay unchanged."""
    objects = {resource: dict(named) for resource, named in capi_objects.objects.items()}
    for change in written:
        of_kind = objects.setdefault(change.resource, {})
        if isinstance(change, Removal):
            del of_kind[change.object.name]
        else:
            name = change.body["metadata"]["name"]
            live = of_kind.get(name)
            of_kind[name] = Object(encode_json(ownership.after_apply(live, change.body) if live else change.body))
            if live is not None and change.resource == external_etcd.RESOURCE:
                _with_other_endpoints(objects)
    return replace(capi_objects, objects=objects)


def _with_other_endpoints(objects: Mapping[Resource, dict[str, Object]]) -> None:
    """The objects after a change of etcd: Cluster API writes the new endpoints to the control plane."""
    of_kind = objects.get(KubeadmControlPlane.resource, {})
    for name, object_ in list(of_kind.items()):
        tree = object_.tree
        etcd = tree["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["etcd"]
        if "external" in etcd:
            etcd["external"] = etcd["external"] | {"endpoints": ["those of the new members"]}
            of_kind[name] = Object(encode_json(tree))


def _shown(change: Change, capi_objects: ClusterAPIObjects, replaced: Mapping[tuple[str, str], str]) -> ObjectChange:
    resource, body = change.resource, change.body
    metadata = body["metadata"]
    live = capi_objects.of(resource).get(metadata["name"])
    named = (resource.api_version, resource.kind, metadata.get("namespace", ""), metadata["name"])
    if live is not None:
        return ObjectChange(
            "change", *named, field_changes(live.tree, ownership.after_apply(live, body), resource.kind)
        )
    old = replaced.get((resource.kind, metadata["name"]), "")
    template = capi_objects.of(resource).get(old)
    if template is None:
        return ObjectChange("create", *named)
    fields = field_changes({"spec": template.tree.get("spec")}, {"spec": body.get("spec")})
    return ObjectChange("create", *named, fields, instead_of=old)


def _removed(removal: Removal) -> ObjectChange:
    resource, object_ = removal
    return ObjectChange("delete", resource.api_version, resource.kind, object_.namespace, object_.name)


def _replaced_templates(before: ClusterAPIObjects, after: ClusterAPIObjects) -> dict[tuple[str, str], str]:
    """For each template that comes into use, by kind and name: the template that it replaces."""
    old, new = _templates(before), _templates(after)
    return {(kind, name): old[user, kind] for (user, kind), name in new.items() if old.get((user, kind), name) != name}


def _templates(capi_objects: ClusterAPIObjects) -> dict[tuple[str, str], str]:
    """Names of templates in use, by user (empty: the control plane) and kind."""
    used: dict[tuple[str, str], str] = {}
    if capi_objects.control_plane is not None:
        reference = capi_objects.control_plane.spec.machine_template.spec.infrastructure_ref
        used["", reference.kind] = reference.name
    for name, deployment in capi_objects.typed_deployments.items():
        spec = deployment.spec.template.spec
        used[name, spec.infrastructure_ref.kind] = spec.infrastructure_ref.name
        if spec.bootstrap.config_ref is not None:
            used[name, KubeadmConfigTemplate.resource.kind] = spec.bootstrap.config_ref.name
    return used


def _cni(scope: Scope, render_input: RenderInput, last: RenderInput | None) -> CNIChange | None:
    if not scope.is_cni_due:
        return None
    wanted, installed = scope.wanted_cni, scope.capi_objects.installed_cni
    before = cni.objects(last) if last is not None else []
    if not installed or cni.content_hash(before) != installed:
        before = []
    changes = tuple(_cni_changes(before, cni.objects(render_input)))
    same = bool(before) and installed.rpartition("-")[0] == wanted.rpartition("-")[0]
    return CNIChange(wanted, installed, changes, is_exact=same or not installed)


def _of_provider(scope: Scope, last: RenderInput | None) -> tuple[ObjectChange, ...]:
    """The objects that are applied and deleted in the workload cluster."""
    due = workload_objects.due(scope)
    if due is None:
        return ()
    before = workload_objects.wanted(last)
    if workload_objects.digest(before) != workload_objects.installed(scope).digest:
        before = []
    gone = due.superfluous
    removed = (ObjectChange("delete", kind.api_version, kind.kind, key.namespace, key.name) for kind, key in gone)
    return (*_cni_changes(before, due.manifests), *removed)


def _cni_changes(before: Iterable[cni.Manifest], after: Iterable[cni.Manifest]) -> Iterable[ObjectChange]:
    there = {_identity(manifest): manifest for manifest in before}
    for manifest in after:
        resource, body = manifest.resource, manifest.body
        metadata = body["metadata"]
        named = (resource.api_version, resource.kind, metadata.get("namespace", ""), metadata["name"])
        old = there.get(_identity(manifest))
        if old is None:
            yield ObjectChange("create", *named)
        elif fields := field_changes(old.body, body, resource.kind):
            yield ObjectChange("change", *named, fields)


def _identity(manifest: cni.Manifest) -> tuple[Resource, str, str]:
    metadata = manifest.body["metadata"]
    return manifest.resource, metadata.get("namespace", ""), metadata["name"]
