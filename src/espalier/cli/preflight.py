"""The rules of admission on the way to the API server: before anything is sent, and all violations at once.

By the functions that the webhooks call, on what can be read from the server. What can't be read is left to the server,
which judges in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime

import msgspec

from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.distro import DistroRelease
from espalier.api.eksa.group import MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE
from espalier.api.eksa.release import EKSARelease
from espalier.api.manifests import Document
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.api.violations import ManifestError, Problem, Violation
from espalier.cli import chosen_release, connection, documents, flags
from espalier.cli.failures import Failure
from espalier.clusters.management import named_by
from espalier.clusters.observe import Observer
from espalier.clusters.preview import reading
from espalier.clusters.preview.previews import Previews
from espalier.clusters.rules import content, messages
from espalier.clusters.scope import is_self_managed, read
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, KubeError, NotFound
from espalier.kube.objects import Object
from espalier.providers.registry import PROVIDERS
from espalier.releases import Releases, install, release_name
from espalier.runtime.snapshot import Snapshot


async def install_releases(client: Client, needed: str | None, releases: Releases | None = None) -> tuple[str, ...]:
    """Create the releases of this program that are missing, and overwrite none.

    Returns what could not be done for want of a right, and so is left to the manager. Raises `Failure` when the release
    that is `needed` is not there and may not be created. Where the kinds are not there, the server will say so.
    """
    wanted = (releases or Releases.load()).objects()
    missing: set[str] = set()
    try:
        for kind, namespace in ((EKSARelease, None), (DistroRelease, SYSTEM_NAMESPACE)):
            there = {found.name for found in (await client.list(kind.resource, namespace)).items}
            missing |= {one.metadata.name for one in wanted if isinstance(one, kind)} - there
    except NotFound:
        return ()
    except Forbidden as error:
        if not missing:
            return (f"whether the releases of this program are there is left to the manager: {error}",)
    if not missing:
        return ()
    try:
        await install(client, wanted)
    except NotFound:
        return ()
    except Forbidden as error:
        if needed is not None and release_name(needed) in missing:
            raise Failure(
                f"release {needed} is not in the management cluster, and may not be created there: {error}; whoever "
                "has that right runs `espalier releases import`, or a manager of this version, which brings it"
            ) from None
        return (f"releases of this program are missing, and left to the manager: {error}",)
    return ()


_SELF_MANAGED = (
    "espalier creates and upgrades only clusters that another cluster manages. That of a local environment gets the "
    "release of the espalier that serves it: `espalier down`, then `espalier up` with the new one. Any other is "
    "upgraded by what made it, and its manager with `espalier manifests`"
)


def unmanaged(cluster: Document, tree: Tree) -> list[Problem]:
    """A manifest is of a cluster that another one manages, or what helps. `tree` is what can be read."""
    name = str((tree["spec"].get("managementCluster") or {}).get("name") or "")
    if name in ("", cluster.name):
        message = f'cluster "{cluster.name}" is self-managed, and {_SELF_MANAGED}'
        allowed = "the name of another cluster, which is to manage this one"
        return [cluster.problem(Violation("spec.managementCluster.name", name or "nothing", allowed, message))]
    return []


async def check(
    flag: flags.Connection, found: Sequence[Document], known: Sequence[Problem], *, pushed_as: str = ""
) -> None:
    """Raise `ManifestError` with all that can be known to be wrong with a manifest, if anything is.

    `known` is what was found in it; for a manifest that `espalier create|upgrade cluster` sends with this release
    (`pushed_as`), what these refuse counts as well. With what is in the management cluster the rest of it is judged
    only then, and as far as that answers: a manifest that is right is judged on its way.
    """
    clusters = [(one, tree) for one in found if (tree := documents.readable(one)) is not None]
    problems = list(known)
    if pushed_as:
        for document, tree in clusters:
            more = [*unmanaged(document, tree), *chosen_release.problems(document, tree, pushed_as)]
            problems += [one for one in more if not documents.is_reported(one.violation.field, known)]
    if not problems:
        return
    with suppress(KubeError, Failure, OSError, TimeoutError, msgspec.MsgspecError):
        async with connection.connect(flag) as connected, asyncio.timeout(_PATIENCE):
            for document, tree in clusters:
                tree["metadata"].setdefault("namespace", connected.namespace)
                if pushed_as and tree["spec"].get("bundlesRef") is None:
                    tree["spec"]["eksaVersion"] = pushed_as
                refused, _ = await _refusals(connected.client, tree)
                problems += [
                    document.problem(Violation(field, "", "", message))
                    for field, message in refused
                    if not documents.is_reported(field, problems)
                ]
    raise ManifestError(problems)


_PATIENCE = 5.0
"""Seconds that a manifest which is wrong in any case is judged by what is elsewhere."""


def check_is_managed(existing: Object) -> None:
    """A cluster that is there is managed by another one. Raises `Failure` that says what to do instead."""
    if is_self_managed(read(existing)):
        raise Failure(f"cluster {existing.key} is self-managed, whatever the manifest says, and {_SELF_MANAGED}")


async def check_may_go(client: Client, record: Key) -> None:
    """The record of a management cluster that is to be deleted manages nobody. Raises `Failure` with those it manages,
    or with the right that is missing to know them.

    Admission says the same; without it, the deletion would be taken, and waited for.
    """
    unknown = ""
    try:
        named = named_by(await client.get(CONFIG_MAP, MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE))
    except NotFound:
        named = record
    except Forbidden as error:
        named, unknown = record, f" (assumed to be the management cluster's: {error})"
    if named != record:
        return
    try:
        clusters = (await client.list(Cluster.resource)).items
    except Forbidden as error:
        raise Failure(
            f"cluster {record} is the record of a management cluster{unknown}, and whether it manages clusters is not "
            f"known: {error}; have somebody with that right delete it"
        ) from None
    managed = [one.key for one in clusters if one.key != record and _manager(one) == record.name]
    if managed:
        raise Failure(f"cluster {record} can't be deleted{unknown}: {messages.manages(messages.listed(managed))}")


def _manager(found: Object) -> str:
    try:
        return read(found).spec.management_cluster.name
    except msgspec.ValidationError:
        return ""


async def judge(client: Client, prepared: Sequence[tuple[Resource, Tree]]) -> tuple[str, ...]:
    """Raise `Failure` with everything for which the Cluster among these objects would be refused.

    Returns what could not be looked at for want of a right, and so was left to the server.
    """
    trees = [tree for _, tree in prepared]
    cluster = next(tree for tree in trees if tree["kind"] == Cluster.resource.kind)
    found, notices = await _refusals(client, cluster)
    if found:
        key = Key(cluster["metadata"]["namespace"], cluster["metadata"]["name"])
        reasons = "".join(f"\n* {field}: {message}".replace("* : ", "* ") for field, message in found)
        raise Failure(f"cluster {key} would be refused, so nothing was sent:{reasons}")
    return notices


async def _refusals(client: Client, cluster: Tree) -> tuple[list[tuple[str, str]], tuple[str, ...]]:
    """Field and sentence of everything for which a Cluster would be refused, and what could not be looked at."""
    key = Key(cluster["metadata"]["namespace"], cluster["metadata"]["name"])
    version = cluster["spec"].get("eksaVersion")
    notices: tuple[str, ...] = ()
    try:
        observed = await reading.read(
            client,
            [key],
            versions=[version] if version else [],
            manifests=[cluster],
            providers=PROVIDERS,
            only_judges=True,
        )
    except NotFound:
        found = _by_itself(cluster)
    except Forbidden as error:
        found = _by_itself(cluster)
        notices = (f"judged by its manifest alone, the rest is left to the API server: {error}",)
    else:
        notices = observed.notices
        snapshot = Snapshot()
        observer = Observer(snapshot, providers=PROVIDERS)
        snapshot.fill(observed.objects)
        previews = Previews(snapshot, observer, observed.fleets, now=datetime.now(UTC))
        found = [(one.field, one.message) for one in previews.refusals(cluster)]
    return found, notices


def _by_itself(tree: Tree) -> list[tuple[str, str]]:
    """The refusals that follow from the Cluster alone."""
    try:
        cluster = msgspec.convert(tree, Cluster)
    except msgspec.ValidationError:
        return []  # of a manifest that was read, only what the server knows better
    found = [] if is_self_managed(cluster) else content.violations(cluster, PROVIDERS)
    return [(one.field, str(one).removeprefix(f"{one.field}: ")) for one in found]
