"""Components of Bundles: images, archives, manifests. Those of infrastructure providers are in `infrastructure`."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.kinds import ATOMIC
from espalier.api.meta import Part

Version = Annotated[str, Meta(description="Version of the component.")]


class Image(Part):
    """A container image. EKS Anywhere's Bundles have empty ones, for providers that a version lacks."""

    uri: Annotated[str, Meta(description="Where the image is pulled from, with its tag.")] = ""
    name: Annotated[str, Meta(description="Name of the image.")] = ""
    description: Annotated[str, Meta(description="What the image is for.")] = ""
    image_digest: Annotated[str, Meta(description="SHA256 digest of the image manifest.")] = ""
    os: Annotated[str, Meta(description="Operating system of the image.")] = ""
    os_name: Annotated[str, Meta(description="Name of the operating system, like ubuntu or bottlerocket.")] = ""
    arch: Annotated[list[str], Meta(description="Architectures of the image.", extra_json_schema=ATOMIC)] = []


class Archive(Part):
    """A file to download. EKS Anywhere's Bundles have empty ones, for operating systems that a version lacks."""

    uri: Annotated[str, Meta(description="Where the file is downloaded from.")] = ""
    name: Annotated[str, Meta(description="Name of the file.")] = ""
    description: Annotated[str, Meta(description="What the file is for.")] = ""
    os: Annotated[str, Meta(description="Operating system that the file is for.")] = ""
    os_name: Annotated[str, Meta(description="Name of the operating system, like ubuntu or bottlerocket.")] = ""
    arch: Annotated[list[str], Meta(description="Architectures that the file is for.", extra_json_schema=ATOMIC)] = []
    sha256: Annotated[str, Meta(description="SHA256 sum of the file.")] = ""
    sha512: Annotated[str, Meta(description="SHA512 sum of the file.")] = ""


class Manifest(Part):
    """A file of Kubernetes objects. Empty where images are."""

    uri: Annotated[str, Meta(description="Where the manifest is read from.")] = ""


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
    """Bootstrap containers of Bottlerocket."""

    bootstrap: Image | None = None
    multi_network_bootstrap: Image | None = None


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
