"""`controlplane.` and `bootstrap.cluster.x-k8s.io/v1beta2`: the kinds of the kubeadm providers."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from espalier.api.capi.bottlerocket import BottlerocketFields
from espalier.api.capi.cluster import CONTRACT, ContractReference, ReadinessGate, VersionCount
from espalier.api.capi.machine import MachineDeletion, MachineNaming, RolloutStrategy, TemplateMeta
from espalier.api.core import Taint
from espalier.api.kinds import AGE, ATOMIC, PRESERVE, Column, KindsOf, KubeObject, Scale, listing
from espalier.api.meta import Condition, Observed, Part

CONTROL_PLANE_GROUP = "controlplane.cluster.x-k8s.io"
BOOTSTRAP_GROUP = "bootstrap.cluster.x-k8s.io"
VERSION = "v1beta2"

bootstrap_kind = KindsOf(BOOTSTRAP_GROUP, VERSION, ("cluster-api",), CONTRACT, status=True, partly=True)
control_plane_kind = KindsOf(CONTROL_PLANE_GROUP, VERSION, ("cluster-api",), CONTRACT, status=True, partly=True)


class Arg(Part):
    """A flag of a component, without its dashes."""

    name: str
    value: str


Args = Annotated[list[Arg], Meta(extra_json_schema=listing("name", "value"))]


class HostPathMount(Part):
    """A path of the host inside a static pod."""

    name: str
    host_path: str
    mount_path: str
    read_only: bool | None = None
    path_type: str = ""


HostPathMounts = Annotated[list[HostPathMount], Meta(extra_json_schema=ATOMIC)]


class LocalEtcd(Part):
    """etcd beside each API server."""

    image_repository: str = ""
    image_tag: str = ""
    data_dir: str = ""
    extra_args: Args = []
    server_cert_sans: list[str] = msgspec.field(default_factory=list, name="serverCertSANs")
    peer_cert_sans: list[str] = msgspec.field(default_factory=list, name="peerCertSANs")


class ExternalEtcd(Part, kw_only=True):
    """etcd elsewhere."""

    endpoints: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    ca_file: str
    cert_file: str
    key_file: str


class Etcd(Part):
    """Location of etcd: exactly one of the two."""

    local: LocalEtcd | None = None
    external: ExternalEtcd | None = None


class EnvVar(Part):
    """A variable of a component's environment."""

    name: str
    value: str


class ApiServer(Part):
    """kube-apiserver."""

    extra_args: Args = []
    extra_volumes: HostPathMounts = []
    extra_envs: Annotated[list[EnvVar], Meta(extra_json_schema=ATOMIC)] = []
    cert_sans: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = msgspec.field(
        default_factory=list, name="certSANs"
    )


class Component(Part):
    """kube-controller-manager or kube-scheduler."""

    extra_args: Args = []
    extra_volumes: HostPathMounts = []


class Dns(Part):
    """CoreDNS."""

    image_repository: str = ""
    image_tag: str = ""


class ClusterConfiguration(BottlerocketFields):
    """kubeadm's settings of the whole cluster."""

    etcd: Etcd | None = None
    control_plane_endpoint: str = ""
    api_server: ApiServer | None = None
    controller_manager: Component | None = None
    scheduler: Component | None = None
    dns: Dns | None = None
    certificates_dir: str = ""
    image_repository: str = ""
    feature_gates: dict[str, bool] = {}
    certificate_validity_period_days: int | None = None
    ca_certificate_validity_period_days: int | None = None
    encryption_algorithm: str = ""


class NodeRegistration(Part):
    """kubeadm's settings of a node."""

    name: str = ""
    cri_socket: str = ""
    taints: Annotated[list[Taint] | None, Meta(extra_json_schema=ATOMIC)] = None
    kubelet_extra_args: Args = []
    ignore_preflight_errors: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    image_pull_policy: str = ""
    image_pull_serial: bool | None = None


class LocalApiEndpoint(Part):
    """Address of the API server on this node."""

    advertise_address: str = ""
    bind_port: int | None = None


class Patches(Part):
    """Folder with patches of kubeadm's files."""

    directory: str = ""


