"""Which objects a manager would write for a cluster until it is as it was asked for: all its passes at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from espalier.api.capi.kubeadm import KubeadmConfigTemplate
from espalier.api.capi.machine import MachineDeployment
from espalier.api.resource import Resource
from espalier.clusters import cni, deleted, drift, names, ownership, plan, readiness, synced
from espalier.clusters.design import Design
from espalier.clusters.gate import Isolation
from espalier.clusters.plan import Change, Removal
from espalier.clusters.preview.differing import ObjectChange, field_changes
from espalier.clusters.scope import Machinery, Scope
from espalier.clusters.validity import problem
from espalier.kube.objects import Object, encode_json


class CNIChange(msgspec.Struct, frozen=True):
    """The pod network is applied to the workload cluster."""

    mark: str
    """Which one, and a digest of its content."""
    installed: str
    """The same of what the workload cluster was given last; empty before the first installation."""
    objects: tuple[ObjectChange, ...] = ()
    is_exact: bool = False
    """Whether `objects` are known to be all that changes; else the whole manifest is applied over what is there."""


class Foreseen(msgspec.Struct, frozen=True):
    """What a manager would write, and what is there afterwards."""

    before: Machinery
    after: Machinery
    stops: str = ""
    """Why nothing, or nothing more, would happen, as `Reason: sentence`; empty when the cluster gets ready."""
    settled: bool = False
    """Whether nothing was asked for since the last reconcile."""
    objects: tuple[ObjectChange, ...] = ()
    """In the order in which they are written."""
    drift: tuple[str, ...] = ()
    """Where what was made is not as it is rendered, and stays so. Of the workload cluster nothing is known."""
    cni: CNIChange | None = None
    workers_wait: bool = False
    """Whether groups of workers stay as they are until all of the control plane has its version."""
    gone: frozenset[str] = msgspec.field(default_factory=frozenset)
    """Names of MachineDeployments that go with their machines."""

    @property
    def acts(self) -> bool:
        """Whether anything is done: of a settled cluster only where drift is brought back."""
        return bool(self.objects) if self.settled else not self.stops


def foresee(scope: Scope, last: Design | None = None) -> Foreseen:
    """What the passes over a cluster write from here on, if nobody asks for anything else meanwhile.

    The order of decisions is that of `steps.LIFE`. `last` is the design with which the cluster was reconciled last, if
    that is known: from it follows what changes in the workload cluster, which is not read.
    """
    here = Foreseen(scope.machinery, scope.machinery)
    if scope.is_deleted:
        return replace(here, stops="Deleting: the cluster is being deleted")
    if scope.is_paused:
        return replace(here, stops="Paused: the cluster is paused: nothing is done until the annotation is removed")
    if scope.awaited:
        missing = ", ".join(one.what for one in scope.awaited)
        return replace(here, stops=f"{names.MISSING_DEPENDENT_OBJECTS}: there is no {missing}")
    if scope.is_bereft:
        return replace(here, stops=f"{names.CLUSTER_API_OBJECTS_MISSING}: {readiness.BEREFT}")
    if scope.is_settled:
        return _settled(scope, here)
    found = problem(scope)
    if found is not None or scope.design is None:
        return replace(here, stops=f"{found.reason}: {found.message}" if found else "")
    if lost := deleted.lost_control_plane(scope.machinery):
        return replace(here, stops=f"{names.CONTROL_PLANE_LOST}: {lost}")
    return _written(scope, scope.design, last)


def _settled(scope: Scope, here: Foreseen) -> Foreseen:
    """As `oversight.oversee`: a settled cluster is brought back as far as its annotation says, if it drifted.

    Before that, what carries credentials is written where these changed.
    """
    design, machinery = scope.design, scope.machinery
    if scope.takes_credentials:
        trouble = problem(scope)
        if trouble is not None or design is None:
            return replace(here, settled=True, stops=f"{trouble.reason}: {trouble.message}" if trouble else "")
        carried = plan.changes(plan.carriers(design, machinery), machinery)
        shown = tuple(_shown(change, machinery, {}) for change in carried)
        machinery = _with(machinery, carried)
        here = replace(here, after=machinery, objects=shown)
    if scope.isolation is not Isolation.LAYERS or design is None or machinery.cluster is None:
        return replace(here, settled=True)
    if scope.replaced_releases:
        return replace(here, settled=True, stops=f"{synced.NOT_COMPARABLE}: {synced.incomparable(scope)}")
    found = drift.of_machinery(design, machinery, None if scope.leaves_cni_alone else scope.wanted_cni)
    corrected = drift.correctable(found, drift.policy(scope.cluster.metadata.annotations))
    changes = [one.remedy for one in corrected if isinstance(one.remedy, Change)]
    removals = [one.remedy for one in corrected if isinstance(one.remedy, Removal)]
    after = _without(_with(machinery, changes), removals)
    replaced = _replaced_templates(machinery, after)
    return replace(
        here,
        settled=True,
        after=after,
        objects=(
            *here.objects,
            *(_shown(change, machinery, replaced) for change in changes),
            *(_removed(removal) for removal in removals),
        ),
        drift=tuple(str(one) for one in found if one not in corrected),
        gone=frozenset(removal.object.name for removal in removals if removal.resource == MachineDeployment.resource),
    )


def _written(scope: Scope, design: Design, last: Design | None) -> Foreseen:
    machinery = scope.machinery
    control_plane = plan.changes(plan.control_plane(design, machinery), machinery)
    after = _with(machinery, control_plane)
    workers = plan.changes(plan.worker_groups(design, after), after)
    after = _with(after, workers)
    superfluous = plan.superfluous_workers(design, after)
    after = _without(after, superfluous)
    unused = plan.unused_templates(after)
    after = _without(after, unused)
    replaced = _replaced_templates(machinery, after)
    return Foreseen(
        before=machinery,
        after=after,
        objects=(
            *(_shown(change, machinery, replaced) for change in (*control_plane, *workers)),
            *(_removed(removal) for removal in (*superfluous, *unused)),
        ),
        cni=_cni(scope, design, last),
        workers_wait=_workers_wait(machinery, after),
        gone=frozenset(one.object.name for one in superfluous if one.resource == MachineDeployment.resource),
    )


def _workers_wait(before: Machinery, after: Machinery) -> bool:
    live, wanted = before.control_plane, after.control_plane
    versions = (live.spec.version if live else None, wanted.spec.version if wanted else None)
    return not before.is_available or versions[0] != versions[1]


def _with(machinery: Machinery, changes: Iterable[Change]) -> Machinery:
    """The machinery after these writes. What controllers report stays as it was."""
    objects = {resource: dict(found) for resource, found in machinery.objects.items()}
    for change in changes:
        of_kind = objects.setdefault(change.resource, {})
        name = change.body["metadata"]["name"]
        live = of_kind.get(name)
        of_kind[name] = Object(encode_json(ownership.laid_over(live, change.body) if live else change.body))
    return Machinery(objects=objects, secrets=machinery.secrets, taken=machinery.taken)


def _without(machinery: Machinery, removals: Iterable[Removal]) -> Machinery:
    objects = {resource: dict(found) for resource, found in machinery.objects.items()}
    for removal in removals:
        objects[removal.resource].pop(removal.object.name)
    return Machinery(objects=objects, secrets=machinery.secrets, taken=machinery.taken)


def _shown(change: Change, machinery: Machinery, replaced: Mapping[tuple[str, str], str]) -> ObjectChange:
    resource, body = change.resource, change.body
    metadata = body["metadata"]
    live = machinery.of(resource).get(metadata["name"])
    named = (resource.api_version, resource.kind, metadata.get("namespace", ""), metadata["name"])
    if live is not None:
        return ObjectChange("change", *named, field_changes(live.tree, ownership.laid_over(live, body)))
    old = replaced.get((resource.kind, metadata["name"]), "")
    template = machinery.of(resource).get(old)
    if template is None:
        return ObjectChange("create", *named)
    fields = field_changes({"spec": template.tree.get("spec")}, {"spec": body.get("spec")})
    return ObjectChange("create", *named, fields, instead_of=old)


def _removed(removal: Removal) -> ObjectChange:
    resource, object_ = removal
    return ObjectChange("delete", resource.api_version, resource.kind, object_.namespace, object_.name)


def _replaced_templates(before: Machinery, after: Machinery) -> dict[tuple[str, str], str]:
    """By kind and name of each template that comes into use: the one that was used in its place."""
    old, new = _templates(before), _templates(after)
    return {(kind, name): old[user, kind] for (user, kind), name in new.items() if old.get((user, kind), name) != name}


def _templates(machinery: Machinery) -> dict[tuple[str, str], str]:
    """Names of templates in use, by who uses them (empty: the control plane) and kind."""
    used: dict[tuple[str, str], str] = {}
    if machinery.control_plane is not None:
        reference = machinery.control_plane.spec.machine_template.spec.infrastructure_ref
        used["", reference.kind] = reference.name
    for name, deployment in machinery.typed_deployments.items():
        spec = deployment.spec.template.spec
        used[name, spec.infrastructure_ref.kind] = spec.infrastructure_ref.name
        if spec.bootstrap.config_ref is not None:
            used[name, KubeadmConfigTemplate.resource.kind] = spec.bootstrap.config_ref.name
    return used


def _cni(scope: Scope, design: Design, last: Design | None) -> CNIChange | None:
    wanted, installed = scope.wanted_cni, scope.machinery.installed_cni
    if not wanted or installed == wanted or (installed and scope.leaves_cni_alone):
        return None
    before = cni.objects(last) if last is not None else []
    if not installed or cni.mark(before) != installed:
        before = []
    changes = tuple(_cni_changes(before, cni.objects(design)))
    same = bool(before) and installed.rpartition("-")[0] == wanted.rpartition("-")[0]
    return CNIChange(wanted, installed, changes, is_exact=same or not installed)


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
