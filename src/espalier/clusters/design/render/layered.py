"""Renders a cluster: the base, then the layers of the cluster, in order."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.kinds import KubeObject
from espalier.clusterapi.infrastructures import templates
from espalier.clusters.design import registry_mirror
from espalier.clusters.design.provider import Name, RenderInput
from espalier.clusters.design.render import cluster, cni, etcd, health_checks, workers
from espalier.clusters.design.render_input import group_name
from espalier.clusters.design.rendered import Rendered, RenderedGroup


def rendered(render_input: RenderInput) -> Rendered:
    """All objects of a cluster, rendered at the first call and held by the render input. They are shared: whoever
    needs another field makes a copy. Equal render inputs give equal objects.
    """
    held = vars(render_input)
    if "rendered" not in held:
        held["rendered"] = render(render_input)
    objects: Rendered = held["rendered"]
    return objects


def render(render_input: RenderInput) -> Rendered:
    """All objects of a cluster: the base, then its layers in order. `rendered` saves the second time."""
    objects = base(render_input)
    for layer in render_input.layers:
        for function in layer.functions:
            objects = function(objects)
    return objects


def base(render_input: RenderInput) -> Rendered:
    """The base, which clusters of all releases share."""
    template = render_input.provider.render.machine_template(
        render_input, render_input.of_control_plane, templates.control_plane_template(render_input.name), None
    )
    config = render_input.provider.render.control_plane_config(render_input)
    infrastructure = render_input.provider.render.infrastructure_cluster(render_input)
    result = Rendered(
        infrastructure=infrastructure,
        machine_template=template,
        control_plane=cluster.control_plane(render_input, config, template.resource, template.metadata.name),
        cluster=cluster.cluster(render_input, infrastructure.resource),
        health_check=health_checks.control_plane_health_check(render_input),
        groups=tuple(_group(render_input, group) for group in render_input.groups),
        cni=tuple(cni.manifests(render_input)),
        etcd=etcd.etcd(render_input),
        etcd_mirror=registry_mirror.of_etcd(render_input.spec.registry_mirror_configuration),
        digests=cni.digests(render_input.of_control_plane.bundle),
        settings=render_input.provider.settings(render_input),
        workload=tuple(render_input.provider.workload(render_input)),
        extras=tuple(_extras(render_input)),
    )
    return render_input.provider.complete(render_input, result)


def _extras(render_input: RenderInput) -> Iterator[KubeObject]:
    """The extra objects. Raises `ValueError` for an object with an undeclared name: admission could not determine
    its owner.
    """
    extras = render_input.provider.extras
    known = set(extras.names(render_input.name, render_input.spec, render_input.children)) if extras.kinds else set()
    for extra in extras.render(render_input):
        name = Name(extra.resource, extra.metadata.name)
        if name not in known:
            raise ValueError(f"the provider renders {name}, which is not among the names that it declares")
        yield extra


def _group(render_input: RenderInput, group: WorkerNodeGroupConfiguration) -> RenderedGroup:
    name = group_name(group)
    template = templates.worker_template(render_input.name, name)
    machines = render_input.provider.render.machine_template(
        render_input, render_input.of_group(group), template, group
    )
    return RenderedGroup(
        name=name,
        machine_template=machines,
        config_template=workers.config_template(
            render_input, render_input.provider.render.worker_config(render_input, group), template
        ),
        deployment=workers.machine_deployment(
            render_input, group, machines.resource, machine_template_name=template, config_template_name=template
        ),
        health_check=health_checks.worker_health_check(render_input, group),
    )
