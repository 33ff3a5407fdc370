"""`infrastructure.cluster.x-k8s.io/v1beta2`: the Docker infrastructure kinds of Cluster API (CAPD)."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.capi.cluster import Endpoint, FailureDomain
from espalier.api.kinds import AGE, ATOMIC, Column, KubeObject, listing
from espalier.api.meta import Part
from espalier.clusterapi.infrastructures import infrastructure_kinds as contract
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure

VERSION = "v1beta2"
declared = contract.declares(VERSION, "v1beta2")


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


@declared(contract.CLUSTER_COLUMN, AGE, status=True)
class DockerCluster(KubeObject, kw_only=True):
    """The infrastructure of a cluster on Docker."""

    spec: DockerClusterSpec = msgspec.field(default_factory=DockerClusterSpec)
    status: contract.ClusterStatus = contract.ClusterStatus()


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


class DockerMachineStatus(contract.MachineStatus, frozen=True):
    """The status of a DockerMachine."""

    failure_domain: str = ""
    load_balancer_configured: bool | None = None


@declared(
    contract.CLUSTER_COLUMN,
    Column(
        "Machine",
        '.metadata.ownerReferences[?(@.kind=="Machine")].name',
        "string",
        "Machine that this is the infrastructure of",
    ),
    contract.PROVIDER_ID_COLUMN,
    Column("Ready", '.status.conditions[?(@.type=="Ready")].status', "string", "True if the container is running"),
    AGE,
    status=True,
)
class DockerMachine(KubeObject):
    """The infrastructure of a machine on Docker."""

    spec: DockerMachineSpec = msgspec.field(default_factory=DockerMachineSpec)
    status: DockerMachineStatus = DockerMachineStatus()


@declared(AGE)
class DockerMachineTemplate(contract.MachineTemplate[DockerMachineSpec], kw_only=True):
    """The template of DockerMachines; immutable, so other content gets another name."""


KINDS: tuple[type[KubeObject], ...] = (DockerCluster, DockerMachine, DockerMachineTemplate)

INFRASTRUCTURE = Infrastructure(
    DockerCluster.resource,
    DockerMachine.resource,
    DockerMachineTemplate.resource,
    provider_id="docker:////{name}",
    image_fields=frozenset({"template.spec.customImage"}),
)
