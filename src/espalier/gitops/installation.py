"""A management cluster is handed over to Git: its files are pushed, Flux is installed, and follows them.

Files first: what can't be pushed changes nothing in the cluster. Each part can be repeated, and changes nothing then.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from espalier.api import conditions
from espalier.api.core import NAMESPACE, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.flux import GIT_REPOSITORY, KUSTOMIZATION, REQUESTED
from espalier.api.meta import Condition, Observed, Tree
from espalier.api.resource import Key, Resource
from espalier.api.trees import yaml_trees
from espalier.gitops.layout import CLUSTER_FILE, SYNC_FILE, Unfit, cluster_files, flux_files, objects
from espalier.gitops.repository import Author, Published, Repository
from espalier.gitops.target import Credentials, Target
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import KubeError, NotFound

FIELD_MANAGER = "espalier-gitops"
_SYNC = {resource.kind: resource for resource in (GIT_REPOSITORY, KUSTOMIZATION)}
_PAUSE = 1.0


class NotFollowed(Exception):
    """Flux does not follow the repository; the message is Flux's."""


@dataclass(frozen=True)
class Installation:
    """A management cluster that is handed over, and the repository that it is handed over to."""

    target: Target
    credentials: Credentials
    management: str
    """Name of the management cluster."""
    manifest: Sequence[Tree]
    """Its Cluster, with the objects that it names, as its administrator wrote them."""
    components: Sequence[Tree]
    """Flux's manifests, of `components.components`; none where something else acts on Flux's objects."""
    author: Author

    def files(self, existing: Mapping[str, bytes], *, goes_on: bool = False) -> dict[str, bytes | None]:
        """The files to be pushed. Raises `Unfit`, also where another cluster of this name has files already.

        An installation that `goes_on` has pushed them before: if somebody changed the cluster's file since, to mend
        what Flux refused, it stays as it is.
        """
        target = self.target
        files = flux_files(
            target.base,
            target.url,
            target.branch,
            existing,
            secret=target.namespace,
            namespace=target.namespace,
            components=self.components,
        )
        files |= cluster_files(
            target.base, self.manifest, {**existing, **files}, namespace=target.namespace, manages=True
        )
        path = f"{target.base}/{self.management}/eksa-system/{CLUSTER_FILE}"
        if path in existing and existing[path] != files[path]:
            if goes_on and self._has_own(path, existing[path]):
                return {**files, path: existing[path]}
            raise Unfit(
                f"{path}: the repository has another cluster {self.management}; remove its files, or choose another "
                "clusterConfigPath"
            )
        return {**files}

    def _has_own(self, path: str, content: bytes) -> bool:
        """True if the one Cluster of a file is this one. Raises `Unfit` for a file that can't be read."""

        def clusters(trees: Sequence[Tree]) -> list[tuple[object, object]]:
            metadata = [tree["metadata"] for tree in trees if tree.get("kind") == Cluster.resource.kind]
            return [(named.get("name"), named.get("namespace", "default")) for named in metadata]

        return clusters(objects(path, content)) == clusters(self.manifest)


