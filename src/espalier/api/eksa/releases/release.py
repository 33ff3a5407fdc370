"""Releases and their contents: EKSARelease, and the Bundles that it references."""

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from espalier.api.eksa.releases.components import (
    BottlerocketBootstrapContainersBundle,
    BottlerocketHostContainersBundle,
    CertManagerBundle,
    CiliumBundle,
    CoreClusterAPI,
    EksaBundle,
    EksDRelease,
    EtcdadmBundle,
    FluxBundle,
    HaproxyBundle,
    KindnetdBundle,
    KubeadmBootstrapBundle,
    KubeadmControlPlaneBundle,
    PackageBundle,
    UpgraderBundle,
)
from espalier.api.eksa.releases.infrastructure import (
    AwsBundle,
    CloudStackBundle,
    DockerBundle,
    NutanixBundle,
    SnowBundle,
    TinkerbellBundle,
    VSphereBundle,
)
from espalier.api.eksa.vocabulary import sentences
from espalier.api.eksa.vocabulary.group import EKSA_VERSION, GROUP, VERSION
from espalier.api.kinds import AGE, ATOMIC, MANY, Column, KubeObject, Rule, distinct, kind
from espalier.api.meta import Observed, Part
from espalier.api.resource import Resource

SOME = {"minLength": 1}
"""Extra schema of required text. Not in the type, so that objects stored without it can still be read."""


class VersionsBundle(Part):
    """Components of clusters of one Kubernetes minor version."""

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


_ONCE, _TWICE = distinct("self.versionsBundles", "{0}.kubeVersion")


class BundlesSpec(Part):
    """Contents of a release."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule("self == oldSelf", sentences.BUNDLES_EDITED),
        Rule(
            _ONCE,
            sentences.VERSION_TWICE,
            ".versionsBundles",
            found=_TWICE,
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
    """Empty: no status is reported."""


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
    """Versions and images that belong together."""

    spec: BundlesSpec
    status: BundlesStatus = BundlesStatus()


class BundlesRef(Part):
    """Reference to Bundles."""

    api_version: Annotated[str, Meta(description="Version of the API of the Bundles.")]
    name: Annotated[str, Meta(min_length=1, description="Name of the Bundles.")]
    namespace: Annotated[str, Meta(description="Namespace of the Bundles.")]


class EKSAReleaseSpec(Part):
    """Facts of a release. Immutable."""

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

    date: Annotated[str, Meta(description="When it was released.", extra_json_schema=SOME | {"format": "date-time"})]
    version: Annotated[
        str,
        Meta(min_length=1, extra_json_schema={"maxLength": 100}, description="Version of the release, like v0.26.0."),
    ]
    git_commit: Annotated[str, Meta(description="Git commit the release is built from.", extra_json_schema=SOME)]
    bundle_manifest_url: Annotated[
        str, Meta(description="Where the manifest of the Bundles is read from.", extra_json_schema=SOME)
    ]
    bundles_ref: Annotated[BundlesRef, Meta(description="The Bundles of the release in this cluster.")]


_NAME = "'eksa-%s'.format([self.spec.version.lowerAscii().replace('+', '-plus-').replace('.', '-')])"


class EKSAReleaseStatus(Observed, frozen=True):
    """Empty: no status is reported."""


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
