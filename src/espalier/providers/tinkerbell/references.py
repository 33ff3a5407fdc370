"""The objects that a cluster on bare metal references: datacenter, machine configs, and their workflows."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.clusters.design.cluster_objects.linked_objects import of_kind
from espalier.clusters.design.provider import Further, RenderInput
from espalier.kube.objects import Object
from espalier.providers.tinkerbell.kinds import (
    TinkerbellMachineConfig,
    TinkerbellTemplateConfig,
)


def template(render_input: RenderInput, config: TinkerbellMachineConfig) -> TinkerbellTemplateConfig | None:
    """The workflow that a machine config names; None for the default."""
    name = config.spec.template
    return of_kind(TinkerbellTemplateConfig, render_input.children)[name] if name else None


def further(child: Object) -> Iterator[Further]:
    """The workflow that a machine config names."""
    if child.kind != TinkerbellMachineConfig.resource.kind:
        return
    config = child.decode(TinkerbellMachineConfig)
    if config.spec.template:
        field = f"{child.kind} {child.name}: spec.templateRef"
        yield Further(field, TinkerbellTemplateConfig.resource, config.spec.template)
