"""Cluster: the desired and the observed state.

All fields of EKS Anywhere are here and in the modules beside, including those without effect yet: admission warns of
them. Rules between the parts are in `cluster_rules`.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from espalier.api.eksa.declaring import eksa_kind
from espalier.api.eksa.parts import cluster_rules
from espalier.api.eksa.parts.control_plane import (
    ControlPlaneConfiguration,
    EtcdEncryption,
    ExternalEtcdConfiguration,
    PodIAMConfig,
)
from espalier.api.eksa.parts.fields import Ref
from espalier.api.eksa.parts.health_checks import MachineHealthCheck
from espalier.api.eksa.parts.network import ClusterNetwork, ProxyConfiguration, RegistryMirrorConfiguration
from espalier.api.eksa.parts.packages import PackageConfiguration
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.eksa.releases.release import BundlesRef
from espalier.api.kinds import AGE, ATOMIC, MANY, Column, KubeObject, Rule, listing
from espalier.api.meta import Condition, Observed, Part
from espalier.api.moves import MOVED_WITH_OWNED
from espalier.api.text.patterns import KUBERNETES_VERSION


class ManagementCluster(Part):
    """The cluster that manages this one."""

    name: Annotated[
        str, Meta(description="Name of the managing Cluster; a cluster that names itself is self-managed.")
    ] = ""


class ClusterSpec(Part):
    """Desired state of a cluster."""

    validations: ClassVar[tuple[Rule, ...]] = cluster_rules.SPEC

    kubernetes_version: Annotated[
        str,
        Meta(
            pattern=KUBERNETES_VERSION,
            extra_json_schema={"maxLength": 10},
            description='Kubernetes minor version in quotes, like "1.35".',
        ),
    ] = ""
    control_plane_configuration: Annotated[ControlPlaneConfiguration | None, Meta(description="The control plane.")] = (
        None
    )
    worker_node_group_configurations: Annotated[
        list[WorkerNodeGroupConfiguration], Meta(description="Worker node groups.", extra_json_schema=ATOMIC | MANY)
    ] = []
    datacenter_ref: Annotated[Ref | None, Meta(description="Where the machines run.")] = None
    cluster_network: Annotated[ClusterNetwork | None, Meta(description="Networks inside the cluster.")] = None
    management_cluster: Annotated[ManagementCluster, Meta(description="The cluster that manages this one.")] = (
        msgspec.field(default_factory=ManagementCluster)
    )
    eksa_version: Annotated[
        str | None,
        Meta(
            extra_json_schema={"maxLength": 100}, description="Release whose components the cluster uses, like v0.26.0."
        ),
    ] = None
    bundles_ref: Annotated[
        BundlesRef | None, Meta(description="Bundles of the cluster. Deprecated: use eksaVersion.")
    ] = None
    identity_provider_refs: Annotated[
        list[Ref], Meta(description="Identity providers of the API server.", extra_json_schema=ATOMIC | MANY)
    ] = []
    git_ops_ref: Annotated[Ref | None, Meta(description="GitOps configuration.")] = None
    external_etcd_configuration: Annotated[ExternalEtcdConfiguration | None, Meta(description="External etcd.")] = None
    etcd_encryption: Annotated[
        list[EtcdEncryption], Meta(description="Encryption of data in etcd.", extra_json_schema=ATOMIC | MANY)
    ] = []
    proxy_configuration: Annotated[ProxyConfiguration | None, Meta(description="HTTP proxy of the nodes.")] = None
    registry_mirror_configuration: Annotated[
        RegistryMirrorConfiguration | None, Meta(description="Registry that images are pulled from.")
    ] = None
    machine_health_check: Annotated[
        MachineHealthCheck | None, Meta(description="When machines of the cluster count as unhealthy.")
    ] = None
    pod_iam_config: Annotated[PodIAMConfig | None, Meta(description="IAM roles for service accounts.")] = msgspec.field(
        default=None, name="podIamConfig"
    )
    packages: Annotated[PackageConfiguration | None, Meta(description="Curated packages.")] = None
    license_token: Annotated[str, Meta(description="Licence for extended support.")] = ""

    @property
    def endpoint_host(self) -> str:
        """The configured address of the API server; empty if there is none."""
        control_plane = self.control_plane_configuration
        endpoint = control_plane.endpoint if control_plane is not None else None
        return endpoint.host if endpoint is not None else ""


Phase = Literal["Pending", "Creating", "Upgrading", "Running", "Deleting", "Failed"]


class EksdReleaseRef(Observed, frozen=True):
    """The EKS Distro release of the control plane."""

    api_version: Annotated[str, Meta(description="Version of the API of the release.")]
    kind: Annotated[str, Meta(description="Kind of the release.")]
    name: Annotated[str, Meta(description="Name of the release.")]
    namespace: Annotated[str, Meta(description="Namespace of the release.")] = ""


class ClusterCertificateInfo(Observed, frozen=True):
    """Expiry of a machine's certificates."""

    machine: Annotated[str, Meta(description="Name of the machine.")]
    expires_in_days: Annotated[int, Meta(description="Days until the first certificate expires.")]


