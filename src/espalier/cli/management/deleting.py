"""`espalier delete cluster` of a management cluster that was created on this machine."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from espalier.api.resource import Key
from espalier.cli.clusters import chosen_release, lifecycle
from espalier.cli.clusters.git import from_git
from espalier.cli.clusters.manifests import credential_secrets
from espalier.cli.clusters.moves.move_judge import ClusterJudge
from espalier.cli.clusters.reports import waiting
from espalier.cli.kit import flags
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Failure, Overdue
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.management import access, self_managed
from espalier.cli.management.bootstraps import Bootstrap, LocalBootstrap, Nodes, client_of
from espalier.cli.management.own_infrastructure import bootstrap_of
from espalier.cli.management.shown import print_steps, since_now
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.kubeconfig_entries import KubeconfigError
from espalier.management import handed_over, plan
from espalier.management import record as records
from espalier.management.lost_record import existing
from espalier.management.removal import Removal, check_manages_nobody
from espalier.management.steps import Refused, run
from espalier.providers.registry import PROVIDERS

_DEFAULT = "default"


async def meant(name: str, flag: flags.Connection, kubeconfig: Path | None) -> tuple[Bootstrap, Key] | None:
    """The bootstrap for a management cluster of this name, and its key; None if the name is that of a cluster of
    another management cluster, or of one that was not created here.
    """
    key = Key(flag.namespace or _DEFAULT, name)
    if kubeconfig is not None:
        return bootstrap_of(kubeconfig, Home.locate()), key
    home = self_managed.environment_of(name)
    if home is None:
        return None
    bootstrap = LocalBootstrap(home, Nodes())
    if home.has_bootstrap():
        return bootstrap, key
    managed = await access.managed(key, flag)
    if managed is None:
        return bootstrap, key
    return (bootstrap, managed) if managed.name == name else None


async def delete(
    bootstrap: Bootstrap, key: Key, flag: flags.Connection, *, timeout: float, dry_run: bool, by_git: bool = False
) -> None:
    """Delete it, or go on; `by_git`, with its files in Git, which go first. Raises `Failure`."""
    elapsed = since_now()
    with Progress() as progress:
        try:
            async with asyncio.timeout(timeout):
                if dry_run and bootstrap.stopped:
                    _print_steps(bootstrap, key, progress)
                    progress.say(
                        "not checked: the clusters that it manages, for its machines do not run; "
                        f"`{bootstrap.stopped}` starts them",
                        sign="[yellow]![/]",
                    )
                    return
                if bootstrap.flag:  # it runs
                    await _check_is_free(bootstrap, key)
                content, manifest, left = await _checked(bootstrap, key, flag, progress, dry_run=dry_run, by_git=by_git)
                if dry_run:
                    _print_steps(bootstrap, key, progress)
                    return
                progress.wait("start the bootstrap")
                await bootstrap.start()
                client = await bootstrap.connect()
                try:
                    progress.say("start the bootstrap", aside=elapsed())
                    record = await _begun(client, key, content, manifest, bootstrap.flag)
                    key = record.key
                    work = Removal(
                        record.key,
                        client,
                        lambda kubeconfig: client_of(Kubeconfig.parse(kubeconfig).context()),
                        ClusterJudge(PROVIDERS, moves_records=True),
                        progress,
                        lambda at: waiting.until_gone(at, record.key, timeout=timeout, progress=progress),
                    )
                    await run(client, record, work.steps(), work.actions, progress, elapsed)
                    content = await records.read_kubeconfig(client, key)
                finally:
                    await client.close()
                _remove_kubeconfig(key, content, progress)  # while the bootstrap still tells whose it is
                progress.wait("remove the bootstrap")
                done = await bootstrap.delete(key)
                progress.say("remove the bootstrap", aside=elapsed())
                for text in done:
                    progress.say(text)
        except Refused as refused:
            raise Failure("\n".join(refused.problems)) from None
        except TimeoutError:
            raise Overdue(
                f"cluster {key} is not deleted after {timeout:g} s; give the same command again to go on"
            ) from None
        progress.say(f"cluster {key} is gone", aside=elapsed())
        if left:
            progress.say(left, sign="[yellow]![/]")


async def _check_is_free(bootstrap: Bootstrap, key: Key) -> None:
    """Raises `Refused` if a bootstrap that runs is in use for another cluster, or is the cluster itself."""
    client = await bootstrap.connect()
    try:
        managed = await records.managed(client)
        if managed is not None and managed[0] == key:
            raise Refused(
                f"--bootstrap-kubeconfig: cluster {key} can't delete itself: give the kubeconfig of another management "
                "cluster, with the same provider"
            )
        record_of(await records.of_bootstrap(client, key), key, chosen_release.own_version(), bootstrap.flag)
    finally:
        await client.close()


class _Checked(NamedTuple):
    """A created cluster that manages nobody."""

    kubeconfig: bytes | None = None
    """None for a cluster of which the bootstrap knows more."""
    manifest: str = ""
    left: str = ""
    """The work that is left in Git."""


async def _checked(
    bootstrap: Bootstrap, key: Key, flag: flags.Connection, progress: Progress, *, dry_run: bool, by_git: bool
) -> _Checked:
    """The cluster as it was read. `by_git`: its files have left the repository then, unless it is a dry run."""
    if await bootstrap.is_in_use(key):
        if not by_git:
            return _Checked()
        return _Checked(
            left="--push: an operation on the cluster had begun, so its repository was not read: if files of it "
            "are there, remove them"
        )
    given = await access.of_management_cluster(key, flag)
    if given is None:
        raise access.unreached(key)
    client, kubeconfig = given
    try:
        content = kubeconfig.alone().to_bytes()
        await check_manages_nobody(client, key)
        manifest = records.manifest_of(await credential_secrets.stored_manifest(PROVIDERS, client, key))
        left = await _left_in_git(client, key, progress, dry_run=dry_run, by_git=by_git)
    except KubeconfigError as error:
        raise Failure(
            f"cluster {key} can't be deleted with this kubeconfig, of which the bootstrap needs a copy: {error}; give "
            "one with a certificate or a token with --kubeconfig"
        ) from None
    finally:
        await client.close()
    return _Checked(content, manifest, left)


async def _left_in_git(client: Client, key: Key, progress: Progress, *, dry_run: bool, by_git: bool) -> str:
    """The work that is left in Git, once the cluster is gone. `by_git`: nothing, for it is done here; Flux, which would
    fail without its files, is suspended first.
    """
    record = await existing(client, key)
    if not by_git or record is None:
        owner = await from_git.owner_of(client, record) if record is not None else None
        if owner is None:
            return "--push: the record of the cluster is gone: remove its files from the repository" if by_git else ""
        return (
            f"its files are still in {owner.where}: remove {owner.folder} and the files of Flux there, as --push would "
            "have done"
        )
    owner = await from_git.check_push(client, record)
    from espalier.cli.clusters.git import git_pushes  # noqa: PLC0415  with what an extra installs

    commit = git_pushes.of_removal(owner, f"Delete cluster {key.name}", manages=True)
    looked = await commit.look()
    for line in looked.lines():
        progress.say(line, sign="-")
    if dry_run:
        return ""
    suspended = await handed_over.suspend(client, progress)
    try:
        await commit.push(looked, progress)
    except Failure as failure:
        raise Failure(
            f"{failure}\nerror: cluster {key} is not deleted, and its Flux is suspended (Kustomization "
            f"{', '.join(map(str, suspended))}): to keep it, set spec.suspend: false of each; to delete it, give the "
            "same command again, or without --push"
        ) from None
    return ""


async def _begun(client: Client, key: Key, content: bytes | None, manifest: str, bootstrap_flag: str) -> records.Record:
    """The record of the deletion, written first; a creation that did not end is ended by it."""
    begun = await records.of_bootstrap(client, key)
    record = record_of(begun, key, chosen_release.own_version(), bootstrap_flag, manifest)
    if record != begun:
        if content is not None and await records.read_kubeconfig(client, record.key) is None:
            await records.keep_kubeconfig(client, record.key, content)
        await records.write(client, record)
    return record


def record_of(
    record: records.Record | None, key: Key, own: str, bootstrap_flag: str = "", manifest: str = ""
) -> records.Record:
    """The record of a deletion that begins or goes on. In the cluster's own bootstrap, the record knows the namespace.
    `manifest` is that of a cluster which was created; of one that was not, the record has it.

    Raises `Refused` for a bootstrap whose record is of another cluster.
    """
    if record is None:
        return records.Record(records.DELETE, key.namespace, key.name, own, manifest=manifest)
    if record.key != key and (bootstrap_flag or record.name != key.name):
        namespace = "" if record.namespace == _DEFAULT else f" -n {record.namespace}"
        raise Refused(
            f"the bootstrap is in use, it {record.text}, and not {key}: delete that one first, with "
            f"`espalier delete cluster {record.name}{namespace}{bootstrap_flag}`"
        )
    if record.operation == records.DELETE:
        return record
    return records.Record(records.DELETE, *record.key, own, manifest=record.manifest)


def _print_steps(bootstrap: Bootstrap, key: Key, progress: Progress) -> None:
    steps = [
        plan.Planned("", "start the bootstrap", [f"{bootstrap.title}: its data"]),
        *plan.removal(key),
        plan.Planned("", "remove the bootstrap", [f"{bootstrap.title}: what belongs to the cluster is deleted"]),
    ]
    print_steps(steps)
    progress.say(f"cluster {key} would be deleted (dry run)")


def _remove_kubeconfig(key: Key, content: bytes | None, progress: Progress) -> None:
    """Delete the kubeconfig of the deleted cluster in this folder, if it is the one."""
    path = lifecycle.kubeconfig_path(key)
    with suppress(OSError, KubeconfigError):
        if content is not None and _alone(path.read_bytes()) == _alone(content):
            path.unlink()
            progress.say(f"{path} is deleted")
            path.parent.rmdir()


def _alone(content: bytes) -> bytes:
    """A kubeconfig as the bootstrap keeps it."""
    return Kubeconfig.parse(content).alone().to_bytes()
