"""Creation, change and deletion of workload clusters by commands: a manifest is applied, and its condition awaited."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.identity_providers import AWSIamConfig
from espalier.api.manifests.manifests import Document
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.api.text.listing import counted
from espalier.api.text.violations import ManifestError
from espalier.cli.clusters import chosen_release
from espalier.cli.clusters.access import kubeconfig
from espalier.cli.clusters.git import from_git
from espalier.cli.clusters.manifests import documents, other_kinds
from espalier.cli.clusters.reports import waiting
from espalier.cli.kit import flags, shown_commands
from espalier.cli.kit.connecting import connection
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing import output, questions
from espalier.cli.kit.printing.progress import Progress
from espalier.kube.client import Client
from espalier.kube.errors import Forbidden, NotFound
from espalier.kube.objects import Object

if TYPE_CHECKING:
    from espalier.cli.clusters.git import git_pushes


async def delete_cluster(
    name: str | None,
    manifest: documents.Examined | None,
    connect: flags.Connection,
    timeout: float,
    *,
    all_kinds: bool,
    wait: bool,
    dry_run: str,
    by_git: bool = False,
) -> None:
    """Delete a cluster of a management cluster, or the cluster of a manifest with what it links; `by_git`, by a commit
    that removes its files.
    """
    async with connection.connect(connect) as connected:
        with Progress() as progress:
            if manifest is None:
                targets, further = [(Cluster.resource, Key(connected.namespace, name or ""))], []
            else:
                documents_, problems, others = manifest
                if problems:
                    raise ManifestError(problems)
                # With it: whether the cluster exists, and which release it will have.
                prepared = documents.in_namespace(documents_, connected.namespace)
                targets = [_target(resource, tree) for resource, tree in prepared]
                further = await _further_targets(connected.client, others, connected.namespace, all_kinds=all_kinds)
            cluster = next(key for resource, key in targets if resource == Cluster.resource)
            await _check_deletable(connected.client, cluster, dry_run=by_git or dry_run == "server")
            commit = await _removal(connected.client, cluster) if by_git else None
            from espalier.cli.clusters.manifests import credential_secrets  # noqa: PLC0415  with all providers, as below
            from espalier.providers.registry import PROVIDERS  # noqa: PLC0415

            deleted = await credential_secrets.granted(PROVIDERS, connected.client, cluster)
            if commit is not None:
                if not await _removed_by_git(
                    commit, connected.client, cluster, progress, timeout, wait=wait, dry_run=dry_run
                ):
                    return
                for done in await credential_secrets.release(PROVIDERS, connected.client, deleted):
                    progress.say(done)
                progress.say(f"cluster {cluster} is gone")
                return
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
                await waiting.until_gone(connected.client, cluster, timeout=timeout, progress=progress)
                await other_kinds.delete(connected.client, further)
                for done in await credential_secrets.release(PROVIDERS, connected.client, deleted):
                    progress.say(done)
                progress.say(f"cluster {cluster} is gone")
            else:
                progress.say(f"cluster {cluster} is being deleted")


async def _removal(client: Client, key: Key) -> git_pushes.Commit:
    """The commit by which a cluster is deleted. Raises `Failure` if it can't be made."""
    from espalier.cli.clusters.git import git_pushes  # noqa: PLC0415  with what an extra installs
    from espalier.cli.clusters.rollouts import rollouts  # noqa: PLC0415  for this alone

    stored = await rollouts.cluster(client, key)
    return git_pushes.of_removal(await from_git.check_followed(client, stored), f"Delete cluster {key.name}")


async def _removed_by_git(
    commit: git_pushes.Commit,
    client: Client,
    key: Key,
    progress: Progress,
    timeout: float,
    *,
    wait: bool,
    dry_run: str,
) -> bool:
    """Commit the removal of a cluster's files, once its API server would delete it, and wait until Flux has deleted it.
    False if that is not waited for.
    """
    await client.delete(Cluster.resource, key.name, key.namespace, dry_run=True)
    looked = await commit.look()
    for line in looked.lines():
        progress.say(line, sign="-")
    if dry_run == "server":
        progress.say(f"cluster {key}: this would be committed, by which Flux deletes it (server dry run)")
        return False
    pushed = await commit.push(looked, progress)
    if not wait:
        progress.say(f"cluster {key}: Flux deletes it once it has fetched the commit")
        return False
    await commit.until_applied(client, pushed, progress, timeout=timeout)
    await waiting.until_gone(client, key, timeout=timeout, progress=progress)
    return True


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


