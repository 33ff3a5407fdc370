"""Commits that are pushed to Git's own server: what it refuses, and what others push meanwhile."""

from __future__ import annotations

import random
import shlex
import shutil
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from types import SimpleNamespace

import pytest
from dulwich.client import HttpGitClient
from dulwich.object_store import DiskObjectStore

from espalier.gitops import repository as module
from espalier.gitops.repository import ATTEMPTS, Access, Author, GitError, Repository
from tests.support.servers.git_server import GitServer, git, git_server

FLUX = Author("espalier", "espalier@example.com", 1_767_225_600)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[GitServer]:
    with git_server(tmp_path) as running:
        yield running


def put(path: str, text: str) -> dict[str, bytes | None]:
    return {path: text.encode()}


def repository(server: GitServer, branch: str = "main") -> Repository:
    return Repository(Access(server.url), branch)


def test_a_first_commit_makes_the_named_branch(tmp_path: Path) -> None:
    """Whatever the server calls its default."""
    with git_server(tmp_path, branch="trunk") as server:
        published = repository(server).publish(lambda _: put("a/b.yaml", "x"), "add b", FLUX)
        assert (published.commit, published.is_changed, published.attempts) == (server.head(), True, 1)
        assert server.text("a/b.yaml") == "x"
        assert server.git("log", "-1", "--format=%an <%ae> %at %s", "main") == (
            f"espalier <espalier@example.com> {FLUX.time} add b"
        )


def test_files_of_others_stay_as_they_are(server: GitServer) -> None:
    server.commit("readme.md", "of others")
    server.commit("a/other.yaml", "of others, too")
    repository(server).publish(lambda _: put("a/b.yaml", "x"), "add b", FLUX)
    assert repository(server).read() == {
        "readme.md": b"of others",
        "a/other.yaml": b"of others, too",
        "a/b.yaml": b"x",
    }
    assert git("-C", server.folder, "fsck", "--strict") == ""


def test_a_file_is_removed_with_its_empty_folder(server: GitServer) -> None:
    server.commit("a/b/c.yaml", "x")
    server.commit("d.yaml", "y")
    repository(server).publish(lambda _: {"a/b/c.yaml": None}, "remove c", FLUX)
    assert server.git("ls-tree", "--name-only", "main") == "d.yaml"


def test_a_branch_that_is_as_asked_for_gets_no_commit(server: GitServer) -> None:
    before = server.commit("a.yaml", "x")
    published = repository(server).publish(lambda _: put("a.yaml", "x"), "add a", FLUX)
    assert (published.commit, published.is_changed) == (before, False)
    assert server.head() == before


def test_a_new_branch_begins_at_the_default_one(server: GitServer) -> None:
    base = server.commit("a.yaml", "x")
    repository(server, "fleet").publish(lambda _: put("b.yaml", "y"), "add b", FLUX)
    assert server.git("rev-parse", "fleet^") == base
    assert server.head() == base


def test_a_lost_race_is_made_anew_on_what_won(server: GitServer) -> None:
    """Pushed between our look at the branches and our pack: the server would report it, and the library would not."""
    server.commit("a.yaml", "x")
    won: list[str] = []

    def race() -> None:
        if not won:
            won.append(server.commit("theirs.yaml", "t"))

    server.before_push = race
    seen: list[set[str]] = []

    def change(files: Mapping[str, bytes]) -> dict[str, bytes | None]:
        seen.append(set(files))
        return put("ours.yaml", "o")

    published = repository(server).publish(change, "add ours", FLUX)
    assert published.attempts == 2
    assert seen == [{"a.yaml"}, {"a.yaml", "theirs.yaml"}]
    assert server.git("rev-parse", "main^") == won[0]
    assert server.text("ours.yaml") == "o"


def test_a_race_for_the_first_commit_loses_nothing(server: GitServer) -> None:
    won: list[str] = []

    def race() -> None:
        if not won:
            won.append(server.commit("theirs.yaml", "t"))

    server.before_push = race
    published = repository(server).publish(lambda _: put("ours.yaml", "o"), "add ours", FLUX)
    assert published.attempts == 2
    assert server.git("rev-parse", "main^") == won[0]


def test_an_endless_race_ends_and_overwrites_nothing(server: GitServer) -> None:
    pushed: list[str] = [server.commit("a.yaml", "0")]
    server.before_push = lambda: pushed.append(server.commit("a.yaml", str(len(pushed))))
    with pytest.raises(GitError, match=f"refused {ATTEMPTS} pushes: ") as refused:
        repository(server).publish(lambda _: put("ours.yaml", "o"), "add ours", FLUX)
    assert refused.value.reason == "PushRefused"
    assert len(pushed) == ATTEMPTS + 1
    assert server.head() == pushed[-1]


