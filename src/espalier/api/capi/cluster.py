"""`cluster.x-k8s.io/v1beta2 Cluster`, and the words that all Cluster API kinds share.

Typed as far as we write or read it; the rest of a foreign object survives because we write by server-side apply.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.definitions.reference import Annotation, Label, Writer
from espalier.api.kinds import AGE, ATOMIC, Column, KindsOf, KubeObject, listing
from espalier.api.meta import Condition, Observed, Part

GROUP = "cluster.x-k8s.io"
VERSION = "v1beta2"

CLUSTER_NAME_LABEL: Annotated[
    str,
    Label(
        "objects of Cluster API, Secrets",
        Writer.MANAGER,
        "Name of the Cluster of Cluster API to which an object belongs.",
    ),
] = "cluster.x-k8s.io/cluster-name"

PAUSED_ANNOTATION: Annotated[
    str,
    Annotation(
        "objects of Cluster API",
        Writer.MANAGER,
        "Cluster API does not reconcile the object. The manager sets `in-place-upgrade` and "
        "`external-etcd-changes`, and removes them after the change; any other value is a user's and stays.",
        "reason `ClusterAPIPaused`: remove a user's value",
    ),
] = "cluster.x-k8s.io/paused"
SKIP_REMEDIATION_ANNOTATION: Annotated[
    str,
    Annotation(
        "Machine", Writer.MANAGER, "No MachineHealthCheck replaces the machine while its node is upgraded in place."
    ),
] = "cluster.x-k8s.io/skip-remediation"
SKIP_COREDNS_ANNOTATION: Annotated[
    str,
    Annotation(
        "KubeadmControlPlane", Writer.MANAGER, "CoreDNS is not changed while an upgrade of Kubernetes is reverted."
    ),
] = "controlplane.cluster.x-k8s.io/skip-coredns"
DELETE_MACHINE_ANNOTATION: Annotated[
    str,
    Annotation(
        "Machine",
        Writer.USER,
        "The machine is deleted first when its group is scaled down.",
        "set it to choose which machine is deleted",
    ),
] = "cluster.x-k8s.io/delete-machine"
WATCH_FILTER_LABEL: Annotated[
    str,
    Label(
        "Cluster, objects of Cluster API",
        Writer.USER,
        "Selects the manager (`espalier manager --watch-filter`). Objects created for a Cluster inherit it.",
    ),
] = "cluster.x-k8s.io/watch-filter"
CONTRACT = {"cluster.x-k8s.io/v1beta2": "v1beta2"}

core_kind = KindsOf(GROUP, VERSION, ("cluster-api",), CONTRACT, status=True, partly=True)
"""Label of a CRD: under which versions it serves the v1beta2 contract. Cluster API resolves references by it."""


class ContractReference(Part):
    """Reference to an object of the same namespace; its version is found through the contract label of its CRD."""

    api_group: str
    kind: str
    name: str


class ReadinessGate(Part):
    """A condition that also counts for readiness."""

    condition_type: str
    polarity: str = ""


class VersionCount(Observed, frozen=True):
    """Number of machines of a version."""

    version: str
    replicas: int


class NetworkRanges(Part):
    """Address ranges in CIDR notation."""

    cidr_blocks: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []


class ClusterNetwork(Part):
    """Networks inside the cluster."""

    pods: NetworkRanges | None = None
    services: NetworkRanges | None = None
    service_domain: str = ""
    api_server_port: int | None = None


class Endpoint(Part):
    """Address of an API server."""

    host: str = ""
    port: int = 0

    @property
    def url(self) -> str:
        """As a kubeconfig names it."""
        return f"https://[{self.host}]:{self.port}" if ":" in self.host else f"https://{self.host}:{self.port}"


class ClusterSpec(Part):
    """Desired state of a cluster."""

    paused: bool | None = None
    cluster_network: ClusterNetwork | None = None
    control_plane_endpoint: Endpoint | None = None
    control_plane_ref: ContractReference | None = None
    infrastructure_ref: ContractReference | None = None
    managed_external_etcd_ref: ContractReference | None = None
    """Of EKS Anywhere's build alone."""


class ClusterInitialization(Observed, frozen=True):
    """Steps that happen once in a cluster's life."""

    infrastructure_provisioned: bool = False
    control_plane_initialized: bool = False


class MachineCounts(Observed, frozen=True):
    """Numbers of machines."""

    desired_replicas: int | None = None
    replicas: int | None = None
    up_to_date_replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    versions: Annotated[list[VersionCount], Meta(extra_json_schema=listing("version"))] = []


class FailureDomain(Part):
    """A part of the infrastructure that fails as a whole."""

    name: str
    control_plane: bool | None = None
    attributes: dict[str, str] = {}


class ClusterStatus(Observed, frozen=True):
    """Observed state of a cluster."""

    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []
    initialization: ClusterInitialization = ClusterInitialization()
    control_plane: MachineCounts | None = None
    workers: MachineCounts | None = None
    failure_domains: Annotated[list[FailureDomain], Meta(extra_json_schema=listing("name"))] = []
    managed_external_etcd_initialized: bool | None = None
    managed_external_etcd_ready: bool | None = None
    phase: str = ""
    observed_generation: int = 0


@core_kind(
    Column("Available", '.status.conditions[?(@.type=="Available")].status', "string", "Ready for use"),
    Column("CP Desired", ".status.controlPlane.desiredReplicas", "integer", "Control plane machines asked for"),
    Column("CP Available", ".status.controlPlane.availableReplicas", "integer", "Control plane machines available"),
    Column("CP Up-to-date", ".status.controlPlane.upToDateReplicas", "integer", "Control plane machines up to date"),
    Column("W Desired", ".status.workers.desiredReplicas", "integer", "Worker machines asked for"),
    Column("W Available", ".status.workers.availableReplicas", "integer", "Worker machines available"),
    Column("W Up-to-date", ".status.workers.upToDateReplicas", "integer", "Worker machines up to date"),
    Column("Paused", '.status.conditions[?(@.type=="Paused")].status', "string", "Paused: not reconciled", 10),
    Column("Phase", ".status.phase", "string", "Phase of the cluster"),
    AGE,
    short_names=("cl",),
)
class Cluster(KubeObject):
    """A cluster of Cluster API."""

    spec: ClusterSpec = msgspec.field(default_factory=ClusterSpec)
    status: ClusterStatus = ClusterStatus()