class InitConfiguration(Part):
    """kubeadm's settings on the first machine."""

    node_registration: NodeRegistration | None = None
    local_api_endpoint: LocalApiEndpoint | None = msgspec.field(default=None, name="localAPIEndpoint")
    skip_phases: list[str] = []
    patches: Patches | None = None


class BootstrapTokenDiscovery(Part):
    """Discovery of the API server by a token."""

    token: str = ""
    api_server_endpoint: str = ""
    ca_cert_hashes: list[str] = []
    unsafe_skip_ca_verification: bool | None = msgspec.field(default=None, name="unsafeSkipCAVerification")

    def __repr__(self) -> str:
        return f"BootstrapTokenDiscovery({self.api_server_endpoint})"


class Discovery(Part):
    """Discovery of the API server."""

    bootstrap_token: BootstrapTokenDiscovery | None = None
    tls_bootstrap_token: str = ""

    def __repr__(self) -> str:
        return f"Discovery({self.bootstrap_token})"


class JoinControlPlane(Part):
    """Says that the machine becomes a control plane node."""

    local_api_endpoint: LocalApiEndpoint | None = msgspec.field(default=None, name="localAPIEndpoint")


class JoinConfiguration(BottlerocketFields):
    """kubeadm's settings on every other machine."""

    node_registration: NodeRegistration | None = None
    ca_cert_path: str = ""
    discovery: Discovery | None = None
    control_plane: JoinControlPlane | None = None
    skip_phases: list[str] = []
    patches: Patches | None = None


class SecretKey(Part):
    """A key of a Secret."""

    name: str
    key: str


class FileSource(Part):
    """Source of a file's content."""

    secret: SecretKey | None = None


class File(Part):
    """A file written before kubeadm runs."""

    path: str
    owner: str = ""
    permissions: str = ""
    encoding: str = ""
    append: bool | None = None
    content: str = ""
    content_from: FileSource | None = None


class BootstrapUser(Part):
    """A user of the machine."""

    name: str
    ssh_authorized_keys: list[str] = []
    sudo: str = ""
    groups: str = ""
    shell: str = ""
    lock_password: bool | None = None


class Ntp(Part):
    """Time servers."""

    servers: list[str] = []
    enabled: bool | None = None


class Partition(Part):
    """Partitions of a disk."""

    device: str
    layout: bool | None = None
    overwrite: bool | None = None
    table_type: str = ""


class FileSystem(Part):
    """A file system on a disk."""

    device: str
    filesystem: str
    label: str = ""
    partition: str = ""
    overwrite: bool | None = None
    extra_opts: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []


class DiskSetup(Part):
    """The setup of disks before anything is mounted."""

    partitions: Annotated[list[Partition], Meta(extra_json_schema=ATOMIC)] = []
    filesystems: Annotated[list[FileSystem], Meta(extra_json_schema=ATOMIC)] = []


class KubeadmConfigSpec(Part):
    """Bootstrap configuration of a machine."""

    cluster_configuration: ClusterConfiguration | None = None
    init_configuration: InitConfiguration | None = None
    join_configuration: JoinConfiguration | None = None
    files: Annotated[list[File], Meta(extra_json_schema=ATOMIC)] = []
    users: Annotated[list[BootstrapUser], Meta(extra_json_schema=ATOMIC)] = []
    ntp: Ntp | None = None
    disk_setup: DiskSetup | None = None
    mounts: Annotated[list[list[str]], Meta(extra_json_schema=ATOMIC)] = []
    boot_commands: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    pre_kubeadm_commands: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    post_kubeadm_commands: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    format: str = ""
    verbosity: int | None = None


class KubeadmConfigInitialization(Observed, frozen=True):
    """Steps that happen once."""

    data_secret_created: bool = False


class KubeadmConfigStatus(Observed, frozen=True):
    """Observed state of a machine's bootstrap data."""

    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []
    initialization: KubeadmConfigInitialization = KubeadmConfigInitialization()
    data_secret_name: str = ""
    observed_generation: int = 0


CLUSTER_COLUMN = Column(
    "Cluster", ".metadata.labels['cluster\\.x-k8s\\.io/cluster-name']", "string", "Cluster the object belongs to"
)


