"""One cluster with an upgrade: its Cluster API objects, and the nodes and pods of the workload cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.core import CONFIG_MAP, KUBE_SYSTEM, NODE, POD, SECRET
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.eksa.vocabulary.upgrade_keys import UNFINISHED, UPGRADER_LABEL
from espalier.api.identity import ClusterIdentity
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.clusterapi import kubeconfig
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure, Infrastructures
from espalier.clusterapi.machines.machine_objects import MachineObjects
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.caches.mapping import by_controller
from espalier.runtime.caches.transforms import metadata_unless
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.controllers.writer import Writer
from espalier.upgrades import names
from espalier.upgrades.observed.views import Node, Pod

BY_CONTROLLER = "upgrades/controller"

K = TypeVar("K", bound=KubeObject)


def machine_kinds(infrastructures: Infrastructures) -> tuple[Resource, ...]:
    """The kinds of objects that are updated after the node of a Machine was upgraded."""
    machines = (provider.machine for provider in infrastructures.all)
    return (MachineSet.resource, Machine.resource, KubeadmConfig.resource, *machines)


def template_kinds(infrastructures: Infrastructures) -> tuple[Resource, ...]:
    """The kinds of templates that machines are created from, and compared with."""
    return (KubeadmConfigTemplate.resource, *(provider.machine_template for provider in infrastructures.all))


OWNER_KINDS: tuple[Resource, ...] = (KubeadmControlPlane.resource, MachineDeployment.resource)
NO_PROVIDERS = Infrastructures(())

CONTROL_PLANE_PODS = "tier=control-plane"
KUBEADM_CONFIG = "kubeadm-config"


@dataclass(frozen=True)
class MachineView(MachineObjects):
    """A machine with the objects that belong to it, as an upgrade of its node sees them."""

    infrastructure_kind: Resource | None
    """None for a provider that this build does not have."""

    @property
    def is_unfinished(self) -> bool:
        """True if an upgrade of its node did not finish: the state of the node is unknown."""
        return UNFINISHED in self.object.metadata.annotations

    @property
    def node(self) -> str:
        """Name of its node, empty while there is none."""
        return self.machine.status.node_ref.name if self.machine.status.node_ref else ""


class ClusterAPIObjects:
    """The Cluster API objects of a cluster, as caches show them."""

    def __init__(self, caches: Caches, cluster: str, infrastructures: Infrastructures) -> None:
        self._labels = f"{kubeconfig.CLUSTER_NAME_LABEL}={cluster}"
        self._capi = ClusterIdentity.unowned(cluster).capi
        self.cluster = cluster
        self.infrastructures = infrastructures
        self.caches: dict[Resource, Cache] = {}
        kinds = (*OWNER_KINDS, *machine_kinds(NO_PROVIDERS), *template_kinds(NO_PROVIDERS))
        self._add(caches, kinds)
        kubeconfigs_only = metadata_unless(kubeconfig.cluster_of)
        self._secrets = caches.of(SECRET, self._capi.namespace, self._labels, transform=kubeconfigs_only)

    def _add(self, caches: Caches, kinds: Iterable[Resource]) -> None:
        for resource in kinds:
            optional = self.infrastructures.is_optional(resource)
            indexes = {BY_CONTROLLER: by_controller}
            namespace = self._capi.namespace
            cache = caches.of(resource, namespace, self._labels, optional=optional, indexes=indexes)
            self.caches[resource] = cache

    def providers(self) -> set[Infrastructure]:
        """The providers of the cluster's machines, and of the templates that new machines would be created from."""
        of_machine, of_template = self.infrastructures.of_machine, self.infrastructures.of_template
        machines = (item.spec for item in self._readable(Machine))
        planes = (item.spec.machine_template.spec for item in self._readable(KubeadmControlPlane))
        groups = (item.spec.template.spec for item in self._readable(MachineDeployment))
        providers = {of_machine(spec.infrastructure_ref.kind) for spec in machines}
        providers |= {of_template(spec.infrastructure_ref.kind) for specs in (planes, groups) for spec in specs}
        return {provider for provider in providers if provider is not None}

    def _readable(self, kind: type[K]) -> Iterator[K]:
        for object_ in self.caches[kind.resource].list():
            with suppress(msgspec.ValidationError):  # reported by the code that acts on it
                yield object_.decode(kind)

    def add(self, caches: Caches, providers: Iterable[Infrastructure]) -> None:
        """Add the infrastructure objects of these providers."""
        self._add(caches, (kind for provider in providers for kind in (provider.machine, provider.machine_template)))

    def get(self, resource: Resource, name: str) -> Object | None:
        """One object; None if it does not exist, or its kind is not cached."""
        cache = self.caches.get(resource)
        return cache.get(Key(self._capi.namespace, name)) if cache else None

    @property
    def identity(self) -> ClusterIdentity:
        """The identity of the cluster, by the labels of its objects."""
        kinds = (*OWNER_KINDS, *template_kinds(self.infrastructures))
        objects = (object_ for kind in kinds if kind in self.caches for object_ in self.caches[kind].list())
        return ClusterIdentity.of_objects(self.cluster, (object_.metadata for object_ in objects))

    @property
    def control_planes(self) -> list[Object]:
        """The KubeadmControlPlanes of the cluster, as a rule a single object."""
        return self.caches[KubeadmControlPlane.resource].list()

    @property
    def kubeconfig_secret(self) -> Key:
        """The key of the Secret with its kubeconfig."""
        return kubeconfig.secret_key(self._capi)

    def machine(self, name: str) -> MachineView | None:
        """A machine and the objects that belong to it; None if it does not exist."""
        machine_object = self.get(Machine.resource, name)
        if machine_object is None:
            return None
        machine = machine_object.decode(Machine)
        config, infrastructure = machine.spec.bootstrap.config_ref, machine.spec.infrastructure_ref
        provider = self.infrastructures.of_machine(infrastructure.kind)
        return MachineView(
            machine_object,
            self.get(KubeadmConfig.resource, config.name) if config else None,
            self.get(provider.machine, infrastructure.name) if provider else None,
            provider.machine if provider else None,
        )

    def controlled(self, resource: Resource, uid: str) -> list[Object]:
        """The objects of a kind that an object controls, oldest first."""
        objects = self.caches[resource].by_index(BY_CONTROLLER, uid)
        return sorted(objects, key=lambda object_: (object_.metadata.creation_timestamp or "", object_.name))

    def machines_of(self, owner: Object) -> list[MachineView]:
        """The machines that an object controls, oldest first."""
        views = (self.machine(machine.name) for machine in self.controlled(Machine.resource, owner.metadata.uid))
        return [view for view in views if view is not None]

    def template(self, kind: str, name: str) -> Tree | None:
        """The spec of a template; None if it does not exist, or its kind is not cached."""
        resource = next(
            (template_kind for template_kind in template_kinds(self.infrastructures) if template_kind.kind == kind),
            None,
        )
        template = self.get(resource, name) if resource else None
        spec: Tree | None = template.tree.get("spec") if template else None
        return spec

    @property
    def kubeconfig(self) -> bytes | None:
        """The kubeconfig of the workload cluster, None while there is none."""
        secret = self._secrets.get(self.kubeconfig_secret)
        return kubeconfig.content(secret) if secret else None