@pytest.mark.parametrize(
    ("hook", "script"),
    [("pre-receive", "exit 1"), ("update", "echo protected branch >&2; exit 1")],
)
def test_a_push_that_a_hook_refuses_is_an_error(server: GitServer, hook: str, script: str) -> None:
    before = server.commit("a.yaml", "x")
    server.hook(hook, script)
    with pytest.raises(GitError, match="hook declined") as refused:
        repository(server).publish(lambda _: put("b.yaml", "y"), "add b", FLUX, attempts=2)
    assert refused.value.reason == "PushRefused"
    assert "see who else pushes, and what protects the branch" in str(refused.value)
    assert server.head() == before


def test_a_hook_that_refuses_once_delays_a_push(server: GitServer) -> None:
    server.commit("a.yaml", "x")
    server.hook("update", "[ -e refused ] || { touch refused; exit 1; }")
    assert repository(server).publish(lambda _: put("b.yaml", "y"), "add b", FLUX).attempts == 2
    assert server.text("b.yaml") == "y"


def test_links_and_submodules_stay_as_they_are(server: GitServer) -> None:
    server.commit("a.yaml", "x")
    blob = git("-C", server.folder, "hash-object", "-w", "--stdin", stdin=b"a.yaml")
    entries = f"120000 blob {blob}\tlink\n160000 commit {server.head()}\tmodule\n"
    tree = git("-C", server.folder, "mktree", stdin=entries.encode())
    server.git("update-ref", "refs/heads/main", server.git("commit-tree", tree, "-p", "main", "-m", "links"))
    assert repository(server).read() == {}
    repository(server).publish(lambda _: put("b.yaml", "y"), "add b", FLUX)
    assert entries.strip() in server.git("ls-tree", "main")


