"""Linked objects by type, as the references of a Cluster name them. For providers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from espalier.api.eksa.parts.fields import Ref
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.kinds import KubeObject
from espalier.clusters.design.provider import RenderInput
from espalier.kube.objects import Object

K = TypeVar("K", bound=KubeObject)


def of_kind(kind: type[K], children: Sequence[Object]) -> dict[str, K]:
    """The linked objects of a kind, by their names."""
    return {child.name: child.decode(kind) for child in children if child.kind == kind.resource.kind}


def datacenter(kind: type[K], render_input: RenderInput) -> K:
    """The datacenter of a cluster."""
    return _named(kind, render_input, render_input.spec.datacenter_ref)


def of_group(kind: type[K], render_input: RenderInput, group: WorkerNodeGroupConfiguration | None) -> K:
    """The machine config of a worker node group; of the control plane for None."""
    return _named(kind, render_input, (group or render_input.control_plane).machine_group_ref)


def of_etcd(kind: type[K], render_input: RenderInput) -> K:
    """The machine config of external etcd."""
    etcd = render_input.spec.external_etcd_configuration
    return _named(kind, render_input, etcd.machine_group_ref if etcd is not None else None)


def _named(kind: type[K], render_input: RenderInput, reference: Ref | None) -> K:
    return of_kind(kind, render_input.children)[reference.name if reference is not None else ""]
