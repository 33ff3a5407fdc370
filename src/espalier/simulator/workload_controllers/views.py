"""What the planners see of the objects in a workload cluster: decoded only as far as they look."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Raw, field

from espalier.api.core import Taint
from espalier.api.meta import ObjectMeta, Observed, Tree
from espalier.apiserver.webhook_rules import LabelSelector


class View(Observed, frozen=True):
    """Base of the views: every object has metadata."""

    metadata: ObjectMeta

    @property
    def owner(self) -> str:
        """The uid of the controlling owner, empty when there is none."""
        return next((owner.uid for owner in self.metadata.owner_references if owner.controller), "")

    @property
    def deleting(self) -> bool:
        """Whether somebody asked for the object's deletion."""
        return self.metadata.deletion_timestamp is not None


class Observation(Observed, frozen=True):
    """The two fields of a condition that decide something here."""

    type: str
    status: str


def is_true(observations: list[Observation], type_: str) -> bool:
    """Whether the condition of this type is there and True."""
    return any(seen.type == type_ and seen.status == "True" for seen in observations)


class Toleration(Observed, frozen=True):
    """Lets a pod onto a node with a taint. An empty key with operator Exists tolerates every taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """The rule of core/v1 `Toleration`."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


class Address(Observed, frozen=True):
    """One address of a node."""

    type: str
    address: str


class NodeSpec(Observed, frozen=True):
    """What the scheduler looks at."""

    taints: list[Taint] = []
    unschedulable: bool = False
    pod_cidr: str = field(name="podCIDR", default="")


class NodeStatus(Observed, frozen=True):
    """What the kubelet reported."""

    conditions: list[Observation] = []
    addresses: list[Address] = []


class Node(View, frozen=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def readiness(self) -> str:
        """The status of its Ready condition: True, False, Unknown, or empty when it never reported."""
        return next((seen.status for seen in self.status.conditions if seen.type == "Ready"), "")

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is True."""
        return self.readiness == "True"

    @property
    def internal_ip(self) -> str:
        """Its address inside the cluster, empty when it has none."""
        return next((address.address for address in self.status.addresses if address.type == "InternalIP"), "")


class Container(Observed, frozen=True):
    """Of a container."""

    name: str
    image: str = ""


class PodSpec(Observed, frozen=True):
    """What scheduler and kubelet look at."""

    node_name: str = ""
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    host_network: bool = False
    restart_policy: str = ""
    containers: list[Container] = []


class PodStatus(Observed, frozen=True):
    """What the kubelet reported."""

    phase: str = ""
    conditions: list[Observation] = []
    pod_ip: str = field(name="podIP", default="")


class Pod(View, frozen=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def ready(self) -> bool:
        """Whether its Ready condition is True."""
        return is_true(self.status.conditions, "Ready")


class TemplateView(Observed, frozen=True):
    """A pod template, as far as placing its pods asks for it."""

    spec: PodSpec = PodSpec()


class RollingUpdate(Observed, frozen=True):
    """How many pods may be missing or too many during a rollout: numbers or percentages."""

    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class Strategy(Observed, frozen=True):
    """How pods are replaced when the template changes."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = RollingUpdate()


class WorkloadSpec(Observed, frozen=True):
    """What DaemonSets, Deployments and ReplicaSets have in common; the template stays as it came."""

    replicas: int = 1
    selector: Tree = {}
    template: Raw = Raw(b"{}")
    strategy: Strategy = Strategy()
    update_strategy: Strategy = Strategy()


class Workload(View, frozen=True):
    """A DaemonSet, Deployment or ReplicaSet."""

    spec: WorkloadSpec = WorkloadSpec()
    status: Tree = {}
    api_version: str = ""
    kind: str = ""

    @property
    def template(self) -> Tree:
        """The whole pod template, decoded anew (so it may be changed)."""
        return msgspec.json.decode(self.spec.template)  # type: ignore[no-any-return]

    @property
    def placing(self) -> PodSpec:
        """Of the template, what decides where its pods run."""
        return msgspec.json.decode(self.spec.template, type=TemplateView).spec

    @property
    def template_hash(self) -> str:
        """A short name of the template's content, the same for equal content however it is written down."""
        canonical = msgspec.json.encode(self.template, order="sorted")
        return hashlib.sha256(canonical).hexdigest()[:10]


class BudgetSpec(Observed, frozen=True):
    """How many pods of a selection must stay healthy, or may go."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class Budget(View, frozen=True):
    """A PodDisruptionBudget."""

    spec: BudgetSpec = BudgetSpec()
    status: Tree = {}

    @property
    def disrupted(self) -> dict[str, str]:
        """Pods whose eviction was granted, and when."""
        return dict(self.status.get("disruptedPods") or {})
