"""ControlPlaneUpgrade, MachineDeploymentUpgrade and NodeUpgrade: in-place upgrades of machines."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from espalier.api import conditions as condition_list
from espalier.api.definitions.reference import ConditionProse
from espalier.api.eksa.declaring import eksa_kind
from espalier.api.eksa.vocabulary import reasons
from espalier.api.eksa.vocabulary.upgrade_keys import IN_PLACE_REFUSED
from espalier.api.kinds import AGE, ATOMIC, Column, KubeObject, Rule, listing
from espalier.api.meta import Condition, ObjectMeta, Observed, Part
from espalier.api.text import patterns

UPDATE_IN_PROGRESS = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress"
"""On a Machine while Cluster API upgrades it in place through hooks."""

RUNTIME_EXTENSION = "espalier-in-place"
"""The ExtensionConfig by which Cluster API finds the hooks."""


class FrontEnd(StrEnum):
    """The way to keep Cluster API from replacing machines that are upgraded in place."""

    ANNOTATIONS = "annotations"
    """Cluster API is paused; afterwards its objects show no pending rollout. Any version, any number of machines."""
    HOOKS = "hooks"
    """Cluster API calls our runtime hooks, and sequences nodes itself: version 1.12 with its InPlaceUpdates gate."""


def refusal(generation: int, sentence: str) -> str:
    """Value of the annotation for a change that can't be made in place."""
    return f"{generation}: {sentence}"


def refused(metadata: ObjectMeta) -> str:
    """Reason why the current generation can't be applied in place; empty if there is none."""
    generation, _, sentence = metadata.annotations.get(IN_PLACE_REFUSED, "").partition(": ")
    return sentence if generation == str(metadata.generation) else ""


PAUSED_FOR_UPGRADE = "in-place-upgrade"
"""Value of Cluster API's paused annotation when an upgrade set it; only such a pause ends with the upgrade."""

LAST_BEFORE_KUBEADM = "CNIPluginsUpgraded"
"""Condition of a NodeUpgrade: the next step begins to move a control plane node to the new version."""

PROGRESSING: Annotated[
    str,
    ConditionProse(
        (
            reasons.GROUP,
            reasons.NODE,
        ),
        "True: in progress, or done. Unknown: waiting for something else. False: somebody has to act.",
    ),
] = "Progressing"
"""Controllers decide by this; reasons are for people."""

ACCEPTED: Annotated[
    str,
    ConditionProse(
        (
            reasons.GROUP,
            reasons.NODE,
        ),
        "False: the change can't be made in place.",
    ),
] = "Accepted"

MOST_MACHINES = 5000

NodeType = Literal["ControlPlane", "Worker"]

KubernetesVersion = Annotated[
    str,
    Meta(
        pattern=patterns.DISTRIBUTED_VERSION, max_length=128, description="Kubernetes version, like v1.36.3-eks-1-36-1."
    ),
]
EtcdVersion = Annotated[
    Annotated[str, Meta(pattern=patterns.IMAGE_TAG, max_length=128)] | None,
    Meta(description="Tag of the image of etcd, like v3.6.6."),
]

NEVER_CHANGES = Rule("self == oldSelf", "the spec of an upgrade is immutable; delete the upgrade and create another")


class ObjectReference(Part):
    """Reference to an object, as core/v1 has it."""

    name: Annotated[str, Meta(min_length=1, max_length=253, description="Name of the object.")]
    namespace: Annotated[
        str, Meta(max_length=253, description="Namespace of the object; must be that of the upgrade.")
    ] = ""
    kind: Annotated[str, Meta(max_length=253, description="Kind of the object.")] = ""
    api_version: Annotated[str, Meta(max_length=253, description="Version of the API of the object.")] = ""
    uid: Annotated[str, Meta(max_length=128, description="UID of the object.")] = ""
    resource_version: Annotated[str, Meta(max_length=128, description="Ignored.")] = ""
    field_path: Annotated[str, Meta(max_length=1024, description="Ignored.")] = ""


Machines = Annotated[
    Annotated[list[ObjectReference], Meta(max_length=MOST_MACHINES)],
    Meta(description="Machines to upgrade, in this order.", extra_json_schema=ATOMIC),
]
Conditions = Annotated[
    list[Condition], Meta(description="Observations, one of each type.", extra_json_schema=listing("type"))
]
Generation = Annotated[int, Meta(description="metadata.generation that was observed last.")]


class ControlPlaneUpgradeSpec(Part, kw_only=True):
    """Machines, and their target versions."""

    validations: ClassVar[tuple[Rule, ...]] = (NEVER_CHANGES,)

    control_plane: Annotated[ObjectReference, Meta(description="The KubeadmControlPlane.")]
    machines_require_upgrade: Machines
    kubernetes_version: KubernetesVersion
    etcd_version: EtcdVersion = None
    control_plane_spec_data: Annotated[
        str,
        Meta(description="Desired spec of the KubeadmControlPlane, as base64-encoded JSON.", max_length=1_000_000),
    ]


