"""Renders a design: the base, then the layers of the cluster, in order."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.eksa.workers import WorkerNodeGroupConfiguration
from espalier.api.kinds import KubeObject
from espalier.clusterapi import templates
from espalier.clusters.provider import Name
from espalier.clusters.render import cluster, cni, etcd, health_checks, workers
from espalier.clusters.render_input import Design, group_name
from espalier.clusters.rendered import Rendered, RenderedGroup


def rendered(design: Design) -> Rendered:
    """All objects of a cluster, rendered again at each call. Equal designs give equal objects."""
    found = base(design)
    for layer in design.layers:
        for function in layer.functions:
            found = function(found)
    return found


def rendered_once(design: Design) -> Rendered:
    """As `rendered`, but cached per design and shared: must not be modified."""
    kept = vars(design)
    if "rendered" not in kept:
        kept["rendered"] = rendered(design)
    found: Rendered = kept["rendered"]
    return found


def base(design: Design) -> Rendered:
    """The base, which clusters of all releases share."""
    template = design.provider.render.machine_template(
        design, design.of_control_plane, templates.control_plane_template(design.name), None
    )
    config = design.provider.render.control_plane_config(design)
    infrastructure = design.provider.render.infrastructure_cluster(design)
    found = Rendered(
        infrastructure=infrastructure,
        machine_template=template,
        control_plane=cluster.control_plane(design, config, template.resource, template.metadata.name),
        cluster=cluster.cluster(design, infrastructure.resource),
        health_check=health_checks.control_plane_health_check(design),
        groups=tuple(_group(design, group) for group in design.groups),
        cni=tuple(cni.manifests(design)),
        etcd=etcd.etcd(design),
        digests=cni.digests(design.of_control_plane.bundle),
        settings=design.provider.settings(design),
        workload=tuple(design.provider.workload(design)),
        extras=tuple(_extras(design)),
    )
    return design.provider.complete(design, found)


def _extras(design: Design) -> Iterator[KubeObject]:
    """The extra objects. Raises `ValueError` for an object with an undeclared name: admission could not determine
    its owner.
    """
    extras = design.provider.extras
    known = set(extras.names(design.name, design.spec, design.children)) if extras.kinds else set()
    for one in extras.render(design):
        name = Name(one.resource, one.metadata.name)
        if name not in known:
            raise ValueError(f"the provider renders {name}, which is not among the names that it declares")
        yield one


def _group(design: Design, group: WorkerNodeGroupConfiguration) -> RenderedGroup:
    name = group_name(group)
    template = templates.worker_template(design.name, name)
    machines = design.provider.render.machine_template(design, design.of_group(group), template, group)
    return RenderedGroup(
        name=name,
        machine_template=machines,
        config_template=workers.config_template(design, design.provider.render.worker_config(design, group), template),
        deployment=workers.machine_deployment(
            design, group, machines.resource, machine_template_name=template, config_template_name=template
        ),
        health_check=health_checks.worker_health_check(design, group),
    )
