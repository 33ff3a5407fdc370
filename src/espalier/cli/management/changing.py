"""`espalier upgrade cluster` and `espalier upgrade management-components` of a created management cluster."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import msgspec

from espalier.api.core import DEPLOYMENT
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import MANAGEMENT_UPGRADING
from espalier.api.manifests.manifests import Document
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.api.text.violations import ManifestError, Problem
from espalier.cli.clusters import chosen_release, installed_cluster_api
from espalier.cli.clusters.git import from_git
from espalier.cli.clusters.manifests import documents, examination, preflight
from espalier.cli.clusters.moves.move_judge import ClusterJudge
from espalier.cli.clusters.reports import waiting
from espalier.cli.kit import flags
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Failure, Overdue
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.management import access, own_infrastructure, self_managed
from espalier.cli.management.components import components
from espalier.cli.management.components.components import Components
from espalier.cli.management.own_infrastructure import Given
from espalier.cli.management.shown import print_steps, since_now
from espalier.clusters.observe.rules import changes, releases
from espalier.clusters.observe.scope import read
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.management import handed_over, lost_record
from espalier.management import record as records
from espalier.management.steps import Refused, run
from espalier.management.upgrading import Upgrade
from espalier.providers.registry import PROVIDERS

_DEFAULT = "default"


async def is_created(parsed: Sequence[Document], flag: flags.Connection) -> bool:
    """True if the Cluster of a manifest is a management cluster that a command created.

    Raises `Failure` for one that was created on this machine, and can't be reached.
    """
    document = documents.cluster_of(parsed)
    key = Key(document.namespace or flag.namespace or _DEFAULT, document.name)
    given = await access.of_management_cluster(key, flag)
    if given is None:
        if self_managed.environment_of(key.name) is not None:
            raise access.unreached(key)
        return False
    client, _ = given
    try:
        managed = await records.managed(client)
    finally:
        await client.close()
    return managed is not None and bool(managed[1])


async def upgrade(
    parsed: Sequence[Document],
    problems: Sequence[Problem],
    flag: flags.Connection,
    *,
    timeout: float,
    dry_run: bool,
    by_git: bool = False,
    given: Given | None = None,
) -> None:
    """Upgrade it to a manifest, or go on. `by_git`: of one that comes from Git, which gets the change, too. `given`:
    the components in files, of one on the operator's infrastructure.

    Raises `ManifestError` and `Failure`, before anything is written if it is a fault of the manifest.
    """
    namespace = flag.namespace or _DEFAULT
    document = documents.cluster_of(parsed)
    tree = documents.readable(document)
    known = list(problems)
    if tree is not None:
        known += chosen_release.problems(document, tree, chosen_release.own_version())
    if wrong := examination.alone(parsed, known, None, namespace).problems:
        raise ManifestError(list(wrong))
    prepared = documents.in_namespace(parsed, namespace)
    cluster = prepared[-1][1]
    cluster["spec"]["managementCluster"] = {"name": cluster["metadata"]["name"]}
    key = Key(cluster["metadata"]["namespace"], cluster["metadata"]["name"])
    client = await access.reached(key, flag)
    try:
        with Progress() as progress:
            existing, owner = await lost_record.existing(client, key), None
            if existing is not None:
                _check_fixed(parsed, document, existing, cluster)
                owner = await from_git.check_push(client, existing) if by_git else None
                if owner is None and not dry_run:
                    await from_git.check_upgrade(client, existing)
            elif by_git:
                raise Failure(f"--push: cluster {key}: its record was deleted: give the command without the flag first")
            release = existing.tree["spec"].get("eksaVersion") if existing is not None else None
            parts = await _components(key, client, given, cluster, release)
            if existing is None or lost_record.is_lost(existing):
                await _check_made_anew(client, key, existing, prepared)
                if dry_run:
                    progress.say(f"cluster {key}: its record was deleted, and would be made anew from the manifest")
                    return
                existing = await lost_record.make_anew(client, existing, prepared)
                progress.say(f"cluster {key}: its record was deleted, and is made anew from the manifest")
            chosen_release.upgraded(cluster, existing, chosen_release.own_version(), moves=True)
            await check_leaves_none_behind(client, existing, cluster["spec"]["eksaVersion"])
            await installed_cluster_api.check(client, PROVIDERS, is_upgraded=True)
            await documents.apply_all(client, prepared, dry_run=True)

            async def until_done() -> None:
                written = await client.get(Cluster.resource, key.name, key.namespace)
                await waiting.until_ready(
                    client, key, generation=written.metadata.generation, timeout=timeout, progress=progress
                )

            work = _upgrade(key, client, parts, lambda: _write(client, prepared), until_done, progress)
            manifest = records.manifest_of(tree for _, tree in prepared)
            if owner is None:
                await _run(work, records.UPGRADE, manifest, timeout=timeout, dry_run=dry_run)
                return
            from espalier.cli.clusters.git import git_pushes  # noqa: PLC0415  with what an extra installs

            commit = git_pushes.of_change(owner, [tree for _, tree in prepared], f"Upgrade cluster {key.name}")
            looked = await commit.look()
            for line in looked.lines():
                progress.say(line, sign="-")
            if dry_run:
                await _run(work, records.UPGRADE, manifest, timeout=timeout, dry_run=True)
                return
            # Nobody acts on what Flux applies of it, so Git gets the change once it is made.
            await handed_over.suspend(client, progress, owner.kustomization)
            await _run(work, records.UPGRADE, manifest, timeout=timeout, dry_run=False)
            pushed = await commit.push(looked, progress)
            await handed_over.resume(client, owner.kustomization)
            await commit.until_applied(client, pushed, progress, timeout=timeout)
    finally:
        await client.close()


async def _check_made_anew(
    client: Client, key: Key, existing: Object | None, prepared: Sequence[tuple[Resource, Tree]]
) -> None:
    """Fills in the release of a record that is to be made anew. Raises `Failure`, and errors of the API server, if it
    can't be.
    """
    cluster = prepared[-1][1]
    chosen_release.choose(cluster, None, chosen_release.own_version())
    before = read(existing) if existing is not None else None
    await _check_skew(client, key, before, msgspec.convert(cluster, Cluster))
    await documents.apply_all(client, prepared, dry_run=True)


def _check_fixed(parsed: Sequence[Document], document: Document, existing: Object, cluster: Tree) -> None:
    """Raises `ManifestError` with the fields that can't be changed."""
    fixed = list(changes.fixed(read(existing).spec, msgspec.convert(cluster, Cluster).spec))
    if fixed:
        raise ManifestError([documents.located(parsed, document, violation) for violation in fixed])


