"""EKS Distro's Release: the components of one patch release of Kubernetes. A manifest, not a kind that we serve."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from espalier.api.kinds import KubeObject, kind
from espalier.api.meta import Observed, Part
from espalier.api.resource import Resource

GROUP = "distro.eks.amazonaws.com"
VERSION = "v1alpha1"


class AssetImage(Observed, frozen=True):
    """A container image of a component."""

    uri: Annotated[str, Meta(min_length=1)]
    image_digest: str = ""


class AssetArchive(Observed, frozen=True):
    """A file of a component."""

    uri: Annotated[str, Meta(min_length=1)]
    sha256: str = ""
    sha512: str = ""


class Asset(Observed, frozen=True):
    """One thing that a component consists of."""

    name: Annotated[str, Meta(min_length=1)]
    type: Literal["Image", "Archive"] = "Image"
    description: str = ""
    os: str = ""
    arch: tuple[str, ...] = ()
    image: AssetImage | None = None
    archive: AssetArchive | None = None


class DistroComponent(Observed, frozen=True):
    """One component, built from one git tag."""

    name: Annotated[str, Meta(min_length=1)]
    git_tag: str = ""
    git_commit: str = ""
    assets: tuple[Asset, ...] = ()


class DistroReleaseSpec(Part):
    """Name of the release."""

    channel: Annotated[str, Meta(pattern=r"^[0-9]+-[0-9]+$", description="Release channel, like 1-35.")]
    number: Annotated[int, Meta(ge=1, description="Number of the release in its channel.")]
    build_repo_commit: str = ""


class DistroReleaseStatus(Observed, frozen=True):
    """Content of the release."""

    date: str = ""
    components: tuple[DistroComponent, ...] = ()


@kind(Resource(GROUP, VERSION, "releases", "Release"))
class DistroRelease(KubeObject, kw_only=True):
    """A release of EKS Distro."""

    spec: DistroReleaseSpec
    status: DistroReleaseStatus = msgspec.field(default_factory=DistroReleaseStatus)
