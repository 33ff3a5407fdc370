"""The interface of an infrastructure provider, and the input of rendering that it gets.

All other code is the same for all providers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

import msgspec

from espalier.api.capi.etcdadm import EtcdadmConfigSpec
from espalier.api.capi.kubeadm import KubeadmConfigSpec
from espalier.api.definitions.reference import Annotation
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.control_plane import ControlPlaneConfiguration
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.eksa.releases.release import VersionsBundle
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.api.text.violations import Violation
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure, Infrastructures
from espalier.clusters.design import names
from espalier.clusters.design.layers.layer import Layer
from espalier.clusters.design.rendered import Manifest, Rendered, Settings
from espalier.kube.objects import Object
from espalier.kube.rbac import Right
from espalier.releases import Distro
from espalier.runtime.controllers.outcome import Wait

if TYPE_CHECKING:
    from espalier.runtime.component import Host
    from espalier.runtime.controllers.controller import Controller


def not_checked(message: str) -> Wait:
    """The wait for a check that a controller makes."""
    return Wait(Reason.LINKED_OBJECTS_NOT_CHECKED, message, ends_by_itself=True)


class Dependency(NamedTuple):
    """A Secret or ConfigMap in the system's namespace that a linked object references."""

    resource: Resource
    name: str
    field: str
    """The field that references it, for messages: `Kind name: spec.field`."""
    server: str = ""
    """The server that gets its content. A Secret must permit that (`clusters/design/secrets/credentials.py`); empty: it
    stays in the cluster."""
    unusable: Callable[[Mapping[str, bytes], Mapping[str, str]], str] = lambda _data, _annotations: ""
    """The missing data and annotations, for a message that begins with `waiting for`; it contains no data. Pure."""
    optional: bool = False
    """True if it is optional: others look it up by name, and send it there if it exists."""
    variables: tuple[str, ...] = ()
    """The environment variables from which commands write it."""
    fields: tuple[str, ...] = ()
    """The fields that a Secret must have, for the message where it is absent or not permitted."""


class Needed(NamedTuple):
    """A Secret, with all that needs it: one message says it."""

    name: str
    places: str
    """The fields that reference it, for messages."""
    servers: Sequence[str]
    variables: tuple[str, ...]
    fields: tuple[str, ...]


def needed(dependencies: Iterable[Dependency]) -> Iterator[Needed]:
    """The Secrets of dependencies, each once."""
    secrets: dict[tuple[str, tuple[str, ...], tuple[str, ...]], list[Dependency]] = {}
    for dependency in dependencies:
        secrets.setdefault((dependency.name, dependency.variables, dependency.fields), []).append(dependency)
    for (name, variables, fields), of_secret in secrets.items():
        places = ", ".join(dict.fromkeys(dependency.field for dependency in of_secret))
        servers = list(dict.fromkeys(dependency.server for dependency in of_secret))
        yield Needed(name, places, servers, variables, fields)


class Further(NamedTuple):
    """An object that a linked object references, in the same namespace: it is linked as well."""

    field: str
    """The field that references it, for messages: `Kind name: spec.field`."""
    resource: Resource
    name: str