async def upgrade_components(
    name: str, flag: flags.Connection, *, timeout: float, dry_run: bool, given: Given | None = None
) -> None:
    """Upgrade what runs in it, or go on. Raises `Failure`, before anything is written if the components don't fit."""
    key = Key(flag.namespace or _DEFAULT, name)
    client = await access.reached(key, flag)
    own = chosen_release.own_version()
    patch = {"spec": {"eksaVersion": own}}

    async def write(*, tries: bool = False) -> None:
        await client.patch(Cluster.resource, key.name, key.namespace, patch=patch, type=PatchType.MERGE, dry_run=tries)

    try:
        with Progress() as progress:
            existing = await client.get(Cluster.resource, key.name, key.namespace)
            await _check_is_not_upgrading(client, key)
            if not dry_run:
                await from_git.check_upgrade(client, existing, offer="")
            await check_leaves_none_behind(client, existing, own)
            await installed_cluster_api.check(client, PROVIDERS, is_upgraded=True)
            await write(tries=True)
            parts = await _components(key, client, given, existing.tree, existing.tree["spec"].get("eksaVersion"))
            work = _upgrade(key, client, parts, write, None, progress)
            output.say("\n".join([f"management components of cluster {key}:", *await _images(client, work)]))
            await _run(work, records.UPGRADE_COMPONENTS, "", timeout=timeout, dry_run=dry_run)
    finally:
        await client.close()


async def check_leaves_none_behind(client: Client, record: Object, release: str) -> None:
    """Raises `Failure` with the workload clusters that would be too many releases behind their management cluster."""
    before = read(record)
    after = msgspec.structs.replace(before, spec=msgspec.structs.replace(before.spec, eksa_version=release))
    await _check_skew(client, record.key, before, after)


