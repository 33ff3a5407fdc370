"""The plan: objects to write and to delete. Pure: renders the desired objects of a scope, and compares them with the
live ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, TypeAlias

import msgspec

from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineHealthCheck
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.clusterapi import contract, external_etcd, infrastructure, templates
from espalier.clusters.design import names, ownership
from espalier.clusters.design.provider import Name, RenderInput
from espalier.clusters.design.render.layered import rendered, rendered_once
from espalier.clusters.design.render_input import group_name
from espalier.clusters.design.rendered import Rendered
from espalier.clusters.observe import downgrade
from espalier.clusters.observe.scope import ClusterAPIObjects
from espalier.clusters.plan import in_place
from espalier.kube import fields as field_sets
from espalier.kube.objects import Object
from espalier.runtime.outcome import Wait


class Change(NamedTuple):
    """An object to apply: it does not exist (no `fields`), or these fields of ours differ."""

    resource: Resource
    body: Tree
    fields: tuple[str, ...]

    def __str__(self) -> str:
        metadata = self.body["metadata"]
        verb = "changed" if self.fields else "created"
        return f"{verb} {self.resource.kind} {Key(metadata.get('namespace', ''), metadata['name'])}"


class Removal(NamedTuple):
    """An object to delete."""

    resource: Resource
    object: Object

    def __str__(self) -> str:
        return f"deleted {self.resource.kind} {self.object.key}"


def fresh_name(capi_objects: ClusterAPIObjects, wanted: KubeObject, referenced: str | None) -> str:
    """The referenced template if it has the desired content, else the next free name: templates are immutable."""
    body = msgspec.to_builtins(wanted)
    live: Mapping[str, Object] = capi_objects.of(wanted.resource)
    return templates.choose_name(
        wanted.metadata.name, referenced, live, lambda name: ownership.has_content(body, live[name])
    )


Naming: TypeAlias = Callable[[ClusterAPIObjects, KubeObject, str | None], str]
"""Chooses the name to write a template under, given the referenced name."""


def control_plane(
    render_input: RenderInput, capi_objects: ClusterAPIObjects, naming: Naming = fresh_name
) -> list[KubeObject]:
    """The objects that the cluster has once; referenced objects come first."""
    wanted = rendered(render_input)
    live = capi_objects.control_plane
    referenced = live.spec.machine_template.spec.infrastructure_ref.name if live else None
    _keep_endpoint(wanted.infrastructure, capi_objects)
    template = wanted.machine_template
    template.metadata.name = naming(capi_objects, template, referenced)
    of_machines = wanted.control_plane.spec.machine_template.spec
    of_machines.infrastructure_ref.name = template.metadata.name
    downgrade.allow_coredns_downgrade(wanted.control_plane, live)
    own = [template, wanted.infrastructure, wanted.control_plane, wanted.cluster, wanted.health_check]
    wanted_objects = [*wanted.extras, *_etcd(wanted, capi_objects, naming), *own]
    return _with_upgrades_requested(wanted_objects, render_input, capi_objects)


def _with_upgrades_requested(
    wanted: list[KubeObject], render_input: RenderInput, capi_objects: ClusterAPIObjects
) -> list[KubeObject]:
    """The objects; those whose machines are upgraded in place get the annotation that requests it."""
    for change in in_place.owner_changes(wanted, render_input, capi_objects):
        in_place.request_upgrade(change, render_input.front_end)
    return wanted


def owner_changes(render_input: RenderInput, capi_objects: ClusterAPIObjects) -> list[in_place.OwnerChange]:
    """The pending changes of the control plane and all groups whose machines are upgraded in place."""
    strategies = [
        render_input.control_plane.upgrade_rollout_strategy,
        *(group.upgrade_rollout_strategy for group in render_input.groups),
    ]
    if capi_objects.control_plane is None or not any(one and one.type == "InPlace" for one in strategies):
        return []
    wanted = [*control_plane(render_input, capi_objects), *worker_groups(render_input, capi_objects)]
    return in_place.owner_changes(wanted, render_input, capi_objects)


def _etcd(wanted: Rendered, capi_objects: ClusterAPIObjects, naming: Naming) -> list[KubeObject]:
    """External etcd; the control plane leaves its endpoints to Cluster API."""
    if wanted.etcd is None:
        return []
    live, template = capi_objects.etcd, wanted.etcd.machine_template
    template.metadata.name = naming(capi_objects, template, live.spec.infrastructure_template.name if live else None)
    wanted.etcd.cluster.spec.infrastructure_template.name = template.metadata.name
    etcd = capi_objects.of(external_etcd.RESOURCE).get(wanted.etcd.cluster.metadata.name)
    if etcd is not None and _owns(etcd, "metadata", "annotations", external_etcd.UPGRADING):
        wanted.etcd.cluster.metadata.annotations[external_etcd.UPGRADING] = "true"  # its controller takes it away
    control_plane = next(iter(capi_objects.of(KubeadmControlPlane.resource).values()), None)
    configuration = wanted.control_plane.spec.kubeadm_config_spec.cluster_configuration
    known = external_etcd.endpoints(capi_objects.control_plane) if capi_objects.control_plane else ()
    external = configuration.etcd.external if configuration and configuration.etcd else None
    if control_plane is not None and external is not None and known:
        external.endpoints = list(known) if _owns(control_plane, *_ENDPOINTS) else []
    return [template, wanted.etcd.cluster]


_ENDPOINTS = ("spec", "kubeadmConfigSpec", "clusterConfiguration", "etcd", "external", "endpoints")
"""The path of the endpoints. A manager that found them in a control plane owns them, too."""


def _owns(live: Object, *path: str) -> bool:
    """True if a field is removed when it is no longer applied."""
    return field_sets.owns(ownership.owned_fields(live) or {}, *path)


def of_etcd(wanted: Iterable[KubeObject]) -> list[KubeObject]:
    """External etcd with its template, among the objects that the cluster has once."""
    listed = list(wanted)
    found = next((one for one in listed if isinstance(one, EtcdadmCluster)), None)
    reference = found.spec.infrastructure_template if found is not None else None
    return [
        one
        for one in listed
        if one is found or (reference is not None and (one.kind, one.metadata.name) == (reference.kind, reference.name))
    ]


def _keep_endpoint(infrastructure: KubeObject, capi_objects: ClusterAPIObjects) -> None:
    """Give recreated infrastructure the existing control plane endpoint.

    Kubeconfigs and certificates contain it, and Cluster API never changes it; if omitted, the provider chooses another
    one. An endpoint that the provider set on the existing object stays the provider's field.
    """
    spec = getattr(infrastructure, "spec", None)
    known = capi_objects.cluster.spec.control_plane_endpoint if capi_objects.cluster else None
    if known is None or not known.host or getattr(spec, "control_plane_endpoint", known) is not None:
        return
    live = capi_objects.of(infrastructure.resource).get(infrastructure.metadata.name)
    if live is None or _owns(live, "spec", "controlPlaneEndpoint"):
        infrastructure.spec.control_plane_endpoint = known  # type: ignore[attr-defined]


def postponed(wanted: Iterable[KubeObject], render_input: RenderInput, capi_objects: ClusterAPIObjects) -> str:
    """The reason why changes of the control plane wait for the end of its creation; empty if they needn't."""
    has_cni = bool(capi_objects.installed_cni)
    messages = (in_place.postponed(one, has_cni) for one in in_place.owner_changes(wanted, render_input, capi_objects))
    return next(filter(None, messages), "")


