"""`cluster.x-k8s.io/v1beta2`: Machine, MachineSet, MachineDeployment, MachineHealthCheck.

Typed as far as we write or read them; the rest of a foreign object survives because we write by server-side apply.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from espalier.api.capi.cluster import (
    ContractReference,
    ReadinessGate,
    VersionCount,
    core_kind,
)
from espalier.api.core import Taint
from espalier.api.kinds import (
    AGE,
    ATOMIC,
    INT_OR_STRING,
    LARGEST_INT32,
    PRESERVE,
    Column,
    KubeObject,
    Scale,
    listing,
)
from espalier.api.label_selectors import AtomicSelector, LabelSelector
from espalier.api.meta import Condition, Observed, Part

CLUSTER_COLUMN = Column("Cluster", ".spec.clusterName", "string", "Cluster the object belongs to")
COUNT_COLUMNS = (
    Column("Desired", ".spec.replicas", "integer", "Machines asked for"),
    Column("Current", ".status.replicas", "integer", "Machines that exist"),
    Column("Ready", ".status.readyReplicas", "integer", "Machines that are ready"),
    Column("Available", ".status.availableReplicas", "integer", "Machines that are available"),
    Column("Up-to-date", ".status.upToDateReplicas", "integer", "Machines that are up to date"),
)


class TemplateMeta(Part):
    """Labels and annotations that a template gives to what is made of it."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class Bootstrap(Part):
    """Source of a machine's bootstrap data."""

    config_ref: ContractReference | None = None
    data_secret_name: str | None = None


class MachineDeletion(Part):
    """Limits of the steps of a machine's deletion, in seconds; 0 means no limit."""

    node_drain_timeout_seconds: int | None = None
    node_volume_detach_timeout_seconds: int | None = None
    node_deletion_timeout_seconds: int | None = None


class MachineSpec(Part):
    """Desired state of a machine."""

    cluster_name: Annotated[str, Meta(min_length=1)]
    bootstrap: Bootstrap
    infrastructure_ref: ContractReference
    version: str = ""
    provider_id: Annotated[str, Meta(description="The machine's ID at the infrastructure provider.")] = msgspec.field(
        default="", name="providerID"
    )
    failure_domain: str = ""
    min_ready_seconds: int | None = None
    readiness_gates: Annotated[list[ReadinessGate], Meta(extra_json_schema=listing("conditionType"))] = []
    deletion: MachineDeletion | None = None
    taints: Annotated[list[Taint], Meta(extra_json_schema=listing("key", "effect"))] = []


class MachineAddress(Part):
    """An address of a machine: InternalIP, ExternalIP, Hostname, InternalDNS or ExternalDNS."""

    type: str
    address: str


class MachineInitialization(Observed, frozen=True):
    """Steps that happen once in a machine's life."""

    infrastructure_provisioned: bool = False
    bootstrap_data_secret_created: bool = False


class NodeReference(Observed, frozen=True):
    """The node that a machine became."""

    name: str = ""


class MachineDeletionStatus(Observed, frozen=True):
    """Times of the steps of a machine's deletion."""

    node_drain_start_time: str = ""


class MachineStatus(Observed, frozen=True):
    """Observed state of a machine."""

    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []
    initialization: MachineInitialization = MachineInitialization()
    node_ref: NodeReference | None = None
    node_info: Annotated[dict[str, Any], Meta(extra_json_schema=PRESERVE)] = {}
    addresses: Annotated[list[MachineAddress], Meta(extra_json_schema=ATOMIC)] = []
    phase: str = ""
    certificates_expiry_date: str | None = None
    deletion: MachineDeletionStatus | None = None
    failure_domain: str = ""
    observed_generation: int = 0
    last_updated: str | None = None


@core_kind(
    CLUSTER_COLUMN,
    Column("Node Name", ".status.nodeRef.name", "string", "Node that the machine became"),
    Column("Provider ID", ".spec.providerID", "string", "The machine's ID at the infrastructure provider", 10),
    Column("Ready", '.status.conditions[?(@.type=="Ready")].status', "string", "True if the machine is ready"),
    Column("Available", '.status.conditions[?(@.type=="Available")].status', "string", "Ready for long enough"),
    Column("Up-to-date", '.status.conditions[?(@.type=="UpToDate")].status', "string", "As its owner wants it"),
    Column("Phase", ".status.phase", "string", "Phase of the machine"),
    AGE,
    Column("Version", ".spec.version", "string", "Kubernetes version"),
    short_names=("ma",),
)
class Machine(KubeObject, kw_only=True):
    """One machine of a cluster."""

    spec: MachineSpec
    status: MachineStatus = MachineStatus()


class MachineTemplate(Part):
    """Template of new machines."""

    spec: MachineSpec
    metadata: TemplateMeta = msgspec.field(default_factory=TemplateMeta)


class MachineNaming(Part):
    """Naming of new machines."""

    template: str = ""


class SetDeletion(Part):
    """Order of deletion on scale-in: Random, Newest or Oldest."""

    order: str = ""


class RollingUpdate(Part):
    """Limits of a rolling update: numbers or percentages."""

    max_unavailable: Annotated[int | str | None, Meta(extra_json_schema=INT_OR_STRING)] = None
    max_surge: Annotated[int | str | None, Meta(extra_json_schema=INT_OR_STRING)] = None


