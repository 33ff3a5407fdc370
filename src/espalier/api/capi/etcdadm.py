"""`etcdcluster.` and `bootstrap.cluster.x-k8s.io/v1beta1`: etcd on machines of its own, by the etcdadm providers.

Only EKS Anywhere's build of Cluster API works with them. Typed as far as we write or read them.
"""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.capi.bottlerocket import CertBundle
from espalier.api.capi.kubeadm import BOOTSTRAP_GROUP, BootstrapUser, File, Ntp
from espalier.api.eksa.parts.host_os import BottlerocketBoot, BottlerocketKernel
from espalier.api.kinds import AGE, ATOMIC, Column, KindsOf, KubeObject
from espalier.api.meta import Condition, Observed, Part

GROUP = "etcdcluster.cluster.x-k8s.io"
VERSION = "v1beta1"
CONTRACT = {"cluster.x-k8s.io/v1beta1": "v1beta1"}

_bootstrap_kind = KindsOf(BOOTSTRAP_GROUP, VERSION, labels=CONTRACT, status=True, partly=True)
_etcd_kind = KindsOf(GROUP, VERSION, labels=CONTRACT, status=True, partly=True)
"""Label of the CRDs of these kinds: they keep the earlier contract of Cluster API (`status.ready`)."""


class CloudInitConfig(Part):
    """etcd as cloud-init installs it."""

    version: str = ""
    install_dir: str = ""
    etcd_release_url: str = msgspec.field(default="", name="etcdReleaseURL")


class EtcdProxy(Part):
    """HTTP proxy of the machines."""

    http_proxy: str = ""
    https_proxy: str = ""
    no_proxy: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []


class EtcdRegistryMirror(Part):
    """Registry that images are pulled from."""

    endpoint: str = ""
    ca_cert: str = ""


class EtcdBootstrapContainer(Part, kw_only=True):
    """A container that a machine with Bottlerocket runs when it boots."""

    name: str
    image: str
    essential: bool | None = None
    mode: str
    user_data: str = ""


class EtcdBottlerocketConfig(Part, kw_only=True):
    """etcd as a machine with Bottlerocket runs it: images, and settings of the operating system."""

    admin_image: str = ""
    bootstrap_image: str
    control_image: str = ""
    etcd_image: str = ""
    pause_image: str
    custom_bootstrap_containers: Annotated[list[EtcdBootstrapContainer], Meta(extra_json_schema=ATOMIC)] = []
    boot: BottlerocketBoot | None = None
    kernel: BottlerocketKernel | None = None


class EtcdadmConfigSpec(Part):
    """How a machine becomes a member of etcd."""

    etcdadm_builtin: bool | None = None
    etcdadm_install_commands: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    pre_etcdadm_commands: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    post_etcdadm_commands: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    format: str = ""
    cipher_suites: str = ""
    bottlerocket_config: EtcdBottlerocketConfig | None = None
    cert_bundles: Annotated[list[CertBundle], Meta(extra_json_schema=ATOMIC)] = []
    cloud_init_config: CloudInitConfig | None = None
    files: Annotated[list[File], Meta(extra_json_schema=ATOMIC)] = []
    users: Annotated[list[BootstrapUser], Meta(extra_json_schema=ATOMIC)] = []
    ntp: Ntp | None = None
    proxy: EtcdProxy | None = None
    registry_mirror: EtcdRegistryMirror | None = None


class EtcdadmConfigStatus(Observed, frozen=True):
    """Observed state of a machine's bootstrap data."""

    conditions: Annotated[list[Condition], Meta(extra_json_schema=ATOMIC)] = []
    data_secret_name: str = ""
    ready: bool = False


@_bootstrap_kind(AGE)
class EtcdadmConfig(KubeObject, kw_only=True):
    """Bootstrap configuration of one machine of etcd."""

    spec: EtcdadmConfigSpec = msgspec.field(default_factory=EtcdadmConfigSpec)
    status: EtcdadmConfigStatus = EtcdadmConfigStatus()


class TemplateReference(Part):
    """Reference to a template, with its version: that of Kubernetes' own objects."""

    api_version: str
    kind: str
    name: str
    namespace: str = ""


class EtcdadmClusterSpec(Part):
    """Desired state of an etcd."""

    infrastructure_template: Annotated[TemplateReference, Meta(extra_json_schema={"x-kubernetes-map-type": "atomic"})]
    etcdadm_config_spec: EtcdadmConfigSpec = msgspec.field(default_factory=EtcdadmConfigSpec)
    replicas: int | None = None


class EtcdadmClusterStatus(Observed, frozen=True):
    """Observed state of an etcd."""

    conditions: Annotated[list[Condition], Meta(extra_json_schema=ATOMIC)] = []
    creation_complete: bool = False
    endpoints: str = ""
    initialized: bool = False
    observed_generation: int = 0
    ready: bool = False
    replicas: int | None = None
    selector: str = ""


@_etcd_kind(
    Column("Desired", ".spec.replicas", "integer", "Members asked for"),
    Column("Current", ".status.replicas", "integer", "Members that exist"),
    Column("Ready", ".status.ready", "boolean", "All members are ready"),
    AGE,
)
class EtcdadmCluster(KubeObject, kw_only=True):
    """An etcd on machines of its own."""

    spec: EtcdadmClusterSpec
    status: EtcdadmClusterStatus = EtcdadmClusterStatus()


KINDS: tuple[type[KubeObject], ...] = (EtcdadmCluster, EtcdadmConfig)
