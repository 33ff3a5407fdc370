"""The manifest that lists the releases of EKS Anywhere. Read from files; no API server serves it."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from espalier.api.eksa.vocabulary.group import GROUP, VERSION
from espalier.api.kinds import PRESERVE, KubeObject, kind
from espalier.api.meta import Observed, Part
from espalier.api.resource import Resource
from espalier.api.text import patterns


class ReleaseEntry(Part):
    """One release."""

    date: Annotated[str, Meta(min_length=1, description="When it was released.")]
    version: Annotated[str, Meta(pattern=patterns.RELEASE_VERSION, description="Its version, like v0.26.0.")]
    number: Annotated[int, Meta(ge=1, description="Its number; higher is newer.")]
    git_commit: Annotated[str, Meta(description="Git commit it is built from.")]
    bundle_manifest_url: Annotated[str, Meta(min_length=1, description="Where its Bundles are read from.")]
    git_tag: Annotated[str, Meta(description="Git tag it is built from.")] = ""
    eks_a_binary: Annotated[
        dict[str, Any], Meta(description="Archives of the CLI, by operating system.", extra_json_schema=PRESERVE)
    ] = msgspec.field(default_factory=dict, name="eksABinary")
    eks_a_cli: Annotated[
        dict[str, Any], Meta(description="Archives of the CLI, by operating system.", extra_json_schema=PRESERVE)
    ] = msgspec.field(default_factory=dict, name="eksACLI")


class ReleaseManifestSpec(Part):
    """All releases."""

    latest_version: Annotated[str, Meta(min_length=1, description="Version of the newest release.")]
    releases: Annotated[list[ReleaseEntry], Meta(min_length=1, description="The releases, in any order.")]


class ReleaseManifestStatus(Observed, frozen=True):
    """Empty, and there nevertheless: EKS Anywhere writes its manifest with Go's encoder."""


@kind(Resource(GROUP, VERSION, "releases", "Release"))
class ReleaseManifest(KubeObject, kw_only=True):
    """The list of releases."""

    spec: ReleaseManifestSpec
    status: ReleaseManifestStatus = ReleaseManifestStatus()
