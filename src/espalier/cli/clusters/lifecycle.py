"""`espalier create|upgrade|delete cluster`: apply a manifest, wait for the condition, print what is waited for."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.identity_providers import AWSIamConfig
from espalier.api.manifests import Document
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.api.violations import ManifestError
from espalier.cli.clusters import chosen_release, documents, kubeconfig, other_kinds, waiting
from espalier.cli.kit import connection, flags, output, shown_commands
from espalier.cli.kit.commands import Group
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.progress import Progress
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.objects import Object

MANIFEST = "Manifest file, or a folder of them; - for standard input. Repeatable."

timeout_ = click.option(
    "--timeout", default="1h", metavar="TIME", show_default=True, help="Time to wait, like 90s, 5m, 1h30m."
)
wait_ = click.option("--wait/--no-wait", default=True, show_default=True, help="Wait until it is done.")
dry_run_ = click.option(
    "--dry-run",
    type=flags.OneOf(("none", "server")),
    default="none",
    show_default=True,
    help="server: the server checks everything and changes nothing.",
)


@click.group(cls=Group)
def create() -> None:
    """Create a cluster."""


@click.group(cls=Group)
def upgrade() -> None:
    """Upgrade a cluster."""


@click.group(cls=Group)
def delete() -> None:
    """Delete a cluster."""


@create.command("cluster")
@flags.filename(required=True, help=MANIFEST)
@other_kinds.flag("apply")
@flags.connection
@timeout_
@wait_
@dry_run_
@flags.output(names=True)
async def create_cluster(
    *,
    filename: Sequence[str],
    all_kinds: bool,
    connect: flags.Connection,
    timeout: str,
    wait: bool,
    dry_run: str,
    output_format: str,
) -> None:
    """Create the cluster that a manifest describes, wait until it is ready, and write its kubeconfig.

    \b
    Example:
      espalier create cluster -f examples/docker.yaml --timeout 5m
    """
    seconds = flags.seconds(timeout)
    await _push(filename, connect, seconds, wait, dry_run, output_format, creating=True, all_kinds=all_kinds)


@upgrade.command("cluster")
@flags.filename(required=True, help=MANIFEST)
@other_kinds.flag("apply")
@click.option(
    "--move-release/--keep-release",
    default=None,
    help="Move a cluster of another release to the release of this espalier, or keep its own, if the manifest names "
    "none. Default: asks on a terminal, required elsewhere.",
)
@flags.connection
@timeout_
@wait_
@dry_run_
@flags.output(names=True)
async def upgrade_cluster(
    *,
    filename: Sequence[str],
    all_kinds: bool,
    move_release: bool | None,
    connect: flags.Connection,
    timeout: str,
    wait: bool,
    dry_run: str,
    output_format: str,
) -> None:
    """Upgrade or scale a cluster to what its manifest says.

    A cluster of another release is moved to the release of this espalier, which may replace machines. If the manifest
    does not name that release, it asks first. `espalier plan` shows what would be replaced.

    \b
    Examples:
      espalier upgrade cluster -f examples/docker.yaml
      espalier upgrade cluster -f examples/docker.yaml --keep-release
    """
    seconds = flags.seconds(timeout)
    await _push(
        filename,
        connect,
        seconds,
        wait,
        dry_run,
        output_format,
        creating=False,
        move_release=move_release,
        all_kinds=all_kinds,
    )


@delete.command("cluster")
@click.argument("name", required=False, help="Name of the cluster, unless -f is given.")
@flags.filename(help=MANIFEST)
@other_kinds.flag("delete")
@flags.connection
@timeout_
@wait_
@dry_run_
async def delete_cluster(
    name: str | None,
    *,
    filename: Sequence[str],
    all_kinds: bool,
    connect: flags.Connection,
    timeout: str,
    wait: bool,
    dry_run: str,
) -> None:
    """Delete a cluster and everything that was made for it; with -f also the objects of the manifest that it links.

    Other objects of the manifest stay, unless --all-kinds is given. Namespaces and CustomResourceDefinitions always
    stay, because others may have objects in them.

    \b
    Example:
      espalier delete cluster -f examples/docker.yaml
    """
    if (name is None) == (not filename):
        raise Usage("name either one cluster or a manifest: `espalier delete cluster NAME`, or `-f FILE`")
    if all_kinds and not filename:
        raise Usage("--all-kinds deletes objects of a manifest: give -f FILE")
    if all_kinds and not wait and dry_run == "none":
        raise Usage("--all-kinds deletes other objects once the cluster, which may need them, is gone: omit --no-wait")
    async with connection.connect(connect) as connected:
        with Progress() as progress:
            if name is not None:
                targets, further = [(Cluster.resource, Key(connected.namespace, name))], []
            else:
                documents_, problems, others = documents.examined(filename)
                if problems:
                    raise ManifestError(problems)
                prepared = documents.in_namespace(documents_, connected.namespace)
                targets = [_target(resource, tree) for resource, tree in prepared]
                further = await _further_targets(connected.client, others, connected.namespace, all_kinds=all_kinds)
            cluster = next(key for resource, key in targets if resource == Cluster.resource)
            await _check_deletable(connected.client, cluster)
            from espalier.cli.clusters import credential_secrets  # noqa: PLC0415  with all providers, as below
            from espalier.providers.registry import PROVIDERS  # noqa: PLC0415

            deleted = await credential_secrets.granted(PROVIDERS, connected.client, cluster)
            missing = 0
            for resource, key in reversed(targets):
                try:
                    await connected.client.delete(
                        resource, key.name, key.namespace or None, dry_run=dry_run == "server"
                    )
                except NotFound as error:
                    if error.is_of_kind:
                        raise
                    missing += 1
            if missing == len(targets):
                raise Failure(f"cluster {cluster} does not exist; `espalier get clusters -A` lists those that do")
            if dry_run == "server":
                await other_kinds.delete(connected.client, further, dry_run=True)
                progress.say(f"cluster {cluster} would be deleted (server dry run)")
            elif wait:
                await waiting.until_gone(connected.client, cluster, timeout=flags.seconds(timeout), progress=progress)
                await other_kinds.delete(connected.client, further)
                for done in await credential_secrets.release(PROVIDERS, connected.client, deleted):
                    progress.say(done)
                progress.say(f"cluster {cluster} is gone")
            else:
                progress.say(f"cluster {cluster} is being deleted")


def _target(resource: Resource, tree: Tree) -> tuple[Resource, Key]:
    return resource, Key(tree["metadata"].get("namespace", ""), tree["metadata"]["name"])


async def _further_targets(
    client: Client, others: Sequence[Document], namespace: str, *, all_kinds: bool
) -> list[tuple[Resource, Key]]:
    """The objects that are no part of the cluster, and are deleted as well; says which of them stay."""
    stay = [other for other in others if not all_kinds or other_kinds.is_container(other)]
    other_kinds.say(stay, "; --all-kinds deletes it" if not all_kinds else "; others may have objects in it")
    gone = [other for other in others if all_kinds and not other_kinds.is_container(other)]
    return [_target(resource, tree) for resource, tree in await other_kinds.prepared(client, gone, namespace)]


async def _push(
    files: Sequence[str],
    flag: flags.Connection,
    timeout: float,
    wait: bool,
    dry_run: str,
    format_: str,
    *,
    creating: bool,
    move_release: bool | None = None,
    all_kinds: bool = False,
) -> None:
    from espalier.cli.clusters import preflight  # noqa: PLC0415  with all of admission: not for those who only delete
    from espalier.providers.registry import PROVIDERS  # noqa: PLC0415

    documents_, problems, others = documents.examined(files)
    own = chosen_release.own_version()
    await preflight.check(PROVIDERS, flag, documents_, problems, pushed_as=own)
    if not all_kinds:
        other_kinds.say(others, "; --all-kinds applies it")
    tree = documents.cluster_of(documents_).tree
    async with connection.connect(flag) as connected:
        client = connected.client
        prepared = documents.in_namespace(documents_, connected.namespace)
        further = await other_kinds.prepared(client, others, connected.namespace) if all_kinds else []
        key = Key(tree["metadata"]["namespace"], tree["metadata"]["name"])
        existing = await _expect(client, key, creating=creating)
        if existing is not None:
            preflight.check_is_managed(existing)
            tree["metadata"]["uid"] = existing.metadata.uid  # what follows was decided for this one: a precondition
        moves = existing is not None and await _moves(tree, existing, own, move_release)
        with Progress() as progress:
            if existing is None:
                exchanged = chosen_release.choose(tree, existing, own)
            else:
                exchanged = chosen_release.upgraded(tree, existing, own, moves=moves)
            if exchanged:
                progress.say(f"cluster {key}: release {own} replaces spec.bundlesRef, which is deprecated")
            notices: tuple[str, ...] = ()
            if dry_run != "server":
                notices = await preflight.install_releases(client, tree["spec"].get("eksaVersion"))
            for notice in (*notices, *await preflight.judge(PROVIDERS, client, documents_)):
                progress.say(f"cluster {key}: {notice}")
            if existing is None:
                await preflight.check_credentials(PROVIDERS, client, [body for _, body in prepared], os.environ)

            async def bring_credentials() -> None:
                written = await preflight.bring_credentials(
                    PROVIDERS, client, [body for _, body in prepared], os.environ
                )
                if written:
                    progress.say(f"cluster {key}: {written}")

            applied = await documents.apply_all(
                client, [*further, *prepared], dry_run=dry_run == "server", first=bring_credentials
            )
            if dry_run != "server":  # a deletion of another cluster may have taken them back before this one existed
                await preflight.bring_credentials(PROVIDERS, client, [body for _, body in prepared], os.environ)
            cluster = next(
                item
                for item in applied
                if (item.head.api_version, item.kind) == (Cluster.resource.api_version, Cluster.resource.kind)
            )
            if format_:
                progress.settle()
                output.write_objects([item.tree for item in applied], format_, single=True)
            if dry_run == "server":
                progress.say(f"cluster {key} would be {'created' if creating else 'upgraded'} (server dry run)")
                return
            progress.say(f"cluster {key}: {len(applied)} objects accepted")
            if not wait:
                return
            await waiting.until_ready(
                client, key, generation=cluster.metadata.generation, timeout=timeout, progress=progress
            )
            progress.say(f"cluster {key} is ready")
            if creating:
                await _write_kubeconfigs(client, cluster, progress)


async def _write_kubeconfigs(client: Client, cluster: Object, progress: Progress) -> None:
    """Write the kubeconfigs of a created cluster; the cluster exists even if one of them can't be read."""
    key = cluster.key
    try:
        path = await write_kubeconfig(client, key)
        progress.say("its kubeconfig is written:")
        progress.show(f"kubectl --kubeconfig {shown_commands.path(path)} get nodes")
        references = cluster.tree["spec"].get("identityProviderRefs") or ()
        if any(reference["kind"] == AWSIamConfig.resource.kind for reference in references):
            for_users = await write_kubeconfig(client, key, for_aws=True)
            progress.say("a kubeconfig for users of AWS is written:")
            progress.show(f"kubectl --kubeconfig {shown_commands.path(for_users)} get nodes")
    except Failure as unread:
        progress.say(str(unread), sign="[yellow]![/]")


