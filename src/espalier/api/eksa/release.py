"""Releases and their contents: EKSARelease, Bundles, and the manifests they come from (Release, EKS Distro Release)."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from espalier.api.eksa import sentences
from espalier.api.eksa.group import EKSA_VERSION, GROUP, VERSION
from espalier.api.kinds import AGE, ATOMIC, MANY, Column, KubeObject, Rule, kind
from espalier.api.meta import Observed, Part
from espalier.api.resource import Resource

Version = Annotated[str, Meta(description="Version of the component.")]


class Image(Part):
    """A container image."""

    uri: Annotated[str, Meta(description="Where the image is pulled from, with its tag.")]
    name: Annotated[str, Meta(description="Name of the image.")] = ""
    description: Annotated[str, Meta(description="What the image is for.")] = ""
    image_digest: Annotated[str, Meta(description="SHA256 digest of the image manifest.")] = ""
    os: Annotated[str, Meta(description="Operating system of the image.")] = ""
    os_name: Annotated[str, Meta(description="Name of the operating system, like ubuntu or bottlerocket.")] = ""
    arch: Annotated[list[str], Meta(description="Architectures of the image.", extra_json_schema=ATOMIC)] = []


class Archive(Part):
    """A file to download."""

    uri: Annotated[str, Meta(description="Where the file is downloaded from.")]
    name: Annotated[str, Meta(description="Name of the file.")] = ""
    description: Annotated[str, Meta(description="What the file is for.")] = ""
    os: Annotated[str, Meta(description="Operating system that the file is for.")] = ""
    os_name: Annotated[str, Meta(description="Name of the operating system, like ubuntu or bottlerocket.")] = ""
    arch: Annotated[list[str], Meta(description="Architectures that the file is for.", extra_json_schema=ATOMIC)] = []
    sha256: Annotated[str, Meta(description="SHA256 sum of the file.")] = ""
    sha512: Annotated[str, Meta(description="SHA512 sum of the file.")] = ""


class Manifest(Part):
    """A file of Kubernetes objects."""

    uri: Annotated[str, Meta(description="Where the manifest is read from.")]


class OSImageBundle(Part):
    """Archives of one operating system."""

    bottlerocket: Annotated[Archive | None, Meta(description="Bottlerocket.")] = None


class EksDRelease(Part):
    """The EKS Distro release: Kubernetes itself, and the images of nodes."""

    name: Annotated[str, Meta(description="Name of the EKS Distro release, like kubernetes-1-35-eks-1.")] = ""
    channel: Annotated[str, Meta(description="Release channel, like 1-35.")] = ""
    kube_version: Annotated[str, Meta(description="Kubernetes version of the release, like v1.35.4.")] = ""
    manifest_url: Annotated[str, Meta(description="Where the manifest of the release is read from.")] = ""
    components: Annotated[str, Meta(description="Where the CRDs of EKS Distro are read from.")] = ""
    git_commit: Annotated[str, Meta(description="Git commit of the release.")] = ""
    kind_node: Annotated[Image | None, Meta(description="Image of a node that is a container.")] = None
    ami: Annotated[OSImageBundle | None, Meta(description="AWS machine images.")] = None
    ova: Annotated[OSImageBundle | None, Meta(description="vSphere machine images.")] = None
    raw: Annotated[OSImageBundle | None, Meta(description="Raw disk images.")] = None
    containerd: Annotated[Archive | None, Meta(description="containerd.")] = None
    crictl: Annotated[Archive | None, Meta(description="crictl.")] = None
    etcdadm: Annotated[Archive | None, Meta(description="etcdadm.")] = None
    imagebuilder: Annotated[Archive | None, Meta(description="image-builder.")] = None


class CertManagerBundle(Part):
    """cert-manager."""

    version: Version = ""
    acmesolver: Image | None = None
    cainjector: Image | None = None
    controller: Image | None = None
    startupapicheck: Image | None = None
    ctl: Image | None = None
    webhook: Image | None = None
    manifest: Manifest | None = None


class CoreClusterAPI(Part):
    """Cluster API core."""

    version: Version = ""
    controller: Image | None = None
    kube_proxy: Image | None = None
    components: Manifest | None = None
    metadata: Manifest | None = None


class KubeadmBootstrapBundle(CoreClusterAPI):
    """Bootstrap provider kubeadm."""


class KubeadmControlPlaneBundle(CoreClusterAPI):
    """Control plane provider kubeadm."""


class AwsBundle(Part):
    """Infrastructure provider AWS."""

    version: Version = ""
    controller: Image | None = None
    kube_proxy: Image | None = None
    components: Manifest | None = None
    cluster_template: Manifest | None = None
    metadata: Manifest | None = None


class VSphereBundle(Part):
    """Infrastructure provider vSphere."""

    version: Version = ""
    cluster_api_controller: Image | None = msgspec.field(default=None, name="clusterAPIController")
    kube_proxy: Image | None = None
    manager: Image | None = None
    kube_vip: Image | None = None
    driver: Image | None = None
    syncer: Image | None = None
    components: Manifest | None = None
    metadata: Manifest | None = None
    cluster_template: Manifest | None = None


class DockerBundle(Part):
    """Infrastructure provider Docker."""

    version: Version = ""
    manager: Image | None = None
    kube_proxy: Image | None = None
    components: Manifest | None = None
    cluster_template: Manifest | None = None
    metadata: Manifest | None = None


class CloudStackBundle(Part):
    """Infrastructure provider CloudStack."""

    version: Version = ""
    cluster_api_controller: Image | None = msgspec.field(default=None, name="clusterAPIController")
    kube_rbac_proxy: Image | None = None
    kube_vip: Image | None = None
    components: Manifest | None = None
    metadata: Manifest | None = None


class NutanixBundle(Part):
    """Infrastructure provider Nutanix."""

    version: Version = ""
    cluster_api_controller: Image | None = msgspec.field(default=None, name="clusterAPIController")
    cloud_provider: Image | None = None
    kube_vip: Image | None = None
    components: Manifest | None = None
    metadata: Manifest | None = None
    cluster_template: Manifest | None = None


class SnowBundle(Part):
    """Infrastructure provider Snow."""

    version: Version = ""
    manager: Image | None = None
    kube_vip: Image | None = None
    components: Manifest | None = None
    metadata: Manifest | None = None
    bottlerocket_bootstrap_snow: Image | None = None


class HookArch(Part):
    """Kernel and initial RAM disk of one architecture."""

    amd: Archive | None = None
    arm: Archive | None = None


class HookBundle(Part):
    """Operating system that machines boot before they have one."""

    bootkit: Image | None = None
    docker: Image | None = None
    kernel: Image | None = None
    initramfs: HookArch | None = None
    vmlinuz: HookArch | None = None
    iso: Archive | None = None


class ActionsBundle(Part):
    """Steps of a Tinkerbell workflow."""

    cexec: Image | None = None
    kexec: Image | None = None
    image_to_disk: Image | None = None
    oci_to_disk: Image | None = None
    write_file: Image | None = None
    reboot: Image | None = None


class TinkBundle(Part):
    """Workflow engine of Tinkerbell."""

    nginx: Image | None = None
    tink_controller: Image | None = None
    tink_relay: Image | None = None
    tink_relay_init: Image | None = None
    tink_server: Image | None = None
    tink_worker: Image | None = None


class TinkerbellStackBundle(Part):
    """Services of Tinkerbell."""

    actions: ActionsBundle | None = None
    boots: Image | None = None
    hegel: Image | None = None
    hook: HookBundle | None = None
    rufio: Image | None = None
    stack: Image | None = None
    tink: TinkBundle | None = None
    tinkerbell: Image | None = None
    tinkerbell_chart: Image | None = None
    tinkerbell_crds: Image | None = None


class TinkerbellBundle(Part):
    """Infrastructure provider Tinkerbell (bare metal)."""

    version: Version = ""
    cluster_api_controller: Image | None = msgspec.field(default=None, name="clusterAPIController")
    components: Manifest | None = None
    metadata: Manifest | None = None
    cluster_template: Manifest | None = None
    envoy: Image | None = None
    kube_vip: Image | None = None
    tinkerbell_stack: TinkerbellStackBundle | None = None


class EksaBundle(Part):
    """EKS Anywhere's own components."""

    version: Version = ""
    cli_tools: Image | None = None
    cluster_controller: Image | None = None
    components: Manifest | None = None
    diagnostic_collector: Image | None = None


