"""Drift: where the objects of a settled cluster differ from what is rendered, and how to correct it. Pure.

Only fields that we own are compared (`clusters/design/drift/ownership.py`), and only with what the layers of the
cluster's own release render, so every difference was made by somebody else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.core import DAEMON_SET, DEPLOYMENT, SECRET, Secret
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.kinds import KubeObject
from espalier.api.resource import Resource
from espalier.clusterapi.changes.machine_change import ChangeKind, machine_change, of_control_plane, of_machine_template
from espalier.clusterapi.infrastructures.templates import are_of_same_series
from espalier.clusters.design.cluster_objects import runtime_hooks
from espalier.clusters.design.drift import ownership
from espalier.clusters.design.drift.drift_policy import Policy
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.api_server import authenticator
from espalier.clusters.design.rendered import Manifest
from espalier.clusters.observe.scope import ClusterAPIObjects
from espalier.clusters.plan import deleted, plan
from espalier.clusters.plan.plan import Change, Removal
from espalier.kube.objects import Object

MISSING = "is missing"
NOT_PART_OF_CLUSTER = "is not part of the cluster"
BEING_DELETED = "is being deleted"


class InstalledCNI(NamedTuple):
    """The content hash of the installed CNI, to be stored on the Cluster API Cluster."""

    content_hash: str


Remedy: TypeAlias = Change | Removal | Manifest | InstalledCNI
"""The write that corrects an object."""


class Drift(NamedTuple):
    """An object that differs from what is rendered."""

    what: str
    """Kind, namespace and name."""
    how: str
    """The fields that differ, or what is wrong with the object as a whole."""
    remedy: Remedy | None
    """None: it can't be corrected at present."""
    replaces_machines: bool = False

    @property
    def fields(self) -> list[str]:
        """Each field that differs, with the object; or the object as a whole."""
        return [self.what] if self.is_of_object else [f"{self.what}: {field}" for field in self.how.split(", ")]

    @property
    def is_of_object(self) -> bool:
        """True if the drift concerns the whole object, not a field."""
        return self.how in (MISSING, NOT_PART_OF_CLUSTER, BEING_DELETED)

    def __str__(self) -> str:
        return f"{self.what} {self.how}" if self.is_of_object else f"{self.what}: {self.how}"


def of_capi_objects(
    render_input: RenderInput, capi_objects: ClusterAPIObjects, installed_cni: str | None
) -> list[Drift]:
    """The drift of the Cluster API objects, in the order of correction.

    `installed_cni` is the content hash that the Cluster API Cluster should carry, None when the CNI is not managed.
    Another front end for in-place upgrades is no drift: the next change of the Cluster applies it.
    """
    owners = [
        owner for kind in (KubeadmControlPlane, MachineDeployment) for owner in capi_objects.of(kind.resource).values()
    ]
    front_end = runtime_hooks.chosen(owners)
    wanted = [
        *plan.control_plane(render_input, capi_objects, name_in_use, front_end),
        *plan.worker_groups(render_input, capi_objects, name_in_use, front_end),
    ]
    drifts = [_changed(change, capi_objects) for change in plan.changes(wanted, capi_objects)]
    drifts += [
        Drift(_what(SECRET, body.metadata.namespace, body.metadata.name), "data", Change(SECRET, tree, ("data",)))
        for body in without_content(render_input, capi_objects)
        for tree in [msgspec.to_builtins(body)]
        if body.metadata.name in capi_objects.of(SECRET)
    ]
    cluster = capi_objects.cluster_object
    if cluster is not None and installed_cni is not None and capi_objects.installed_cni != installed_cni:
        drifts.append(
            Drift(
                _what(capi.Cluster.resource, cluster.namespace, cluster.name),
                f"metadata.annotations[{metadata_keys.CNI_ANNOTATION}]",
                InstalledCNI(installed_cni),
            )
        )
    drifts += [_unasked(removal) for removal in _superfluous(render_input, wanted, capi_objects)]
    drifts += _being_deleted(wanted, capi_objects)
    is_going = cluster is not None and cluster.metadata.deletion_timestamp is not None
    if is_going or deleted.lost_control_plane(capi_objects):  # nothing is created for what is being deleted
        drifts = [drift._replace(remedy=None) for drift in drifts]
    return drifts


def name_in_use(capi_objects: ClusterAPIObjects, wanted: KubeObject, referenced: str | None) -> str:
    """The name of the template that should be referenced: the one with the desired content, else the referenced one.

    This distinguishes a changed reference from a template whose content was changed.
    """
    body, first = msgspec.to_builtins(wanted), wanted.metadata.name
    series = {
        name: template for name, template in capi_objects.of(wanted.resource).items() if are_of_same_series(name, first)
    }
    good = [name for name, object_ in sorted(series.items()) if ownership.has_content(body, object_)]
    if not good or referenced in good:
        return referenced or first
    return good[0]


