"""Clusters that Flux applies from a Git repository: what a command changed of them would be set back."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass

import msgspec

from espalier.api.flux import (
    GIT_REPOSITORY,
    KUSTOMIZATION,
    NAME_LABEL,
    NAMESPACE_LABEL,
    GitRepository,
    GitRepositorySpec,
    Kustomization,
)
from espalier.api.resource import Key
from espalier.api.text.printable import in_one_line
from espalier.api.text.redaction import concealed
from espalier.cli.kit.failures import Failure
from espalier.gitops.layout import CLUSTER_FILE
from espalier.kube.client import Client
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.objects import Object

_SUSPEND = "set spec.suspend of the Kustomization before, and give the command again"
_PUSH = "Give --push to have it committed"


async def check_change(client: Client, cluster: Object) -> None:
    """Raises `Failure` for a Cluster that Flux applies, with the file to be changed instead.

    Not while its Kustomization is suspended, nor when that is gone: then nobody sets a change back.
    """
    await _check(client, cluster, "would set the change back", f"change {{file}} there; or {_SUSPEND}", _PUSH)


async def check_upgrade(client: Client, cluster: Object, *, offer: str = _PUSH) -> None:
    """The same for a management cluster, which only a command upgrades: nobody acts on a change that Git makes."""
    await _check(client, cluster, "would set the upgrade back", f"change {{file}} likewise, but {_SUSPEND}", offer)


async def check_deletion(client: Client, cluster: Object) -> None:
    """The same for its deletion."""
    await _check(
        client,
        cluster,
        "would create it again, with new machines",
        f"remove {{folder}} and the Kustomization there, and take it out of kustomization.yaml; or {_SUSPEND}",
        _PUSH,
    )


async def check_move(client: Client, cluster: Object) -> str:
    """The work that is left in Git once a Cluster has moved away; empty if Flux does not apply it here.

    Raises `Failure` until its Kustomization is suspended: Flux would create the cluster again, with new machines; and
    who takes its files out before has Flux delete it.
    """
    owner = await owner_of(client, cluster)
    if owner is None:
        return ""
    later = (
        f"take {owner.folder} and the Kustomization out of {owner.where}, and out of kustomization.yaml there, and add "
        "them to the repository of the target, if it has one"
    )
    if owner.is_suspended:
        return f"Kustomization {owner.kustomization} stays suspended: now {later}"
    raise Failure(
        f"cluster {cluster.key} comes from Git: Flux applies it by Kustomization {owner.kustomization}, and would "
        f"create it again once it has moved, with new machines. Set spec.suspend: true of the Kustomization, and give "
        f"the command again; once the cluster has moved, and not before, {later}"
    )


async def check_push(client: Client, cluster: Object) -> Owner:
    """The owner of a Cluster whose change `--push` commits. Raises `Failure` for one that does not come from Git."""
    owner = await owner_of(client, cluster)
    if owner is None:
        raise Failure(f"--push: cluster {cluster.key} does not come from Git: omit the flag")
    if owner.repository is None:
        raise Failure(
            f"--push: cluster {cluster.key} is applied by Kustomization {owner.kustomization}, whose repository can't "
            f"be read ({owner.where}): change {owner.file} there"
        )
    return owner


async def check_followed(client: Client, cluster: Object) -> Owner:
    """The same for a workload cluster, on whose commits somebody must act."""
    owner = await check_push(client, cluster)
    if owner.is_suspended:
        raise Failure(
            f"--push: cluster {cluster.key} comes from Git, but Kustomization {owner.kustomization} is suspended, so "
            "nobody would apply the commit: set its spec.suspend: false, or omit the flag"
        )
    return owner


async def _check(client: Client, cluster: Object, consequence: str, instead: str, offer: str = "") -> None:
    owner = await owner_of(client, cluster)
    if owner is None or owner.is_suspended:
        return
    change = instead.format(file=owner.file, folder=owner.folder)
    raise Failure(
        f"cluster {cluster.key} comes from Git: Flux applies it by Kustomization {owner.kustomization}, and "
        f"{consequence}. {f'{offer}; or in' if offer else 'In'} {owner.where}: {change}"
    )


@dataclass(frozen=True)
class Owner:
    """The Kustomization that applies a Cluster, and what it applies."""

    kustomization: Key
    is_suspended: bool
    folder: str
    where: str
    """The repository, for messages."""
    source: Key
    repository: GitRepositorySpec | None
    """None if it can't be read."""

    @property
    def file(self) -> str:
        """The file with the Cluster, as Espalier lays it out."""
        return f"{self.folder}/{CLUSTER_FILE}"


async def owner_of(client: Client, cluster: Object) -> Owner | None:
    """None for a Cluster that Flux does not apply, or no longer."""
    labels = cluster.metadata.labels
    name, namespace = labels.get(NAME_LABEL), labels.get(NAMESPACE_LABEL)
    if not name or not namespace:
        return None
    key = Key(namespace, name)
    try:
        kustomization = (await client.get(KUSTOMIZATION, name, namespace)).decode(Kustomization)
    except NotFound:
        return None
    except (KubeError, msgspec.ValidationError):  # it may apply the cluster: nothing says that it does not
        return Owner(key, False, "its folder", "the repository", Key("", ""), None)
    named = kustomization.spec.source_ref
    source = Key(named.namespace or namespace, named.name)
    repository = await _repository(client, source)
    where = f"{named.kind} {named.name}"
    if repository is not None:
        where = in_one_line(f"{concealed(repository.url)}, branch {repository.ref.branch or 'master'}")
    folder = in_one_line(posixpath.normpath(kustomization.spec.path or "."))
    return Owner(key, kustomization.spec.suspend, folder, where, source, repository)


async def _repository(client: Client, key: Key) -> GitRepositorySpec | None:
    try:
        return (await client.get(GIT_REPOSITORY, key.name, key.namespace)).decode(GitRepository).spec
    except (KubeError, msgspec.ValidationError):
        return None
