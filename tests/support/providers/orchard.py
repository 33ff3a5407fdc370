"""A provider of the tests, with kinds of its own: linked objects have content, and name credentials.

A datacenter and a ConfigMap shape all machines, machine configs those that name them, and a Secret is carried by what
all machines share. `docs/providers.md` explains how to write a provider with it.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from espalier.api.capi.cluster import Endpoint
from espalier.api.capi.kubeadm import BootstrapUser, KubeadmConfigSpec
from espalier.api.core import CONFIG_MAP, DEPLOYMENT, SECRET, ConfigMap, Secret
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.fields import Ref
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.eksa.vocabulary.group import GROUP, SYSTEM_NAMESPACE, VERSION
from espalier.api.kinds import KubeObject, kind
from espalier.api.meta import ObjectMeta, Observed, Part, Tree
from espalier.api.resource import Key, Resource
from espalier.api.text.violations import Violation
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure
from espalier.clusterapi.infrastructures.infrastructure_kinds import MachineTemplate, declares
from espalier.clusters.design.provider import (
    Components,
    Dependency,
    Extras,
    Links,
    Name,
    Provider,
    Providers,
    RenderInput,
)
from espalier.clusters.design.render import kubeadm
from espalier.clusters.design.render.cluster import meta
from espalier.clusters.design.render_input import group_name
from espalier.clusters.design.rendered import Manifest
from espalier.kube.client import PatchType
from espalier.kube.merge_patch import difference
from espalier.kube.objects import Object
from espalier.kube.rbac import Right
from espalier.providers.simulated import SIMULATED
from espalier.runtime.component import Host
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Outcome

"""Label of a CRD: its kind keeps the earlier contract of Cluster API, as those of most real providers do."""

CARRIED = "orchard.example.com/credentials"
"""Annotation of an OrchardCluster: what became of the credentials."""

MERGE = PatchType.MERGE

K = TypeVar("K", bound=KubeObject)


# Kinds of Cluster API.


class OrchardClusterSpec(Part):
    """The spec that all machines share."""

    control_plane_endpoint: Endpoint | None = None


class OrchardStatus(Observed, frozen=True):
    ready: bool = False


declared = declares("v1beta1", "v1beta1")


@declared(status=True)
class OrchardCluster(KubeObject, kw_only=True):
    """Infrastructure of a cluster."""

    spec: OrchardClusterSpec = msgspec.field(default_factory=OrchardClusterSpec)
    status: OrchardStatus = OrchardStatus()


class OrchardMachineSpec(Part):
    """One machine."""

    provider_id: str = msgspec.field(default="", name="providerID")
    image: str = ""
    mounts: list[str] = []
    zone: str = ""
    rootstock: str = ""


@declared(status=True)
class OrchardMachine(KubeObject, kw_only=True):
    """Infrastructure of a machine."""

    spec: OrchardMachineSpec = msgspec.field(default_factory=OrchardMachineSpec)
    status: OrchardStatus = OrchardStatus()


@declared()
class OrchardMachineTemplate(MachineTemplate[OrchardMachineSpec], kw_only=True):
    """The template of OrchardMachines."""


class OrchardZoneSpec(Part):
    """A part of an orchard."""

    datacenter: str = ""
    domain: str = ""


@declared(namespaced=False)
class OrchardZone(KubeObject, kw_only=True):
    """Where a failure domain is, for whoever makes machines. It has no namespace."""

    spec: OrchardZoneSpec


INFRASTRUCTURE = Infrastructure(
    OrchardCluster.resource,
    OrchardMachine.resource,
    OrchardMachineTemplate.resource,
    provider_id="orchard://{cluster}/{name}",
    image_fields=frozenset({"template.spec.image"}),
    contract="v1beta1",
)


# Kinds of EKS Anywhere.


class Domain(Part):
    """A part of an orchard that fails as a whole."""

    name: str
    groups: list[str] = []
    """The worker node groups that have machines there."""


class OrchardDatacenterConfigSpec(Part):
    """Of all machines."""

    domains: list[Domain] = []
    mounts: list[str] = []
    more_mounts_ref: str = ""
    credentials_ref: str = ""
    server: str = ""
    """Where the credentials are sent."""


@kind(Resource(GROUP, VERSION, "orcharddatacenterconfigs", "OrchardDatacenterConfig"))
class OrchardDatacenterConfig(KubeObject):
    """Where machines run."""

    spec: OrchardDatacenterConfigSpec = msgspec.field(default_factory=OrchardDatacenterConfigSpec)


class OrchardMachineConfigSpec(Part):
    """Of the machines of a group."""

    users: list[str] = []
    variety: str = ""


class OrchardMachineConfigStatus(Observed, frozen=True):
    """The resolved values."""

    rootstock: str = ""
    observed_generation: int = 0
    failure_message: str = ""


@kind(Resource(GROUP, VERSION, "orchardmachineconfigs", "OrchardMachineConfig"), status=True)
class OrchardMachineConfig(KubeObject):
    """The config of machines."""

    spec: OrchardMachineConfigSpec = msgspec.field(default_factory=OrchardMachineConfigSpec)
    status: OrchardMachineConfigStatus = OrchardMachineConfigStatus()

    @property
    def rootstock(self) -> str:
        """On what its variety grows; empty while that was not looked up of this spec."""
        return self.status.rootstock if self.status.observed_generation == self.metadata.generation else ""


def depend(_cluster: eksa.Cluster, children: Sequence[Object]) -> Iterable[Dependency]:
    for child in children:
        if child.kind == OrchardDatacenterConfig.resource.kind:
            spec, of = child.decode(OrchardDatacenterConfig).spec, f"{child.kind} {child.name}: spec"
            yield Dependency(SECRET, spec.credentials_ref, f"{of}.credentialsRef", spec.server)
            yield Dependency(CONFIG_MAP, spec.more_mounts_ref, f"{of}.moreMountsRef")


def domains(_spec: eksa.ClusterSpec, children: Sequence[Object]) -> Mapping[str, Sequence[str]]:
    results: dict[str, list[str]] = {}
    for child in children:
        if child.kind == OrchardDatacenterConfig.resource.kind:
            for domain in child.decode(OrchardDatacenterConfig).spec.domains:
                for group in domain.groups:
                    results.setdefault(group, []).append(domain.name)
    return results


def resolve(_spec: eksa.ClusterSpec, children: Sequence[Object]) -> Mapping[str, str]:
    """On what the varieties of machine configs grow: the market is asked by `nursery`."""
    configs = [
        child.decode(OrchardMachineConfig) for child in children if child.kind == OrchardMachineConfig.resource.kind
    ]
    return {_variety(config): config.rootstock for config in configs if config.spec.variety}


def _variety(config: OrchardMachineConfig) -> str:
    return f"{config.kind} {config.metadata.name}: spec.variety"


MARKET = {"apple": "M9", "pear": "Quince C"}
"""The answers of a provider's API: the image of a name, the operating system of a template."""


