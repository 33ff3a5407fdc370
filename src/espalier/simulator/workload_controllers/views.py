"""Views of a workload cluster's objects: only the fields that planners read are decoded."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from __future__ import annotations

import hashlib

import msgspec
from msgspec import Raw, field

from espalier.api import conditions as condition_list
from espalier.api.core import Taint
from espalier.api.label_selectors import LabelSelector
from espalier.api.meta import ObjectMeta, Observed, Tree
from espalier.api.resource import Key


class View(Observed, frozen=True):
    """The base of the views of objects."""

    metadata: ObjectMeta

    @property
    def key(self) -> Key:
        """Its name."""
        return Key(self.metadata.namespace, self.metadata.name)

    @property
    def owner(self) -> str:
        """The uid of the controller, empty when there is none."""
        return next((owner.uid for owner in self.metadata.owner_references if owner.controller), "")

    @property
    def deleting(self) -> bool:
        """True if the object is being deleted."""
        return self.metadata.deletion_timestamp is not None


class ConditionView(Observed, frozen=True):
    """A condition, with the fields that are read here."""

    type: str
    status: str


class Toleration(Observed, frozen=True):
    """A toleration. An empty key with operator Exists tolerates every taint."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        """True if the toleration covers a taint, by the rule of core/v1 `Toleration`."""
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        return self.operator == "Exists" or (bool(self.key) and self.value == taint.value)


class Address(Observed, frozen=True):
    """An address of a node."""

    type: str
    address: str


class NodeSpec(Observed, frozen=True):
    """The spec of a node, for the scheduler."""

    taints: list[Taint] = []
    unschedulable: bool = False
    pod_cidr: str = field(name="podCIDR", default="")


class NodeStatus(Observed, frozen=True):
    """The status that the kubelet reported."""

    conditions: list[ConditionView] = []
    addresses: list[Address] = []


class Node(View, frozen=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def readiness(self) -> str:
        """The status of the Ready condition: True, False, Unknown, or empty when it never reported."""
        ready = condition_list.get(self.status.conditions, "Ready")
        return ready.status if ready is not None else ""

    @property
    def ready(self) -> bool:
        """True if the Ready condition is True."""
        return self.readiness == "True"

    @property
    def internal_ip(self) -> str:
        """The node's internal IP, empty when it has none."""
        return next((address.address for address in self.status.addresses if address.type == "InternalIP"), "")


class ContainerPort(Observed, frozen=True):
    """A port of a container."""

    container_port: int
    name: str = ""
    protocol: str = "TCP"


class Container(Observed, frozen=True):
    """A container."""

    name: str
    image: str = ""
    ports: list[ContainerPort] = []


class ClaimSource(Observed, frozen=True):
    """The claim that a volume of a pod uses."""

    claim_name: str


class PodVolume(Observed, frozen=True):
    """A volume of a pod."""

    name: str
    persistent_volume_claim: ClaimSource | None = None


class PodSpec(Observed, frozen=True):
    """The spec of a pod, for scheduler and kubelet."""

    node_name: str = ""
    node_selector: dict[str, str] = {}
    tolerations: list[Toleration] = []
    host_network: bool = False
    restart_policy: str = ""
    containers: list[Container] = []
    volumes: list[PodVolume] = []
    hostname: str = ""
    subdomain: str = ""

    @property
    def claims(self) -> list[str]:
        """The names of the claims that it uses."""
        return [volume.persistent_volume_claim.claim_name for volume in self.volumes if volume.persistent_volume_claim]


class PodStatus(Observed, frozen=True):
    """The status that the kubelet reported."""

    phase: str = ""
    conditions: list[ConditionView] = []
    pod_ip: str = field(name="podIP", default="")