class Links(msgspec.Struct, frozen=True):
    """The objects that clusters of a provider link. Whatever objects are rendered from counts as content for the
    gate.
    """

    datacenter: Resource
    """The kind that `spec.datacenterRef` names."""
    machine_configs: tuple[Resource, ...] = ()
    """Kinds that a `machineGroupRef` may reference. Other references are ignored."""
    further: Callable[[Object], Iterable[Further]] = lambda _child: ()
    """The objects that one of these references. Pure."""
    further_kinds: tuple[Resource, ...] = ()
    """Their kinds."""
    data: tuple[Resource, ...] = ()
    """Secret, ConfigMap or both, if linked objects reference them. Data of ConfigMaps is content like a spec; data
    of Secrets is credentials."""
    names_secrets: bool = False
    """True if linked objects of each cluster reference Secrets: planning then reads these even if none are created."""
    depend: Callable[[eksa.Cluster, Sequence[Object]], Iterable[Dependency]] = lambda _cluster, _children: ()
    """The Secrets and ConfigMaps that a Cluster and its children reference. Pure."""
    carriers: tuple[Resource, ...] = ()
    """Kinds of rendered objects that carry credentials. Machines are not made from them: only these are written when
    only credentials changed."""

    domains: Callable[[eksa.ClusterSpec, Sequence[Object]], Mapping[str, Sequence[str]]] = lambda _spec, _children: {}
    """The failure domains of each worker node group by its name, in order, from the spec and the existing children.
    Each domain gets its own MachineDeployment. Pure."""

    zone: Callable[[str, WorkerNodeGroupConfiguration, Sequence[Object]], str] = lambda _name, _group, _children: ""
    """The single failure domain of all machines of a worker node group, from the cluster's name. Such a group is
    not split. Pure."""

    violations: Callable[[eksa.Cluster, Sequence[Object]], Iterator[Violation]] = lambda _cluster, _children: iter(())
    """The violations of a Cluster together with its linked objects. The controller waits until they are resolved,
    because a manifest may create the Cluster first. Pure."""

    warnings: Callable[[eksa.ClusterSpec, Sequence[Object]], Iterator[str]] = lambda _spec, _children: iter(())
    """Warnings about values of linked objects that a Cluster's machines do not get, from its spec and the existing
    children. Pure."""

    with_users: tuple[Resource, ...] = ()
    """Machine configs that have `users`, with SSH keys."""

    defaults: Mapping[str, Mapping[str, str]] = {}
    """By kind of linked object: fields that EKS Anywhere's API requires and its command fills in, each with the
    default, in words. A Cluster whose objects lack them is accepted with a warning."""

    resolve: Callable[[eksa.ClusterSpec, Sequence[Object]], Mapping[str, str]] = lambda _spec, _children: {}
    """Values that a controller of the provider resolved and keeps in the status of children, by a name for messages;
    empty values are not known yet. They are content like a spec. Pure."""

    problems: Callable[[eksa.Cluster, Sequence[Object], bool], Iterable[Wait]] = lambda _cluster, _children, _is_new: ()
    """The reasons why a Cluster that is created (True) or changed must wait for its children: a controller of the
    provider has not checked one yet (`not_checked`), or found it invalid. Not called for settled clusters. Pure."""

    needed: bool = True
    """True if objects are rendered from them, so that nothing can be rendered while one is missing."""

    @property
    def kinds(self) -> tuple[Resource, ...]:
        """Kinds of the linked objects."""
        return (self.datacenter, *self.machine_configs, *self.further_kinds)


class Name(NamedTuple):
    """The name of an extra object, within its kind."""

    resource: Resource
    name: str

    def __str__(self) -> str:
        return f"{self.resource.kind} {self.name}"


@dataclass(frozen=True)
class Extras:
    """Additional objects for each cluster of a provider: Secrets, identities.

    They are written first, because other objects refer to them, and deleted last. Namespaced ones are in the system's
    namespace.
    """

    kinds: tuple[Resource, ...] = ()
    names: Callable[[str, eksa.ClusterSpec, Sequence[Object]], Iterable[Name]] = lambda _name, _spec, _children: ()
    """The names of a cluster's extra objects, from its name, its spec, and the existing children. Pure. Each contains
    the cluster's name, between dashes, so that no other cluster has the same."""
    render: Callable[[RenderInput], Iterable[KubeObject]] = lambda _render_input: ()
    """The objects, in the order in which they are written; only under names that `names` returns. Pure."""


class Bottlerocket(NamedTuple):
    """Machines with Bottlerocket, for a provider that supports them (`clusters/design/render/nodes/bottlerocket.py`).
    Pure."""

    groups: Callable[[eksa.ClusterSpec, Sequence[Object]], Collection[str]]
    """The fields of the Cluster's spec that ask for such machines, like `spec.controlPlaneConfiguration`, from the
    spec and the existing children."""
    lacks: Callable[[RenderInput], Iterable[str]]
    """The images that they need and the release lacks, apart from the one that runs kubeadm."""
    images: tuple[str, ...] = ()
    """Fields of Bundles with images that only such machines of this provider use."""


class Renderer(Protocol):
    """Renders the objects that differ by provider. Pure; may be a module."""

    def infrastructure_cluster(self, render_input: RenderInput) -> KubeObject:
        """The infrastructure cluster; it has the cluster's name."""

    def control_plane_config(self, render_input: RenderInput) -> KubeadmConfigSpec:
        """The kubeadm configuration of control plane machines."""

    def worker_config(self, render_input: RenderInput, group: WorkerNodeGroupConfiguration) -> KubeadmConfigSpec:
        """The kubeadm configuration of workers."""

    def machine_template(
        self,
        render_input: RenderInput,
        components: Components,
        name: str,
        group: WorkerNodeGroupConfiguration | None,
        /,
    ) -> KubeObject:
        """The machine template of a group, or of the control plane (None)."""


