"""`infrastructure.cluster.x-k8s.io/v1beta3`: the kinds of Cluster API's provider for CloudStack (CAPC).

Typed as far as we write or read them. It keeps contract v1beta1 of Cluster API.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.capi.cluster import Endpoint
from espalier.api.kinds import ATOMIC, Column, KubeObject
from espalier.api.meta import Part
from espalier.api.resource import Resource
from espalier.clusterapi.infrastructures import infrastructure_kinds as contract
from espalier.clusterapi.infrastructures.infrastructure import GROUP, Infrastructure

VERSION = "v1beta3"
declared = contract.declares(VERSION, "v1beta1")
FAILURE_DOMAIN = Resource(GROUP, VERSION, "cloudstackfailuredomains", "CloudStackFailureDomain")
"""The object that the provider creates for each failure domain of a CloudStackCluster; not used here."""


class AcsEndpoint(Part):
    """The Secret with the URL and the keys of an API."""

    name: str
    namespace: str


class DomainNetwork(Part):
    """A network of machines."""

    name: str
    id: str = ""


class DomainZone(Part):
    """A zone, and the network of the machines there."""

    network: DomainNetwork
    id: str = ""
    name: str = ""


class CloudStackFailureDomain(Part):
    """A zone of a CloudStack that fails as a unit."""

    name: str
    zone: DomainZone
    acs_endpoint: Annotated[AcsEndpoint, Meta(extra_json_schema={"x-kubernetes-map-type": "atomic"})]
    account: str = ""
    domain: str = ""


class CloudStackClusterSpec(Part):
    """The spec of a CloudStackCluster."""

    control_plane_endpoint: Endpoint | None = None
    failure_domains: Annotated[list[CloudStackFailureDomain], Meta(extra_json_schema=ATOMIC)] = []


@declared(categories=(), status=True)
class CloudStackCluster(KubeObject, kw_only=True):
    """The infrastructure of a cluster on CloudStack."""

    spec: CloudStackClusterSpec = msgspec.field(default_factory=CloudStackClusterSpec)
    status: contract.OlderClusterStatus = contract.OlderClusterStatus()


class Identifier(Part):
    """An object in CloudStack."""

    id: str = ""
    name: str = ""


class MachineDisk(Part):
    """A second disk of a machine."""

    mount_path: str
    device: str
    filesystem: str
    label: str
    id: str = ""
    name: str = ""
    custom_size_in_gb: int = msgspec.field(default=0, name="customSizeInGB")


class CloudStackMachineSpec(Part, kw_only=True):
    """One instance."""

    provider_id: str = msgspec.field(default="", name="providerID")
    offering: Identifier | None = None
    template: Identifier | None = None
    disk_offering: MachineDisk | None = None
    affinity: str = ""
    affinity_group_ids: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = msgspec.field(
        default_factory=list, name="affinityGroupIDs"
    )
    details: dict[str, str] = {}


class CloudStackMachineStatus(contract.OlderMachineStatus, frozen=True):
    """The status of a CloudStackMachine."""

    instance_state: str = ""


@declared(
    Column("InstanceState", ".status.instanceState", "string", "State of the instance"),
    Column("Ready", ".status.ready", "string", "True if the machine is there"),
    contract.PROVIDER_ID_COLUMN,
    short_names=("csm",),
    status=True,
)
class CloudStackMachine(KubeObject, kw_only=True):
    """The infrastructure of a machine on CloudStack."""

    spec: CloudStackMachineSpec = msgspec.field(default_factory=CloudStackMachineSpec)
    status: CloudStackMachineStatus = CloudStackMachineStatus()


@declared()
class CloudStackMachineTemplate(contract.MachineTemplate[CloudStackMachineSpec], kw_only=True):
    """The template of CloudStackMachines; immutable, so other content gets another name."""


KINDS: tuple[type[KubeObject], ...] = (CloudStackCluster, CloudStackMachine, CloudStackMachineTemplate)

INFRASTRUCTURE = Infrastructure(
    CloudStackCluster.resource,
    CloudStackMachine.resource,
    CloudStackMachineTemplate.resource,
    provider_id="cloudstack:///{name}",
    contract="v1beta1",
    image_fields=frozenset({"template.spec.template"}),
)
