"""EKS Distro's Release: the components of one patch release of Kubernetes. Bundles reference it."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from espalier.api.eksa.vocabulary import sentences
from espalier.api.kinds import AGE, ATOMIC, Column, KubeObject, Rule, kind
from espalier.api.meta import Observed, Part
from espalier.api.resource import Resource
from espalier.api.text import patterns

GROUP = "distro.eks.amazonaws.com"
VERSION = "v1alpha1"


class AssetImage(Observed, frozen=True):
    """A container image of a component."""

    uri: Annotated[str, Meta(min_length=1, description="Where the image is pulled from, with its tag.")]
    image_digest: Annotated[str, Meta(description="SHA256 digest of the image manifest.")] = ""


class AssetArchive(Observed, frozen=True):
    """A file of a component."""

    uri: Annotated[str, Meta(min_length=1, description="Where the file is downloaded from.")]
    sha256: Annotated[str, Meta(description="SHA256 sum of the file.")] = ""
    sha512: Annotated[str, Meta(description="SHA512 sum of the file.")] = ""


class Asset(Observed, frozen=True):
    """One artifact of a component."""

    name: Annotated[str, Meta(min_length=1, description="Name of the asset, like etcd-image.")]
    type: Annotated[Literal["Image", "Archive"], Meta(description="What it is.")] = "Image"
    description: Annotated[str, Meta(description="What it is for.")] = ""
    os: Annotated[str, Meta(description="Operating system that it is for.")] = ""
    arch: Annotated[tuple[str, ...], Meta(description="Architectures that it is for.", extra_json_schema=ATOMIC)] = ()
    image: AssetImage | None = None
    archive: AssetArchive | None = None


class DistroComponent(Observed, frozen=True):
    """One component, built from one git tag."""

    name: Annotated[str, Meta(min_length=1, description="Name of the component, like etcd.")]
    git_tag: Annotated[str, Meta(description="Git tag it is built from.")] = ""
    git_commit: Annotated[str, Meta(description="Git commit it is built from.")] = ""
    assets: Annotated[
        tuple[Asset, ...], Meta(description="What the component consists of.", extra_json_schema=ATOMIC)
    ] = ()


class DistroReleaseSpec(Part):
    """Name of the release."""

    channel: Annotated[str, Meta(pattern=patterns.RELEASE_CHANNEL, description="Release channel, like 1-35.")]
    number: Annotated[int, Meta(ge=1, description="Number of the release in its channel.")]
    build_repo_commit: Annotated[str, Meta(description="Git commit of EKS Distro.")] = ""


class DistroReleaseStatus(Observed, frozen=True):
    """Content of the release. No controller reports it: it is part of the release, and immutable."""

    date: Annotated[str, Meta(description="When it was released.")] = ""
    components: Annotated[
        tuple[DistroComponent, ...], Meta(description="What it consists of.", extra_json_schema=ATOMIC)
    ] = ()


@kind(
    Resource(GROUP, VERSION, "releases", "Release"),
    columns=(
        Column("Release Channel", ".spec.channel", "string", "Release channel"),
        Column("Release", ".spec.number", "integer", "Number of the release in its channel"),
        AGE,
    ),
)
class DistroRelease(KubeObject, kw_only=True):
    """A release of EKS Distro. As in its own CRD, `status` is no subresource: the object is created with it."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.spec == oldSelf.spec && has(self.status) == has(oldSelf.status)"
            " && (!has(self.status) || self.status == oldSelf.status)",
            sentences.DISTRO_CHANGED,
        ),
    )

    spec: DistroReleaseSpec
    status: DistroReleaseStatus = msgspec.field(default_factory=DistroReleaseStatus)
