"""FluxConfig and GitOpsConfig: the repository in which clusters are described."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.eksa.group import GROUP, VERSION
from espalier.api.kinds import AGE, KubeObject, kind
from espalier.api.meta import Observed, Part
from espalier.api.resource import Resource

_BRANCH = "Branch; main when it is left out."
_PATH = "Folder of the cluster in the repository."
_OWNER = "User or organization that has the repository."
_REPOSITORY = "Name of the repository."
_PERSONAL = "Whether the owner is a user, not an organization."


class GithubProviderConfig(Part):
    """A repository at GitHub."""

    owner: Annotated[str, Meta(description=_OWNER)]
    repository: Annotated[str, Meta(description=_REPOSITORY)]
    personal: Annotated[bool | None, Meta(description=_PERSONAL)] = None


class GitProviderConfig(Part):
    """A repository at any Git server, by SSH."""

    repository_url: Annotated[str, Meta(description="URL of the repository, ssh://…")]
    ssh_key_algorithm: Annotated[str, Meta(description="Algorithm of the key: ecdsa, rsa, ed25519.")] = ""


class FluxConfigSpec(Part):
    """Repository that Flux reads: `github`, or `git`."""

    branch: Annotated[str, Meta(description=_BRANCH)] = ""
    cluster_config_path: Annotated[str, Meta(description=_PATH)] = ""
    git: GitProviderConfig | None = None
    github: GithubProviderConfig | None = None
    system_namespace: Annotated[str, Meta(description="Namespace of Flux; flux-system when it is left out.")] = ""


class FluxConfigStatus(Observed, frozen=True):
    """Nothing is known of it beside that it is there."""


@kind(Resource(GROUP, VERSION, "fluxconfigs", "FluxConfig"), categories=("eks-anywhere",), columns=(AGE,), status=True)
class FluxConfig(KubeObject):
    """The repository in which the management cluster, and those that it manages, are described."""

    spec: FluxConfigSpec = msgspec.field(default_factory=FluxConfigSpec)
    status: FluxConfigStatus = FluxConfigStatus()


class Github(Part):
    """A repository at GitHub, with what Flux is to know of it."""

    owner: Annotated[str, Meta(description=_OWNER)]
    repository: Annotated[str, Meta(description=_REPOSITORY)]
    branch: Annotated[str, Meta(description=_BRANCH)] = ""
    cluster_config_path: Annotated[str, Meta(description=_PATH)] = ""
    flux_system_namespace: Annotated[str, Meta(description="Namespace of Flux; flux-system when it is left out.")] = ""
    personal: Annotated[bool | None, Meta(description=_PERSONAL)] = None


class Flux(Part):
    """Settings of Flux."""

    github: Github | None = None


class GitOpsConfigSpec(Part):
    """Repository that Flux reads."""

    flux: Flux | None = None


class GitOpsConfigStatus(Observed, frozen=True):
    """Nothing is known of it beside that it is there."""


@kind(
    Resource(GROUP, VERSION, "gitopsconfigs", "GitOpsConfig"), categories=("eks-anywhere",), columns=(AGE,), status=True
)
class GitOpsConfig(KubeObject):
    """As FluxConfig, in the way of earlier manifests. Deprecated: use FluxConfig."""

    spec: GitOpsConfigSpec = msgspec.field(default_factory=GitOpsConfigSpec)
    status: GitOpsConfigStatus = GitOpsConfigStatus()


KINDS: tuple[type[KubeObject], ...] = (FluxConfig, GitOpsConfig)