async def _check_skew(client: Client, key: Key, before: Cluster | None, after: Cluster) -> None:
    """See `check_leaves_none_behind`; `before` is None for a record that is gone."""
    managed = []
    for cluster_object in (await client.list(Cluster.resource)).items:
        with suppress(msgspec.ValidationError):  # its own status says so
            if cluster_object.key != key:
                managed.append((cluster := read(cluster_object), releases.parsed(cluster.spec.eksa_version)))
    if violations := list(releases.managed(before, after, managed)):
        raise Failure(f"cluster {key} can't be upgraded: " + "; ".join(map(str, violations)))


async def _check_is_not_upgrading(client: Client, key: Key) -> None:
    """Raises `Failure` while an upgrade of it is recorded, or its manager acts on the record: nothing but the upgrade
    that began this ends it.
    """
    managed, begun = await records.managed(client), await records.read(client, key)
    if (managed is not None and managed[1] == MANAGEMENT_UPGRADING) or (begun and begun.operation == records.UPGRADE):
        raise Failure(
            f"cluster {key}: its upgrade did not end: go on with `espalier upgrade cluster -f FILE`, which upgrades "
            "its management components, too"
        )


async def _components(
    key: Key, client: Client, given: Given | None, cluster: Tree, release: str | None
) -> Components | None:
    """Those that it gets; None for simulated ones. `release` is the one that it has. Raises `Failure`."""
    if given is not None:
        return await own_infrastructure.of_upgrade(client, cluster, PROVIDERS, given, release)
    return await components.of_cluster(client, self_managed.environment_of(key.name) or Home.locate())


def _upgrade(
    key: Key,
    client: Client,
    real: Components | None,
    write: Callable[[], Awaitable[None]],
    until_done: Callable[[], Awaitable[None]] | None,
    progress: Progress,
) -> Upgrade:
    own = chosen_release.own_version()
    cluster_api, espalier = components.cluster_api(own, real), components.espalier(key, own, real=real)
    return Upgrade(key, own, client, cluster_api, espalier, progress, write, until_done, ClusterJudge(PROVIDERS))


def record_of(record: records.Record | None, begins: records.Record) -> records.Record:
    """The record of an upgrade that begins or goes on: with another release, manifest or components, it begins
    again."""
    is_same = record is not None and begins == msgspec.structs.replace(record, step="")
    return record if record is not None and is_same else begins


async def _run(work: Upgrade, operation: str, manifest: str, *, timeout: float, dry_run: bool) -> None:
    elapsed, key, progress = since_now(), work.key, work.progress
    if dry_run:
        print_steps(work.steps())
        progress.say(f"cluster {key} would be upgraded (dry run)")
        return

    try:
        async with asyncio.timeout(timeout):
            begun = await records.read(work.cluster, key)
            digest = records.digest_of(work.cluster_api)
            begins = records.Record(operation, *key, work.release, manifest=manifest, components=digest)
            record = record_of(begun, begins)
            if record != begun:
                await records.write(work.cluster, record)
            await run(work.cluster, record, work.steps(), work.actions, progress, elapsed)
            await records.forget(work.cluster, key)
    except Refused as refused:
        raise Failure("\n".join(refused.problems)) from None
    except TimeoutError:
        raise Overdue(
            f"cluster {key} is not upgraded after {timeout:g} s; give the same command again to go on"
        ) from None
    progress.say(f"cluster {key} is upgraded", aside=elapsed())


async def _write(client: Client, prepared: Sequence[tuple[Resource, Tree]]) -> None:
    trees = [tree for _, tree in prepared]
    await preflight.bring_credentials(PROVIDERS, client, trees, os.environ)
    for resource, tree in prepared:
        await client.apply(resource, tree)


async def _images(client: Client, work: Upgrade) -> list[str]:
    """A line for each Deployment: its image, and the one that it gets."""
    lines = []
    for tree in (*work.cluster_api, *work.espalier):
        if tree["kind"] != DEPLOYMENT.kind:
            continue
        name, namespace = tree["metadata"]["name"], tree["metadata"]["namespace"]
        wanted = _image(tree)
        try:
            present = _image((await client.get(DEPLOYMENT, name, namespace)).tree)
        except NotFound:
            present = "nothing"
        change = f"{present} stays" if present == wanted else f"{present} -> {wanted}"
        lines.append(f"  {namespace}/{name}: {change}")
    return lines


def _image(deployment: Tree) -> str:
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])
