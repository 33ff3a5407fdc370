"""A provider whose linked objects have content, and name credentials: Docker's machines, with the settings of others.

A datacenter and a ConfigMap shape all machines, machine configs those that name them, and a Secret is carried by what
all machines share.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from espalier.api.capi.docker import DockerCluster, DockerMachineTemplate, Mount
from espalier.api.capi.kubeadm import BootstrapUser, KubeadmConfigSpec
from espalier.api.core import CONFIG_MAP, SECRET
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.fields import Ref
from espalier.api.eksa.group import GROUP, SYSTEM_NAMESPACE, VERSION
from espalier.api.eksa.workers import WorkerNodeGroupConfiguration
from espalier.api.kinds import KubeObject, kind
from espalier.api.meta import Part
from espalier.api.resource import Resource
from espalier.clusters.design import Components, Dependency, Design, Links, Provider
from espalier.clusters.layers.pieces import changed
from espalier.clusters.render import docker
from espalier.kube.objects import Object

CARRIED = "orchard.example.com/credentials"
"""Annotation of a DockerCluster: what became of the credentials."""

K = TypeVar("K", bound=KubeObject)


class OrchardDatacenterConfigSpec(Part):
    """Of all machines."""

    mounts: list[str] = []
    more_mounts_ref: str = ""
    credentials_ref: str = ""


@kind(Resource(GROUP, VERSION, "orcharddatacenterconfigs", "OrchardDatacenterConfig"))
class OrchardDatacenterConfig(KubeObject):
    """Where machines run."""

    spec: OrchardDatacenterConfigSpec = msgspec.field(default_factory=OrchardDatacenterConfigSpec)


class OrchardMachineConfigSpec(Part):
    """Of the machines of a group."""

    users: list[str] = []


@kind(Resource(GROUP, VERSION, "orchardmachineconfigs", "OrchardMachineConfig"))
class OrchardMachineConfig(KubeObject):
    """What machines are like."""

    spec: OrchardMachineConfigSpec = msgspec.field(default_factory=OrchardMachineConfigSpec)


def depend(_cluster: eksa.Cluster, children: Sequence[Object]) -> Iterable[Dependency]:
    for child in children:
        if child.kind == OrchardDatacenterConfig.resource.kind:
            spec, of = child.decode(OrchardDatacenterConfig).spec, f"{child.kind} {child.name}: spec"
            yield Dependency(SECRET, spec.credentials_ref, f"{of}.credentialsRef")
            yield Dependency(CONFIG_MAP, spec.more_mounts_ref, f"{of}.moreMountsRef")


class OrchardProvider:
    """Renders them."""

    links = Links(
        datacenter=OrchardDatacenterConfig.resource,
        machine_configs=(OrchardMachineConfig.resource,),
        data=(SECRET, CONFIG_MAP),
        depend=depend,
        carriers=(DockerCluster.resource,),
    )

    def infrastructure_cluster(self, design: Design) -> KubeObject:
        found = docker.infrastructure_cluster(design)
        password = _data(design, SECRET, _datacenter(design).spec.credentials_ref)["password"]
        return replace(found, metadata=replace(found.metadata, annotations={CARRIED: carried(password)}))

    def control_plane_config(self, design: Design) -> KubeadmConfigSpec:
        return _with_users(docker.control_plane_config(design), design, design.control_plane.machine_group_ref)

    def worker_config(self, design: Design, group: WorkerNodeGroupConfiguration) -> KubeadmConfigSpec:
        return _with_users(docker.worker_config(design, group), design, group.machine_group_ref)

    def machine_template(self, design: Design, components: Components, name: str) -> DockerMachineTemplate:
        template = docker.machine_template(design, components, name)
        asked = _datacenter(design).spec
        more = _data(design, CONFIG_MAP, asked.more_mounts_ref)["paths"].decode().split()
        mounts = [Mount(host_path=path, container_path=path) for path in (*asked.mounts, *more)]
        spec = template.spec.template.spec
        inner = changed(template.spec.template, spec=changed(spec, extra_mounts=[*spec.extra_mounts, *mounts]))
        return changed(template, spec=changed(template.spec, template=inner))


def carried(password: bytes) -> str:
    """What carriers say of credentials, here to be seen."""
    return hashlib.sha256(password).hexdigest()[:16]


ORCHARD: Mapping[str, Provider] = {
    OrchardDatacenterConfig.resource.kind: OrchardProvider(),
    docker.links.datacenter.kind: docker,  # of the management cluster
}
KINDS: tuple[type[KubeObject], ...] = (OrchardDatacenterConfig, OrchardMachineConfig)


def _datacenter(design: Design) -> OrchardDatacenterConfig:
    return _child(design, OrchardDatacenterConfig, design.spec.datacenter_ref)


def _data(design: Design, resource: Resource, name: str) -> Mapping[str, bytes]:
    return design.data[f"{resource.kind} {SYSTEM_NAMESPACE}/{name}"]


def _with_users(config: KubeadmConfigSpec, design: Design, reference: Ref | None) -> KubeadmConfigSpec:
    users = _child(design, OrchardMachineConfig, reference).spec.users
    return changed(config, users=[BootstrapUser(name=name) for name in users])


def _child(design: Design, type_: type[K], reference: Ref | None) -> K:
    assert reference is not None
    named = (type_.resource.kind, reference.name)
    return next(child.decode(type_) for child in design.children if (child.kind, child.name) == named)