async def _check_deletable(client: Client, key: Key) -> None:
    """Raises `Failure` for the record of a management cluster that manages clusters."""
    try:
        stored = await client.get(Cluster.resource, key.name, key.namespace)
    except (Forbidden, NotFound):
        return  # reported by the deletion
    manager = ((stored.tree.get("spec") or {}).get("managementCluster") or {}).get("name") or ""
    if manager in ("", key.name):
        from espalier.cli.clusters import preflight  # noqa: PLC0415  with all of admission: not for those who only delete

        await preflight.check_deletable(client, key)


async def _moves(tree: Tree, existing: Object, own: str, confirmed: bool | None) -> bool:
    """True if a cluster moves to the release of this program. Raises `Usage` if there is no terminal to ask on."""
    left = chosen_release.left_behind_by_move(tree, existing, own)
    if not left:
        return True
    if confirmed is not None:
        return confirmed
    what = f"cluster {existing.key} has {left}, and would be moved to release {own}, which may replace its machines"
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise Usage(
            f"{what} (`espalier plan -f FILE --move-release` says which): give --move-release to have that, or "
            "--keep-release to change only what the manifest says"
        )
    return await asyncio.to_thread(click.confirm, f"{what}. Move it? (no: it keeps its release)", err=True)


def absent(key: Key) -> Failure:
    """The error for a cluster that does not exist and can't be upgraded."""
    return Failure(f"cluster {key} does not exist; create it with `espalier create cluster -f FILE`")


async def _expect(client: Client, key: Key, *, creating: bool) -> Object | None:
    try:
        existing = await client.get(Cluster.resource, key.name, key.namespace)
    except NotFound as error:
        if error.is_of_kind:
            raise
        if not creating:
            raise absent(key) from None
        return None
    else:
        if creating:
            raise Failure(f"cluster {key} already exists; change it with `espalier upgrade cluster -f FILE`")
        return existing


async def write_kubeconfig(client: Client, key: Key, *, for_aws: bool = False) -> Path:
    """Write the workload cluster's kubeconfig to the path that EKS Anywhere uses, readable by its owner only."""
    content = await (kubeconfig.read_for_aws if for_aws else kubeconfig.read)(client, key)
    folder = Path(key.name)
    folder.mkdir(exist_ok=True)
    path = folder / f"{key.name}-{'aws' if for_aws else 'eks-a-cluster'}.kubeconfig"
    path.touch(mode=0o600, exist_ok=True)
    path.chmod(0o600)
    path.write_bytes(content)
    return path
