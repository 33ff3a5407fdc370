"""Built-in kinds of Kubernetes: coordinates of those that are used, and types of the few that are written."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, Literal

from msgspec import Meta

from espalier.api.kinds import KubeObject, kind
from espalier.api.meta import Part
from espalier.api.resource import Resource

KUBE_SYSTEM = "kube-system"
"""Namespace of the components of every Kubernetes cluster."""

NAMESPACE = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
NODE = Resource("", "v1", "nodes", "Node", namespaced=False)
SECRET = Resource("", "v1", "secrets", "Secret")
CONFIG_MAP = Resource("", "v1", "configmaps", "ConfigMap")
POD = Resource("", "v1", "pods", "Pod")
SERVICE = Resource("", "v1", "services", "Service")
SERVICE_ACCOUNT = Resource("", "v1", "serviceaccounts", "ServiceAccount")
ENDPOINTS = Resource("", "v1", "endpoints", "Endpoints")
CORE_EVENT = Resource("", "v1", "events", "Event")
EVENT = Resource("events.k8s.io", "v1", "events", "Event")
LEASE = Resource("coordination.k8s.io", "v1", "leases", "Lease")
DAEMON_SET = Resource("apps", "v1", "daemonsets", "DaemonSet")
DEPLOYMENT = Resource("apps", "v1", "deployments", "Deployment")
NETWORK_POLICY = Resource("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy")
REPLICA_SET = Resource("apps", "v1", "replicasets", "ReplicaSet")
STATEFUL_SET = Resource("apps", "v1", "statefulsets", "StatefulSet")
CONTROLLER_REVISION = Resource("apps", "v1", "controllerrevisions", "ControllerRevision")
JOB = Resource("batch", "v1", "jobs", "Job")
PERSISTENT_VOLUME = Resource("", "v1", "persistentvolumes", "PersistentVolume", namespaced=False)
PERSISTENT_VOLUME_CLAIM = Resource("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim")
VOLUME_ATTACHMENT = Resource("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment", namespaced=False)
POD_DISRUPTION_BUDGET = Resource("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget")
ENDPOINT_SLICE = Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice")
ROLE = Resource("rbac.authorization.k8s.io", "v1", "roles", "Role")
ROLE_BINDING = Resource("rbac.authorization.k8s.io", "v1", "rolebindings", "RoleBinding")
CLUSTER_ROLE = Resource("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", namespaced=False)
CLUSTER_ROLE_BINDING = Resource(
    "rbac.authorization.k8s.io", "v1", "clusterrolebindings", "ClusterRoleBinding", namespaced=False
)
CUSTOM_RESOURCE_DEFINITION = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
MUTATING_WEBHOOK_CONFIGURATION = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOK_CONFIGURATION = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
SELF_SUBJECT_ACCESS_REVIEW = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", namespaced=False
)
CERTIFICATE_SIGNING_REQUEST = Resource(
    "certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest", namespaced=False
)
CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client"
"""The signer of client certificates of an API server's own authority."""
LEAST_VALIDITY = 600
"""The shortest validity in seconds that a CertificateSigningRequest may ask for."""
TOKEN_REVIEW = Resource("authentication.k8s.io", "v1", "tokenreviews", "TokenReview", namespaced=False)


class Taint(Part):
    """A taint of a node."""

    key: Annotated[str, Meta(description="Name of the taint.", extra_json_schema={"maxLength": 317})]
    effect: Annotated[
        Literal["NoSchedule", "PreferNoSchedule", "NoExecute"],
        Meta(description="What happens to pods that do not tolerate the taint."),
    ]
    value: Annotated[str, Meta(description="Value of the taint.", extra_json_schema={"maxLength": 63})] = ""
    time_added: Annotated[
        str | None,
        Meta(description="When the taint was added; NoExecute only.", extra_json_schema={"format": "date-time"}),
    ] = None


@kind(NAMESPACE)
class Namespace(KubeObject):
    """`v1 Namespace`, as far as we write it."""


@kind(SECRET)
class Secret(KubeObject):
    """`v1 Secret`. `data` is base64, as msgspec has it for bytes."""

    type: str = ""
    data: dict[str, bytes] = {}
    immutable: bool | None = None

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name}, keys={sorted(self.data)})"


@kind(CONFIG_MAP)
class ConfigMap(KubeObject):
    """`v1 ConfigMap`."""

    data: dict[str, str] = {}
    immutable: bool | None = None
