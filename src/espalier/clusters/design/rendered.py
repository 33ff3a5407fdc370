"""The rendered objects of a cluster, typed, before they are compared with live objects. Layers transform them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from espalier.api.capi import cluster as capi
from espalier.api.capi.etcdadm import EtcdadmCluster, EtcdRegistryMirror
from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment, MachineHealthCheck
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Resource

T = TypeVar("T", bound=KubeObject)


class Manifest(NamedTuple):
    """An object of the workload cluster."""

    resource: Resource
    body: Tree


class Settings(msgspec.Struct, frozen=True):
    """Settings of a provider's clusters since layer `provider-settings`; later providers render them themselves."""

    service_domain: str = ""
    controller_manager: Mapping[str, str] = {}
    """Flags of kube-controller-manager."""
    kubelet: Mapping[str, Mapping[str, str]] = {}
    """Flags of kubelets, by the Kubernetes version of their machines."""
    api_server: Mapping[str, str] = {}
    """Flags of kube-apiserver."""
    feature_gates: Mapping[str, bool] = {}
    """Feature gates of kubeadm."""
    empty_worker_taints: bool = False
    """True if workers without taints have an explicit empty list."""


class RenderedGroup(msgspec.Struct, frozen=True):
    """The objects of a worker node group."""

    name: str
    machine_template: KubeObject
    config_template: KubeadmConfigTemplate
    deployment: MachineDeployment
    health_check: MachineHealthCheck


class RenderedEtcd(msgspec.Struct, frozen=True):
    """The objects of external etcd."""

    machine_template: KubeObject
    cluster: EtcdadmCluster


class Rendered(msgspec.Struct, frozen=True):
    """The objects of a cluster. Templates have their first names; the names in use are not known here."""

    infrastructure: KubeObject
    machine_template: KubeObject
    control_plane: KubeadmControlPlane
    cluster: capi.Cluster
    health_check: MachineHealthCheck
    groups: tuple[RenderedGroup, ...]
    cni: tuple[Manifest, ...]
    etcd: RenderedEtcd | None = None
    etcd_mirror: EtcdRegistryMirror | None = None
    """The registry mirror of etcd machines since layer `registry-mirrors`."""
    digests: Mapping[str, str] = {}
    """Digests of the CNI's images by URI, where the Bundles have them."""
    settings: Settings = Settings()
    """Settings that the provider adds by a layer."""
    workload: tuple[Manifest, ...] = ()
    """The provider's objects in the workload cluster, in the order in which they are applied."""
    extras: tuple[KubeObject, ...] = ()
    """Objects that the provider adds, in order; the others may refer to them."""


def annotated(object_: T, annotations: Mapping[str, str]) -> T:
    """A copy of a rendered object with more annotations."""
    return replace(
        object_, metadata=replace(object_.metadata, annotations={**object_.metadata.annotations, **annotations})
    )
