"""Commits to a branch of a remote Git repository, pushed without ever overwriting what others pushed.

A push counts only if the server's report on the branch says so: the library raises nothing for a refused one. After a
refusal or a lost race the branch is fetched, the change made anew from what it has now, and pushed again, a few times.
Everything here blocks: call it from a thread.
"""

from __future__ import annotations

import shlex
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dulwich import errors
from dulwich.client import (
    GitClient,
    HTTPUnauthorized,
    SSHGitClient,
    SubprocessSSHVendor,
    SubprocessWrapper,
    default_urllib3_manager,
    get_transport_and_path,
)
from dulwich.config import StackedConfig
from dulwich.object_store import iter_tree_contents
from dulwich.objects import Blob, Commit, Tree
from dulwich.repo import Repo

from espalier.api.text.printable import in_one_line
from espalier.api.text.redaction import concealed
from espalier.gitops import packs

ATTEMPTS = 5
"""Pushes of one change, before its author is asked to look."""

LARGEST, LARGEST_FILES, MOST_FILES = 64 << 20, 256 << 20, 20_000
"""Bytes of a commit as it is sent, and of all its files; number of its files: four times a fleet of 5000 clusters."""
LARGEST_ANSWERS = LARGEST + (16 << 20)
"""Bytes that a server sends for one fetch or push: a commit, and the names of branches."""
MOST_ENTRIES = 100_000
"""Files, folders, links and other repositories of a commit: few objects may stand for many of them."""
LONGEST = 600.0
"""Seconds in which a commit has to be received."""

_FILE, _FOLDER = 0o100644, 0o040000
_ID = 40
"""Digits of a commit's id; 64 in a repository of sha256, to which the library can't push."""
_TIMEOUT = 60.0
"""Seconds without an answer, after which a server is given up."""

Change = Callable[[Mapping[str, bytes]], Mapping[str, bytes | None]]
"""From the files of a branch to the new contents of those that change; None removes a file. Called once per attempt."""


