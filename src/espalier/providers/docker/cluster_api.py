"""`infrastructure.cluster.x-k8s.io/v1beta2`: the Docker infrastructure kinds of Cluster API (CAPD)."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.capi.cluster import CONTRACT, Endpoint, FailureDomain
from espalier.api.capi.machine import MachineAddress, TemplateMeta
from espalier.api.kinds import AGE, ATOMIC, Column, KubeObject, kind, listing
from espalier.api.meta import Condition, Observed, Part
from espalier.api.resource import Resource
from espalier.clusterapi.infrastructure import GROUP, Infrastructure

VERSION = "v1beta2"

CLUSTER_COLUMN = Column(
    "Cluster", ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']", "string", "Cluster the object belongs to"
)


class LoadBalancer(Part):
    """The load balancer in front of the control plane."""

    image_repository: str = ""
    image_tag: str = ""
    disable: bool | None = None


class DockerClusterSpec(Part):
    """The spec of a DockerCluster."""

    control_plane_endpoint: Endpoint | None = None
    failure_domains: Annotated[list[FailureDomain], Meta(extra_json_schema=listing("name"))] = []
    load_balancer: LoadBalancer | None = None


class Provisioned(Observed, frozen=True):
    """Initialization of the infrastructure, which happens once."""

    provisioned: bool = False


class DockerClusterStatus(Observed, frozen=True):
    """The status of a DockerCluster."""

    initialization: Provisioned = Provisioned()
    failure_domains: Annotated[list[FailureDomain], Meta(extra_json_schema=listing("name"))] = []
    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []


@kind(
    Resource(GROUP, VERSION, "dockerclusters", "DockerCluster"),
    categories=("cluster-api",),
    columns=(CLUSTER_COLUMN, AGE),
    status=True,
    labels=CONTRACT,
    partly=True,
)
class DockerCluster(KubeObject, kw_only=True):
    """The infrastructure of a cluster on Docker."""

    spec: DockerClusterSpec = msgspec.field(default_factory=DockerClusterSpec)
    status: DockerClusterStatus = DockerClusterStatus()


class Mount(Part):
    """A directory of the host mounted into the machine."""

    host_path: str = ""
    container_path: str = ""
    read_only: bool | None = msgspec.field(default=None, name="readOnly")


class DockerMachineSpec(Part):
    """One container that is a machine."""

    provider_id: str = msgspec.field(default="", name="providerID")
    custom_image: str = ""
    pre_load_images: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    extra_mounts: Annotated[list[Mount], Meta(extra_json_schema=ATOMIC)] = []
    bootstrapped: bool | None = None


class DockerMachineStatus(Observed, frozen=True):
    """The status of a DockerMachine."""

    initialization: Provisioned = Provisioned()
    addresses: Annotated[list[MachineAddress], Meta(extra_json_schema=ATOMIC)] = []
    failure_domain: str = ""
    load_balancer_configured: bool | None = None
    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []


@kind(
    Resource(GROUP, VERSION, "dockermachines", "DockerMachine"),
    categories=("cluster-api",),
    columns=(
        CLUSTER_COLUMN,
        Column(
            "Machine",
            '.metadata.ownerReferences[?(@.kind=="Machine")].name',
            "string",
            "Machine that this is the infrastructure of",
        ),
        Column("ProviderID", ".spec.providerID", "string", "The machine's ID at the infrastructure provider"),
        Column("Ready", '.status.conditions[?(@.type=="Ready")].status', "string", "True if the container is running"),
        AGE,
    ),
    status=True,
    labels=CONTRACT,
    partly=True,
)
class DockerMachine(KubeObject):
    """The infrastructure of a machine on Docker."""

    spec: DockerMachineSpec = msgspec.field(default_factory=DockerMachineSpec)
    status: DockerMachineStatus = DockerMachineStatus()


class DockerMachineTemplateResource(Part):
    """The template of new DockerMachines."""

    spec: DockerMachineSpec
    metadata: TemplateMeta | None = None


class DockerMachineTemplateSpec(Part):
    """The spec of a DockerMachineTemplate."""

    template: DockerMachineTemplateResource


@kind(
    Resource(GROUP, VERSION, "dockermachinetemplates", "DockerMachineTemplate"),
    categories=("cluster-api",),
    columns=(AGE,),
    labels=CONTRACT,
    partly=True,
)
class DockerMachineTemplate(KubeObject, kw_only=True):
    """The template of DockerMachines; immutable, so other content gets another name."""

    spec: DockerMachineTemplateSpec


KINDS: tuple[type[KubeObject], ...] = (DockerCluster, DockerMachine, DockerMachineTemplate)

INFRASTRUCTURE = Infrastructure(
    DockerCluster.resource,
    DockerMachine.resource,
    DockerMachineTemplate.resource,
    provider_id="docker:////{name}",
    image_fields=frozenset({"template.spec.customImage"}),
)