class RolloutStrategy(Part):
    """Strategy for replacing machines: RollingUpdate or OnDelete."""

    type: str = ""
    rolling_update: RollingUpdate | None = None


class DeploymentRollout(Part):
    """Rollout of machines."""

    after: str | None = None
    strategy: RolloutStrategy | None = None


class DeploymentRemediation(Part):
    """Limit of remediations at once."""

    max_in_flight: Annotated[int | str | None, Meta(extra_json_schema=INT_OR_STRING)] = None


class MachineSetSpec(Part):
    """A number of equal machines."""

    cluster_name: Annotated[str, Meta(min_length=1)]
    selector: AtomicSelector
    template: MachineTemplate
    replicas: int | None = None
    machine_naming: MachineNaming | None = None
    deletion: SetDeletion | None = None


class MachineSetStatus(Observed, frozen=True):
    """Observed state of a set's machines."""

    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []
    selector: str = ""
    replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    up_to_date_replicas: int | None = None
    versions: Annotated[list[VersionCount], Meta(extra_json_schema=listing("version"))] = []
    observed_generation: int = 0


@core_kind(
    CLUSTER_COLUMN,
    *COUNT_COLUMNS,
    AGE,
    Column("Version", ".spec.template.spec.version", "string", "Kubernetes version"),
    short_names=("ms",),
    scale=Scale(),
)
class MachineSet(KubeObject, kw_only=True):
    """A number of equal machines."""

    spec: MachineSetSpec
    status: MachineSetStatus = MachineSetStatus()


class MachineDeploymentSpec(Part):
    """A number of machines, replaced when their template changes."""

    cluster_name: Annotated[str, Meta(min_length=1)]
    template: MachineTemplate
    selector: AtomicSelector = msgspec.field(default_factory=LabelSelector)
    replicas: int | None = None
    rollout: DeploymentRollout | None = None
    machine_naming: MachineNaming | None = None
    remediation: DeploymentRemediation | None = None
    deletion: SetDeletion | None = None
    paused: bool | None = None


class MachineDeploymentStatus(MachineSetStatus, frozen=True):
    """Observed state of a deployment's machines."""

    phase: str = ""


@core_kind(
    CLUSTER_COLUMN,
    Column("Available", '.status.conditions[?(@.type=="Available")].status', "string", "Enough machines for use"),
    *(column if column.name != "Available" else column._replace(name="Available Machines") for column in COUNT_COLUMNS),
    Column("Phase", ".status.phase", "string", "Phase of the deployment"),
    AGE,
    Column("Version", ".spec.template.spec.version", "string", "Kubernetes version"),
    short_names=("md",),
    scale=Scale(),
)
class MachineDeployment(KubeObject, kw_only=True):
    """A number of machines, replaced when their template changes."""

    spec: MachineDeploymentSpec
    status: MachineDeploymentStatus = MachineDeploymentStatus()


Seconds = Annotated[int, Meta(extra_json_schema={"format": "int32", "minimum": 0, "maximum": LARGEST_INT32})]


class UnhealthyNodeCondition(Part):
    """A node with this condition for so long is unhealthy."""

    type: str
    status: str
    timeout_seconds: Seconds


class HealthChecks(Part):
    """Criteria of an unhealthy machine."""

    node_startup_timeout_seconds: Seconds | None = None
    unhealthy_node_conditions: Annotated[list[UnhealthyNodeCondition], Meta(extra_json_schema=ATOMIC)] = []


class RemediationTrigger(Part):
    """Limits of remediation: the most unhealthy machines, or a range of their number."""

    unhealthy_less_than_or_equal_to: Annotated[int | str | None, Meta(extra_json_schema=INT_OR_STRING)] = None
    unhealthy_in_range: str = ""


class HealthCheckRemediation(Part):
    """Remediation of unhealthy machines."""

    trigger_if: RemediationTrigger | None = None
    template_ref: Annotated[dict[str, Any] | None, Meta(extra_json_schema=PRESERVE)] = None


class MachineHealthCheckSpec(Part):
    """Selector, checks and remediation."""

    cluster_name: Annotated[str, Meta(min_length=1)]
    selector: AtomicSelector
    checks: HealthChecks | None = None
    remediation: HealthCheckRemediation | None = None


class MachineHealthCheckStatus(Observed, frozen=True):
    """Observed state of a health check."""

    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []
    expected_machines: int | None = None
    current_healthy: int | None = None
    remediations_allowed: int | None = None
    targets: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    observed_generation: int = 0


@core_kind(
    CLUSTER_COLUMN,
    Column("Replicas", ".status.expectedMachines", "integer", "Machines watched over"),
    Column("Healthy", ".status.currentHealthy", "integer", "Machines that are healthy"),
    AGE,
    short_names=("mhc", "mhcs"),
)
class MachineHealthCheck(KubeObject, kw_only=True):
    """Watches over machines and has unhealthy ones replaced."""

    spec: MachineHealthCheckSpec
    status: MachineHealthCheckStatus = MachineHealthCheckStatus()
