"""Repositories at GitHub: looked for, created, and what tokens of all sorts are told."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import pytest
import yaml

from espalier.api.eksa.gitops import FluxConfig
from espalier.api.manifests.manifests import read_manifests
from espalier.cli.clusters.git import git_credentials
from espalier.cli.clusters.manifests import documents
from espalier.cli.kit.failures import Failure
from espalier.cli.management.components import components, git_ops
from espalier.gitops.hub import Hub, api_of
from espalier.gitops.repository import GitError, Repository
from espalier.kube.client import Client
from espalier.kube.connection.access import Access
from espalier.kube.errors import Unreachable
from espalier.kube.transports.http import HttpTransport
from espalier.releases import Releases
from tests.support.environments.managed_clusters import EXAMPLES
from tests.support.servers.git_server import GitServer, git, git_server
from tests.support.servers.github import GitHub, Token, github

TOKEN = "ghp_t0ken"


def hub(server: GitHub, owner: str = "garden", *, is_personal: bool = False, token: str = TOKEN) -> Hub:
    return Hub(owner, "fleet", is_personal, token, server.url)


def served(story: Callable[[GitHub], Awaitable[None]]) -> None:
    async def main() -> None:
        async with github() as server:
            server.organizations.add("garden")
            server.tokens[TOKEN] = Token("anna")
            await story(server)

    asyncio.run(main())


def test_login_of_netrc_is_not_sent_beside_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login anna password other\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))

    async def story(server: GitHub) -> None:
        assert not await hub(server).exists()

    served(story)


@pytest.mark.parametrize("scopes", ["repo", "gist, repo", None])
@pytest.mark.parametrize(("owner", "is_personal"), [("garden", False), ("anna", True), ("Anna", True)])
def test_a_missing_repository_is_created_private(owner: str, scopes: str | None, *, is_personal: bool) -> None:
    async def story(server: GitHub) -> None:
        server.tokens[TOKEN] = Token("anna", scopes)
        made = hub(server, owner, is_personal=is_personal)
        assert not await made.exists()
        assert await made.create()
        assert server.repositories[f"{owner}/fleet".lower()]["private"] is True
        assert await made.exists()
        assert not await made.create()
        assert len([request for request in server.requests if request.startswith("POST")]) == 1

    served(story)


@pytest.mark.parametrize(
    ("token", "reason", "words"),
    [
        (Token("anna", "gist, read:org"), "Unauthorized", "has scopes gist, read:org; needed is repo"),
        (Token("anna", ""), "Unauthorized", r"has scopes \(none\); needed is repo"),
        (Token("anna", "public_repo"), "Unauthorized", "has scopes public_repo; needed is repo"),
        (Token("anna", None, may_create=False), "Forbidden", "403 You need admin access to the organization"),
        (Token("anna", None, sees=False), "Forbidden", "no organization garden that the token can see"),
    ],
)
def test_a_token_that_may_not_create_is_said(token: Token, reason: str, words: str) -> None:
    async def story(server: GitHub) -> None:
        server.tokens[TOKEN] = token
        with pytest.raises(GitError, match=words) as failed:
            await hub(server).create()
        assert failed.value.reason == reason
        assert TOKEN not in str(failed.value)
        assert server.repositories == {}

    served(story)


def test_a_wrong_token_is_said() -> None:
    async def story(server: GitHub) -> None:
        with pytest.raises(GitError, match="does not accept the token") as failed:
            await hub(server, token="0ther").exists()
        assert failed.value.reason == "Unauthorized"
        assert "0ther" not in str(failed.value)

    served(story)


def test_a_token_of_another_user_creates_nothing() -> None:
    async def story(server: GitHub) -> None:
        made = hub(server, "bert", is_personal=True)
        for act in (made.exists, made.create):
            with pytest.raises(GitError, match="the token is of anna, who can't create it for bert"):
                await act()
        assert server.repositories == {}

    served(story)


def test_a_taken_name_is_said() -> None:
    """The repository exists, and the token does not see it."""

    async def story(server: GitHub) -> None:
        server.repositories["anna/fleet"] = {}
        server.tokens[TOKEN] = Token("anna", None, sees=False)
        with pytest.raises(GitError, match="the name is taken, but the token can't see that repository") as failed:
            await hub(server, "anna", is_personal=True).create()
        assert failed.value.reason == "NameTaken"

    served(story)


def test_a_repository_created_meanwhile_is_used() -> None:
    async def story(server: GitHub) -> None:
        made = hub(server)
        ask = made._ask

        async def raced(session: object, method: str, *words: object) -> object:
            if method == "POST":
                server.repositories["garden/fleet"] = {}
            return await ask(session, method, *words)  # type: ignore[arg-type]

        object.__setattr__(made, "_ask", raced)
        assert not await made.create()

    served(story)


@pytest.mark.parametrize(
    ("value", "token", "words"),
    [
        ({"archived": True}, Token("anna"), "it is archived"),
        ({}, Token("anna", may_push=False), "the token may not push to it"),
    ],
)
def test_a_repository_nobody_can_push_to_is_said(value: dict[str, object], token: Token, words: str) -> None:
    async def story(server: GitHub) -> None:
        server.repositories["garden/fleet"] = value
        server.tokens[TOKEN] = token
        with pytest.raises(GitError, match=words):
            await hub(server).exists()

    served(story)


@pytest.mark.parametrize("status", [403, 429])
@pytest.mark.parametrize(
    ("headers", "words"),
    [
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1767225600"}, "after 2026-01-01 00:00:00 UTC"),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "soon"}, "give the command again later"),
        ({"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "9" * 30}, "give the command again later"),
        ({"Retry-After": "60"}, "in 60 s"),
    ],
)
def test_a_rate_limit_is_said_with_its_end(headers: dict[str, str], words: str, status: int) -> None:
    async def story(server: GitHub) -> None:
        server.limited, server.limited_status = headers, status
        with pytest.raises(GitError, match=words) as failed:
            await hub(server).exists()
        assert failed.value.reason == "RateLimited"

    served(story)


@pytest.mark.parametrize(
    "content", [b"<html>", b"[]", b"null", b'{"full_name": "a", "permissions": 1}', b'{"message": {"a": 1}}', b""]
)
@pytest.mark.parametrize("status", [200, 404, 422, 500])
def test_an_answer_of_another_form_is_an_error(content: bytes, status: int) -> None:
    """Of a proxy, or a server that is none of GitHub's."""

    async def story(server: GitHub) -> None:
        server.instead = status, content
        with pytest.raises(GitError):
            await hub(server).create()

    served(story)


