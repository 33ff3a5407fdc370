"""Kinds of Flux, as far as this program reads or writes them: repositories, and what is applied from them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from espalier.api.kinds import AGE, Column, KubeObject, kind
from espalier.api.meta import Condition, Observed, Part
from espalier.api.resource import Resource

GIT_REPOSITORY = Resource("source.toolkit.fluxcd.io", "v1", "gitrepositories", "GitRepository")
KUSTOMIZATION = Resource("kustomize.toolkit.fluxcd.io", "v1", "kustomizations", "Kustomization")
NAMESPACE = "flux-system"
"""Namespace of Flux, unless a FluxConfig names another; also the name of the first objects in it."""

NAME_LABEL, NAMESPACE_LABEL = (f"{KUSTOMIZATION.group}/{part}" for part in ("name", "namespace"))
"""Labels of an applied object: its Kustomization."""
FORCE_ANNOTATION = f"{KUSTOMIZATION.group}/force"
"""On an object: Flux forces this one, whatever the Kustomization says."""
PROGRESSING, WITH_RETRY = "Progressing", "ProgressingWithRetry"
"""Reasons of condition Reconciling: objects are being applied; that failed, and will be tried again."""
REQUESTED = "reconcile.fluxcd.io/requestedAt"
"""Annotation: another value asks for a reconcile now."""
FINALIZER = "finalizers.fluxcd.io"
"""On a Kustomization: what it applied is deleted first."""

MIRROR = "MirrorPrune"
"""Default of `deletionPolicy`: what a deleted Kustomization applied is deleted if it prunes."""

_COLUMNS = (
    AGE,
    Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
    Column("Status", '.status.conditions[?(@.type=="Ready")].message'),
)


class Named(Part):
    """The name of an object, in the same namespace."""

    name: str


class GitReference(Part):
    """The part of a repository that is applied."""

    branch: str = ""


class GitRepositorySpec(Part):
    """The address of a repository, and the interval at which it is fetched."""

    url: str
    interval: str
    ref: GitReference = msgspec.field(default_factory=GitReference)
    secret_ref: Named | None = None
    suspend: bool = False
    timeout: str = "60s"


class Artifact(Observed, frozen=True):
    """A fetched revision: `BRANCH@sha1:COMMIT`."""

    revision: str = ""


class GitRepositoryStatus(Observed, frozen=True):
    """The revision that was fetched last."""

    observed_generation: int = 0
    conditions: list[Condition] = []  # noqa: RUF012  msgspec copies empty defaults
    artifact: Artifact | None = None


@kind(GIT_REPOSITORY, short_names=("gitrepo",), columns=_COLUMNS, status=True, partly=True)
class GitRepository(KubeObject, kw_only=True):
    """A repository that Flux fetches."""

    spec: GitRepositorySpec
    status: GitRepositoryStatus = GitRepositoryStatus()


class Source(Part):
    """The repository of a Kustomization."""

    kind: str
    name: str
    namespace: str = ""


class KustomizationSpec(Part):
    """A folder of a repository, and how often it is applied."""

    interval: str
    prune: bool
    source_ref: Source
    path: str = ""
    retry_interval: str = ""
    timeout: str = ""
    suspend: bool = False
    force: bool = False
    wait: bool = False
    deletion_policy: str = MIRROR


class Entry(Observed, frozen=True):
    """An applied object: NAMESPACE_NAME_GROUP_KIND, and the version of its kind."""

    id: str
    v: str


class Inventory(Observed, frozen=True):
    """All that a Kustomization applied."""

    entries: list[Entry] = []  # noqa: RUF012  msgspec copies empty defaults


class KustomizationStatus(Observed, frozen=True):
    """The objects that were applied last."""

    observed_generation: int = 0
    conditions: list[Condition] = []  # noqa: RUF012  msgspec copies empty defaults
    last_applied_revision: str = ""
    last_attempted_revision: str = ""
    inventory: Inventory | None = None


@kind(KUSTOMIZATION, short_names=("ks",), columns=_COLUMNS, status=True, partly=True)
class Kustomization(KubeObject, kw_only=True):
    """A folder of a repository that Flux applies."""

    spec: Annotated[KustomizationSpec, Meta(description="What is applied, and how often.")]
    status: KustomizationStatus = KustomizationStatus()


KINDS: tuple[type[KubeObject], ...] = (GitRepository, Kustomization)
