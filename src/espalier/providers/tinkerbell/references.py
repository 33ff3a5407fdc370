"""What a cluster on bare metal links: its datacenter, machine configs, and the workflows that these name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

from espalier.api.eksa.workers import WorkerNodeGroupConfiguration
from espalier.api.kinds import KubeObject
from espalier.clusters.provider import Further
from espalier.clusters.render_input import Design
from espalier.kube.objects import Object
from espalier.providers.tinkerbell.kinds import (
    TinkerbellDatacenterConfig,
    TinkerbellMachineConfig,
    TinkerbellTemplateConfig,
)

K = TypeVar("K", bound=KubeObject)


def of_kind(kind: type[K], children: Sequence[Object]) -> dict[str, K]:
    """The linked objects of a kind, by their names."""
    return {one.name: one.decode(kind) for one in children if one.kind == kind.resource.kind}


def datacenter(design: Design) -> TinkerbellDatacenterConfig:
    """The datacenter of a cluster."""
    name = design.spec.datacenter_ref.name if design.spec.datacenter_ref else ""
    return of_kind(TinkerbellDatacenterConfig, design.children)[name]


def of_group(design: Design, group: WorkerNodeGroupConfiguration | None) -> TinkerbellMachineConfig:
    """The machine config of a worker node group; of the control plane for None."""
    reference = group.machine_group_ref if group is not None else design.control_plane.machine_group_ref
    return of_kind(TinkerbellMachineConfig, design.children)[reference.name if reference else ""]


def template(design: Design, config: TinkerbellMachineConfig) -> TinkerbellTemplateConfig | None:
    """The workflow that a machine config names; None for the usual one."""
    name = config.spec.template
    return of_kind(TinkerbellTemplateConfig, design.children)[name] if name else None


def further(child: Object) -> Iterator[Further]:
    """The workflow that a machine config names."""
    if child.kind != TinkerbellMachineConfig.resource.kind:
        return
    config = child.decode(TinkerbellMachineConfig)
    if config.spec.template:
        field = f"{child.kind} {child.name}: spec.templateRef"
        yield Further(field, TinkerbellTemplateConfig.resource, config.spec.template)