class CiliumBundle(Part):
    """CNI Cilium."""

    version: Version = ""
    cilium: Image | None = None
    operator: Image | None = None
    manifest: Manifest | None = None
    helm_chart: Image | None = None


class KindnetdBundle(Part):
    """CNI kindnetd, for Docker."""

    version: Version = ""
    manifest: Manifest | None = None
    image: Image | None = None


class FluxBundle(Part):
    """GitOps toolkit Flux."""

    version: Version = ""
    source_controller: Image | None = None
    kustomize_controller: Image | None = None
    helm_controller: Image | None = None
    notification_controller: Image | None = None


class PackageBundle(Part):
    """Curated packages."""

    version: Version = ""
    controller: Image | None = msgspec.field(default=None, name="packageController")
    token_refresher: Image | None = None
    credential_provider_package: Image | None = None
    helm_chart: Image | None = None


class BottlerocketBootstrapContainersBundle(Part):
    """Bootstrap container of Bottlerocket."""

    bootstrap: Image | None = None


class BottlerocketHostContainersBundle(Part):
    """Host containers of Bottlerocket."""

    admin: Image | None = None
    control: Image | None = None
    kubeadm_bootstrap: Image | None = None


class EtcdadmBundle(Part):
    """Provider of external etcd."""

    version: Version = ""
    controller: Image | None = None
    kube_proxy: Image | None = None
    components: Manifest | None = None
    metadata: Manifest | None = None


