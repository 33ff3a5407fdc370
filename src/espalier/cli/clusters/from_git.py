"""Clusters that Flux applies from a Git repository: what a command changed of them would be set back."""

from __future__ import annotations

import posixpath

import msgspec

from espalier.api.flux import (
    GIT_REPOSITORY,
    KUSTOMIZATION,
    NAME_LABEL,
    NAMESPACE_LABEL,
    GitRepository,
    Kustomization,
)
from espalier.api.printable import in_one_line
from espalier.api.redaction import concealed
from espalier.cli.kit.failures import Failure
from espalier.kube.client import Client
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.objects import Object

_SUSPEND = "set spec.suspend of the Kustomization before, and give the command again"


async def check_change(client: Client, cluster: Object) -> None:
    """Raises `Failure` for a Cluster that Flux applies, with the file to be changed instead.

    Not while its Kustomization is suspended, nor when that is gone: then nobody sets a change back.
    """
    await _check(client, cluster, "would set the change back", f"change {{file}} there; or {_SUSPEND}")


async def check_upgrade(client: Client, cluster: Object) -> None:
    """The same for a management cluster, which only a command upgrades: nobody acts on a change that Git makes."""
    await _check(client, cluster, "would set the upgrade back", f"change {{file}} likewise, but {_SUSPEND}")


async def check_deletion(client: Client, cluster: Object) -> None:
    """The same for its deletion."""
    await _check(
        client,
        cluster,
        "would create it again, with new machines",
        f"remove {{folder}} and the Kustomization there, and take it out of kustomization.yaml; or {_SUSPEND}",
    )


async def _check(client: Client, cluster: Object, consequence: str, instead: str) -> None:
    labels = cluster.metadata.labels
    name, namespace = labels.get(NAME_LABEL), labels.get(NAMESPACE_LABEL)
    if not name or not namespace:
        return
    try:
        kustomization = (await client.get(KUSTOMIZATION, name, namespace)).decode(Kustomization)
    except NotFound:
        return
    except (KubeError, msgspec.ValidationError):  # it may apply the cluster: nothing says that it does not
        kustomization = None
    if kustomization is not None and kustomization.spec.suspend:
        return
    from espalier.gitops.layout import CLUSTER_FILE  # noqa: PLC0415  not for help

    where, folder = "the repository", "its folder"
    if kustomization is not None:
        where = await _repository(client, kustomization)
        folder = in_one_line(posixpath.normpath(kustomization.spec.path or "."))
    file = f"{folder}/{CLUSTER_FILE}"
    raise Failure(
        f"cluster {cluster.key} comes from Git: Flux applies it by Kustomization {namespace}/{name}, and "
        f"{consequence}. In {where}: {instead.format(file=file, folder=folder)}"
    )


async def _repository(client: Client, kustomization: Kustomization) -> str:
    source = kustomization.spec.source_ref
    try:
        repository = await client.get(GIT_REPOSITORY, source.name, source.namespace or kustomization.metadata.namespace)
        spec = repository.decode(GitRepository).spec
    except (KubeError, msgspec.ValidationError):
        return f"{source.kind} {source.name}"
    return in_one_line(f"{concealed(spec.url)}, branch {spec.ref.branch or 'master'}")