async def push(
    manifest: documents.Examined,
    flag: flags.Connection,
    timeout: float,
    wait: bool,
    dry_run: str,
    format_: str,
    *,
    creating: bool,
    move_release: bool | None = None,
    all_kinds: bool = False,
    by_git: bool = False,
) -> None:
    """Create or upgrade the cluster of a manifest, and wait for it; `by_git`, by a commit to its repository.

    Raises `ManifestError` and `Failure`.
    """
    # With all of admission: not for those who only delete.
    from espalier.cli.clusters import installed_cluster_api  # noqa: PLC0415
    from espalier.cli.clusters.manifests import preflight  # noqa: PLC0415
    from espalier.providers.registry import PROVIDERS  # noqa: PLC0415

    # Without the management cluster: the manifest by itself.
    documents_, problems, others = manifest
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
            if dry_run != "server" and not by_git:
                await from_git.check_change(client, existing)
            tree["metadata"]["uid"] = existing.metadata.uid  # what follows was decided for this one: a precondition
        moves = existing is not None and _moves(tree, existing, own, move_release)
        commit = await _commit(client, existing, key, [body for _, body in prepared]) if by_git else None
        with Progress() as progress:
            if existing is None:
                exchanged = chosen_release.choose(tree, existing, own)
            else:
                exchanged = chosen_release.upgraded(tree, existing, own, moves=moves)
            if exchanged:
                progress.say(f"cluster {key}: release {own} replaces spec.bundlesRef, which is deprecated")
            # Nothing of the cluster is written before all checks have passed, except the release that it needs.
            notices = tuple(await installed_cluster_api.check(client, PROVIDERS, [tree]))
            if dry_run != "server":
                notices += await preflight.install_releases(client, tree["spec"].get("eksaVersion"))
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

            if commit is not None:
                await _by_git(
                    commit,
                    client,
                    prepared,
                    key,
                    bring_credentials,
                    progress,
                    timeout,
                    is_new=existing is None,
                    wait=wait,
                    dry_run=dry_run,
                )
                return
            applied = await documents.apply_all(
                client, [*further, *prepared], dry_run=dry_run == "server", first=bring_credentials
            )
            if dry_run != "server":  # a deletion of another cluster may have taken them back before this one existed
                await preflight.bring_credentials(PROVIDERS, client, [body for _, body in prepared], os.environ)
            # From here on the cluster is the manager's work; the command only reports.
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
            progress.say(f"cluster {key}: {counted(len(applied), 'object')} accepted")
            if not wait:
                return
            await waiting.until_ready(
                client, key, generation=cluster.metadata.generation, timeout=timeout, progress=progress
            )
            progress.say(f"cluster {key} is ready")
            if creating:
                await _write_kubeconfigs(client, cluster, progress)


async def _commit(client: Client, existing: Object | None, key: Key, trees: Sequence[Tree]) -> git_pushes.Commit:
    """The commit by which a cluster is created or changed. Raises `Failure` if it can't be made."""
    from espalier.cli.clusters.git import git_pushes  # noqa: PLC0415  with what an extra installs

    if existing is None:
        return await git_pushes.of_creation(client, key, trees)
    owner = await from_git.check_followed(client, existing)
    return git_pushes.of_change(owner, trees, f"Change cluster {key.name}")


async def _by_git(
    commit: git_pushes.Commit,
    client: Client,
    prepared: Sequence[tuple[Resource, Tree]],
    key: Key,
    bring_credentials: Callable[[], Awaitable[None]],
    progress: Progress,
    timeout: float,
    *,
    is_new: bool,
    wait: bool,
    dry_run: str,
) -> None:
    """Commit a cluster that was checked, once its API server accepts it, and wait until Flux has made it so."""
    await documents.apply_all(client, prepared, dry_run=True)
    looked = await commit.look()
    for line in looked.lines():
        progress.say(line, sign="-")
    if dry_run == "server":
        progress.say(f"cluster {key}: this would be committed (server dry run)")
        return
    await bring_credentials()
    pushed = await commit.push(looked, progress)
    if not wait:
        return
    await commit.until_applied(client, pushed, progress, timeout=timeout)
    cluster = await client.get(Cluster.resource, key.name, key.namespace)
    await waiting.until_ready(client, key, generation=cluster.metadata.generation, timeout=timeout, progress=progress)
    progress.say(f"cluster {key} is ready")
    if is_new:
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


async def _check_deletable(client: Client, key: Key, *, dry_run: bool) -> None:
    """Raises `Failure` for the record of a management cluster that manages clusters, and for a cluster from Git."""
    try:
        stored = await client.get(Cluster.resource, key.name, key.namespace)
    except (Forbidden, NotFound):
        return  # reported by the deletion
    if not dry_run:
        await from_git.check_deletion(client, stored)
    manager = ((stored.tree.get("spec") or {}).get("managementCluster") or {}).get("name") or ""
    if manager in ("", key.name):
        from espalier.cli.clusters.manifests import preflight  # noqa: PLC0415  with all of admission: not for those who only delete

        await preflight.check_deletable(client, key)


def _moves(tree: Tree, existing: Object, own: str, confirmed: bool | None) -> bool:
    """True if a cluster moves to the release of this program. Raises `Usage` if there is no terminal to ask on."""
    left = chosen_release.left_behind_by_move(tree, existing, own)
    if not left:
        return True
    if confirmed is not None:
        return confirmed
    what = f"cluster {existing.key} has {left}, and would be moved to release {own}, which may replace its machines"
    if not questions.are_possible():
        raise Usage(
            f"{what} (`espalier plan -f FILE --move-release` says which): give --move-release to have that, or "
            "--keep-release to change only what the manifest says"
        )
    return questions.confirmed(f"{what}. Move it? (no: it keeps its release)")


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
    path = kubeconfig_path(key, for_aws=for_aws)
    write_private(path, content)
    return path


def kubeconfig_path(key: Key, *, for_aws: bool = False) -> Path:
    """The path of a cluster's kubeconfig, below the current folder."""
    return Path(key.name) / f"{key.name}-{'aws' if for_aws else 'eks-a-cluster'}.kubeconfig"


def write_private(path: Path, content: bytes) -> None:
    """Write a file that only its owner may read, in a folder that is created if it is missing."""
    path.parent.mkdir(exist_ok=True)
    path.touch(mode=0o600, exist_ok=True)
    path.chmod(0o600)
    path.write_bytes(content)


def replace_private(path: Path, content: bytes) -> None:
    """The same for a file that somebody follows: who reads it has the content of before, or the new."""
    staged = path.with_name(f".{path.name}.new")
    write_private(staged, content)
    staged.replace(path)