def waiting_for_creation(render_input: RenderInput, capi_objects: ClusterAPIObjects) -> str:
    """As `postponed`, for the control plane as rendered now; rendered only until its creation is complete."""
    if not in_place.lacking(capi_objects.control_plane, bool(capi_objects.installed_cni)):
        return ""
    return postponed(control_plane(render_input, capi_objects), render_input, capi_objects)


def carriers(render_input: RenderInput, capi_objects: ClusterAPIObjects) -> list[KubeObject]:
    """The objects that the cluster has once and that carry credentials."""
    kinds = render_input.provider.links.carriers
    return [one for one in control_plane(render_input, capi_objects) if one.resource in kinds]


def worker_groups(
    render_input: RenderInput, capi_objects: ClusterAPIObjects, naming: Naming = fresh_name
) -> list[KubeObject]:
    """The objects of the worker node groups; referenced objects come first."""
    wanted: list[KubeObject] = []
    for group in rendered(render_input).groups:
        live = capi_objects.typed_deployments.get(group.deployment.metadata.name)
        spec = live.spec.template.spec if live else None
        machines, bootstrap = group.machine_template, group.config_template
        machines.metadata.name = naming(capi_objects, machines, spec.infrastructure_ref.name if spec else None)
        referenced = spec.bootstrap.config_ref.name if spec and spec.bootstrap.config_ref else None
        bootstrap.metadata.name = naming(capi_objects, bootstrap, referenced)
        of_machines = group.deployment.spec.template.spec
        of_machines.infrastructure_ref.name = machines.metadata.name
        if of_machines.bootstrap.config_ref is not None:
            of_machines.bootstrap.config_ref.name = bootstrap.metadata.name
        wanted += [machines, bootstrap, group.deployment, group.health_check]
    return _with_upgrades_requested(wanted, render_input, capi_objects)


def obstacle(wanted: Iterable[KubeObject], render_input: RenderInput, capi_objects: ClusterAPIObjects) -> Wait | None:
    """The reason why these objects may not be written yet: machines to be upgraded in place would be replaced."""
    found = (
        in_place.obstacle(one, render_input.front_end, capi_objects.extension)
        for one in in_place.owner_changes(wanted, render_input, capi_objects)
    )
    return next(filter(None, found), None)