@bootstrap_kind(
    CLUSTER_COLUMN,
    Column("Data secret created", ".status.initialization.dataSecretCreated", "boolean", "Bootstrap data are there"),
    AGE,
)
class KubeadmConfig(KubeObject, kw_only=True):
    """Bootstrap configuration of one machine."""

    spec: KubeadmConfigSpec = msgspec.field(default_factory=KubeadmConfigSpec)
    status: KubeadmConfigStatus = KubeadmConfigStatus()


class KubeadmConfigTemplateResource(Part):
    """Template of new KubeadmConfigs."""

    spec: KubeadmConfigSpec
    metadata: TemplateMeta | None = None


class KubeadmConfigTemplateSpec(Part):
    """Holds the template."""

    template: KubeadmConfigTemplateResource


@bootstrap_kind(AGE, status=False)
class KubeadmConfigTemplate(KubeObject, kw_only=True):
    """Template of KubeadmConfigs."""

    spec: KubeadmConfigTemplateSpec


class ControlPlaneMachineSpec(Part):
    """Template of control plane machines."""

    infrastructure_ref: ContractReference
    readiness_gates: Annotated[list[ReadinessGate], Meta(extra_json_schema=listing("conditionType"))] = []
    deletion: MachineDeletion | None = None
    taints: Annotated[list[Taint], Meta(extra_json_schema=listing("key", "effect"))] = []


class ControlPlaneMachineTemplate(Part):
    """Template of control plane machines."""

    spec: ControlPlaneMachineSpec
    metadata: TemplateMeta | None = None


class RolloutBefore(Part):
    """Replace machines before something happens."""

    certificates_expiry_days: int | None = None


class ControlPlaneRollout(Part):
    """Rollout of machines."""

    before: RolloutBefore | None = None
    after: str | None = None
    strategy: RolloutStrategy | None = None


class ControlPlaneRemediation(Part):
    """Remediation of unhealthy machines."""

    max_retry: int | None = None
    retry_period_seconds: int | None = None
    min_healthy_period_seconds: int | None = None


class KubeadmControlPlaneSpec(Part):
    """A control plane made by kubeadm."""

    version: Annotated[str, Meta(min_length=1)]
    machine_template: ControlPlaneMachineTemplate
    kubeadm_config_spec: KubeadmConfigSpec = msgspec.field(default_factory=KubeadmConfigSpec)
    replicas: int | None = None
    rollout: ControlPlaneRollout | None = None
    remediation: ControlPlaneRemediation | None = None
    machine_naming: MachineNaming | None = None


class ControlPlaneInitialization(Observed, frozen=True):
    """Steps that happen once in a control plane's life."""

    control_plane_initialized: bool = False


class KubeadmControlPlaneStatus(Observed, frozen=True):
    """Observed state of a control plane."""

    conditions: Annotated[list[Condition], Meta(extra_json_schema=listing("type"))] = []
    initialization: ControlPlaneInitialization = ControlPlaneInitialization()
    selector: str = ""
    replicas: int | None = None
    ready_replicas: int | None = None
    available_replicas: int | None = None
    up_to_date_replicas: int | None = None
    version: str = ""
    versions: Annotated[list[VersionCount], Meta(extra_json_schema=listing("version"))] = []
    last_remediation: Annotated[dict[str, Any] | None, Meta(extra_json_schema=PRESERVE)] = None
    observed_generation: int = 0


@control_plane_kind(
    CLUSTER_COLUMN,
    Column("Available", '.status.conditions[?(@.type=="Available")].status', "string", "Ready for use"),
    Column("Desired", ".spec.replicas", "integer", "Machines asked for"),
    Column("Current", ".status.replicas", "integer", "Machines that exist"),
    Column("Ready", ".status.readyReplicas", "integer", "Machines that are ready"),
    Column("Up-to-date", ".status.upToDateReplicas", "integer", "Machines that are up to date"),
    Column("Initialized", ".status.initialization.controlPlaneInitialized", "boolean", "The API server has answered"),
    AGE,
    Column("Version", ".spec.version", "string", "Kubernetes version"),
    short_names=("kcp",),
    scale=Scale(),
)
class KubeadmControlPlane(KubeObject, kw_only=True):
    """A control plane made by kubeadm."""

    spec: KubeadmControlPlaneSpec
    status: KubeadmControlPlaneStatus = KubeadmControlPlaneStatus()
