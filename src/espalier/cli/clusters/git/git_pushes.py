"""`--push`: a change of a cluster that comes from Git is committed to its repository, and Flux applies it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.gitops import KINDS
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text import paths
from espalier.cli.clusters.git import git_credentials
from espalier.cli.clusters.git.from_git import Owner
from espalier.cli.kit.failures import Failure
from espalier.cli.kit.printing.progress import Progress
from espalier.gitops.installation import NotFollowed, until_applied
from espalier.gitops.layout import (
    KUSTOMIZATION_FILE,
    Unfit,
    changed_file,
    cluster_files,
    objects,
    other_content,
    removed_files,
    removed_management_files,
)
from espalier.gitops.repository import GitError, Published, Repository
from espalier.gitops.target import Credentials, NoRepository, Target, target_of
from espalier.kube.client import Client
from espalier.kube.errors import NotFound
from espalier.management import record as records

Files = Mapping[str, bytes]
Changes = Mapping[str, bytes | None]
"""New contents; None for a file that is removed."""


@dataclass(frozen=True)
class Commit:
    """A change of the files of a cluster."""

    message: str
    target: Target
    credentials: Credentials
    source: Key
    """The GitRepository that Flux fetches."""
    kustomizations: Sequence[Key]
    """Those that apply the change, in order."""
    change: Callable[[Files], Changes]
    """From the files of the branch to those that change; raises `Unfit`."""

    async def look(self) -> Looked:
        """The change, on the branch as it is now. Raises `Failure`."""
        existing = await asyncio.to_thread(self._read)
        changed = self._changed(existing)
        return Looked(changed, {path: existing.get(path) for path in changed})

    async def push(self, looked: Looked, progress: Progress) -> str:
        """Commit the reviewed change; the id of the branch's last commit.

        Raises `Failure`, also if somebody else changed these files meanwhile.
        """
        progress.wait(f"pushing to {self._where}")
        published = await asyncio.to_thread(self._publish, looked)
        if not published.is_changed:
            progress.say(f"{self._where} has it already: nothing is pushed")
        elif published.attempts == 1:
            progress.say(f"commit {published.commit[:12]} is pushed to {self._where}")
        else:
            progress.say(
                f"commit {published.commit[:12]} is pushed to {self._where}, onto what somebody else pushed meanwhile"
            )
        return published.commit

    async def until_applied(self, client: Client, commit: str, progress: Progress, *, timeout: float) -> None:
        """Have Flux apply it. Raises `Failure` with what Flux says."""
        try:
            await until_applied(client, self.source, self.kustomizations, commit, wait=progress.wait, patience=timeout)
        except NotFollowed as error:
            raise Failure(
                f"commit {commit[:12]} of {self._where} is not applied: {error}; mend the files there, or the manifest "
                "and give the command again"
            ) from None

    @property
    def _where(self) -> str:
        return f"{self.target.url}, branch {self.target.branch}"

    def _read(self) -> dict[str, bytes]:
        try:
            with self.credentials.access(self.target) as access:
                return Repository(access, self.target.branch).read()
        except GitError as error:
            raise Failure(str(error)) from None

    def _publish(self, looked: Looked) -> Published:
        def change(existing: Files) -> Changes:
            changed = self._changed(existing)
            for path in dict.fromkeys((*looked.before, *changed)):
                if path not in looked.before or existing.get(path) != looked.before[path]:
                    raise Failure(
                        f"{self._where}: somebody else changed {path} meanwhile; nothing is pushed: look at it, and "
                        "give the command again"
                    )
            return changed

        try:
            with self.credentials.access(self.target) as access:
                return Repository(access, self.target.branch).publish(change, self.message, git_credentials.author())
        except GitError as error:
            raise Failure(str(error)) from None

    def _changed(self, existing: Files) -> dict[str, bytes | None]:
        try:
            return {path: text for path, text in self.change(existing).items() if existing.get(path) != text}
        except Unfit as error:
            raise Failure(f"{self._where}: {error}") from None


@dataclass(frozen=True)
class Looked:
    """The files that change, and their content before; None for a new one."""

    changed: Changes
    before: Mapping[str, bytes | None]

    def lines(self) -> list[str]:
        """A line for each new file, and for each field that changes in another."""
        lines = []
        for path, after in self.changed.items():
            before = self.before[path]
            if before is None or after is None:
                lines.append(f"{path}: {'new' if before is None else 'removed'}")
                continue
            old, new = (_named(objects(path, content)) for content in (before, after))
            for (name, *at), was, will in paths.differences(old, new, parts=records.parts):
                field = f": {paths.render(at)}" if at else ""
                lines.append(f"{path}: {name}{field}: {records.shown(was)} -> {records.shown(will)}")
        return lines


def of_change(owner: Owner, trees: Sequence[Tree], message: str) -> Commit:
    """The change of a cluster that comes from Git, whose `repository` is known. Raises `Failure`."""
    return _of_owner(owner, message, owner.kustomization, lambda existing: changed_file(owner.file, trees, existing))


def of_removal(owner: Owner, message: str, *, manages: bool = False) -> Commit:
    """The removal of a cluster that comes from Git, whose `repository` is known; of one that `manages` others, with the
    files of Flux. Raises `Failure`.
    """
    files_of = removed_management_files if manages else removed_files
    namespace = owner.kustomization.namespace
    changes = partial(files_of, owner.folder, owner.kustomization)
    return _of_owner(owner, message, Key(namespace, namespace), changes)


def _of_owner(owner: Owner, message: str, kustomization: Key, changes: Callable[[Files], Changes]) -> Commit:
    if owner.repository is None:
        raise ValueError(f"{owner.where} is not known")
    branch = owner.repository.ref.branch or "master"
    target = Target(owner.repository.url, branch, owner.folder, owner.kustomization.namespace)
    credentials = git_credentials.credentials(target)
    return Commit(message, target, credentials, owner.source, [kustomization], changes)


async def of_creation(client: Client, key: Key, trees: Sequence[Tree]) -> Commit:
    """The creation of a workload cluster in the repository of its management cluster. Raises `Failure`."""
    managed = await records.managed(client)
    config = await _configuration(client, managed[0]) if managed is not None else None
    if managed is None or config is None:
        raise Failure(
            "--push: the management cluster has no Git repository (spec.gitOpsRef of its Cluster): omit the flag"
        )
    try:
        target = target_of(config, managed[0].name, git_credentials.server())
    except NoRepository as error:
        raise Failure(f"--push: {error}") from None
    listing = f"{target.base}/{target.namespace}/{KUSTOMIZATION_FILE}"

    def change(existing: Files) -> Files:
        files = cluster_files(target.base, trees, existing, namespace=target.namespace)
        if path := other_content(files, existing, listing):
            raise Unfit(
                f"{path}: the repository has another cluster {key.name}; change that one with `espalier upgrade "
                "cluster -f FILE --push`, or choose another name"
            )
        return files

    flux = Key(target.namespace, target.namespace)
    kustomizations = [flux, Key(target.namespace, key.name)]
    return Commit(
        f"Create cluster {key.name}", target, git_credentials.credentials(target), flux, kustomizations, change
    )


async def _configuration(client: Client, record: Key) -> Any:
    try:
        cluster = await client.get(Cluster.resource, record.name, record.namespace)
        reference = (cluster.tree.get("spec") or {}).get("gitOpsRef") or {}
        kind = next((kind for kind in KINDS if kind.resource.kind == reference.get("kind")), None)
        if kind is None:
            return None
        return (await client.get(kind.resource, reference["name"], record.namespace)).decode(kind)
    except NotFound:
        return None


def _named(trees: Sequence[Tree]) -> dict[str, Tree]:
    return {
        f"{tree.get('kind') or 'object'} {tree.get('metadata', {}).get('name', '')}".strip(): tree for tree in trees
    }
