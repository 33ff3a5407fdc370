"""FluxConfig and GitOpsConfig: the Git repository with the manifests of clusters."""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from espalier.api.eksa.declaring import eksa_kind
from espalier.api.eksa.parts.fields import same
from espalier.api.eksa.vocabulary import sentences
from espalier.api.kinds import AGE, KubeObject, Rule
from espalier.api.meta import Observed, Part
from espalier.api.text.forms import DNS_LABELS, Form

ALGORITHMS = ("ecdsa", "rsa", "ed25519")

_TEXT = {"maxLength": 2048}

_BRANCH = "Branch; main by default."
_PATH = "Folder of the cluster in the repository."
_OWNER = "User or organization that owns the repository."
_REPOSITORY = "Name of the repository."
_PERSONAL = "True if the owner is a user, not an organization."

_SSH = "^ssh://([^/ ]+@)?[^/ @]+/.+"
"""Git needs both the host and the path. As the URL can't be changed later, a stored one without them is kept."""


def _form(field: str, pattern: str, message: str, allowed: str, *, never: str = "") -> Rule:
    """A field that is empty, missing, or of this form; and not of the other."""
    value = f"self.{field}"
    is_not = f" && !{value}.matches('{never}')" if never else ""
    rule = f"!has({value}) || {value} == '' || {value}.matches('{pattern}'){is_not}"
    return Rule(rule, message, f".{field}", found=value, allowed=allowed)


_BRANCHES = _form(
    "branch",
    "^[^-/.[:cntrl:] ~^:?*[\\\\\\\\][^[:cntrl:] ~^:?*[\\\\\\\\]*$",
    "not the name of a branch",
    "what `git check-ref-format --branch` accepts",
    never="[.][.]|@[{]|//|/[.]|[/.]$|[.]lock(/|$)",
)
_FOLDERS = _form(
    "clusterConfigPath",
    "^[^[:cntrl:]]*$",
    "not a folder of the repository",
    "a path like clusters/management, without ..",
    never="(^|/)[.][.](/|$)",
)
_GITHUB = tuple(
    _form(name, form.pattern, "GitHub has no such names", form.words)
    for name, form in (("owner", Form("-_", first="", last="")), ("repository", Form("-_.", first="", last="")))
)


def _namespace(field: str) -> Rule:
    return _form(field, DNS_LABELS.pattern, "not the name of a namespace", DNS_LABELS.words)


def _given(name: str) -> Rule:
    return Rule(f"self.{name} != ''", "must be set", f".{name}", found="'nothing'")


def _fixed(**defaults: str) -> tuple[Rule, ...]:
    """Immutable fields, as in EKS Anywhere; a field that is missing means its default."""
    return tuple(same(sentences.GITOPS_CHANGED, field, default) for field, default in defaults.items())


def _present(field: str) -> Rule:
    """A part that is neither added nor removed; what is in it has rules of its own."""
    return Rule(f"has(self.{field}) == has(oldSelf.{field})", sentences.GITOPS_CHANGED, f".{field}")


_PERSONAL_FIXED = Rule(
    "(has(self.personal) && self.personal) == (has(oldSelf.personal) && oldSelf.personal)",
    sentences.GITOPS_CHANGED,
    ".personal",
)
_OF_GITHUB = (_given("owner"), _given("repository"), *_GITHUB, *_fixed(owner="", repository=""), _PERSONAL_FIXED)


class GithubProviderConfig(Part):
    """A repository at GitHub."""

    validations: ClassVar[tuple[Rule, ...]] = _OF_GITHUB

    owner: Annotated[str, Meta(description=_OWNER, extra_json_schema=_TEXT)]
    repository: Annotated[str, Meta(description=_REPOSITORY, extra_json_schema=_TEXT)]
    personal: Annotated[bool | None, Meta(description=_PERSONAL)] = None