class Rules(Protocol):
    """The provider's validation of a Cluster's spec. Pure; may be a module."""

    def violations(self, spec: eksa.ClusterSpec) -> Iterator[Violation]:
        """The violations for which a Cluster is rejected."""

    def warnings(self, spec: eksa.ClusterSpec) -> Iterator[str]:
        """Warnings about fields that are accepted and have no effect."""


class EtcdRenderer(NamedTuple):
    """Renders external etcd (`clusters/design/render/etcd.py`). Pure."""

    config: Callable[[RenderInput], EtcdadmConfigSpec]
    machine_template: Callable[[RenderInput, str], KubeObject]
    """The machine template under a name."""


@dataclass(frozen=True)
class Provider:
    """An infrastructure provider. `docs/providers.md` describes how to write one."""

    links: Links
    infrastructure: Infrastructure
    render: Renderer
    rules: Rules
    extras: Extras = Extras()
    environment_secrets: Callable[[Mapping[str, str], Sequence[Tree]], Iterable[Tree]] = (
        lambda _environment, _manifest: ()
    )
    """The Secrets with credentials from a command's environment variables, for the objects of a manifest. Pure.
    Raises `credential_files.Unreadable`."""
    joint_variables: tuple[tuple[str, ...], ...] = ()
    """Those of these variables that belong together: if one is set, a command requires the others."""
    names_credentials: str = ""
    """The field with which a manifest names the Secret of its credentials; empty: all clusters share one."""
    file_variables: tuple[str, ...] = ()
    """Variables that name files: `environment_secrets` gets their content."""
    images: tuple[str, ...] = ()
    """The images of an entry of Bundles that all its clusters need, by field: `haproxy.image`."""
    optional_images: tuple[str, ...] = ()
    """Those that its clusters use where an entry has them."""
    etcd: EtcdRenderer | None = None
    """None: external etcd is not supported."""
    bottlerocket: Bottlerocket | None = None
    """None: Bottlerocket is not supported."""
    has_kindnetd: bool = False
    """True if kindnetd works on its machines, which are containers. Otherwise it is rejected in new clusters."""
    encryption_file: str = ""
    """The file on control plane machines with the configuration of `spec.etcdEncryption`; empty: it is rejected."""
    claims: Callable[[str, eksa.ClusterSpec, Sequence[Object]], Iterable[Name]] = lambda _name, _spec, _children: ()
    """The names that Cluster API's provider gives to its own objects, from a cluster's name, spec and children, if
    clusters of different names may need the same ones: no two clusters may. Pure."""
    claimed: Callable[[Object], Iterable[Name]] = lambda _infrastructure: ()
    """The same from an existing infrastructure cluster. Pure."""
    clashes: Callable[[Sequence[Object], Sequence[Object]], Iterable[str]] | None = None
    """The conflicts of a cluster's children with those of another one, such as addresses that both would assign: a
    sentence for each, with the remedy and without names of the other cluster's objects. Pure."""
    settings: Callable[[RenderInput], Settings] = lambda _render_input: Settings()
    """Settings of its clusters that were introduced by a layer. Pure."""
    needs_workers: bool = True
    """False if its clusters may have no workers: pods then run on control plane machines."""
    node_startup_timeout: str = "10m0s"
    """The default time limit for its machines to become nodes."""
    complete: Callable[[RenderInput, Rendered], Rendered] = lambda _render_input, rendered: rendered
    """Adds its own fields to objects that all clusters have, before layers do. Pure."""
    changes: Callable[[eksa.ClusterSpec, eksa.ClusterSpec], Iterator[Violation]] = lambda _old, _new: iter(())
    """The violations for which a change of a Cluster's spec is rejected. Pure."""
    no_proxy: Callable[[RenderInput], Sequence[str]] = lambda _render_input: ()
    """Hosts that nodes reach without a proxy, in addition to those of all clusters: the provider's endpoint. Pure."""
    workload: Callable[[RenderInput], Iterable[Manifest]] = lambda _render_input: ()
    """Objects of the workload cluster, such as a cloud controller manager and a CSI driver, in the order in which they
    are applied. Pure."""
    controllers: tuple[Callable[[Host], Controller], ...] = ()
    """Factories of the provider's own controllers, which run in the manager: they write what `Links.resolve` reads."""
    rights: tuple[Right, ...] = ()
    """RBAC rules that they need in each watched namespace, beside reading and patching linked objects."""
    system_rights: tuple[Right, ...] = ()
    """RBAC rules that they need in the system's namespace."""
    kinds: tuple[type[KubeObject], ...] = ()
    """Its kinds of `anywhere.eks.amazonaws.com`: their CRDs are installed with the manager."""
    annotations: Sequence[tuple[str, Annotation]] = ()
    """Its own annotations of rendered and linked objects with their prose, for the reference page."""
    tested_with: str = "simulated machines"
    """The machines and servers with which tests run its clusters, for the reference page."""


