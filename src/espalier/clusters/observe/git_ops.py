"""The GitOps configuration that a Cluster references; nothing is rendered from it.

It is that of the management cluster, or one of its own with the same content, as the CLI of EKS Anywhere makes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NamedTuple

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa import gitops
from espalier.api.resource import Key, Resource
from espalier.clusters.observe.references import Missing
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Caches

if TYPE_CHECKING:
    from espalier.runtime.controllers.controller import Controller

FIELD = "spec.gitOpsRef"
KINDS: tuple[Resource, ...] = tuple(kind.resource for kind in gitops.KINDS)


class GitOpsObjects:
    """Caches of the GitOps configurations."""

    def __init__(self, caches: Caches) -> None:
        self._caches = {resource.kind: caches.of(resource) for resource in KINDS}

    def watched_by(self, controller: Controller, users: Callable[[Object], Iterable[Key]]) -> None:
        """Enqueue, for every change, the Clusters that it concerns."""
        for cache in self._caches.values():
            controller.watch(cache, users)

    def of(
        self, cluster: eksa.Cluster, management: eksa.Cluster | None
    ) -> tuple[tuple[Object, ...], tuple[Missing, ...]]:
        """The object that a Cluster references, or what is missing."""
        named = place(cluster, management)
        if named is None:
            return (), ()
        kind, key = named
        object_ = self._caches[kind].get(key)
        if object_ is not None:
            return (object_,), ()
        return (), (Missing(FIELD, f"{kind} {key.name} in namespace {key.namespace}, which does not exist"),)

    def other(self, cluster: eksa.Cluster, management: eksa.Cluster | None) -> Other | None:
        """How the content of a Cluster's own configuration differs from the management cluster's; None for the same
        object, for the same content, and while one of the two does not exist.
        """
        own, theirs = place(cluster, management), of_management(management)
        if own is None or theirs is None or own == theirs:
            return None
        actual, expected = self._caches[own[0]].get(own[1]), self._caches[theirs[0]].get(theirs[1])
        if actual is None or expected is None:
            return None
        name = management.metadata.name if management is not None else ""
        before, after = _content(expected, name), _content(actual, name)
        fields = tuple(field for field, value in after.items() if before[field] != value)
        return Other(theirs[0], theirs[1].name, fields) if fields else None


class Other(NamedTuple):
    """A configuration of the management cluster, and the fields in which a Cluster's own one differs."""

    kind: str
    name: str
    fields: tuple[str, ...]


def place(cluster: eksa.Cluster, management: eksa.Cluster | None) -> tuple[str, Key] | None:
    """Kind and key of the object that a Cluster references; None without a reference, or for another kind.

    If the management cluster references the same name, it is in the namespace of its record; otherwise in that of the
    Cluster.
    """
    reference = cluster.spec.git_ops_ref
    if reference is None or all(reference.kind != resource.kind for resource in KINDS):
        return None
    is_shared = management is not None and management.spec.git_ops_ref == reference
    owner = management if management is not None and is_shared else cluster
    return reference.kind, Key(owner.metadata.namespace, reference.name)


def of_management(management: eksa.Cluster | None) -> tuple[str, Key] | None:
    """The same of the record of the management cluster."""
    return place(management, None) if management is not None else None


def _content(object_: Object, management: str) -> dict[str, str]:
    """The repository that an object names, by the fields of a FluxConfig, with defaults filled in."""
    if object_.kind == gitops.FluxConfig.resource.kind:
        spec = object_.decode(gitops.FluxConfig).spec
    else:
        spec = _as_flux(object_.decode(gitops.GitOpsConfig).spec)
    git, github = spec.git, spec.github
    return {
        "spec.branch": spec.branch or "main",
        "spec.clusterConfigPath": (spec.cluster_config_path or f"clusters/{management}").strip("/"),
        "spec.systemNamespace": spec.system_namespace or "flux-system",
        "spec.git.repositoryUrl": git.repository_url if git is not None else "",
        "spec.git.sshKeyAlgorithm": (git.ssh_key_algorithm or "ecdsa") if git is not None else "",
        "spec.github.owner": github.owner if github is not None else "",
        "spec.github.repository": github.repository if github is not None else "",
        "spec.github.personal": str(bool(github.personal)) if github is not None else "",
    }


def _as_flux(spec: gitops.GitOpsConfigSpec) -> gitops.FluxConfigSpec:
    github = spec.flux.github if spec.flux is not None else None
    if github is None:
        return gitops.FluxConfigSpec()
    return gitops.FluxConfigSpec(
        branch=github.branch,
        cluster_config_path=github.cluster_config_path,
        system_namespace=github.flux_system_namespace,
        github=gitops.GithubProviderConfig(owner=github.owner, repository=github.repository, personal=github.personal),
    )
