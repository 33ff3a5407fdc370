"""`infrastructure.cluster.x-k8s.io/v1beta1`: the kinds of Cluster API's provider for Nutanix (CAPX).

Typed as far as we write or read them. It keeps contract v1beta1 of Cluster API.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.capi.cluster import Endpoint
from espalier.api.capi.machine import MachineAddress, TemplateMeta
from espalier.api.kinds import AGE, ATOMIC, INT_OR_STRING, Column, KubeObject, kind, listing
from espalier.api.meta import Condition, Observed, Part
from espalier.api.resource import Resource
from espalier.clusterapi.infrastructure import GROUP, DomainStatus, Infrastructure

VERSION = "v1beta1"
CONTRACT = {"cluster.x-k8s.io/v1beta1": VERSION}


class ResourceIdentifier(Part):
    """An entity in Prism Central."""

    type: str
    name: str = ""
    uuid: str = ""


class CredentialReference(Part):
    """The Secret with the account of Prism Central."""

    kind: str
    name: str
    namespace: str = ""


class TrustBundle(Part):
    """The location of CA certificates."""

    kind: str
    name: str = ""
    namespace: str = ""


class PrismCentral(Part):
    """A Prism Central, and its credentials."""

    address: str
    port: int
    insecure: bool | None = None
    credential_ref: CredentialReference | None = None
    additional_trust_bundle: TrustBundle | None = None


class NutanixFailureDomain(Part):
    """A Prism Element cluster with subnets that fails as a unit."""

    name: str
    cluster: ResourceIdentifier
    subnets: Annotated[list[ResourceIdentifier], Meta(extra_json_schema=ATOMIC)]
    control_plane: bool | None = None


class NutanixClusterSpec(Part):
    """The spec of a NutanixCluster."""

    control_plane_endpoint: Endpoint | None = None
    prism_central: PrismCentral | None = None
    failure_domains: Annotated[list[NutanixFailureDomain], Meta(extra_json_schema=listing("name"))] = []


class NutanixClusterStatus(Observed, frozen=True):
    """The status of a NutanixCluster."""

    ready: bool = False
    failure_domains: dict[str, DomainStatus] = {}
    conditions: Annotated[list[Condition], Meta(extra_json_schema=ATOMIC)] = []


@kind(
    Resource(GROUP, VERSION, "nutanixclusters", "NutanixCluster"),
    short_names=("ncl",),
    categories=("cluster-api",),
    columns=(
        Column("ControlplaneEndpoint", ".spec.controlPlaneEndpoint.host", "string", "Address of the API server"),
        Column("Ready", ".status.ready", "boolean", "True if the infrastructure is there"),
    ),
    status=True,
    labels=CONTRACT,
    partly=True,
)
class NutanixCluster(KubeObject, kw_only=True):
    """The infrastructure of a cluster on Nutanix."""

    spec: NutanixClusterSpec = msgspec.field(default_factory=NutanixClusterSpec)
    status: NutanixClusterStatus = NutanixClusterStatus()


class MachineCategory(Part):
    """A category of a machine."""

    key: str = ""
    value: str = ""


class MachineGpu(Part):
    """A GPU of a machine."""

    type: str
    device_id: int | None = msgspec.field(default=None, name="deviceID")
    name: str = ""


class NutanixMachineSpec(Part, kw_only=True):
    """One virtual machine."""

    provider_id: str = msgspec.field(default="", name="providerID")
    vcpus_per_socket: int = msgspec.field(default=0, name="vcpusPerSocket")
    vcpu_sockets: int = msgspec.field(default=0, name="vcpuSockets")
    memory_size: Annotated[int | str | None, Meta(extra_json_schema=INT_OR_STRING)] = None
    system_disk_size: Annotated[int | str | None, Meta(extra_json_schema=INT_OR_STRING)] = None
    image: ResourceIdentifier | None = None
    cluster: ResourceIdentifier | None = None
    subnet: Annotated[list[ResourceIdentifier], Meta(extra_json_schema=ATOMIC)] = []
    project: ResourceIdentifier | None = None
    boot_type: str = ""
    additional_categories: Annotated[list[MachineCategory], Meta(extra_json_schema=ATOMIC)] = []
    gpus: Annotated[list[MachineGpu], Meta(extra_json_schema=ATOMIC)] = []


class NutanixMachineStatus(Observed, frozen=True):
    """The status of a NutanixMachine."""

    ready: bool = False
    addresses: Annotated[list[MachineAddress], Meta(extra_json_schema=ATOMIC)] = []
    vm_uuid: str = msgspec.field(default="", name="vmUUID")
    conditions: Annotated[list[Condition], Meta(extra_json_schema=ATOMIC)] = []


@kind(
    Resource(GROUP, VERSION, "nutanixmachines", "NutanixMachine"),
    short_names=("nma",),
    categories=("cluster-api",),
    columns=(
        Column("Address", ".status.addresses[0].address", "string", "Address of the machine"),
        Column("Ready", ".status.ready", "boolean", "True if the machine is there"),
        Column("ProviderID", ".spec.providerID", "string", "The machine's ID at the infrastructure provider"),
    ),
    status=True,
    labels=CONTRACT,
    partly=True,
)
class NutanixMachine(KubeObject, kw_only=True):
    """The infrastructure of a machine on Nutanix."""

    spec: NutanixMachineSpec = msgspec.field(default_factory=NutanixMachineSpec)
    status: NutanixMachineStatus = NutanixMachineStatus()


class NutanixMachineTemplateResource(Part):
    """The template of new NutanixMachines."""

    spec: NutanixMachineSpec
    metadata: TemplateMeta | None = None


class NutanixMachineTemplateSpec(Part):
    """The spec of a NutanixMachineTemplate."""

    template: NutanixMachineTemplateResource


@kind(
    Resource(GROUP, VERSION, "nutanixmachinetemplates", "NutanixMachineTemplate"),
    short_names=("nmtmpl",),
    categories=("cluster-api",),
    columns=(AGE,),
    labels=CONTRACT,
    partly=True,
)
class NutanixMachineTemplate(KubeObject, kw_only=True):
    """The template of NutanixMachines; immutable, so other content gets another name."""

    spec: NutanixMachineTemplateSpec


KINDS: tuple[type[KubeObject], ...] = (NutanixCluster, NutanixMachine, NutanixMachineTemplate)

INFRASTRUCTURE = Infrastructure(
    NutanixCluster.resource,
    NutanixMachine.resource,
    NutanixMachineTemplate.resource,
    provider_id="nutanix://{name}",
    contract="v1beta1",
    image_fields=frozenset({"template.spec.image"}),
)