class Components(msgspec.Struct, frozen=True):
    """The components of one Kubernetes version."""

    bundle: VersionsBundle
    distro: Distro

    @property
    def version(self) -> str:
        """The Kubernetes version in Cluster API objects, like `v1.35.4-eks-1-35-1`."""
        return self.distro.version


class RenderInput(msgspec.Struct, frozen=True, dict=True):
    """A cluster to render. Equal render inputs render equal objects."""

    key: Key
    spec: eksa.ClusterSpec
    components: Mapping[str, Components]
    """The components by Kubernetes minor version, for the control plane and all groups."""
    provider: Provider
    watch_filter: str = ""
    layers: tuple[Layer, ...] = ()
    """The layers of the cluster's release; their defaults are in `spec` already."""
    front_end: FrontEnd = FrontEnd.ANNOTATIONS
    """The front end for in-place upgrades."""
    children: tuple[Object, ...] = ()
    """The linked objects."""
    data: Mapping[str, Mapping[str, bytes]] = {}
    """The data of the Secrets and ConfigMaps that these reference, by `Kind namespace/name`."""

    resolved: Mapping[str, str] = {}
    """Values that the provider resolved (`Links.resolve`): all are known."""
    domains: Mapping[str, str] = {}
    """The failure domain of each group, by its name. A worker node group in several failure domains is several
    groups here."""

    @property
    def name(self) -> str:
        """Name of the cluster, and of most objects made for it."""
        return self.key.name

    @property
    def control_plane(self) -> ControlPlaneConfiguration:
        """The control plane's configuration."""
        return self.spec.control_plane_configuration or ControlPlaneConfiguration(count=1)

    @property
    def of_control_plane(self) -> Components:
        """The components of the control plane and of all objects that the cluster has once."""
        return self.components[self.spec.kubernetes_version]

    def of_group(self, group: WorkerNodeGroupConfiguration) -> Components:
        """The components of a worker node group."""
        return self.components[group.kubernetes_version or self.spec.kubernetes_version]

    @property
    def groups(self) -> list[WorkerNodeGroupConfiguration]:
        """The worker node groups."""
        return self.spec.worker_node_group_configurations

    def undivided_group(self, name: str) -> str:
        """The worker node group of a group, which may be only one of its failure domains."""
        return name.removesuffix(f"-{self.domains[name]}") if name in self.domains else name

    @property
    def labels(self) -> dict[str, str]:
        """Labels of every object made for the cluster."""
        return names.labels(self.key, self.watch_filter)


Providers: TypeAlias = Mapping[str, Provider]
"""By the kind of `spec.datacenterRef`."""


def extra_kinds(providers: Providers) -> tuple[Resource, ...]:
    """The kinds of the extra objects of all providers."""
    return tuple(dict.fromkeys(kind for provider in providers.values() for kind in provider.extras.kinds))


def infrastructures(providers: Providers) -> Infrastructures:
    """The infrastructure of all providers."""
    return Infrastructures(provider.infrastructure for provider in providers.values())


def bottlerocket_groups(
    provider: Provider | None, spec: eksa.ClusterSpec, children: Sequence[Object]
) -> Collection[str]:
    """The fields of a Cluster's spec that ask for machines with Bottlerocket."""
    made = provider.bottlerocket if provider is not None else None
    return made.groups(spec, children) if made is not None else ()
