"""The rendered objects of a cluster, typed, before they are compared with live objects. Layers transform them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from espalier.api.capi import cluster as capi
from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineHealthCheck
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Resource


class Manifest(NamedTuple):
    """An object of the workload cluster."""

    resource: Resource
    body: Tree


class RenderedGroup(msgspec.Struct, frozen=True):
    """The objects of a worker node group."""

    name: str
    machine_template: KubeObject
    config_template: KubeadmConfigTemplate
    deployment: MachineDeployment
    health_check: MachineHealthCheck


class Rendered(msgspec.Struct, frozen=True):
    """The objects of a cluster. Templates have their first names; the names in use are not known here."""

    infrastructure: KubeObject
    machine_template: KubeObject
    control_plane: KubeadmControlPlane
    cluster: capi.Cluster
    health_check: MachineHealthCheck
    groups: tuple[RenderedGroup, ...]
    cni: tuple[Manifest, ...]
    digests: Mapping[str, str] = {}
    """Digests of the CNI's images by URI, where the Bundles have them."""
    workload: tuple[Manifest, ...] = ()
    """The provider's objects in the workload cluster, in the order in which they are applied."""
    extras: tuple[KubeObject, ...] = ()
    """Objects that the provider adds, in order; the others may refer to them."""