def changes(wanted: Iterable[KubeObject], capi_objects: ClusterAPIObjects) -> list[Change]:
    """The changes that make our fields of the live objects the desired ones."""
    found = []
    for object_ in wanted:
        body: Tree = msgspec.to_builtins(object_)
        live = capi_objects.of(object_.resource).get(object_.metadata.name)
        fields = tuple(ownership.differences(body, live)) if live else ()
        if live is None or fields:
            found.append(Change(object_.resource, body, fields))
    return found


def superfluous_workers(
    render_input: RenderInput, capi_objects: ClusterAPIObjects, *, at_once: bool = False
) -> list[Removal]:
    """MachineDeployments and MachineHealthChecks of groups that were removed from the spec.

    Those of a group that moves to other failure domains stay until its machines are ready there, unless `at_once`.
    """
    leaving = set() if at_once else _leaving(render_input, capi_objects)
    checks = {names.worker_health_check(render_input.name, group_name(group)) for group in render_input.groups}
    checks |= {f"{name}-worker-unhealthy" for name in leaving}
    checks.add(names.control_plane_health_check(render_input.name))
    return [
        *_others(MachineDeployment.resource, capi_objects, _deployments(render_input) | leaving),
        *_others(MachineHealthCheck.resource, capi_objects, checks),
    ]


def _leaving(render_input: RenderInput, capi_objects: ClusterAPIObjects) -> set[str]:
    """MachineDeployments whose replacements are not ready yet."""
    live = capi_objects.typed_deployments
    awaited = set()
    for group in render_input.groups:
        name = group_name(group)
        deployment = live.get(names.machine_deployment(render_input.name, name))
        if deployment is None or not _is_ready(deployment):
            awaited.add(names.machine_deployment(render_input.name, render_input.whole_group(name)))
    return {
        name
        for name, one in live.items()
        if name not in _deployments(render_input)
        and names.deployment_of_group(one.metadata, render_input.name) in awaited
    }


def _is_ready(deployment: MachineDeployment) -> bool:
    return contract.is_observed(deployment) and (deployment.status.ready_replicas or 0) >= contract.desired_replicas(
        deployment
    )


def going_workers(render_input: RenderInput, capi_objects: ClusterAPIObjects) -> list[str]:
    """Names of superfluous MachineDeployments that still exist."""
    return sorted(capi_objects.of(MachineDeployment.resource).keys() - _deployments(render_input))


def _deployments(render_input: RenderInput) -> set[str]:
    return {names.machine_deployment(render_input.name, group_name(group)) for group in render_input.groups}


def unused_templates(capi_objects: ClusterAPIObjects) -> list[Removal]:
    """Templates that nothing refers to. Only valid once no machine uses an old template."""
    machine_templates: set[str] = set()
    config_templates: set[str] = set()
    if capi_objects.control_plane is not None:
        machine_templates.add(capi_objects.control_plane.spec.machine_template.spec.infrastructure_ref.name)
    if capi_objects.etcd is not None:
        machine_templates.add(capi_objects.etcd.spec.infrastructure_template.name)
    for deployment in capi_objects.typed_deployments.values():
        spec = deployment.spec.template.spec
        machine_templates.add(spec.infrastructure_ref.name)
        if spec.bootstrap.config_ref is not None:
            config_templates.add(spec.bootstrap.config_ref.name)
    return [
        *(
            removal
            for resource in capi_objects.objects
            if infrastructure.is_machine_template(resource)
            for removal in _others(resource, capi_objects, machine_templates)
        ),
        *_others(KubeadmConfigTemplate.resource, capi_objects, config_templates),
    ]


def superfluous_extras(render_input: RenderInput, capi_objects: ClusterAPIObjects) -> list[Removal]:
    """Extra objects that are no longer rendered. Only valid once no machine uses an old template."""
    kinds = render_input.provider.extras.kinds
    wanted = {Name(one.resource, one.metadata.name) for one in rendered_once(render_input).extras} if kinds else set()
    return [
        removal
        for kind in kinds
        for removal in _others(kind, capi_objects, {one.name for one in wanted if one.resource == kind})
    ]


def leftovers(capi_objects: ClusterAPIObjects, extra: Collection[Resource] = ()) -> list[Removal]:
    """Objects of a deleted cluster that are not being deleted yet; `extra` kinds only once no others are left.

    Deleting infrastructure needs the credentials in them.
    """
    others = [kind for kind, objects in capi_objects.objects.items() if objects and kind not in extra]
    return [
        Removal(resource, object_)
        for resource in others or capi_objects.objects
        for object_ in capi_objects.of(resource).values()
        if object_.metadata.deletion_timestamp is None
    ]


def _others(resource: Resource, capi_objects: ClusterAPIObjects, wanted: set[str]) -> list[Removal]:
    return [
        Removal(resource, object_)
        for name, object_ in sorted(capi_objects.of(resource).items())
        if name not in wanted and object_.metadata.deletion_timestamp is None
    ]