class Workload:
    """A workload cluster, as caches show it: nodes, upgrader pods, control plane pods, kubeadm-config."""

    def __init__(self, client: Client, caches: Caches) -> None:
        self.client = client
        self._caches = caches
        self._nodes = caches.of(NODE)
        self.upgraders = caches.of(POD, names.UPGRADER_NAMESPACE, UPGRADER_LABEL)
        self._control_plane = caches.of(POD, KUBE_SYSTEM, CONTROL_PLANE_PODS)
        self._configuration = caches.of(CONFIG_MAP, KUBE_SYSTEM, fields=f"metadata.name={KUBEADM_CONFIG}")
        self.writer = Writer(client, {POD: self.upgraders, CONFIG_MAP: self._configuration})

    @property
    def silent_for(self) -> float:
        """Seconds since it became unreachable; 0 while it answers."""
        since = self._caches.silent_since
        return 0.0 if since is None else asyncio.get_running_loop().time() - since

    def node(self, name: str) -> Node | None:
        """A node; None if it does not exist."""
        node_object = self.node_object(name)
        return node_object.decode(Node) if node_object else None

    def node_object(self, name: str) -> Object | None:
        """A node, as an object to write; None if it does not exist."""
        return self._nodes.get(Key("", name))

    def nodes(self) -> list[Node]:
        """All nodes."""
        return [node.decode(Node) for node in self._nodes.list()]

    def upgrader(self, node: str) -> Object | None:
        """The upgrader pod of a node; None if it does not exist."""
        return self.upgraders.get(Key(names.UPGRADER_NAMESPACE, names.upgrader(node)))

    @property
    def kubeadm_config(self) -> Object | None:
        """The ConfigMap from which kubeadm renders static pods; None if it does not exist."""
        return self._configuration.get(Key(KUBE_SYSTEM, KUBEADM_CONFIG))

    def control_plane_pods(self) -> list[Pod]:
        """The mirror pods of the static pods of all control plane nodes."""
        return [pod.decode(Pod) for pod in self._control_plane.list()]


@dataclass(frozen=True)
class ClusterView:
    """A cluster as both API servers show it. `workload` is None until it was read, and while it can't be reached."""

    capi_objects: ClusterAPIObjects
    workload: Workload | None
    is_being_read: bool = False
    """The workload cluster is being read for the first time, and has not failed to answer so far."""

    @property
    def unreachable(self) -> Wait:
        """The outcome while the workload cluster can't be read."""
        is_missing = self.capi_objects.kubeconfig is None
        return Wait(Reason.KUBECONFIG_MISSING if is_missing else Reason.WORKLOAD_CLUSTER_UNREACHABLE, self.waiting_for)

    @property
    def waiting_for(self) -> str:
        """The message on why the workload cluster can't be read."""
        if self.capi_objects.kubeconfig is None:
            return (
                f"waiting for Secret {self.capi_objects.kubeconfig_secret} with the kubeconfig of the workload "
                f"cluster: restore it with label {kubeconfig.CLUSTER_NAME_LABEL}={self.capi_objects.cluster}. Cluster "
                "API creates none while the control plane is paused; the copy beside the Cluster has the same content"
            )
        return f"waiting for the API server of workload cluster {self.capi_objects.cluster} to answer"