def nursery(host: Host) -> Controller:
    """A controller of the provider's own: it keeps in the status of machine configs what the market says."""
    resource = OrchardMachineConfig.resource
    configs, client = host.caches.of(resource), host.client

    async def reconcile(key: Key) -> Outcome:
        value = configs.get(key)
        config = value.decode(OrchardMachineConfig) if value is not None else None
        if value is None or config is None or not config.spec.variety:
            return Done()
        rootstock = MARKET.get(config.spec.variety, "")
        status = OrchardMachineConfigStatus(
            rootstock=rootstock,
            observed_generation=value.metadata.generation,
            failure_message="" if rootstock else f"the market has no {config.spec.variety}",
        )
        if status != config.status:
            changes = difference(
                {"status": msgspec.to_builtins(config.status)}, {"status": msgspec.to_builtins(status)}
            )
            patch = {"metadata": {"uid": value.metadata.uid}, **changes}
            await client.patch(resource, key.name, key.namespace, patch=patch, type=MERGE, subresource="status")
        return Done()

    made = Controller("orchard-nursery", reconcile)
    made.watch(configs)
    return made


def extra_names(name: str, spec: eksa.ClusterSpec, children: Sequence[Object]) -> Iterable[Name]:
    yield Name(SECRET, credentials_name(name))
    for child in children:
        if child.kind == OrchardDatacenterConfig.resource.kind:
            for domain in child.decode(OrchardDatacenterConfig).spec.domains:
                yield Name(OrchardZone.resource, zone_name(name, child.name, domain.name))


def extras(render_input: RenderInput) -> Iterable[KubeObject]:
    datacenter = _datacenter(render_input)
    password = _data(render_input, SECRET, datacenter.spec.credentials_ref)["password"]
    yield Secret(
        metadata=meta(render_input, credentials_name(render_input.name)), type="Opaque", data={"password": password}
    )
    for domain in datacenter.spec.domains:
        name = zone_name(render_input.name, datacenter.metadata.name, domain.name)
        spec = OrchardZoneSpec(datacenter=datacenter.metadata.name, domain=domain.name)
        yield OrchardZone(metadata=meta(render_input, name, namespaced=False), spec=spec)