class GitError(Exception):
    """Nothing was pushed, and why. `reason` is CamelCase and stable."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Access:
    """How a repository is reached. Credentials are never part of the URL, which Git and its tools write down."""

    url: str
    username: str | None = None
    password: str | None = None
    key_file: Path | None = None
    known_hosts: Path | None = None
    ssh_program: str = "ssh"

    def ssh_command(self) -> str:
        """The ssh that neither asks nor trusts a host that is not in `known_hosts`."""
        words = [self.ssh_program, "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes"]
        words += ["-o", f"ConnectTimeout={_TIMEOUT:.0f}", "-o", "ServerAliveInterval=20"]
        if self.known_hosts is not None:
            words += ["-o", f"UserKnownHostsFile={self.known_hosts}", "-o", "GlobalKnownHostsFile=/dev/null"]
        if self.key_file is not None:
            words += ["-o", "IdentitiesOnly=yes"]
        return shlex.join(words)


@dataclass(frozen=True)
class Author:
    """Who commits, and when (seconds since 1970)."""

    name: str
    email: str
    time: int


@dataclass(frozen=True)
class Published:
    """The branch after a push; `is_changed` is False if it already had what was asked for."""

    commit: str
    is_changed: bool
    attempts: int


@dataclass(frozen=True)
class Snapshot:
    """A branch at one moment: its commit, empty for a repository without any, and its files."""

    commit: str
    files: dict[str, bytes]


class Repository:
    """A branch of a remote repository."""

    def __init__(self, access: Access, branch: str) -> None:
        """Raises `GitError` for a URL with a password in it."""
        split = urlsplit(access.url)
        if split.password is not None:
            address = concealed(access.url)
            raise GitError("CredentialsInURL", f"{address}: Git writes URLs down; give the password separately")
        self._access = access
        self._branch = branch
        self._ref = f"refs/heads/{branch}".encode()

    def read(self) -> dict[str, bytes]:
        """The files of the branch; empty for a repository without commits. Raises `GitError`."""
        return self.fetch().files

    def fetch(self, *, exact: bool = False) -> Snapshot:
        """The branch as it is now; `exact`: never the default one in its place. Raises `GitError`."""
        with tempfile.TemporaryDirectory(prefix="espalier-git-") as folder:
            repo, head = self._fetched(Path(folder), exact=exact)
            with repo:
                return Snapshot((head or b"").decode(), self._files(repo, head))

    def publish(self, change: Change, message: str, author: Author, *, attempts: int = ATTEMPTS) -> Published:
        """Commit a change and push it. The first commit of an empty repository makes the branch. Raises `GitError`."""
        refusal = ""
        for attempt in range(1, attempts + 1):
            with tempfile.TemporaryDirectory(prefix="espalier-git-") as folder:
                repo, head = self._fetched(Path(folder))
                with repo:
                    before = self._files(repo, head)
                    changed = {path: text for path, text in change(before).items() if before.get(path) != text}
                    commit = _committed(repo, head, changed, message, author) if changed else None
                    if commit is None:
                        return Published((head or b"").decode(), False, attempt)
                    refusal = self._pushed(repo, head, commit)
                    if not refusal:
                        return Published(commit.decode(), True, attempt)
        raise GitError(
            "PushRefused",
            f"{self._where} refused {attempts} pushes: {refusal}; see who else pushes, and what protects the branch",
        )

    @property
    def _where(self) -> str:
        return f"{concealed(self._access.url)}, branch {self._branch}"

    @contextmanager
    def _connected(self) -> Iterator[tuple[GitClient, bytes]]:
        """A client and the path of the repository there. What it started ends with the block."""
        access = self._access
        config = StackedConfig([])  # nobody's own configuration: it may rewrite URLs, or add credentials
        if access.url.startswith(("http://", "https://")):
            pool: Any = default_urllib3_manager(config, base_url=access.url, timeout=_TIMEOUT)
            answers = []
            ask, in_limits = pool.request, self._limited()

            def request(*args: Any, **kwargs: Any) -> Any:
                answer = ask(*args, **kwargs)
                answers.append(answer)  # the library leaves the connection of an answer that it does not like
                self._check_is_of_git(answer)
                answer.read = in_limits(answer.read)
                return answer

            pool.request = request
            client, path = get_transport_and_path(
                access.url,
                config=config,
                username=access.username,
                password=access.password,
                pool_manager=pool,
                quiet=True,
            )
            try:
                yield client, path.encode()
            finally:
                for answer in answers:
                    answer.close()
                pool.clear()
            return
        key = str(access.key_file) if access.key_file is not None else None
        client, path = get_transport_and_path(
            access.url, config=config, key_filename=key, ssh_command=access.ssh_command(), quiet=True
        )
        if not isinstance(client, SSHGitClient):
            raise GitError("URLInvalid", f"{self._where}: allowed are ssh://, http:// and https://")
        programs = client.ssh_vendor = _Programs()
        opened: list[Any] = []
        connect: Any = client._connect

        def connected(*args: Any, **kwargs: Any) -> Any:
            connection = connect(*args, **kwargs)
            opened.append(connection[0])
            return connection

        client._connect = connected  # type: ignore[method-assign]  # a connection that failed is left open, too
        try:
            yield client, path.encode()
        finally:
            programs.end()
            for protocol in opened:
                protocol.close()

    def _check_is_of_git(self, answer: Any) -> None:
        """Raises `GitError` for the answer of a proxy, or of a server of files, from which the library would fetch all
        of the history, without limits.
        """
        content_type = in_one_line(answer.headers.get("Content-Type") or "nothing")
        if answer.status == 200 and not content_type.startswith("application/x-git-"):
            message = f"{self._where}: the server answers with {content_type}, and not as Git does; see to the URL"
            raise GitError("Unreachable", message)

    def _limited(self) -> Callable[[Callable[..., bytes]], Callable[..., bytes]]:
        """Wraps the reads of a connection; together they return no more than `LARGEST_ANSWERS`, within `LONGEST`."""
        size, in_time = 0, self._deadline()

        def limited(read: Callable[..., bytes]) -> Callable[..., bytes]:
            def counted(*args: Any, **kwargs: Any) -> bytes:
                nonlocal size
                in_time()
                part = read(*args, **kwargs)
                size += len(part)
                if size > LARGEST_ANSWERS:
                    raise self._too_large(f"its answers have more than {LARGEST_ANSWERS >> 20} MiB")
                return part

            return counted

        return limited

    def _deadline(self) -> Callable[..., None]:
        """Raises `GitError` when it is called later than `LONGEST` after now, with whatever."""
        ends = time.monotonic() + LONGEST

        def in_time(_text: bytes = b"") -> None:
            if time.monotonic() > ends:
                raise GitError("TooSlow", f"{self._where}: not received within {LONGEST:g} s; see to the connection")

        return in_time

    def _fetched(self, folder: Path, *, exact: bool = False) -> tuple[Repo, bytes | None]:
        """A new local repository with the remote branch, and the branch's commit; None if there are no commits.

        A branch that does not exist beside others begins at the one that the server calls its default, unless `exact`.
        """
        repo = Repo.init_bare(str(folder), default_branch=self._branch.encode())

        def commit_in(refs: Mapping[Any, Any]) -> Any:
            return refs.get(self._ref) or (None if exact else refs.get(b"HEAD"))

        def wanted(refs: Mapping[Any, Any], depth: int | None = None) -> list[Any]:
            if any(len(commit) != _ID for commit in refs.values()):
                raise self._other_hashes()
            base = commit_in(refs)
            if base is None and any(ref.startswith(b"refs/heads/") for ref in refs):
                raise GitError("BranchNotFound", f"{self._where}: there is no such branch; push it, or name another")
            return [base] if base is not None else []

        refs: Mapping[Any, Any] = {}
        failure = None
        try:
            with self._connected() as (client, path):
                fetched = self._received(client, path, repo, wanted)
                if fetched.object_format not in (None, "sha1"):
                    raise self._other_hashes()
                refs = fetched.refs
        except Exception as error:
            failure = self._failure(error)
        if failure is not None:
            repo.close()
            raise failure
        return repo, commit_in(refs)

    def _received(self, client: GitClient, path: bytes, repo: Repo, wanted: Any) -> Any:
        """Receive the last commit of the branch, without its history, as far as the limits allow."""
        size, in_time = 0, self._deadline()

        with tempfile.TemporaryFile(dir=repo.path) as pack:

            def write(part: bytes) -> int:
                nonlocal size
                in_time()
                size += len(part)
                if size > LARGEST:
                    raise self._too_large(f"its last commit has more than {LARGEST >> 20} MiB, packed")
                return pack.write(part)

            fetched = client.fetch_pack(path, wanted, repo.get_graph_walker(), write, progress=in_time, depth=1)
            if size:
                pack.seek(0)
                try:
                    # the commit and its folder have no entries
                    packs.check(pack, most_bytes=LARGEST_FILES, most_objects=MOST_ENTRIES + 2, in_time=in_time)
                except packs.TooMuch as error:
                    raise self._too_large(f"its last commit has more than {error}, unpacked") from None
                pack.seek(0)
                repo.object_store.add_thin_pack(pack.read, None)
        repo.update_shallow(fetched.new_shallow, fetched.new_unshallow)
        return fetched

    def _too_large(self, what: str) -> GitError:
        advice = "clusters need a repository of their own, or a branch with their files alone"
        return GitError("TooLarge", f"{self._where}: {what}; {advice}")

    def _files(self, repo: Repo, head: bytes | None) -> dict[str, bytes]:
        """The files of a commit: neither links nor other repositories."""
        if head is None:
            return {}
        commit: Any = repo[head]
        files: dict[str, bytes] = {}
        size = 0
        for count, entry in enumerate(iter_tree_contents(repo.object_store, commit.tree, include_trees=True)):
            if count > MOST_ENTRIES:
                raise self._too_large(f"its folders have more than {MOST_ENTRIES} entries")
            if entry.mode not in (_FILE, 0o100755):
                continue
            blob: Any = repo[entry.sha]
            size += len(blob.data)
            if size > LARGEST_FILES or len(files) == MOST_FILES:
                limits = f"{LARGEST_FILES >> 20} MiB, or more than {MOST_FILES} files"
                raise self._too_large(f"its files have more than {limits}")
            files[entry.path.decode(errors="surrogateescape")] = blob.data
        return files

    def _pushed(self, repo: Repo, head: bytes | None, commit: bytes) -> str:
        """Push a commit made on `head`; the reason for a refusal, else empty."""
        packed: Any = repo.generate_pack_data
        moved = False

        def update(refs: Mapping[Any, Any]) -> dict[Any, Any]:
            nonlocal moved
            moved = refs.get(self._ref, head) != head
            return {} if moved else {self._ref: commit}

        failure, status = None, {}
        try:
            with self._connected() as (client, path):
                status = client.send_pack(path, update, packed).ref_status or {}
        except errors.SendPackError as error:
            return in_one_line(str(error))
        except Exception as error:
            failure = self._failure(error)
        if failure is not None:
            raise failure
        if moved:
            return "somebody else pushed meanwhile"
        if self._ref not in status:
            return "the server reported nothing about the branch"
        refused = status[self._ref]
        return in_one_line(str(refused)) if refused is not None else ""

    def _other_hashes(self) -> GitError:
        message = f"{self._where}: its object format is sha256, allowed is sha1; use another repository"
        return GitError("ObjectFormatUnsupported", message)

    def _failure(self, error: Exception) -> GitError:
        text = in_one_line(concealed(str(error) or type(error).__name__))
        match error:
            case GitError():
                return error
            case HTTPUnauthorized():
                return GitError("Unauthorized", f"{self._where}: the server does not accept the credentials")
            case errors.NotGitRepository():
                return GitError("RepositoryNotFound", f"{self._where}: there is no such repository")
            case FileNotFoundError():
                return GitError("NoSSHProgram", f"{self._where}: there is no program {self._access.ssh_program}")
        return GitError("Unreachable", f"{self._where}: {text}")


class _Programs(SubprocessSSHVendor):
    """Starts ssh, and ends it whatever became of the connection."""

    def __init__(self) -> None:
        self._started: list[SubprocessWrapper] = []

    def run_command(self, *args: Any, **kwargs: Any) -> SubprocessWrapper:
        started = super().run_command(*args, **kwargs)
        self._started.append(started)
        return started

    def end(self) -> None:
        """End all of them."""
        for program in self._started:
            program.proc.kill()
            program.close()


def _committed(
    repo: Repo, head: bytes | None, changed: Mapping[str, bytes | None], message: str, author: Author
) -> bytes:
    """The new commit."""
    commit: Any = Commit()
    parent: Any = repo[head] if head is not None else None
    commit.parents = [head] if head is not None else []
    tree = _tree(repo, parent.tree if parent is not None else None, changed)
    if tree is None:  # the last files are gone, and the branch stays
        nothing = Tree()
        repo.object_store.add_object(nothing)
        tree = bytes(nothing.id)
    commit.tree = tree
    commit.author = commit.committer = f"{author.name} <{author.email}>".encode()
    commit.author_time = commit.commit_time = author.time
    commit.author_timezone = commit.commit_timezone = 0
    commit.encoding = b"UTF-8"
    commit.message = message.encode()
    repo.object_store.add_object(commit)
    return bytes(commit.id)


def _tree(repo: Repo, before: bytes | None, changed: Mapping[str, bytes | None]) -> bytes | None:
    """The id of a tree with these changes of files below it, made on another; what is not changed stays as it is."""
    tree: Any = repo[before] if before is not None else Tree()
    below: dict[str, dict[str, bytes | None]] = {}
    for path, text in changed.items():
        name, _, rest = path.partition("/")
        if rest:
            below.setdefault(name, {})[rest] = text
        elif text is None:
            del tree[name.encode()]
        else:
            _require(tree, name, (_FILE, 0o100755), "a folder, a link or another repository")
            blob = Blob.from_string(text)
            repo.object_store.add_object(blob)
            tree[name.encode()] = (_FILE, blob.id)
    for name, inner in below.items():
        _require(tree, name, (_FOLDER,), "a file, a link or another repository (a submodule)")
        present = tree[name.encode()][1] if name.encode() in tree else None
        made = _tree(repo, present, inner)
        if made is None:
            del tree[name.encode()]
        else:
            tree[name.encode()] = (_FOLDER, made)
    if before is not None and len(tree) == 0:
        return None
    repo.object_store.add_object(tree)
    return bytes(tree.id)


def _require(tree: Any, name: str, modes: tuple[int, ...], other: str) -> None:
    """Raises `GitError` where something else has the name: what is in its place would be lost."""
    if name.encode() in tree and tree[name.encode()][0] not in modes:
        raise GitError(
            "PathTaken", f"{name}: the repository has {other} of this name; choose another clusterConfigPath"
        )
