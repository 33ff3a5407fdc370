"""`machine.sapcloud.io/v1alpha1`: the kinds of the machine controller manager.

Typed as far as we write or read them; the rest of a foreign object survives because we write by server-side apply.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from espalier.api.capi.machine import RolloutStrategy
from espalier.api.definitions.reference import Finalizer, Writer
from espalier.api.gardener.vocabulary.operations import RawExtension, SecretReference, Time
from espalier.api.kinds import AGE, ATOMIC, PRESERVE, Column, KindsOf, KubeObject, Scale
from espalier.api.label_selectors import LabelSelector
from espalier.api.meta import ABSENT, Observed, Part

GROUP = "machine.sapcloud.io"
VERSION = "v1alpha1"

declared = KindsOf(GROUP, VERSION, status=True, partly=True)

FINALIZER: Annotated[
    str,
    Finalizer(
        "Machine",
        Writer.MACHINES,
        "Keeps the Machine until its virtual machine is deleted.",
        "without it the virtual machine stays for five minutes, and is then deleted as an orphan",
    ),
] = "machine.sapcloud.io/machine-controller"
GARDENERS_FINALIZER: Annotated[
    str,
    Finalizer(
        "Machine, MachineSet, MachineDeployment, MachineClass",
        Writer.MACHINES,
        "Set by Gardener's machine controller manager, on Secrets that classes name "
        "`machine.sapcloud.io/machine-controller`.",
        "without it virtual machines may stay behind",
    ),
] = "machine.sapcloud.io/machine-controller-manager"
FINALIZERS = (FINALIZER, GARDENERS_FINALIZER)
"""All that machine controller managers set."""

COUNT_COLUMNS = (
    Column("Ready", ".status.readyReplicas", "integer", "Machines that are ready"),
    Column("Desired", ".spec.replicas", "integer", "Machines asked for"),
)


class NodeTemplate(Part):
    """Facts of machines for the autoscaler: capacity, type, region, zone."""

    capacity: dict[str, int | str] = {}
    instance_type: str = ""
    region: str = ""
    zone: str = ""
    architecture: str | None = None


@declared(AGE, plural="machineclasses", short_names=("mcc",), status=False)
class MachineClass(KubeObject):
    """All that a provider needs to make a machine. It has no spec: these are fields of the object."""

    provider: str = ""
    provider_spec: Annotated[RawExtension, Meta(description="Settings specific to the provider.")] = ABSENT
    secret_ref: Annotated[SecretReference | None, Meta(description="User data.")] = None
    credentials_secret_ref: SecretReference | None = None
    node_template: NodeTemplate | None = None


class ClassReference(Part):
    """A machine's class. Gardener's machine controller manager writes empty ones where it has none to name."""

    kind: str = ""
    name: str = ""
    api_group: str = ""


class NodeMeta(Part):
    """Labels, annotations and taints of the node that a machine becomes."""

    metadata: Annotated[dict[str, Any], Meta(extra_json_schema=PRESERVE)] = {}
    spec: Annotated[dict[str, Any], Meta(extra_json_schema=PRESERVE)] = {}


class MachineSpec(Part):
    """Desired state of a machine."""

    class_: ClassReference = msgspec.field(name="class")
    provider_id: Annotated[str, Meta(description="The provider's name of the machine.")] = msgspec.field(
        default="", name="providerID"
    )
    node_template: NodeMeta | None = msgspec.field(default=None, name="nodeTemplate")


class CurrentStatus(Observed, frozen=True):
    """Phase of a machine: Pending, Available, Running, Terminating, Unknown, Failed, CrashLoopBackOff."""

    phase: str = ""
    timeout_active: bool | None = None
    last_update_time: Time | None = None


class MachineOperation(Observed, frozen=True):
    """The last thing that was done to a machine."""

    type: str = ""
    state: str = ""
    description: str = ""
    error_code: str = ""
    last_update_time: Time | None = None


class MachineStatus(Observed, frozen=True):
    """Observed state of a machine."""

    current_status: CurrentStatus | None = None
    last_operation: MachineOperation | None = None
    last_known_state: str = ""
    conditions: Annotated[list[dict[str, Any]], Meta(extra_json_schema=ATOMIC)] = []
    addresses: Annotated[list[dict[str, Any]], Meta(extra_json_schema=ATOMIC)] = []


@declared(
    Column("Status", ".status.currentStatus.phase", "string", "Phase of the machine"),
    AGE,
    Column("Node", ".metadata.labels.node", "string", "Node that the machine became"),
    Column("Provider ID", ".spec.providerID", "string", "The provider's name of the machine", 1),
    short_names=("mc",),
)
class Machine(KubeObject, kw_only=True):
    """One machine of a shoot."""

    spec: MachineSpec
    status: MachineStatus = MachineStatus()


class TemplateMeta(Part):
    """Labels and annotations that a template gives to what is made of it."""

    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class MachineTemplate(Part):
    """Template of new machines."""

    spec: MachineSpec
    metadata: TemplateMeta = msgspec.field(default_factory=TemplateMeta)


class MachineSetSpec(Part):
    """A number of equal machines."""

    template: MachineTemplate
    selector: LabelSelector = msgspec.field(default_factory=LabelSelector)
    replicas: int = 0
    machine_class: ClassReference | None = None
    min_ready_seconds: int | None = None


class MachineSetStatus(Observed, frozen=True):
    """Observed state of a set's machines."""

    conditions: Annotated[list[dict[str, Any]], Meta(extra_json_schema=ATOMIC)] = []
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    fully_labeled_replicas: int = 0
    observed_generation: int = 0


@declared(
    *COUNT_COLUMNS,
    Column("Current", ".status.replicas", "integer", "Machines that exist"),
    AGE,
    short_names=("mcs",),
    scale=Scale(),
)
class MachineSet(KubeObject, kw_only=True):
    """A number of equal machines."""

    spec: MachineSetSpec
    status: MachineSetStatus = MachineSetStatus()


class MachineDeploymentSpec(Part):
    """A number of machines, replaced when their template changes."""

    template: MachineTemplate
    selector: LabelSelector = msgspec.field(default_factory=LabelSelector)
    replicas: int = 0
    strategy: RolloutStrategy | None = None
    min_ready_seconds: int | None = None
    paused: bool | None = None


class MachineDeploymentStatus(Observed, frozen=True):
    """Observed state of a deployment's machines."""

    conditions: Annotated[list[dict[str, Any]], Meta(extra_json_schema=ATOMIC)] = []
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    updated_replicas: int = 0
    unavailable_replicas: int = 0
    observed_generation: int = 0


@declared(
    *COUNT_COLUMNS,
    Column("Up-to-date", ".status.updatedReplicas", "integer", "Machines that are up to date"),
    Column("Available", ".status.availableReplicas", "integer", "Machines that are available"),
    AGE,
    short_names=("mcd",),
    scale=Scale(),
)
class MachineDeployment(KubeObject, kw_only=True):
    """A number of machines, replaced when their template changes."""

    spec: MachineDeploymentSpec
    status: MachineDeploymentStatus = MachineDeploymentStatus()