def test_a_history_is_left_on_the_server(server: GitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a large history, the last commit alone is fetched, and pushed upon."""
    server.commit("large.txt", "".join(random.Random(1).choices("abcdefgh", k=400_000)))
    server.commit("large.txt", "small")
    monkeypatch.setattr(module, "LARGEST", 10_000)
    repository(server).publish(lambda _: put("b.yaml", "y"), "add b", FLUX)
    assert len(server.git("rev-list", "main").split()) == 3
    assert git("-C", server.folder, "fsck", "--strict") == ""


@pytest.mark.parametrize(
    ("limit", "most", "reason", "words"),
    [
        ("LARGEST", 10_000, "TooLarge", "its last commit has more than"),
        ("LARGEST_FILES", 10_000, "TooLarge", "its last commit has more than 0 MiB, unpacked"),
        ("MOST_FILES", 1, "TooLarge", "or more than 1 files"),
        ("MOST_ENTRIES", 1, "TooLarge", "its last commit has more than 3 objects, unpacked"),
        ("LONGEST", -1.0, "TooSlow", "see to the connection"),
    ],
)
def test_more_than_clusters_need_is_not_fetched(
    server: GitServer, monkeypatch: pytest.MonkeyPatch, limit: str, most: float, reason: str, words: str
) -> None:
    server.commit("a.txt", "".join(random.Random(1).choices("abcdefgh", k=400_000)))
    before = server.commit("b.txt", "small")
    monkeypatch.setattr(module, limit, most)
    with pytest.raises(GitError, match=words) as failed:
        repository(server).publish(lambda _: put("b.yaml", "y"), "add b", FLUX)
    assert failed.value.reason == reason
    assert server.head() == before


def test_a_large_file_is_refused_while_packed(server: GitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of it is unpacked: its contents are 2 MiB, and come in 2 KiB."""
    server.commit("a.txt", "a" * (2 << 20))
    monkeypatch.setattr(module, "LARGEST_FILES", 1 << 20)
    monkeypatch.setattr(DiskObjectStore, "add_thin_pack", lambda *_words, **_options: pytest.fail("unpacked"))
    with pytest.raises(GitError, match="its last commit has more than 1 MiB, unpacked") as failed:
        repository(server).read()
    assert failed.value.reason == "TooLarge"


@pytest.mark.parametrize(
    ("limit", "most", "words"),
    [
        ("LARGEST_FILES", 10_000, "its files have more than"),
        ("MOST_ENTRIES", 1, "its folders have more than 1 entries"),
    ],
)
def test_files_of_equal_content_count_each(
    server: GitServer, monkeypatch: pytest.MonkeyPatch, limit: str, most: int, words: str
) -> None:
    """The pack has them once."""
    for name in "abc":
        server.commit(name, "x" * 4000)
    monkeypatch.setattr(module, limit, most)
    with pytest.raises(GitError, match=words):
        repository(server).read()


@pytest.mark.parametrize("path", ["module/b.yaml", "link/b.yaml", "a.yaml/b.yaml", "folder", "link"])
def test_nothing_takes_the_place_of_another_entry(server: GitServer, path: str) -> None:
    server.commit("a.yaml", "x")
    blob = git("-C", server.folder, "hash-object", "-w", "--stdin", stdin=b"a.yaml")
    folder = git("-C", server.folder, "mktree", stdin=f"100644 blob {blob}\tb".encode())
    entries = f"100644 blob {blob}\ta.yaml\n040000 tree {folder}\tfolder\n120000 blob {blob}\tlink\n"
    entries += f"160000 commit {server.head()}\tmodule\n"
    tree = git("-C", server.folder, "mktree", stdin=entries.encode())
    server.git("update-ref", "refs/heads/main", server.git("commit-tree", tree, "-p", "main", "-m", "links"))
    before = server.head()
    with pytest.raises(GitError, match="choose another clusterConfigPath") as refused:
        repository(server).publish(lambda _: put(path, "y"), "add b", FLUX)
    assert refused.value.reason == "PathTaken"
    assert server.head() == before


def test_a_missing_branch_is_fetched_from_no_other(server: GitServer) -> None:
    server.commit("a.yaml", "x")
    with pytest.raises(GitError, match="there is no such branch") as failed:
        repository(server, "other").fetch(exact=True)
    assert failed.value.reason == "BranchNotFound"


def test_a_repository_with_other_hashes_is_refused(tmp_path: Path) -> None:
    with git_server(tmp_path) as server:
        shutil.rmtree(server.folder)
        git("init", "--bare", "-q", "-b", "main", "--object-format=sha256", server.folder)
        server.git("config", "http.receivepack", "true")
        with pytest.raises(GitError, match="its object format is sha256"):
            repository(server).read()
        before = server.commit("a.yaml", "x")
        with pytest.raises(GitError, match="its object format is sha256") as failed:
            repository(server).publish(lambda _: put("b.yaml", "y"), "add b", FLUX)
        assert failed.value.reason == "ObjectFormatUnsupported"
        assert server.head() == before


def test_a_history_that_was_replaced_is_built_upon(server: GitServer) -> None:
    """denyNonFastForwards is the server's; nothing of ours is ever forced."""
    server.git("config", "receive.denyNonFastForwards", "true")
    server.commit("a.yaml", "x")
    repository(server).publish(lambda _: put("b.yaml", "y"), "add b", FLUX)
    server.git("update-ref", "-d", "refs/heads/main")
    other = server.commit("c.yaml", "z")
    repository(server).publish(lambda _: put("b.yaml", "y"), "add b", FLUX)
    assert server.git("rev-parse", "main^") == other


def test_credentials_are_given_and_never_written(tmp_path: Path) -> None:
    with git_server(tmp_path, password="s3cret") as server:
        access = Access(server.url, username="flux", password="s3cret")
        Repository(access, "main").publish(lambda _: put("a.yaml", "x"), "add a", FLUX)
        assert server.text("a.yaml") == "x"
        with pytest.raises(GitError, match="does not accept the credentials") as refused:
            Repository(Access(server.url, username="flux", password="other"), "main").read()
        assert refused.value.reason == "Unauthorized"


def test_a_password_in_a_url_is_refused_and_not_shown() -> None:
    with pytest.raises(GitError) as refused:
        Repository(Access("https://flux:s3cret@git.example.com/fleet"), "main")
    assert refused.value.reason == "CredentialsInURL"
    assert "s3cret" not in str(refused.value)


def test_missing_repository_and_closed_port_are_named(server: GitServer) -> None:
    for url, reason in (
        (server.url.replace("fleet", "other"), "RepositoryNotFound"),
        ("http://127.0.0.1:1/fleet.git", "Unreachable"),
    ):
        with pytest.raises(GitError, match="branch main") as failed:
            Repository(Access(url), "main").read()
        assert failed.value.reason == reason


SSH = """#!/bin/sh
for last; do :; done
printf '%s\\n' "$@" >> {log}
exec sh -c "$last"
"""


@contextmanager
def answering(content_type: str, content: bytes, most: int = 1) -> Iterator[tuple[Repository, list[str]]]:
    """A server that gives this answer to all requests, `most` times over; with the paths of requests."""
    requests: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", content_type)
            self.end_headers()
            with suppress(OSError):
                for _ in range(most):
                    self.wfile.write(content)

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listening:
        thread = Thread(target=listening.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield Repository(Access(f"http://127.0.0.1:{listening.server_port}/fleet.git"), "main"), requests
        finally:
            listening.shutdown()
            thread.join()


def test_files_of_a_web_server_are_not_fetched() -> None:
    """Without Git on the server, all of its history would be fetched, file by file, without the limits."""
    branches = b"1" * 40 + b"\trefs/heads/main\n"
    with answering("text/plain", branches) as (repository, requests):
        with pytest.raises(GitError, match="answers with text/plain, and not as Git does") as failed:
            repository.read()
        assert failed.value.reason == "Unreachable"
        assert len(requests) == 1


def test_endless_names_of_branches_are_not_received(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_ANSWERS", 1 << 20)
    branch = b"003f" + b"1" * 40 + b" refs/heads/branch\n"
    with answering("application/x-git-upload-pack-advertisement", branch, 40_000) as (repository, _):
        with pytest.raises(GitError, match="its answers have more than 1 MiB") as failed:
            repository.read()
        assert failed.value.reason == "TooLarge"


def test_ssh_asks_nobody_and_trusts_known_hosts_only(server: GitServer, tmp_path: Path) -> None:
    """With a program in ssh's place that runs the command here."""
    server.commit("a.yaml", "x")
    log, program = tmp_path / "log", tmp_path / "ssh"
    program.write_text(SSH.format(log=log))
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    access = Access(
        f"ssh://git@git.example.com:2222{server.folder}",
        key_file=tmp_path / "key",
        known_hosts=tmp_path / "known",
        ssh_program=str(program),
    )
    Repository(access, "main").publish(lambda _: put("b.yaml", "y"), "add b", FLUX)
    assert server.text("b.yaml") == "y"
    words = log.read_text().split("\n")
    assert {"BatchMode=yes", "StrictHostKeyChecking=yes", "IdentitiesOnly=yes", "2222", "git@git.example.com"} < {
        *words
    }
    assert f"UserKnownHostsFile={tmp_path / 'known'}" in words
    assert str(tmp_path / "key") in words
    missing = Access("ssh://git@git.example.com/fleet", ssh_program=str(tmp_path / "none"))
    with pytest.raises(GitError, match="there is no program") as failed:
        Repository(missing, "main").read()
    assert failed.value.reason == "NoSSHProgram"


@pytest.mark.filterwarnings("ignore:unclosed Protocol:ResourceWarning")  # the library's
def test_what_ssh_complains_of_is_told(tmp_path: Path) -> None:
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\necho 'Host key verification failed.' >&2; exit 255\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(GitError, match="Host key verification failed") as failed:
        Repository(Access("ssh://git@git.example.com/fleet", ssh_program=str(program)), "main").read()
    assert failed.value.reason == "Unreachable"


def test_words_of_ssh_are_quoted() -> None:
    access = Access("ssh://a/b", known_hosts=Path("/a b/known"), ssh_program="/c d/ssh")
    words = shlex.split(access.ssh_command())
    assert words[0] == "/c d/ssh"
    assert "UserKnownHostsFile=/a b/known" in words


@pytest.mark.parametrize("url", ["git://127.0.0.1/fleet", "file:///fleet", "/fleet"])
def test_other_schemes_are_refused(url: str) -> None:
    with pytest.raises(GitError, match="allowed are ssh://, http:// and https://") as failed:
        Repository(Access(url), "main").read()
    assert failed.value.reason == "URLInvalid"


def test_a_push_while_a_change_is_made_is_seen(server: GitServer) -> None:
    """Before our look at the branches: nothing is sent."""
    server.commit("a.yaml", "x")
    won: list[str] = []

    def change(_files: Mapping[str, bytes]) -> dict[str, bytes | None]:
        if not won:
            won.append(server.commit("theirs.yaml", "t"))
        return put("ours.yaml", "o")

    sent: list[str] = []
    server.before_push = lambda: sent.append(server.head())
    assert repository(server).publish(change, "add ours", FLUX).attempts == 2
    assert server.git("rev-parse", "main^") == won[0]
    assert sent == [won[0]]


def test_a_server_that_goes_before_the_push_is_said(server: GitServer) -> None:
    server.commit("a.yaml", "x")
    with ExitStack() as stack:

        def change(_files: Mapping[str, bytes]) -> dict[str, bytes | None]:
            stack.enter_context(server.away())
            return put("ours.yaml", "o")

        with pytest.raises(GitError, match="branch main") as failed:
            repository(server).publish(change, "add ours", FLUX)
    assert failed.value.reason == "Unreachable"


def test_a_report_without_the_branch_is_no_success(server: GitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    server.commit("a.yaml", "x")
    reported = SimpleNamespace(ref_status={b"refs/heads/other": None})
    monkeypatch.setattr(HttpGitClient, "send_pack", lambda *_words, **_options: reported)
    with pytest.raises(GitError, match="the server reported nothing about the branch"):
        repository(server).publish(lambda _: put("b.yaml", "y"), "add b", FLUX)
