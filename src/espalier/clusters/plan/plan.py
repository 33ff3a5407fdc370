"""The plan: objects to write and to delete. Pure: renders the desired objects of a scope, and compares them with the
live ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from espalier.api.capi.etcdadm import EtcdadmCluster
from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineHealthCheck
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.clusterapi import contract, external_etcd
from espalier.clusterapi.infrastructures import infrastructure, templates
from espalier.clusters.design import names
from espalier.clusters.design.drift import ownership
from espalier.clusters.design.provider import Name, RenderInput
from espalier.clusters.design.render.layered import rendered
from espalier.clusters.design.render_input import group_name
from espalier.clusters.design.rendered import Rendered, annotated
from espalier.clusters.observe.machines import downgrade
from espalier.clusters.observe.scope import ClusterAPIObjects
from espalier.clusters.plan import adopted_machines, in_place
from espalier.clusters.plan.adopted_machines import Owner
from espalier.kube import fields as field_sets
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Wait

T = TypeVar("T", bound=KubeObject)


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
    render_input: RenderInput,
    capi_objects: ClusterAPIObjects,
    naming: Naming = fresh_name,
    front_end: FrontEnd | None = None,
) -> list[KubeObject]:
    """The objects that the cluster has once; referenced objects come first. Upgrades in place are requested by the
    manager's front end, or by `front_end`.
    """
    objects = rendered(render_input)
    live = capi_objects.control_plane
    referenced = live.spec.machine_template.spec.infrastructure_ref.name if live else None
    owners = adopted_machines.retained(render_input, capi_objects)
    template = adopted_machines.template(objects.machine_template, objects.control_plane, owners) or _named(
        objects.machine_template, naming(capi_objects, objects.machine_template, referenced)
    )
    objects = replace(objects, control_plane=adopted_machines.of_control_plane(objects.control_plane, owners))
    own = [
        template,
        _with_endpoint(objects.infrastructure, capi_objects),
        downgrade.allowing_coredns_downgrade(_control_plane(objects, template.metadata.name, capi_objects), live),
        objects.cluster,
        objects.health_check,
    ]
    wanted = [*objects.extras, *_etcd(objects, capi_objects, naming, owners), *own]
    return _with_upgrades_requested(wanted, render_input, capi_objects, front_end)


def _with_upgrades_requested(
    wanted: list[KubeObject], render_input: RenderInput, capi_objects: ClusterAPIObjects, front_end: FrontEnd | None
) -> list[KubeObject]:
    """The objects; those whose machines are upgraded in place get the annotation that requests it."""
    requested = {
        id(change.wanted): in_place.with_upgrade_requested(change, front_end or render_input.front_end)
        for change in in_place.owner_changes(wanted, render_input, capi_objects)
    }
    return [requested.get(id(object_), object_) for object_ in wanted]


def _named(template: T, name: str) -> T:
    """A template under another name than the rendered one."""
    return replace(template, metadata=replace(template.metadata, name=name))


def _control_plane(objects: Rendered, template: str, capi_objects: ClusterAPIObjects) -> KubeadmControlPlane:
    """The control plane with its template; it leaves the endpoints of external etcd to Cluster API."""
    wanted, live = objects.control_plane, next(iter(capi_objects.of(KubeadmControlPlane.resource).values()), None)
    machines = wanted.spec.machine_template
    reference = replace(machines.spec.infrastructure_ref, name=template)
    spec = replace(
        wanted.spec, machine_template=replace(machines, spec=replace(machines.spec, infrastructure_ref=reference))
    )
    kubeadm = spec.kubeadm_config_spec
    configuration = kubeadm.cluster_configuration
    known = external_etcd.endpoints(capi_objects.control_plane) if capi_objects.control_plane else ()
    etcd = configuration.etcd if configuration else None
    if live is not None and configuration and etcd and etcd.external and known:
        external = replace(etcd.external, endpoints=list(known) if _owns(live, *_ENDPOINTS) else [])
        configuration = replace(configuration, etcd=replace(etcd, external=external))
        spec = replace(spec, kubeadm_config_spec=replace(kubeadm, cluster_configuration=configuration))
    return replace(wanted, spec=spec)


def _etcd(
    objects: Rendered, capi_objects: ClusterAPIObjects, naming: Naming, owners: Mapping[str, Owner]
) -> list[KubeObject]:
    """External etcd with its template."""
    if objects.etcd is None:
        return []
    live, first, wanted = capi_objects.etcd, objects.etcd.machine_template, objects.etcd.cluster
    referenced = live.spec.infrastructure_template.name if live else None
    template = adopted_machines.template(first, wanted, owners) or _named(
        first, naming(capi_objects, first, referenced)
    )
    wanted = adopted_machines.of_etcd(wanted, owners)
    reference = replace(wanted.spec.infrastructure_template, name=template.metadata.name)
    etcd = capi_objects.of(external_etcd.RESOURCE).get(wanted.metadata.name)
    if etcd is not None and _owns(etcd, "metadata", "annotations", external_etcd.UPGRADING):
        wanted = annotated(wanted, {external_etcd.UPGRADING: "true"})  # its controller takes it away
    return [template, replace(wanted, spec=replace(wanted.spec, infrastructure_template=reference))]


_ENDPOINTS = ("spec", "kubeadmConfigSpec", "clusterConfiguration", "etcd", "external", "endpoints")
"""The path of the endpoints. A manager that found them in a control plane owns them, too."""


def _owns(live: Object, *path: str) -> bool:
    """True if a field is removed when it is no longer applied."""
    return field_sets.owns(ownership.owned_fields(live) or {}, *path)


def of_etcd(wanted: Iterable[KubeObject]) -> list[KubeObject]:
    """External etcd with its template, among the objects that the cluster has once."""
    listed = list(wanted)
    etcd = next((object_ for object_ in listed if isinstance(object_, EtcdadmCluster)), None)
    reference = etcd.spec.infrastructure_template if etcd is not None else None
    return [
        object_
        for object_ in listed
        if object_ is etcd
        or (reference is not None and (object_.kind, object_.metadata.name) == (reference.kind, reference.name))
    ]


def _with_endpoint(infrastructure: KubeObject, capi_objects: ClusterAPIObjects) -> KubeObject:
    """The infrastructure; if it is recreated, with the existing control plane endpoint.

    Kubeconfigs and certificates contain it, and Cluster API never changes it; if omitted, the provider chooses another
    one. An endpoint that the provider set on the existing object stays the provider's field.
    """
    spec = getattr(infrastructure, "spec", None)
    known = capi_objects.cluster.spec.control_plane_endpoint if capi_objects.cluster else None
    if spec is None or known is None or not known.host or getattr(spec, "control_plane_endpoint", known) is not None:
        return infrastructure
    live = capi_objects.of(infrastructure.resource).get(infrastructure.metadata.name)
    if live is not None and not _owns(live, "spec", "controlPlaneEndpoint"):
        return infrastructure
    return replace(infrastructure, spec=replace(spec, control_plane_endpoint=known))


def worker_groups(
    render_input: RenderInput,
    capi_objects: ClusterAPIObjects,
    naming: Naming = fresh_name,
    front_end: FrontEnd | None = None,
) -> list[KubeObject]:
    """The objects of the worker node groups; referenced objects come first."""
    wanted: list[KubeObject] = []
    owners = adopted_machines.retained(render_input, capi_objects)
    for group in rendered(render_input).groups:
        live = capi_objects.typed_deployments.get(group.deployment.metadata.name)
        spec = live.spec.template.spec if live else None
        machines, bootstrap = group.machine_template, group.config_template
        referenced = spec.infrastructure_ref.name if spec else None
        machines = adopted_machines.template(machines, group.deployment, owners) or _named(
            machines, naming(capi_objects, machines, referenced)
        )
        referenced = spec.bootstrap.config_ref.name if spec and spec.bootstrap.config_ref else None
        bootstrap = adopted_machines.template(bootstrap, group.deployment, owners) or _named(
            bootstrap, naming(capi_objects, bootstrap, referenced)
        )
        deployment = adopted_machines.of_deployment(group.deployment, owners)
        deployment = _deployment(deployment, machines.metadata.name, bootstrap.metadata.name)
        wanted += [machines, bootstrap, deployment, group.health_check]
    return _with_upgrades_requested(wanted, render_input, capi_objects, front_end)


def _deployment(wanted: MachineDeployment, machines: str, bootstrap: str) -> MachineDeployment:
    """The worker node group with the names of its templates."""
    template = wanted.spec.template
    spec = replace(template.spec, infrastructure_ref=replace(template.spec.infrastructure_ref, name=machines))
    config = spec.bootstrap.config_ref
    if config is not None:
        spec = replace(spec, bootstrap=replace(spec.bootstrap, config_ref=replace(config, name=bootstrap)))
    return replace(wanted, spec=replace(wanted.spec, template=replace(template, spec=spec)))


def obstacle(wanted: Iterable[KubeObject], render_input: RenderInput, capi_objects: ClusterAPIObjects) -> Wait | None:
    """The reason why these objects may not be written yet: machines to be upgraded in place would be replaced."""
    waits = (
        in_place.obstacle(owner_change, render_input.front_end, capi_objects.extension)
        for owner_change in in_place.owner_changes(wanted, render_input, capi_objects)
    )
    return next(filter(None, waits), None)


def changes(wanted: Iterable[KubeObject], capi_objects: ClusterAPIObjects) -> list[Change]:
    """The changes that make our fields of the live objects the desired ones."""
    live = capi_objects.of
    changes_ = (change(object_, live(object_.resource).get(object_.metadata.name)) for object_ in wanted)
    return [change_ for change_ in changes_ if change_ is not None]


def change(wanted: KubeObject, live: Object | None) -> Change | None:
    """The change of one object; None if it is as desired."""
    body: Tree = msgspec.to_builtins(wanted)
    fields = tuple(ownership.differences(body, live)) if live else ()
    return Change(wanted.resource, body, fields) if live is None or fields else None


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
            awaited.add(names.machine_deployment(render_input.name, render_input.undivided_group(name)))
    return {
        name
        for name, live_deployment in live.items()
        if name not in _deployments(render_input)
        and names.deployment_of_group(live_deployment.metadata, render_input.name) in awaited
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
    wanted = {Name(extra.resource, extra.metadata.name) for extra in rendered(render_input).extras} if kinds else set()
    return [
        removal
        for kind in kinds
        for removal in _others(kind, capi_objects, {extra.name for extra in wanted if extra.resource == kind})
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
