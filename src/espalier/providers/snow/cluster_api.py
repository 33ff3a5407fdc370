"""`infrastructure.cluster.x-k8s.io/v1beta1`: the kinds of Cluster API's provider for Snow (CAPAS).

Typed as far as we write or read them. It keeps contract v1beta1 of Cluster API, and stores what is written as v1beta2.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.capi.cluster import Endpoint
from espalier.api.kinds import AGE, ATOMIC, Column, KubeObject
from espalier.api.meta import Part
from espalier.clusterapi.infrastructures import infrastructure_kinds as contract
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure

VERSION = "v1beta1"
declared = contract.declares(VERSION, "v1beta1")


class AWSSnowClusterSpec(Part):
    """The spec of an AWSSnowCluster."""

    region: str = ""
    control_plane_endpoint: Endpoint | None = None
    identity_ref: contract.LocalReference | None = None


@declared(
    Column("Endpoint", ".spec.controlPlaneEndpoint.host", "string", "Address of the API server"),
    Column("Ready", ".status.ready", "boolean", "True if the infrastructure is there"),
    AGE,
    status=True,
)
class AWSSnowCluster(KubeObject, kw_only=True):
    """The infrastructure of a cluster on Snow."""

    spec: AWSSnowClusterSpec = msgspec.field(default_factory=AWSSnowClusterSpec)
    status: contract.OlderClusterStatus = contract.OlderClusterStatus()


class AWSResource(Part):
    """A resource of a device."""

    id: str


class CloudInit(Part):
    """The delivery of bootstrap data to machines."""

    insecure_skip_secrets_manager: bool | None = None


class MachineVolume(Part):
    """A disk of a machine."""

    size: int
    device_name: str = ""
    type: str = ""


class MachineInterface(Part):
    """A network interface of a machine."""

    index: int | None = None
    vlan_id: int | None = msgspec.field(default=None, name="vlanID")
    dhcp: bool | None = None
    primary: bool | None = None
    ip_pool: Annotated[contract.LocalReference | None, Meta(extra_json_schema={"x-kubernetes-map-type": "atomic"})] = (
        None
    )


class MachineNetwork(Part):
    """Network interfaces of a machine."""

    direct_network_interfaces: Annotated[list[MachineInterface], Meta(extra_json_schema=ATOMIC)] = []


class AWSSnowMachineSpec(Part):
    """The spec of an AWSSnowMachine."""

    provider_id: str = msgspec.field(default="", name="providerID")
    ami: AWSResource | None = None
    cloud_init: CloudInit | None = None
    containers_volume: MachineVolume | None = None
    devices: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    iam_instance_profile: str = ""
    image_lookup_base_os: str = msgspec.field(default="", name="imageLookupBaseOS")
    instance_type: str = ""
    network: MachineNetwork | None = None
    non_root_volumes: Annotated[list[MachineVolume], Meta(extra_json_schema=ATOMIC)] = []
    os_family: str = ""
    physical_network_connector_type: str = ""
    ssh_key_name: str = ""


class AWSSnowMachineStatus(contract.OlderMachineStatus, frozen=True):
    """The status of an AWSSnowMachine."""

    instance_state: str = ""


@declared(
    Column("Address", ".status.addresses[0].address", "string", "Address of the machine"),
    Column("Ready", ".status.ready", "boolean", "True if the machine is there"),
    contract.PROVIDER_ID_COLUMN,
    status=True,
)
class AWSSnowMachine(KubeObject, kw_only=True):
    """The infrastructure of a machine on Snow."""

    spec: AWSSnowMachineSpec = msgspec.field(default_factory=AWSSnowMachineSpec)
    status: AWSSnowMachineStatus = AWSSnowMachineStatus()


@declared(AGE, short_names=("awssmt",))
class AWSSnowMachineTemplate(contract.MachineTemplate[AWSSnowMachineSpec], kw_only=True):
    """The template of AWSSnowMachines; immutable, so other content gets another name."""


class AddressRange(Part):
    """A range of addresses."""

    ip_start: str
    ip_end: str
    subnet: str
    gateway: str


class AWSSnowIPPoolSpec(Part):
    """The spec of an AWSSnowIPPool."""

    pools: Annotated[list[AddressRange], Meta(extra_json_schema=ATOMIC)] = []


@declared(AGE, status=True)
class AWSSnowIPPool(KubeObject, kw_only=True):
    """Addresses for machines of a cluster."""

    spec: AWSSnowIPPoolSpec = msgspec.field(default_factory=AWSSnowIPPoolSpec)


KINDS: tuple[type[KubeObject], ...] = (AWSSnowCluster, AWSSnowMachine, AWSSnowMachineTemplate, AWSSnowIPPool)

INFRASTRUCTURE = Infrastructure(
    AWSSnowCluster.resource,
    AWSSnowMachine.resource,
    AWSSnowMachineTemplate.resource,
    provider_id="aws-snow:////{name}",
    contract="v1beta1",
    image_fields=frozenset({"template.spec.ami"}),
)