def test_an_answer_in_parts_is_read_to_its_end() -> None:
    async def story(server: GitHub) -> None:
        server.in_parts = True
        assert await hub(server).create()
        assert await hub(server).exists()

    served(story)


def test_a_too_long_answer_is_an_error() -> None:
    async def story(server: GitHub) -> None:
        server.instead = 200, b'{"full_name": "garden/fleet"}' + b" " * (2 << 20)
        with pytest.raises(GitError, match="the answer has more than 1 MiB"):
            await hub(server).exists()

    served(story)


def test_a_deeply_nested_answer_is_an_error() -> None:
    async def story(server: GitHub) -> None:
        server.instead = 200, b'{"full_name": "garden/fleet", "a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        with pytest.raises(GitError, match="the answer is none of GitHub's API"):
            await hub(server).exists()

    served(story)


def test_a_redirect_to_another_server_gets_no_token() -> None:
    """A repository that was renamed is redirected to, on the same one."""

    async def story(server: GitHub) -> None:
        async with github() as other:
            other.instead = 200, b'{"full_name": "garden/fleet"}'
            server.moved["/repos/garden/fleet"] = f"{other.url}/repositories/1"
            assert await hub(server).exists()
            assert [TOKEN in given for given in other.authorizations] == [False]
        server.repositories["garden/renamed"] = {}
        server.moved["/repos/garden/fleet"] = f"{server.url}/repos/garden/renamed"
        assert await hub(server).exists()

    served(story)


def test_an_unreachable_server_is_said() -> None:
    with pytest.raises(GitError, match="see to the connection, or to GITHUB_API_URL") as failed:
        asyncio.run(Hub("garden", "fleet", False, TOKEN, "http://127.0.0.1:1").exists())
    assert failed.value.reason == "Unreachable"


