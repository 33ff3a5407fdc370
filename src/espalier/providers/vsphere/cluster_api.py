"""`infrastructure.cluster.x-k8s.io/v1beta2`: the kinds of Cluster API's provider for vSphere (CAPV).

Typed as far as we write or read them. Decision 0095 says why it is v1beta2, which the provider stores.
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

VERSION = "v1beta2"
declared = contract.declares(VERSION, "v1beta2")


class VSphereClusterSpec(Part):
    """The spec of a VSphereCluster."""

    server: str = ""
    thumbprint: str = ""
    identity_ref: contract.LocalReference | None = None
    control_plane_endpoint: Endpoint | None = None


@declared(
    contract.CLUSTER_COLUMN,
    Column("Server", ".spec.server", "string", "vCenter"),
    Column("ControlPlane Endpoint", ".spec.controlPlaneEndpoint.host", "string", "Address of the API server"),
    AGE,
    status=True,
)
class VSphereCluster(KubeObject, kw_only=True):
    """The infrastructure of a cluster on vSphere."""

    spec: VSphereClusterSpec = msgspec.field(default_factory=VSphereClusterSpec)
    status: contract.ClusterStatus = contract.ClusterStatus()


class NetworkDevice(Part):
    """A network card of a machine."""

    network_name: str
    dhcp4: bool | None = None


class MachineNetwork(Part):
    """The network cards of a machine."""

    devices: Annotated[list[NetworkDevice], Meta(extra_json_schema=ATOMIC)] = []


class VSphereMachineSpec(Part):
    """One virtual machine."""

    provider_id: str = msgspec.field(default="", name="providerID")
    failure_domain: str = ""
    server: str = ""
    thumbprint: str = ""
    datacenter: str = ""
    datastore: str = ""
    folder: str = ""
    resource_pool: str = ""
    storage_policy_name: str = ""
    template: str = ""
    clone_mode: str = ""
    num_cpus: int | None = msgspec.field(default=None, name="numCPUs")
    memory_mi_b: int | None = msgspec.field(default=None, name="memoryMiB")
    disk_gi_b: int | None = msgspec.field(default=None, name="diskGiB")
    network: MachineNetwork | None = None
    tag_ids: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = msgspec.field(default_factory=list, name="tagIDs")


@declared(
    contract.CLUSTER_COLUMN,
    Column("Provider ID", ".spec.providerID", "string", "The machine's ID at the infrastructure provider", 10),
    Column("Template", ".spec.template", "string", "Template that it was cloned from", 10),
    AGE,
    status=True,
)
class VSphereMachine(KubeObject, kw_only=True):
    """The infrastructure of a machine on vSphere."""

    spec: VSphereMachineSpec = msgspec.field(default_factory=VSphereMachineSpec)
    status: contract.MachineStatus = contract.MachineStatus()


@declared(AGE)
class VSphereMachineTemplate(contract.MachineTemplate[VSphereMachineSpec], kw_only=True):
    """The template of VSphereMachines; immutable, so other content gets another name."""


class TaggedPlace(Part):
    """A region or zone, named by a tag of the vCenter."""

    name: str
    type: str
    tag_category: str


class Topology(Part):
    """The objects that machines in a failure domain use."""

    datacenter: str
    compute_cluster: str = ""
    datastore: str = ""
    networks: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []


class VSphereFailureDomainSpec(Part):
    """The spec of a VSphereFailureDomain."""

    region: TaggedPlace
    zone: TaggedPlace
    topology: Topology


@declared(AGE, namespaced=False)
class VSphereFailureDomain(KubeObject, kw_only=True):
    """A part of a vCenter that fails as a unit."""

    spec: VSphereFailureDomainSpec


class PlacementConstraint(Part):
    """The resource pool and folder for machines in a failure domain."""

    folder: str = ""
    resource_pool: str = ""


class VSphereDeploymentZoneSpec(Part):
    """The spec of a VSphereDeploymentZone."""

    server: str = ""
    failure_domain: str = ""
    placement_constraint: PlacementConstraint | None = None


@declared(AGE, status=True, namespaced=False)
class VSphereDeploymentZone(KubeObject, kw_only=True):
    """A failure domain for machines of clusters, by the name that their `failureDomain` has."""

    spec: VSphereDeploymentZoneSpec


KINDS: tuple[type[KubeObject], ...] = (
    VSphereCluster,
    VSphereMachine,
    VSphereMachineTemplate,
    VSphereFailureDomain,
    VSphereDeploymentZone,
)

INFRASTRUCTURE = Infrastructure(
    VSphereCluster.resource,
    VSphereMachine.resource,
    VSphereMachineTemplate.resource,
    provider_id="vsphere://{name}",
    image_fields=frozenset({"template.spec.template"}),
    provisioning_fields=frozenset({"template.spec.cloneMode"}),
)