def of_manifests(manifests: Sequence[Manifest], live: Sequence[Object | None]) -> list[Drift]:
    """The drift of the CNI, given its live objects in the workload cluster (None: not found)."""
    drifts = []
    for manifest, object_ in zip(manifests, live, strict=True):
        metadata = manifest.body["metadata"]
        what = f"{_what(manifest.resource, metadata.get('namespace', ''), metadata['name'])} of the workload cluster"
        fields = ownership.differences(manifest.body, object_) if object_ is not None else []
        if object_ is not None and object_.metadata.deletion_timestamp is not None:
            drifts.append(Drift(what, BEING_DELETED, None))
        elif object_ is None or fields:
            drifts.append(Drift(what, ", ".join(fields) or MISSING, manifest))
    return drifts


def lost_cni(drifts: Iterable[Drift]) -> tuple[str, ...]:
    """The missing workloads of a CNI; missing RBAC and configuration are reported by Synced only."""
    return tuple(
        drift.what for drift in drifts if drift.how in (MISSING, BEING_DELETED) and drift.what.startswith(_RUNNING)
    )


_RUNNING = (f"{DAEMON_SET.kind} ", f"{DEPLOYMENT.kind} ")


def correctable(drifts: Iterable[Drift], chosen: Policy | None) -> list[Drift]:
    """The drift that a policy corrects."""
    allowed = {Policy.CORRECT: (False,), Policy.CORRECT_MACHINES: (False, True)}.get(chosen or Policy.REPORT, ())
    return [drift for drift in drifts if drift.remedy is not None and drift.replaces_machines in allowed]


def _changed(change: Change, capi_objects: ClusterAPIObjects) -> Drift:
    metadata = change.body["metadata"]
    what = _what(change.resource, metadata.get("namespace", ""), metadata["name"])
    live = capi_objects.of(change.resource).get(metadata["name"])
    if live is None:
        return Drift(what, MISSING, change)
    return Drift(what, ", ".join(change.fields), change, replaces_machines(change, live))


def replaces_machines(change: Change, live: Object) -> bool:
    """True if applying replaces machines. Cluster API compares machines with these two kinds only."""
    after = ownership.after_apply(live, change.body)
    if change.resource == KubeadmControlPlane.resource:
        before, wanted = live.decode(KubeadmControlPlane), msgspec.convert(after, KubeadmControlPlane)
        result = machine_change(of_control_plane(before), of_control_plane(wanted))
    elif change.resource == MachineDeployment.resource:
        now, then = live.decode(MachineDeployment), msgspec.convert(after, MachineDeployment)
        result = machine_change(of_machine_template(now.spec.template), of_machine_template(then.spec.template))
    else:
        return False
    return result.kind is ChangeKind.REPLACE


def without_content(render_input: RenderInput, capi_objects: ClusterAPIObjects) -> Iterator[Secret]:
    """Secrets of AWS IAM Authenticator that are missing, or lack their generated content.

    The kubeconfig counts once Cluster API has created its own.
    """
    if not authenticator.is_asked_for(render_input):
        return
    live = capi_objects.of(SECRET)
    keys, admin = authenticator.secret(render_input), capi_objects.kubeconfig
    if (secret := live.get(keys.metadata.name)) is None or not authenticator.has_keys(secret.tree):
        yield keys
    content = authenticator.user_kubeconfig(render_input, admin) if admin is not None else None
    if content is None:
        return
    access = authenticator.kubeconfig_secret(render_input)
    if (secret := live.get(access.metadata.name)) is None or not authenticator.gives_access(secret.tree, content):
        yield access


def _superfluous(
    render_input: RenderInput, wanted: Iterable[KubeObject], capi_objects: ClusterAPIObjects
) -> Iterator[Removal]:
    """Objects that are not rendered; templates only when nothing refers to them."""
    yield from plan.superfluous_workers(render_input, capi_objects)
    yield from plan.superfluous_extras(render_input, capi_objects)
    ours = {(object_.resource, object_.metadata.name) for object_ in wanted}
    for removal in plan.unused_templates(capi_objects):
        if (removal.resource, removal.object.name) not in ours:
            yield removal


def _unasked(removal: Removal) -> Drift:
    return Drift(_what(removal.resource, removal.object.namespace, removal.object.name), NOT_PART_OF_CLUSTER, removal)


def _being_deleted(wanted: Iterable[KubeObject], capi_objects: ClusterAPIObjects) -> Iterator[Drift]:
    for object_ in wanted:
        live = capi_objects.of(object_.resource).get(object_.metadata.name)
        if live is not None and live.metadata.deletion_timestamp is not None:
            yield Drift(_what(object_.resource, live.namespace, live.name), BEING_DELETED, None)


def _what(resource: Resource, namespace: str, name: str) -> str:
    return f"{resource.kind} {namespace}/{name}" if namespace else f"{resource.kind} {name}"