def test_a_token_is_not_sent_in_plain_text() -> None:
    with pytest.raises(GitError, match=r"http://ghe\.example\.com: allowed is https://"):
        Hub("garden", "fleet", False, TOKEN, "http://ghe.example.com")


def test_addresses_of_an_enterprise_server() -> None:
    named = msgspec.convert(
        {"metadata": {"name": "f"}, "spec": {"github": {"owner": "garden", "repository": "fleet"}}}, FluxConfig
    )
    assert api_of("https://github.com") == "https://api.github.com"
    given = {"GITHUB_SERVER_URL": "https://ghe.example.com/"}
    assert git_credentials.server(given) == "https://ghe.example.com"
    made = git_credentials.hub(named, TOKEN, given)
    assert made == Hub("garden", "fleet", False, TOKEN, "https://ghe.example.com/api/v3")
    other = git_credentials.hub(named, TOKEN, given | {"GITHUB_API_URL": "https://api.ghe.example.com/"})
    assert other == Hub("garden", "fleet", False, TOKEN, "https://api.ghe.example.com")
    assert TOKEN not in repr(made)


def test_a_manifest_of_github_has_its_repository_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once it is set up, and not before; then it is read as any other."""
    caplog.set_level(logging.ERROR)
    manifest = yaml.safe_load_all((EXAMPLES / "management.yaml").read_text())
    trees = [tree for tree in manifest if tree]
    trees[0]["spec"]["gitOpsRef"] = {"kind": "FluxConfig", "name": "fleet"}
    kind = {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "kind": "FluxConfig"}
    trees.append(
        {**kind, "metadata": {"name": "fleet"}, "spec": {"github": {"owner": "garden", "repository": "fleet"}}}
    )
    release = Releases.load().newest().version

    async def story(server: GitHub) -> None:
        with git_server(tmp_path) as repositories:

            def make(name: str) -> None:
                git("init", "--bare", "-q", tmp_path / f"{name}.git")
                git("-C", tmp_path / f"{name}.git", "config", "http.receivepack", "true")

            server.on_created = make
            environment = {
                "EKSA_GITHUB_TOKEN": f"{TOKEN}\n",
                "GITHUB_SERVER_URL": repositories.url.removesuffix("/fleet.git"),
                "GITHUB_API_URL": server.url,
            }

            async def asked(*, goes_on: bool = False) -> git_ops.GitOps:
                parsed = read_manifests(yaml.safe_dump_all(trees).encode(), source="manifest")
                cluster = documents.cluster_of(parsed)
                result = await git_ops.asked(
                    cluster,
                    git_ops.reference_of(cluster),
                    documents.in_namespace(parsed, "default"),
                    None,
                    simulated=components.simulated_flux(release, "flux-system"),
                    environment=environment,
                    goes_on=goes_on,
                )
                assert result is not None
                return result

            environment["GITHUB_API_URL"] = "http://ghe.example.com"
            with pytest.raises(Failure, match=r"http://ghe\.example\.com: allowed is https://"):
                await asked()
            environment["GITHUB_API_URL"] = server.url
            first = await asked()
            assert "fleet.git (a private repository, which is created), branch main" in first.title
            assert server.repositories == {}
            away = Client(HttpTransport(Access(server="http://127.0.0.1:1"))).without_repeats()
            with pytest.raises(Unreachable):  # the cluster does not answer; the repository comes first
                await first.set_up(away, Nothing())
            await away.close()
            assert list(server.repositories) == ["garden/fleet"]
            again = await asked()
            assert again.new is None
            target = again.installation.target
            with again.installation.credentials.access(target) as access:
                repository = Repository(access, "main")
                await asyncio.to_thread(
                    repository.publish, again.installation.files, "files", again.installation.author
                )
                files = await asyncio.to_thread(repository.read)
            path = f"{target.base}/management/eksa-system/eksa-cluster.yaml"
            mended = files[path].decode() + "# mended\n"
            GitServer(tmp_path / "garden" / "fleet.git", "").commit(path, mended)
            with pytest.raises(Failure, match="the repository has another cluster management"):
                await asked()
            await asked(goes_on=True)

    served(story)


class Nothing:
    """Progress that nobody sees."""

    def say(self, text: str, sign: str = "", *, aside: str = "") -> None:
        pass

    def wait(self, text: str) -> None:
        pass
