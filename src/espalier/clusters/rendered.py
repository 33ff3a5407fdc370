"""What is rendered for a cluster: all of it, typed, before anybody looks at what is there. Layers map it to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

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


@dataclass(frozen=True, slots=True)
class RenderedGroup:
    """The objects of a group of workers."""

    name: str
    machine_template: KubeObject
    config_template: KubeadmConfigTemplate
    deployment: MachineDeployment
    health_check: MachineHealthCheck


@dataclass(frozen=True, slots=True)
class Rendered:
    """The objects of a cluster. Templates have their first names; which are in use is not known here."""

    infrastructure: KubeObject
    machine_template: KubeObject
    control_plane: KubeadmControlPlane
    cluster: capi.Cluster
    health_check: MachineHealthCheck
    groups: tuple[RenderedGroup, ...]
    cni: tuple[Manifest, ...]