def workload(render_input: RenderInput) -> Iterable[Manifest]:
    """The manifests that tell nodes where they are: as a cloud controller manager and its configuration."""
    for domain in _datacenter(render_input).spec.domains:
        config = ConfigMap(metadata=ObjectMeta(name=f"domain-{domain.name}", namespace="kube-system"))
        config.data = {"groups": ",".join(domain.groups)}
        yield Manifest(CONFIG_MAP, msgspec.to_builtins(config))
    labels = {"app": "orchard-controller"}
    container = {"name": "controller", "image": "registry.example.com/orchard-controller:v1"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    body: Tree = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": spec}
    yield Manifest(DEPLOYMENT, body | {"metadata": {"name": "orchard-controller", "namespace": "kube-system"}})


def credentials_name(cluster: str) -> str:
    """Of the Secret by which the machines of a cluster are made."""
    return f"orchard-{cluster}"


def zone_name(cluster: str, datacenter: str, domain: str) -> str:
    return f"{cluster}-{datacenter}-{domain}"


class Renderer:
    """Renders what is particular about orchards."""

    def infrastructure_cluster(self, render_input: RenderInput) -> KubeObject:
        password = _data(render_input, SECRET, _datacenter(render_input).spec.credentials_ref)["password"]
        metadata = meta(render_input, render_input.name)
        return OrchardCluster(metadata=replace(metadata, annotations={CARRIED: carried(password)}))

    def control_plane_config(self, render_input: RenderInput) -> KubeadmConfigSpec:
        config = kubeadm.control_plane_config(render_input, NODE)
        return _with_users(config, render_input, render_input.control_plane.machine_group_ref)

    def worker_config(self, render_input: RenderInput, group: WorkerNodeGroupConfiguration) -> KubeadmConfigSpec:
        config = kubeadm.worker_config(render_input, group, NODE)
        return _with_users(config, render_input, group.machine_group_ref)

    def machine_template(
        self, render_input: RenderInput, components: Components, name: str, group: WorkerNodeGroupConfiguration | None
    ) -> OrchardMachineTemplate:
        asked = _datacenter(render_input).spec
        more = _data(render_input, CONFIG_MAP, asked.more_mounts_ref)["paths"].decode().split()
        node = components.bundle.eks_d.kind_node
        domain = render_input.domains.get(group_name(group), "") if group is not None else ""
        reference = group.machine_group_ref if group is not None else render_input.control_plane.machine_group_ref
        variety = _variety(_child(render_input, OrchardMachineConfig, reference))
        machine = OrchardMachineSpec(
            image=node.uri if node else "",
            mounts=[*asked.mounts, *more],
            zone=domain,
            rootstock=render_input.resolved.get(variety, ""),
        )
        return OrchardMachineTemplate.of(meta(render_input, name), machine)


class Rules:
    """The provider's own rules."""

    def violations(self, spec: eksa.ClusterSpec) -> Iterator[Violation]:
        control_plane = spec.control_plane_configuration
        if control_plane is not None and control_plane.machine_group_ref is None:
            field = "spec.controlPlaneConfiguration.machineGroupRef"
            yield Violation(field, "nothing", "OrchardMachineConfig", "name a machine config")

    def warnings(self, spec: eksa.ClusterSpec) -> Iterator[str]:
        if spec.control_plane_configuration and spec.control_plane_configuration.skip_load_balancer_deployment:
            yield "spec.controlPlaneConfiguration.skipLoadBalancerDeployment: orchards have none"


SOCKET = "unix:///run/containerd/containerd.sock"
NODE = kubeadm.NodeSettings({}, SOCKET, has_fixed_args=False)


def carried(password: bytes) -> str:
    """The hash of credentials that carriers hold: visible to tests."""
    return hashlib.sha256(password).hexdigest()[:16]


ORCHARD_PROVIDER = Provider(
    links=Links(
        datacenter=OrchardDatacenterConfig.resource,
        machine_configs=(OrchardMachineConfig.resource,),
        data=(SECRET, CONFIG_MAP),
        depend=depend,
        domains=domains,
        resolve=resolve,
        carriers=(OrchardCluster.resource, SECRET),
    ),
    infrastructure=INFRASTRUCTURE,
    kinds=(OrchardDatacenterConfig, OrchardMachineConfig),
    render=Renderer(),
    rules=Rules(),
    extras=Extras(kinds=(SECRET, OrchardZone.resource), names=extra_names, render=extras),
    workload=workload,
    has_kindnetd=True,
    controllers=(nursery,),
    rights=(Right((OrchardMachineConfig.resource,), ("patch",), "status"),),
)
ORCHARD: Providers = {**SIMULATED, ORCHARD_PROVIDER.links.datacenter.kind: ORCHARD_PROVIDER}
"""Beside the providers of the build, of which the management cluster needs one."""

KINDS: tuple[type[KubeObject], ...] = (
    OrchardDatacenterConfig,
    OrchardMachineConfig,
    OrchardCluster,
    OrchardMachine,
    OrchardMachineTemplate,
    OrchardZone,
)


def _datacenter(render_input: RenderInput) -> OrchardDatacenterConfig:
    return _child(render_input, OrchardDatacenterConfig, render_input.spec.datacenter_ref)


def _data(render_input: RenderInput, resource: Resource, name: str) -> Mapping[str, bytes]:
    return render_input.data[f"{resource.kind} {SYSTEM_NAMESPACE}/{name}"]


def _with_users(config: KubeadmConfigSpec, render_input: RenderInput, reference: Ref | None) -> KubeadmConfigSpec:
    users = _child(render_input, OrchardMachineConfig, reference).spec.users
    return replace(config, users=[BootstrapUser(name=name) for name in users])


def _child(render_input: RenderInput, type_: type[K], reference: Ref | None) -> K:
    assert reference is not None
    named = (type_.resource.kind, reference.name)
    return next(child.decode(type_) for child in render_input.children if (child.kind, child.name) == named)
