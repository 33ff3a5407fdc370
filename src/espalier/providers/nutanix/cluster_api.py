"""`infrastructure.cluster.x-k8s.io/v1beta1`: the kinds of Cluster API's provider for Nutanix (CAPX).

Typed as far as we write or read them. It keeps contract v1beta1 of Cluster API.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.capi.cluster import Endpoint
from espalier.api.kinds import AGE, ATOMIC, INT_OR_STRING, Column, KubeObject, listing
from espalier.api.meta import Part
from espalier.clusterapi.infrastructures import infrastructure_kinds as contract
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure

VERSION = "v1beta1"
declared = contract.declares(VERSION, "v1beta1")


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


@declared(
    Column("ControlplaneEndpoint", ".spec.controlPlaneEndpoint.host", "string", "Address of the API server"),
    Column("Ready", ".status.ready", "boolean", "True if the infrastructure is there"),
    short_names=("ncl",),
    status=True,
)
class NutanixCluster(KubeObject, kw_only=True):
    """The infrastructure of a cluster on Nutanix."""

    spec: NutanixClusterSpec = msgspec.field(default_factory=NutanixClusterSpec)
    status: contract.OlderClusterStatus = contract.OlderClusterStatus()


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


class NutanixMachineStatus(contract.OlderMachineStatus, frozen=True):
    """The status of a NutanixMachine."""

    vm_uuid: str = msgspec.field(default="", name="vmUUID")


@declared(
    Column("Address", ".status.addresses[0].address", "string", "Address of the machine"),
    Column("Ready", ".status.ready", "boolean", "True if the machine is there"),
    contract.PROVIDER_ID_COLUMN,
    short_names=("nma",),
    status=True,
)
class NutanixMachine(KubeObject, kw_only=True):
    """The infrastructure of a machine on Nutanix."""

    spec: NutanixMachineSpec = msgspec.field(default_factory=NutanixMachineSpec)
    status: NutanixMachineStatus = NutanixMachineStatus()


@declared(AGE, short_names=("nmtmpl",))
class NutanixMachineTemplate(contract.MachineTemplate[NutanixMachineSpec], kw_only=True):
    """The template of NutanixMachines; immutable, so other content gets another name."""


KINDS: tuple[type[KubeObject], ...] = (NutanixCluster, NutanixMachine, NutanixMachineTemplate)

INFRASTRUCTURE = Infrastructure(
    NutanixCluster.resource,
    NutanixMachine.resource,
    NutanixMachineTemplate.resource,
    provider_id="nutanix://{name}",
    contract="v1beta1",
    image_fields=frozenset({"template.spec.image"}),
)