class HaproxyBundle(Part):
    """Load balancer of Docker clusters."""

    image: Image | None = None


class UpgraderBundle(Part):
    """In-place upgrades."""

    upgrader: Image | None = None


class VersionsBundle(Part):
    """Everything that clusters of one Kubernetes minor version are made of."""

    kube_version: Annotated[
        str, Meta(extra_json_schema={"maxLength": 20}, description="Kubernetes minor version, like 1.35.")
    ]
    end_of_standard_support: Annotated[str, Meta(description="Date when standard support of the version ends.")] = ""
    eks_d: Annotated[EksDRelease, Meta(description="EKS Distro release.")] = msgspec.field(
        default_factory=EksDRelease, name="eksD"
    )
    cert_manager: CertManagerBundle | None = None
    cluster_api: CoreClusterAPI | None = msgspec.field(default=None, name="clusterAPI")
    bootstrap: KubeadmBootstrapBundle | None = None
    control_plane: KubeadmControlPlaneBundle | None = None
    aws: AwsBundle | None = None
    v_sphere: VSphereBundle | None = None
    docker: DockerBundle | None = None
    cloud_stack: CloudStackBundle | None = None
    nutanix: NutanixBundle | None = None
    tinkerbell: TinkerbellBundle | None = None
    snow: SnowBundle | None = None
    eksa: EksaBundle | None = None
    cilium: CiliumBundle | None = None
    kindnetd: KindnetdBundle | None = None
    flux: FluxBundle | None = None
    package_controller: PackageBundle | None = None
    bottlerocket_host_containers: BottlerocketHostContainersBundle | None = None
    bottlerocket_bootstrap_containers: BottlerocketBootstrapContainersBundle | None = None
    etcdadm_bootstrap: EtcdadmBundle | None = None
    etcdadm_controller: EtcdadmBundle | None = None
    haproxy: HaproxyBundle | None = None
    upgrader: UpgraderBundle | None = None


_ONCE = "self.versionsBundles.exists_one(c, b.kubeVersion == c.kubeVersion)"