async def install(
    client: Client,
    installation: Installation,
    apply: Callable[[Client, Sequence[Tree]], Awaitable[None]],
    *,
    wait: Callable[[str], None] = lambda _text: None,
    in_thread: Callable[[Callable[[], Published]], Awaitable[Published]] = asyncio.to_thread,
    patience: float = 300.0,
) -> Published:
    """Push the files, install Flux by `apply` (which returns when it runs), and wait until it applied them.

    `client` is an administrator's of the management cluster; `wait` is told what is waited for. May be repeated.
    Raises `GitError`, `Unfit` and `NotFollowed`.
    """
    target, credentials = installation.target, installation.credentials

    flux = Key(target.namespace, target.namespace)
    goes_on = await _exists(client, flux)

    def change(existing: Mapping[str, bytes]) -> dict[str, bytes | None]:
        return installation.files(existing, goes_on=goes_on)

    def push() -> Published:
        with credentials.access(target) as access:
            message = f"Manage cluster {installation.management} by Git"
            return Repository(access, target.branch).publish(change, message, installation.author)

    wait(f"pushing to {target.url}, branch {target.branch}")
    published = await in_thread(push)
    wait("installing Flux")
    await client.apply(NAMESPACE, {"metadata": {"name": target.namespace}}, field_manager=FIELD_MANAGER)
    if installation.components:
        await apply(client, installation.components)
    secret = credentials.secret(target.namespace, target.namespace)
    await client.apply(SECRET, secret, field_manager=FIELD_MANAGER)
    sync = installation.files({})[f"{target.base}/{target.namespace}/{SYNC_FILE}"]
    assert sync is not None  # noqa: S101  it is always written
    for tree in yaml_trees.trees(sync, SYNC_FILE):  # the repository, then the folder of Flux in it
        tree["metadata"]["annotations"] = {REQUESTED: published.commit}
        resource = _SYNC[tree["kind"]]
        await client.apply(resource, tree, field_manager=FIELD_MANAGER)
        await _until_handled(client, resource, flux, published.commit, wait, patience, takes_no=False)
    own = Key(target.namespace, installation.management)
    await _until_handled(client, KUSTOMIZATION, own, published.commit, wait, patience, takes_no=False, asks=True)
    return published


async def _exists(client: Client, repository: Key) -> bool:
    """True if an earlier try has come as far as Flux's objects, which it makes once its files are pushed."""
    try:
        await client.get(GIT_REPOSITORY, repository.name, repository.namespace)
    except NotFound:
        return False
    return True


class _Status(Observed, frozen=True):
    """The common part of the status of Flux's kinds."""

    conditions: list[Condition] = []  # noqa: RUF012  msgspec copies empty defaults
    last_handled_reconcile_at: str = ""


class _Reported(Observed, frozen=True):
    status: _Status = _Status()


async def until_applied(
    client: Client,
    source: Key,
    kustomizations: Sequence[Key],
    commit: str,
    *,
    wait: Callable[[str], None] = lambda _text: None,
    patience: float = 300.0,
) -> None:
    """Have Flux fetch a repository, in which a commit is by now, and apply these Kustomizations of it, in this order.

    Raises `NotFollowed` as soon as Flux can't, or does not within `patience` seconds each.
    """
    for resource, key in ((GIT_REPOSITORY, source), *((KUSTOMIZATION, key) for key in kustomizations)):
        await _until_handled(client, resource, key, commit, wait, patience, takes_no=True, asks=True)


async def _until_handled(
    client: Client,
    resource: Resource,
    key: Key,
    request: str,
    wait: Callable[[str], None],
    patience: float,
    *,
    takes_no: bool,
    asks: bool = False,
) -> None:
    """Wait until Flux has done what was requested: fetched the repository anew, or applied what it fetched.

    `asks`: the request is to be written yet. `takes_no`: a failure is an answer; else it may still pass.
    """
    answer = ""
    patch = {"metadata": {"annotations": {REQUESTED: request}}}
    try:
        async with asyncio.timeout(patience):
            while True:
                try:
                    if asks:
                        await client.patch(resource, key.name, key.namespace, patch=patch, type=PatchType.MERGE)
                        asks = False
                    status = (await client.get(resource, key.name, key.namespace)).decode(_Reported).status
                except KubeError as error:
                    answer = str(error)
                else:
                    ready = conditions.get(status.conditions, "Ready")
                    is_handled = status.last_handled_reconcile_at == request
                    if is_handled and ready is not None and ready.status == "True":
                        return
                    if is_handled and ready is not None and ready.status == "False" and takes_no:
                        raise NotFollowed(f"{resource.kind} {key.name}: {ready.message}")
                    answer = ready.message if ready is not None else "no controller has reported on it"
                wait(f"{resource.kind} {key.name}: {answer}")
                await asyncio.sleep(_PAUSE)
    except TimeoutError:
        raise NotFollowed(f"{resource.kind} {key.name} is not ready after {patience:g} s: {answer}") from None
