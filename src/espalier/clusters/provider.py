"""What this component must be told about an infrastructure provider; all else is the same for all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import msgspec

from espalier.api.capi.etcdadm import EtcdadmConfigSpec
from espalier.api.capi.kubeadm import KubeadmConfigSpec
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.workers import WorkerNodeGroupConfiguration
from espalier.api.kinds import KubeObject
from espalier.api.resource import Resource
from espalier.api.violations import Violation
from espalier.clusterapi.infrastructure import Infrastructure, Infrastructures
from espalier.clusters.rendered import Manifest, Settings
from espalier.kube.objects import Object
from espalier.kube.rbac import Right

if TYPE_CHECKING:
    from espalier.clusters.render_input import Components, Design
    from espalier.runtime.component import Host
    from espalier.runtime.controller import Controller


class Dependency(NamedTuple):
    """A Secret or ConfigMap of the system's namespace that a linked object names."""

    resource: Resource
    name: str
    field: str
    """Where it is named, for people: `Kind name: spec.field`."""


class Links(msgspec.Struct, frozen=True):
    """What clusters of a provider link. What rendered objects are made of is content for the gate."""

    datacenter: Resource
    """The kind that `spec.datacenterRef` names."""
    machine_configs: tuple[Resource, ...] = ()
    """Kinds that a `machineGroupRef` may name. Other references are not looked at."""
    data: tuple[Resource, ...] = ()
    """Of Secret and ConfigMap, those that are read because a linked object names one. What a ConfigMap holds is content
    like a spec; what a Secret holds are credentials."""
    depend: Callable[[eksa.Cluster, Sequence[Object]], Iterable[Dependency]] = lambda _cluster, _children: ()
    """Which Secrets and ConfigMaps a Cluster depends on, by itself and its children. Pure."""
    carriers: tuple[Resource, ...] = ()
    """Kinds of rendered objects that carry credentials. Machines are made of none of them: they are all that is written
    when nothing but credentials changed."""

    domains: Callable[[eksa.ClusterSpec, Sequence[Object]], Mapping[str, Sequence[str]]] = lambda _spec, _children: {}
    """By name of a worker node group: the failure domains that have machines of it, in order, by the spec and the
    children as far as they are there. Each gets a MachineDeployment of its own. Pure."""

    resolve: Callable[[eksa.ClusterSpec, Sequence[Object]], Mapping[str, str]] = lambda _spec, _children: {}
    """What a controller of the provider found out elsewhere and keeps in the status of children, by what it is, for
    people; empty as long as it is not known. It is content like a spec. Pure."""

    needed: bool = True
    """Whether anything is rendered from them, so that nothing can be while one is missing."""

    @property
    def kinds(self) -> tuple[Resource, ...]:
        """Kinds of the linked objects."""
        return (self.datacenter, *self.machine_configs)


class Name(NamedTuple):
    """The name of an extra object, within its kind."""

    resource: Resource
    name: str

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.name}"


@dataclass(frozen=True)
class Extras:
    """Objects that are made for each cluster of a provider beside those that every cluster has: Secrets, identities.

    They are written before everything else, for the rest names them, and deleted when nothing else is left. Namespaced
    ones are in the system's namespace.
    """

    kinds: tuple[Resource, ...] = ()
    names: Callable[[str, eksa.ClusterSpec, Sequence[Object]], Iterable[Name]] = lambda _name, _spec, _children: ()
    """The names of those of a cluster, by its own name, its spec, and its children as far as they are there. Pure.
    Each has the cluster's name in it, between dashes, so that no other cluster has the same."""
    render: Callable[[Design], Iterable[KubeObject]] = lambda _design: ()
    """The objects, in the order in which they are written; under no other names than `names` gives. Pure."""


class Renderer(Protocol):
    """Renders what differs by provider. Pure; a module will do."""

    def infrastructure_cluster(self, design: Design) -> KubeObject:
        """What the machines of a cluster share; it has the cluster's name."""

    def control_plane_config(self, design: Design) -> KubeadmConfigSpec:
        """How a machine of the control plane becomes a node."""

    def worker_config(self, design: Design, group: WorkerNodeGroupConfiguration) -> KubeadmConfigSpec:
        """How a worker becomes a node."""

    def machine_template(
        self, design: Design, components: Components, name: str, group: WorkerNodeGroupConfiguration | None, /
    ) -> KubeObject:
        """What the machines of a group are made of, or those of the control plane (None)."""


class Rules(Protocol):
    """The provider's own rules about the spec of a Cluster. Pure; a module will do."""

    def violations(self, spec: eksa.ClusterSpec) -> Iterator[Violation]:
        """What is refused."""

    def warnings(self, spec: eksa.ClusterSpec) -> Iterator[str]:
        """What is accepted and not acted on."""


class EtcdRenderer(NamedTuple):
    """Renders etcd on machines of its own (`clusters/render/etcd.py`). Pure."""

    config: Callable[[Design], EtcdadmConfigSpec]
    machine_template: Callable[[Design, str], KubeObject]
    """What the machines are made of, under a name."""


@dataclass(frozen=True)
class Provider:
    """One infrastructure provider. `docs/providers.md` says how to write one."""

    links: Links
    infrastructure: Infrastructure
    render: Renderer
    rules: Rules
    extras: Extras = Extras()
    etcd: EtcdRenderer | None = None
    """None: etcd runs on the machines of the control plane alone."""
    settings: Callable[[Design], Settings] = lambda _design: Settings()
    """Settings of its clusters that came by a layer. Pure."""
    no_proxy: Callable[[Design], Sequence[str]] = lambda _design: ()
    """What nodes reach without a proxy, beside what all do: the provider's endpoint. Pure."""
    workload: Callable[[Design], Iterable[Manifest]] = lambda _design: ()
    """Objects of the workload cluster, such as a cloud controller manager and a CSI driver, in the order in which they
    are applied. Pure."""
    controllers: tuple[Callable[[Host], Controller], ...] = ()
    """Makers of the provider's own controllers, which run in the manager: they keep what `Links.resolve` reads."""
    rights: tuple[Right, ...] = ()
    """What these need in each namespace whose Clusters are watched, beside reading and patching linked objects."""


Providers: TypeAlias = Mapping[str, Provider]
"""By the kind of `spec.datacenterRef`."""


def extra_kinds(providers: Providers) -> tuple[Resource, ...]:
    """The kinds of the extra objects of all providers."""
    return tuple(dict.fromkeys(kind for one in providers.values() for kind in one.extras.kinds))


def infrastructures(providers: Providers) -> Infrastructures:
    """The infrastructure of all providers."""
    return Infrastructures(one.infrastructure for one in providers.values())