NEVER_OBSERVED = -1
"""`observedGeneration` of a Cluster that no manager has seen."""

UNOBSERVED = {"default": {"observedGeneration": NEVER_OBSERVED}}
"""The schema's default for a missing status: without it, kstatus takes an object that nobody has seen for current."""


class ClusterStatus(Observed, frozen=True):
    """Observed state of a cluster."""

    conditions: Annotated[
        list[Condition], Meta(description="Observations, one of each type.", extra_json_schema=listing("type"))
    ] = []
    phase: Annotated[Phase | None, Meta(description="Phase of the cluster.")] = None
    spec_valid: Annotated[bool | None, Meta(description="True if the spec is valid.")] = None
    ready: Annotated[
        bool | None,
        Meta(
            description="True if control plane and workers are ready, the CNI is installed and the cluster can be used."
        ),
    ] = None
    control_plane_ready: Annotated[bool | None, Meta(description="True if the control plane is ready.")] = None
    failure_reason: Annotated[
        str | None, Meta(description="Why an operation failed: a CamelCase reason that programs may rely on.")
    ] = None
    failure_message: Annotated[str | None, Meta(description="Why an operation failed, and what to do.")] = None
    observed_generation: Annotated[
        int,
        Meta(
            description="metadata.generation when a reconcile last completed; -1 before the first. Internal: its "
            "meaning may change."
        ),
    ] = 0
    children_observed_generation: Annotated[
        int,
        Meta(
            description="Sum of metadata.generation of the linked objects when observedGeneration was written. "
            "Internal: its meaning may change."
        ),
    ] = 0
    reconciled_generation: Annotated[
        int, Meta(description="Written by EKS Anywhere; here it is observedGeneration.")
    ] = 0
    children_reconciled_generation: Annotated[
        int, Meta(description="Written by EKS Anywhere; here it is childrenObservedGeneration.")
    ] = 0
    eksd_release_ref: Annotated[EksdReleaseRef | None, Meta(description="EKS Distro release of the control plane.")] = (
        None
    )
    cluster_certificate_info: Annotated[
        list[ClusterCertificateInfo], Meta(description="When certificates expire.", extra_json_schema=ATOMIC)
    ] = []


def condition_status(type_: str) -> str:
    """JSONPath of the status of a condition."""
    return f'.status.conditions[?(@.type=="{type_}")].status'


@eksa_kind(
    Column("Version", ".spec.kubernetesVersion", "string", "Desired Kubernetes version"),
    Column("Control Plane", condition_status("ControlPlaneReady"), "string", "True if the control plane is ready"),
    Column("Workers", condition_status("WorkersReady"), "string", "True if all workers are ready"),
    Column("Ready", condition_status("Ready"), "string", "True if the cluster is ready for use"),
    AGE,
    Column("Phase", ".status.phase", "string", "Phase of the cluster", 1),
    Column("Release", ".spec.eksaVersion", "string", "Release whose components the cluster uses", 1),
    Column("Managed By", ".spec.managementCluster.name", "string", "Cluster that manages this one", 1),
    Column(
        "Message",
        '.status.conditions[?(@.type=="Ready")].message',
        "string",
        "What the cluster waits for",
        1,
    ),
    labels=MOVED_WITH_OWNED,
    short_names=("eksac",),
)
class Cluster(KubeObject):
    """A Kubernetes cluster."""

    validations: ClassVar[tuple[Rule, ...]] = cluster_rules.CLUSTER

    spec: ClusterSpec = msgspec.field(default_factory=ClusterSpec)
    status: Annotated[ClusterStatus, Meta(extra_json_schema=UNOBSERVED)] = ClusterStatus()