class Pod(View, frozen=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def ready(self) -> bool:
        """True if the Ready condition is True."""
        return condition_list.is_true(self.status.conditions, "Ready")


class TemplateView(Observed, frozen=True):
    """A pod template, with the fields that scheduling needs."""

    spec: PodSpec = PodSpec()


class RollingUpdate(Observed, frozen=True):
    """Limits of a rolling update: numbers or percentages, and the first ordinal that a StatefulSet updates."""

    max_unavailable: int | str | None = None
    max_surge: int | str | None = None
    partition: int | None = None


class Strategy(Observed, frozen=True):
    """The update strategy."""

    type: str = "RollingUpdate"
    rolling_update: RollingUpdate = RollingUpdate()


class WorkloadSpec(Observed, frozen=True):
    """The specs of DaemonSets, Deployments, ReplicaSets and StatefulSets; the template is kept undecoded."""

    replicas: int = 1
    selector: Tree = {}
    template: Raw = Raw(b"{}")
    strategy: Strategy = Strategy()
    update_strategy: Strategy = Strategy()
    service_name: str = ""
    pod_management_policy: str = "OrderedReady"
    volume_claim_templates: list[Tree] = []


class Workload(View, frozen=True):
    """A DaemonSet, Deployment, ReplicaSet or StatefulSet."""

    spec: WorkloadSpec = WorkloadSpec()
    status: Tree = {}
    api_version: str = ""
    kind: str = ""

    @property
    def template(self) -> Tree:
        """The whole pod template; each call decodes it, so the caller may change it."""
        return msgspec.json.decode(self.spec.template)  # type: ignore[no-any-return]

    @property
    def pod_spec(self) -> PodSpec:
        """The spec of the pod template, with the fields that scheduling needs."""
        return msgspec.json.decode(self.spec.template, type=TemplateView).spec

    @property
    def template_hash(self) -> str:
        """A hash of the template's content, independent of its encoding."""
        canonical = msgspec.json.encode(self.template, order="sorted")
        return hashlib.sha256(canonical).hexdigest()[:10]


class BudgetSpec(Observed, frozen=True):
    """The spec of a PodDisruptionBudget."""

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: LabelSelector | None = None


class Budget(View, frozen=True):
    """A PodDisruptionBudget."""

    spec: BudgetSpec = BudgetSpec()
    status: Tree = {}

    @property
    def disrupted(self) -> dict[str, str]:
        """Pods with a granted eviction, and when it was granted."""
        return dict(self.status.get("disruptedPods") or {})


class CertificateRequestSpec(Observed, frozen=True):
    """The spec of a CertificateSigningRequest."""

    request: str = ""
    signer_name: str = ""
    expiration_seconds: int | None = None
    usages: list[str] = []


class CertificateRequestStatus(Observed, frozen=True):
    """The decisions about a CertificateSigningRequest, and its certificate."""

    certificate: str = ""
    conditions: list[ConditionView] = []


class CertificateRequest(View, frozen=True):
    """A CertificateSigningRequest."""

    spec: CertificateRequestSpec = CertificateRequestSpec()
    status: CertificateRequestStatus = CertificateRequestStatus()

    @property
    def awaits_signature(self) -> bool:
        """True if it is approved, and neither signed nor denied nor refused."""
        return not self.status.certificate and {condition.type for condition in self.status.conditions} == {"Approved"}


class ClaimSpec(Observed, frozen=True):
    """The spec of a PersistentVolumeClaim."""

    access_modes: list[str] = []
    resources: Tree = {}
    volume_name: str = ""
    volume_mode: str = "Filesystem"
    storage_class_name: str | None = None


class ClaimStatus(Observed, frozen=True):
    """The phase of a claim or a volume."""

    phase: str = ""


class Claim(View, frozen=True):
    """A PersistentVolumeClaim."""

    spec: ClaimSpec = ClaimSpec()
    status: ClaimStatus = ClaimStatus()


class ClaimReference(Observed, frozen=True):
    """The claim that a volume is bound to."""

    name: str = ""
    namespace: str = ""
    uid: str = ""


class VolumeSpec(Observed, frozen=True):
    """The spec of a PersistentVolume."""

    claim_ref: ClaimReference | None = None
    persistent_volume_reclaim_policy: str = "Retain"


class Volume(View, frozen=True):
    """A PersistentVolume."""

    spec: VolumeSpec = VolumeSpec()
    status: ClaimStatus = ClaimStatus()


class ServicePort(Observed, frozen=True):
    """A port of a Service; its target is a number, or the name of a container's port."""

    port: int
    name: str = ""
    protocol: str = "TCP"
    target_port: int | str | None = None


class ServiceSpec(Observed, frozen=True):
    """The spec of a Service."""

    selector: dict[str, str] = {}
    ports: list[ServicePort] = []
    publish_not_ready_addresses: bool = False
    type: str = "ClusterIP"
    cluster_ip: str = msgspec.field(name="clusterIP", default="")


class Service(View, frozen=True):
    """A Service."""

    spec: ServiceSpec = ServiceSpec()


class EndpointSlice(View, frozen=True):
    """An EndpointSlice; endpoints and ports are kept undecoded, to be compared with the wanted ones."""

    address_type: str = ""
    endpoints: list[Tree] | None = None
    ports: list[Tree] | None = None