class BundlesSpec(Part):
    """Contents of a release."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule("self == oldSelf", sentences.BUNDLES_EDITED),
        Rule(
            f"self.versionsBundles.all(b, {_ONCE})",
            sentences.VERSION_TWICE,
            ".versionsBundles",
            found=f"self.versionsBundles.filter(b, !{_ONCE})[0].kubeVersion",
        ),
    )

    number: Annotated[int, Meta(ge=1, description="Number of the Bundles; higher is newer.")]
    cli_min_version: Annotated[str, Meta(description="First CLI version that may use these Bundles.")]
    cli_max_version: Annotated[str, Meta(description="Last CLI version that may use these Bundles.")]
    versions_bundles: Annotated[
        list[VersionsBundle],
        Meta(
            min_length=1,
            description="One entry for each Kubernetes minor version of the release.",
            extra_json_schema=ATOMIC | MANY,
        ),
    ]


class BundlesStatus(Observed, frozen=True):
    """Nothing is known of Bundles beside their content."""


@kind(
    Resource(GROUP, VERSION, "bundles", "Bundles"),
    categories=("eks-anywhere",),
    columns=(
        Column("Number", ".spec.number", "integer", "Number of the Bundles"),
        Column("CLI", ".spec.cliMaxVersion", "string", "Last CLI version that may use them"),
        AGE,
    ),
    status=True,
)
class Bundles(KubeObject, kw_only=True):
    """Which versions and images belong together."""

    spec: BundlesSpec
    status: BundlesStatus = BundlesStatus()


class BundlesRef(Part):
    """Reference to Bundles."""

    api_version: Annotated[str, Meta(description="Version of the API of the Bundles.")]
    name: Annotated[str, Meta(min_length=1, description="Name of the Bundles.")]
    namespace: Annotated[str, Meta(description="Namespace of the Bundles.")]


class EKSAReleaseSpec(Part):
    """Facts of a release. They never change."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule("self == oldSelf", sentences.RELEASE_CHANGED),
        Rule(
            f"self.version.matches('{EKSA_VERSION}')",
            sentences.NOT_SEMVER,
            ".version",
            found="self.version",
            allowed="a version like v0.26.0",
        ),
    )

    date: Annotated[str, Meta(description="When it was released.", extra_json_schema={"format": "date-time"})]
    version: Annotated[
        str,
        Meta(min_length=1, extra_json_schema={"maxLength": 100}, description="Version of the release, like v0.26.0."),
    ]
    git_commit: Annotated[str, Meta(description="Git commit the release is built from.")]
    bundle_manifest_url: Annotated[str, Meta(description="Where the manifest of the Bundles is read from.")]
    bundles_ref: Annotated[BundlesRef, Meta(description="The Bundles of the release in this cluster.")]


_NAME = "'eksa-%s'.format([self.spec.version.lowerAscii().replace('+', '-plus-').replace('.', '-')])"


class EKSAReleaseStatus(Observed, frozen=True):
    """Nothing is known of a release beside its facts."""


@kind(
    Resource(GROUP, VERSION, "eksareleases", "EKSARelease", namespaced=False),
    short_names=("eksar",),
    categories=("eks-anywhere",),
    columns=(
        Column("Version", ".spec.version", "string", "Version of the release"),
        Column("Released", ".spec.date", "date", "How long ago it was released"),
        Column("Bundles", ".spec.bundlesRef.name", "string", "Bundles of the release"),
        AGE,
    ),
    status=True,
)
class EKSARelease(KubeObject, kw_only=True):
    """A release of this system: maps an eksaVersion to Bundles."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!self.spec.version.matches('{EKSA_VERSION}') || self.metadata.name == {_NAME}",
            sentences.RELEASE_NAME,
            ".metadata.name",
            found="self.metadata.name",
            allows=_NAME,
        ),
    )

    spec: EKSAReleaseSpec
    status: EKSAReleaseStatus = EKSAReleaseStatus()
