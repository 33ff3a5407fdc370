"""Commits of `--push`: checks before them, and pushes of others meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import msgspec
import pytest
import yaml
from rich.console import Console

from espalier.api.eksa.gitops import FluxConfig
from espalier.api.flux import GitReference, GitRepositorySpec
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.clusters.git import git_pushes
from espalier.cli.clusters.git.from_git import Owner
from espalier.cli.kit.failures import Failure
from espalier.cli.kit.printing.progress import Progress
from espalier.gitops.repository import ATTEMPTS
from espalier.management import record as records
from tests.support.servers.git_server import GitServer, git_server

FLUX = Key("flux-system", "flux-system")
FOLDER = "clusters/laptop/garden/eksa-system"
FILE = f"{FOLDER}/eksa-cluster.yaml"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[GitServer]:
    monkeypatch.setenv("EKSA_GITHUB_TOKEN", "a token")
    with git_server(tmp_path) as running:
        monkeypatch.setenv("GITHUB_SERVER_URL", running.url.removesuffix("/fleet.git"))
        yield running


def cluster(version: str = "1.35", **spec: object) -> Tree:
    metadata = {"name": "garden", "namespace": "default"}
    kind = {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "Cluster"}
    return {**kind, "metadata": metadata, "spec": {"kubernetesVersion": version, **spec}}


def other(kind: str = "ConfigMap", **fields: object) -> Tree:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "other", "namespace": "default"}, **fields}


def text(*trees: Tree) -> str:
    return yaml.safe_dump_all(trees)


def commit(server: GitServer, *trees: Tree) -> git_pushes.Commit:
    repository = GitRepositorySpec(url=server.url, interval="1m", ref=GitReference(branch="main"))
    owner = Owner(Key("flux-system", "garden"), False, FOLDER, "the repository", FLUX, repository)
    return git_pushes.of_change(owner, trees, "Change cluster garden")


def push(made: git_pushes.Commit, looked: git_pushes.Looked | None = None) -> str:
    """Push it; what was told."""
    told = StringIO()

    async def run() -> None:
        seen = looked or await made.look()
        with Progress(Console(file=told, width=200)) as progress:
            await made.push(seen, progress)

    asyncio.run(run())
    return told.getvalue()


def look(made: git_pushes.Commit) -> git_pushes.Looked:
    return asyncio.run(made.look())


def test_fields_that_change_are_listed(server: GitServer) -> None:
    server.commit(FILE, text(cluster(clusterNetwork={"dns": {}}), other(data={"a": "b"})))
    made = commit(server, cluster("1.36"))
    assert look(made).lines() == [
        f"{FILE}: Cluster garden: spec.clusterNetwork: a value -> nothing",
        f'{FILE}: Cluster garden: spec.kubernetesVersion: "1.35" -> "1.36"',
    ]
    push(made)
    assert list(yaml.safe_load_all(server.text(FILE))) == [cluster("1.36"), other(data={"a": "b"})]


def test_a_change_that_git_has_makes_no_commit(server: GitServer) -> None:
    head = server.commit(FILE, text(cluster()))
    made = commit(server, cluster())
    assert look(made).lines() == []
    assert "has it already: nothing is pushed" in push(made)
    assert server.head() == head


def test_a_file_that_others_changed_is_not_overwritten(server: GitServer) -> None:
    server.commit(FILE, text(cluster()))
    made = commit(server, cluster("1.36"))
    looked = look(made)
    theirs = server.commit(FILE, text(cluster(workers=3)))
    with pytest.raises(Failure, match=f"somebody else changed {FILE} meanwhile; nothing is pushed"):
        push(made, looked)
    assert server.head() == theirs


def test_a_lost_race_for_the_file_is_said(server: GitServer) -> None:
    """The same between the fetch and the push."""
    server.commit(FILE, text(cluster()))
    theirs: list[str] = []

    def race() -> None:
        if not theirs:
            theirs.append(server.commit(FILE, text(cluster(workers=3))))

    server.before_push = race
    with pytest.raises(Failure, match=f"somebody else changed {FILE} meanwhile"):
        push(commit(server, cluster("1.36")))
    assert server.head() == theirs[0]


def test_a_push_onto_what_others_pushed_is_said(server: GitServer) -> None:
    server.commit(FILE, text(cluster()))
    theirs: list[str] = []

    def race() -> None:
        if not theirs:
            theirs.append(server.commit("readme.md", "theirs"))

    server.before_push = race
    assert "onto what somebody else pushed meanwhile" in push(commit(server, cluster("1.36")))
    assert server.git("rev-parse", "main^") == theirs[0]
    assert server.text("readme.md") == "theirs"


def test_a_protected_branch_is_said(server: GitServer) -> None:
    head = server.commit(FILE, text(cluster()))
    server.hook("update", "exit 1")
    with pytest.raises(Failure, match=f"refused {ATTEMPTS} pushes: .*what protects the branch"):
        push(commit(server, cluster("1.36")))
    assert server.head() == head


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "the repository has no such file"),
        ("version https://git-lfs.github.com/spec/v1\n", "a pointer of Git LFS"),
        ("a: [", "mend the file in the repository"),
        ("- a\n", "allowed are objects with kind and metadata"),
        ("metadata: a\n", "allowed are objects with kind and metadata"),
    ],
)
def test_a_file_of_another_form_is_left(server: GitServer, content: str | None, words: str) -> None:
    head = server.commit("readme.md" if content is None else FILE, content or "x")
    with pytest.raises(Failure, match=words):
        look(commit(server, cluster()))
    assert server.head() == head


def test_a_secret_is_not_pushed(server: GitServer) -> None:
    head = server.commit(FILE, text(cluster()))
    with pytest.raises(Failure, match="a Secret must not be in Git"):
        look(commit(server, cluster("1.36"), other("Secret", data={"a": "Yg=="})))
    assert server.head() == head


def test_missing_credentials_of_a_push_are_said(server: GitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EKSA_GITHUB_TOKEN")
    with pytest.raises(Failure, match="found no token or password: set EKSA_GITHUB_TOKEN"):
        commit(server, cluster())


@pytest.mark.parametrize(
    ("known", "url", "words"),
    [
        ("", "https://git.example.com/a/b", "https://git.example.com/a/b: a token is sent to https://github.com alone"),
        ("", "https://github.com.example.com/a/b", "a token is sent to https://github.com alone"),
        ("", "https://github.com@example.com/a/b", "a token is sent to https://github.com alone"),
        ("", "http://github.com/a/b", "a token is sent to https://github.com alone"),
        ("https://ghe.example.com/", "https://github.com/a/b", "a token is sent to https://ghe.example.com alone"),
        ("http://ghe.example.com", "http://ghe.example.com/a/b", "allowed is https://, for the token is sent there"),
    ],
)
def test_a_token_goes_to_no_server_but_github(
    monkeypatch: pytest.MonkeyPatch, known: str, url: str, words: str
) -> None:
    """The address is that of an object, which somebody else may have written."""
    monkeypatch.setenv("EKSA_GITHUB_TOKEN", "a token")
    monkeypatch.setenv("GITHUB_SERVER_URL", known)
    with pytest.raises(Failure, match=words):
        commit(GitServer(Path(), url), cluster())


def creation(server: GitServer, monkeypatch: pytest.MonkeyPatch, *trees: Tree) -> git_pushes.Commit:
    """The commit that creates a cluster, where the management cluster names a repository."""

    async def managed(_client: object) -> tuple[Key, str]:
        return Key("default", "laptop"), ""

    async def configuration(_client: object, _record: Key) -> FluxConfig:
        return msgspec.convert(
            {"metadata": {"name": "fleet"}, "spec": {"git": {"repositoryUrl": server.url}}}, FluxConfig
        )

    monkeypatch.setattr(records, "managed", managed)
    monkeypatch.setattr(git_pushes, "_configuration", configuration)
    return asyncio.run(git_pushes.of_creation(None, Key("default", "garden"), trees))  # type: ignore[arg-type]


def test_a_created_cluster_has_its_files(server: GitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    made = creation(server, monkeypatch, cluster())
    assert (made.source, made.kustomizations) == (FLUX, [FLUX, Key("flux-system", "garden")])
    looked = look(made)
    assert f"{FILE}: new" in looked.lines()
    push(made, looked)
    head = server.head()
    assert look(creation(server, monkeypatch, cluster())).lines() == [], "the same command goes on"
    with pytest.raises(Failure, match="the repository has another cluster garden; change that one with"):
        look(creation(server, monkeypatch, cluster("1.36")))
    assert server.head() == head


@pytest.mark.parametrize("path", ["clusters/laptop/flux-system/garden.yaml", f"{FOLDER}/kustomization.yaml"])
def test_a_file_of_others_is_not_replaced(server: GitServer, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    head = server.commit(path, "kind: ConfigMap\nmetadata: {name: garden}\n")
    with pytest.raises(Failure, match=f"{path}: the repository has another cluster garden"):
        look(creation(server, monkeypatch, cluster()))
    assert server.head() == head


def test_a_listing_of_others_keeps_their_entries(server: GitServer, monkeypatch: pytest.MonkeyPatch) -> None:
    listing = "clusters/laptop/flux-system/kustomization.yaml"
    server.commit(listing, "resources: [gotk-sync.yaml]\n")
    made = creation(server, monkeypatch, cluster())
    assert f'{listing}: object: resources[1]: nothing -> "garden.yaml"' in look(made).lines()
    push(made)
    assert yaml.safe_load(server.text(listing))["resources"] == ["gotk-sync.yaml", "garden.yaml"]


OWN, LISTING = "clusters/laptop/flux-system/garden.yaml", "clusters/laptop/flux-system/kustomization.yaml"
OF_FLUX = "kind: Kustomization\nmetadata: {name: garden, namespace: flux-system}\n"


def fill(server: GitServer) -> str:
    """A cluster in the repository, with what others have there."""
    server.commit(LISTING, "# ours\nresources:\n- gotk-sync.yaml\n- garden.yaml\n- shed.yaml # theirs\n")
    server.commit(f"{FOLDER}/kustomization.yaml", "resources: [eksa-cluster.yaml]\n")
    server.commit("clusters/laptop/garden/notes.md", "theirs")
    server.commit(OWN, OF_FLUX)
    return server.commit(FILE, text(cluster()))


def removal(server: GitServer, folder: str = FOLDER, *, manages: bool = False) -> git_pushes.Commit:
    repository = GitRepositorySpec(url=server.url, interval="1m", ref=GitReference(branch="main"))
    owner = Owner(Key("flux-system", "garden"), False, folder, "the repository", FLUX, repository)
    return git_pushes.of_removal(owner, "Delete cluster garden", manages=manages)


def files(server: GitServer) -> list[str]:
    return server.git("ls-tree", "-r", "--name-only", "main").split()


def test_a_removed_cluster_leaves_others_files(server: GitServer) -> None:
    head = fill(server)
    looked = look(removal(server))
    assert looked.lines() == [
        f"{FILE}: removed",
        f"{FOLDER}/kustomization.yaml: removed",
        f"{OWN}: removed",
        f'{LISTING}: object: resources[1]: "garden.yaml" -> "shed.yaml"',
        f'{LISTING}: object: resources[2]: "shed.yaml" -> nothing',
    ]
    push(removal(server), looked)
    assert files(server) == [LISTING, "clusters/laptop/garden/notes.md"]
    assert server.text(LISTING) == "# ours\nresources:\n- gotk-sync.yaml\n- shed.yaml # theirs"
    assert server.git("rev-parse", "main^") == head
    assert "has it already: nothing is pushed" in push(removal(server)), "the same command goes on"


@pytest.mark.parametrize("listing", ["resources: [./garden.yaml, shed.yaml]\n", "resources: [shed.yaml]\n", None])
def test_a_listing_of_any_form_loses_a_cluster(server: GitServer, listing: str | None) -> None:
    server.commit(OWN, OF_FLUX)
    server.commit(FILE, text(cluster()))
    if listing is not None:
        server.commit(LISTING, listing)
    push(removal(server))
    assert files(server) == ([LISTING] if listing is not None else [])
    assert listing is None or yaml.safe_load(server.text(LISTING)) == {"resources": ["shed.yaml"]}


@pytest.mark.parametrize(
    ("folder", "own"),
    [(FOLDER, None), (FOLDER, OF_FLUX.replace("garden", "shed")), (FOLDER, OF_FLUX * 2), ("fleet", OF_FLUX)],
    ids=["absent", "other", "several", "folder"],
)
def test_a_repository_of_another_layout_is_left(server: GitServer, folder: str, own: str | None) -> None:
    """Somebody laid it out by hand: other clusters may be in the same file."""
    server.commit(f"{folder}/eksa-cluster.yaml", text(cluster()))
    head = server.commit(
        "readme.md" if own is None else OWN, (own or "x").replace(OF_FLUX * 2, f"{OF_FLUX}---\n{OF_FLUX}")
    )
    with pytest.raises(Failure, match="the repository is laid out otherwise; remove the cluster's files there by hand"):
        look(removal(server, folder))
    assert server.head() == head


@pytest.mark.parametrize("path", [FILE, f"{FOLDER}/new.yaml", LISTING])
def test_a_removal_that_lost_a_race_is_said(server: GitServer, path: str) -> None:
    """Also for a file that nobody has reviewed."""
    fill(server)
    made = removal(server)
    looked = look(made)
    theirs = server.commit(path, "resources: [garden.yaml]\n")
    with pytest.raises(Failure, match=f"somebody else changed {path} meanwhile; nothing is pushed"):
        push(made, looked)
    assert server.head() == theirs


def test_a_refused_removal_is_said(server: GitServer) -> None:
    head = fill(server)
    server.hook("update", "exit 1")
    with pytest.raises(Failure, match=f"refused {ATTEMPTS} pushes: .*what protects the branch"):
        push(removal(server))
    assert server.head() == head


@pytest.mark.parametrize("others", ["", "- shed.yaml\n"])
def test_a_management_cluster_takes_flux_with_it(server: GitServer, others: str) -> None:
    """The files of other clusters stay, with the list that has them."""
    for name in ("gotk-components.yaml", "gotk-sync.yaml"):
        server.commit(f"clusters/laptop/flux-system/{name}", "kind: Namespace\nmetadata: {name: flux-system}\n")
    server.commit(LISTING, f"resources:\n- gotk-components.yaml\n- gotk-sync.yaml\n- garden.yaml\n{others}")
    server.commit(OWN, OF_FLUX)
    server.commit(FILE, text(cluster()))
    server.commit("readme.md", "theirs")
    push(removal(server, manages=True))
    assert files(server) == ([LISTING, "readme.md"] if others else ["readme.md"])
    assert not others or server.text(LISTING) == "resources:\n- shed.yaml"
    assert "has it already: nothing is pushed" in push(removal(server, manages=True)), "the same command goes on"