class MachineDeploymentUpgradeStatus(Observed, frozen=True):
    """Progress of the upgrade."""

    require_upgrade: Annotated[int, Meta(description="How many machines are left to upgrade.")] = 0
    upgraded: Annotated[int, Meta(description="How many machines are upgraded.")] = 0
    ready: Annotated[bool, Meta(description="True if all machines are upgraded.")] = False
    conditions: Conditions = []
    observed_generation: Generation = 0


class ControlPlaneUpgradeStatus(MachineDeploymentUpgradeStatus, frozen=True, omit_defaults=False):
    """Progress of the upgrade."""


_PROGRESS = (
    Column("Left", ".status.requireUpgrade", "integer", "Machines left to upgrade"),
    Column("Upgraded", ".status.upgraded", "integer", "Machines upgraded"),
    Column("Ready", ".status.ready", "boolean", "True if all machines are upgraded"),
    Column("Version", ".spec.kubernetesVersion", "string", "Desired Kubernetes version"),
    AGE,
    Column("Message", '.status.conditions[?(@.type=="Ready")].message', "string", "Progress", 1),
)


@eksa_kind(
    Column("Control Plane", ".spec.controlPlane.name", "string", "The control plane"), *_PROGRESS, short_names=("cpu",)
)
class ControlPlaneUpgrade(KubeObject, kw_only=True):
    """In-place upgrade of the machines of a control plane, one at a time."""

    spec: ControlPlaneUpgradeSpec
    status: ControlPlaneUpgradeStatus = ControlPlaneUpgradeStatus()


class MachineDeploymentUpgradeSpec(Part, kw_only=True):
    """Machines, and their target version."""

    validations: ClassVar[tuple[Rule, ...]] = (NEVER_CHANGES,)

    machine_deployment: Annotated[ObjectReference, Meta(description="The MachineDeployment.")]
    machines_require_upgrade: Machines
    kubernetes_version: KubernetesVersion
    machine_spec_data: Annotated[
        str,
        Meta(max_length=1_000_000, description="Desired spec of the machines, as base64-encoded JSON."),
    ]


@eksa_kind(
    Column("Deployment", ".spec.machineDeployment.name", "string", "The worker node group"),
    *_PROGRESS,
    short_names=("mdu",),
)
class MachineDeploymentUpgrade(KubeObject, kw_only=True):
    """In-place upgrade of the machines of a worker node group."""

    spec: MachineDeploymentUpgradeSpec
    status: MachineDeploymentUpgradeStatus = MachineDeploymentUpgradeStatus()


class NodeUpgradeSpec(Part, kw_only=True):
    """A machine, and its target versions."""

    validations: ClassVar[tuple[Rule, ...]] = (
        NEVER_CHANGES,
        Rule(
            "!has(self.certificatesOnly) || !self.certificatesOnly || self.nodeType == 'ControlPlane'",
            "certificatesOnly is for nodes of type ControlPlane: kubelets renew those of workers themselves",
        ),
    )

    machine: Annotated[ObjectReference, Meta(description="The Machine whose node is upgraded.")]
    kubernetes_version: KubernetesVersion
    etcd_version: EtcdVersion = None
    node_type: Annotated[NodeType, Meta(description="Role of the node, which determines its steps.")]
    first_node_to_be_upgraded: Annotated[
        bool, Meta(description="True if it is the first of its control plane; ignored for workers.")
    ] = False
    bootstrap_changes: Annotated[
        str,
        Meta(
            description="Files and kubelet flags to add to or remove from the node as well, as base64-encoded JSON.",
            pattern=patterns.BASE64,
            max_length=1_000_000,
        ),
    ] = ""
    certificates_only: Annotated[
        bool,
        Meta(description="True to renew the certificates of a control plane node that has the version, and no more."),
    ] = False


class NodeUpgradeStatus(Observed, frozen=True):
    """Progress of the upgrade of the node."""

    conditions: Conditions = []
    completed: Annotated[bool, Meta(description="True if every step succeeded.")] = False
    observed_generation: Generation = 0


@eksa_kind(
    Column("Machine", ".spec.machine.name", "string", "The machine"),
    Column("Type", ".spec.nodeType", "string", "Role of the node"),
    Column("Version", ".spec.kubernetesVersion", "string", "Desired Kubernetes version"),
    Column("Step", '.status.conditions[?(@.type=="Ready")].reason', "string", "Current step"),
    Column("Completed", ".status.completed", "boolean", "True if every step succeeded"),
    AGE,
    Column("Message", '.status.conditions[?(@.type=="Ready")].message', "string", "Progress", 1),
    short_names=("nu",),
)
class NodeUpgrade(KubeObject, kw_only=True):
    """In-place upgrade of one node."""

    spec: NodeUpgradeSpec
    status: NodeUpgradeStatus = NodeUpgradeStatus()

    @property
    def is_completed(self) -> bool:
        """True if its controller reported so: it writes Ready with `completed`, which others may have set."""
        return self.status.completed and condition_list.is_true(self.status.conditions, "Ready")