class GitProviderConfig(Part):
    """A repository at any Git server, through SSH."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"self.repositoryUrl.startsWith('ssh://') && (oldSelf.hasValue() || self.repositoryUrl.matches('{_SSH}'))",
            "Flux reads Git servers through SSH",
            ".repositoryUrl",
            found="self.repositoryUrl == '' ? 'nothing' : self.repositoryUrl.startsWith('ssh://') ?"
            " 'a URL without host or path' : 'another URL'",
            allowed="ssh://USER@HOST/PATH",
            creation=True,
        ),
        Rule(
            f"!has(self.sshKeyAlgorithm) || self.sshKeyAlgorithm in {['', *ALGORITHMS]}",
            "not an algorithm of SSH keys",
            ".sshKeyAlgorithm",
            found="self.sshKeyAlgorithm",
            allowed=", ".join(ALGORITHMS),
        ),
        *_fixed(repositoryUrl="", sshKeyAlgorithm="ecdsa"),
    )

    repository_url: Annotated[str, Meta(description="URL of the repository, ssh://…")]
    ssh_key_algorithm: Annotated[str, Meta(description="Algorithm of the key: ecdsa, rsa, ed25519.")] = ""


class FluxConfigSpec(Part):
    """Repository that Flux reads: `github`, or `git`. Immutable."""

    validations: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.git) != has(self.github)",
            "Flux reads one repository",
            ".github",
            found="has(self.git) ? 'git and github' : 'neither git nor github'",
            allowed="github, or git",
        ),
        Rule(
            "has(oldSelf.git) == has(oldSelf.github) || has(self.git) == has(oldSelf.git)",
            sentences.GITOPS_CHANGED,
            ".git",
        ),
        _BRANCHES,
        _FOLDERS,
        _namespace("systemNamespace"),
        *_fixed(branch="main", clusterConfigPath="", systemNamespace="flux-system"),
    )

    branch: Annotated[str, Meta(description=_BRANCH, extra_json_schema=_TEXT)] = ""
    cluster_config_path: Annotated[str, Meta(description=_PATH, extra_json_schema=_TEXT)] = ""
    git: GitProviderConfig | None = None
    github: GithubProviderConfig | None = None
    system_namespace: Annotated[
        str, Meta(description="Namespace of Flux; flux-system by default.", extra_json_schema=_TEXT)
    ] = ""


class FluxConfigStatus(Observed, frozen=True):
    """Empty: no status is reported."""


@eksa_kind(AGE)
class FluxConfig(KubeObject):
    """The Git repository with the manifests of the management cluster and its workload clusters."""

    spec: FluxConfigSpec = msgspec.field(default_factory=FluxConfigSpec)
    status: FluxConfigStatus = FluxConfigStatus()


class Github(Part):
    """A repository at GitHub, and settings of Flux for it."""

    validations: ClassVar[tuple[Rule, ...]] = (
        *_OF_GITHUB,
        _BRANCHES,
        _FOLDERS,
        _namespace("fluxSystemNamespace"),
        *_fixed(branch="main", clusterConfigPath="", fluxSystemNamespace="flux-system"),
    )

    owner: Annotated[str, Meta(description=_OWNER, extra_json_schema=_TEXT)]
    repository: Annotated[str, Meta(description=_REPOSITORY, extra_json_schema=_TEXT)]
    branch: Annotated[str, Meta(description=_BRANCH, extra_json_schema=_TEXT)] = ""
    cluster_config_path: Annotated[str, Meta(description=_PATH, extra_json_schema=_TEXT)] = ""
    flux_system_namespace: Annotated[
        str, Meta(description="Namespace of Flux; flux-system by default.", extra_json_schema=_TEXT)
    ] = ""
    personal: Annotated[bool | None, Meta(description=_PERSONAL)] = None


class Flux(Part):
    """Settings of Flux."""

    validations: ClassVar[tuple[Rule, ...]] = (_present("github"),)

    github: Github | None = None


class GitOpsConfigSpec(Part):
    """Repository that Flux reads. Immutable."""

    validations: ClassVar[tuple[Rule, ...]] = (_present("flux"),)

    flux: Flux | None = None


class GitOpsConfigStatus(Observed, frozen=True):
    """Empty: no status is reported."""


@eksa_kind(AGE)
class GitOpsConfig(KubeObject):
    """An earlier form of FluxConfig. Deprecated: use FluxConfig."""

    spec: GitOpsConfigSpec = msgspec.field(default_factory=GitOpsConfigSpec)
    status: GitOpsConfigStatus = GitOpsConfigStatus()


KINDS: tuple[type[KubeObject], ...] = (FluxConfig, GitOpsConfig)
