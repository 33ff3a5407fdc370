"""Pushes through OpenSSH's own server: its host key and ours have to be the ones that were given."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from espalier.gitops.repository import Access, Author, GitError, Repository
from tests.support.servers.git_server import git
from tests.support.servers.ssh_server import SshServer, ssh_server, why_no_ssh_server

ANNA = Author("anna", "anna@example.com", 1_767_225_600)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[SshServer]:
    if lacking := why_no_ssh_server():
        pytest.skip(lacking)
    git("init", "--bare", "-q", "-b", "main", tmp_path / "fleet.git")
    with ssh_server(tmp_path) as running:
        yield running


def access(server: SshServer) -> Access:
    url = f"{server.url}{server.folder}/fleet.git"
    return Access(url, key_file=server.key, known_hosts=server.known_hosts)


def test_a_push_by_ssh_arrives(server: SshServer) -> None:
    repository = Repository(access(server), "main")
    repository.publish(lambda _: {"a.yaml": b"x"}, "add a", ANNA)
    assert git("-C", server.folder / "fleet.git", "show", "main:a.yaml") == "x"
    published = repository.publish(lambda _: {"a.yaml": b"y"}, "change a", ANNA)
    assert repository.fetch().commit == published.commit
    assert git("-C", server.folder / "fleet.git", "fsck", "--strict") == ""


def test_an_unknown_or_changed_host_is_not_trusted(server: SshServer) -> None:
    other = server.folder / "other_hosts"
    other.write_text("")
    with pytest.raises(GitError, match="Host key verification failed"):
        Repository(replace(access(server), known_hosts=other), "main").read()
    public = server.other_key().with_suffix(".pub").read_text().split()
    place = server.known_hosts.read_text().split()[0]
    other.write_text(f"{place} {public[0]} {public[1]}\n")
    with pytest.raises(GitError, match="Host key verification failed"):
        Repository(replace(access(server), known_hosts=other), "main").read()


def test_a_refused_key_is_told(server: SshServer) -> None:
    with pytest.raises(GitError, match="Permission denied"):
        Repository(replace(access(server), key_file=server.other_key()), "main").read()


def test_a_missing_repository_by_ssh_is_told(server: SshServer) -> None:
    with pytest.raises(GitError, match="does not appear to be a git repository"):
        Repository(replace(access(server), url=f"{server.url}/nowhere.git"), "main").read()
