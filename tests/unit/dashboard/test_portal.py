"""The dashboard that a manager serves: whose rights its pages have, who is let in, and when that ends."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from aiohttp.test_utils import unused_port

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, NAMESPACE, ROLE, ROLE_BINDING
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.dashboard import sessions as module
from espalier.dashboard.models.plans import Plan
from espalier.dashboard.pages import Pages
from espalier.dashboard.portal import COOKIE, LONGEST_TOKEN, Portal
from espalier.dashboard.sessions import MOST, MOST_OF_USER, MOST_STREAMS, Sessions
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.pki import Authority
from espalier.kube.errors import Unauthorized, Unreachable
from espalier.kube.transports.inprocess import InProcessTransport, failure
from espalier.kube.transports.wire import ADMIN, Request, Response, Stream, User
from espalier.runtime.clock import SystemClock
from tests.support.waiting import eventually

CANARY = {"metadata": {"annotations": {"example.com/canary": "kestrel"}}}
ADMINS, ALICE, BOB = "token-of.an-admin", "token-of.alice", "token-of.bob"
EVERYBODY = ("system:authenticated",)


class Front:
    """Stands for the authentication of an API server: tokens, whom they belong to, and what was sent with them."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self.users = {ADMINS: ADMIN, ALICE: User("alice", EVERYBODY), BOB: User("bob", EVERYBODY)}
        self.sent: list[tuple[str, Request]] = []
        self.open: list[Caller] = []
        self.answers = asyncio.Event()
        self.answers.set()
        self.is_down = False

    def connect(self, token: str) -> Caller:
        caller = Caller(self, self._server, token)
        self.open.append(caller)
        return caller


class Caller:
    """The transport of one token."""

    def __init__(self, front: Front, server: Server, token: str) -> None:
        self._front, self._token = front, token
        self._transport = InProcessTransport(server, front.users.get(token, User("nobody")))

    async def _admit(self, request: Request) -> Response | None:
        self._front.sent.append((self._token, request))
        await self._front.answers.wait()
        if self._front.is_down:
            raise Unreachable("connection refused")
        known = self._token in self._front.users
        return None if known else failure(Unauthorized.of("the token has ended"))

    async def request(self, request: Request) -> Response:
        return await self._admit(request) or await self._transport.request(request)

    async def stream(self, request: Request) -> Stream | Response:
        return await self._admit(request) or await self._transport.stream(request)

    async def close(self) -> None:
        if self in self._front.open:
            self._front.open.remove(self)
        await self._transport.close()


class Served:
    def __init__(self, front: Front, admin: Client, portal: Portal, browser: aiohttp.ClientSession) -> None:
        self.front, self.admin, self.portal, self.browser = front, admin, portal, browser

    @property
    def origin(self) -> str:
        return f"https://localhost:{self.portal.port}"

    async def sign_in(self, token: str, **fields: str) -> int:
        """Fill in the form, as a page of the portal does; the status of what is opened then."""
        headers = {"Sec-Fetch-Site": "same-origin"}
        data = {"token": token, **fields}
        async with self.browser.post(f"{self.origin}/login", data=data, headers=headers) as response:
            return response.status

    async def get(self, path: str = "/", token: str = "", **headers: str) -> tuple[int, str]:
        """Status and text of a page, for the browser or with a token in the header."""
        sent = {"Authorization": f"Bearer {token}"} if token else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        async with self.browser.get(f"{self.origin}{path}", headers=sent) as response:
            return response.status, await response.text()

    async def shows(self, path: str, token: str, text: str) -> str:
        """The page, once it has a text."""
        _, page = await eventually(lambda: self.get(path, token), lambda value: text in value[1])
        return page


async def no_plan(_client: Client, _key: Key) -> Plan:
    return Plan(("  Nothing would change.",))


def cluster(name: str, namespace: str) -> Tree:
    return {
        "apiVersion": Cluster.resource.api_version,
        "kind": "Cluster",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "kubernetesVersion": "1.35",
            "controlPlaneConfiguration": {"count": 1},
            "datacenterRef": {"kind": "DockerDatacenterConfig", "name": name},
        },
    }


async def let(admin: Client, user: str, namespace: str) -> None:
    """Let a user read Clusters of a namespace."""
    rule = {"apiGroups": [Cluster.resource.group], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    await admin.create(ROLE, ROLE.body("reader", namespace) | {"rules": [rule]})
    reference = {"apiGroup": ROLE.group, "kind": "Role", "name": "reader"}
    subject = {"kind": "User", "apiGroup": ROLE.group, "name": user}
    await admin.create(
        ROLE_BINDING, ROLE_BINDING.body("reader", namespace) | {"roleRef": reference, "subjects": [subject]}
    )


@asynccontextmanager
async def served() -> AsyncIterator[Served]:
    clock = SystemClock()
    server = Server(MemoryStore(), now=clock.now, random=random.Random(1))
    await server.start()
    admin = Client(InProcessTransport(server))
    for kind in (Cluster, EKSARelease, Bundles):
        await admin.create(CUSTOM_RESOURCE_DEFINITION, crd_of(kind))
    for user, namespace in (("alice", "orchard"), ("bob", "meadow")):
        await admin.create(NAMESPACE, NAMESPACE.body(namespace))
        await admin.create(Cluster.resource, cluster(f"{user}s", namespace))
        await let(admin, user, namespace)
    front = Front(server)
    portal = Portal(Sessions(front.connect, clock, no_plan, "api.example:6443"))
    authority = Authority.create("test", now=clock.now(), rng=random.Random(1))
    portal.use(authority.issue_server("localhost", names=["localhost"], now=clock.now()))
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    connector = aiohttp.TCPConnector(ssl=context, limit=0)
    try:
        async with (
            portal.running("127.0.0.1", unused_port()),
            aiohttp.ClientSession(connector=connector) as browser,
        ):
            yield Served(front, admin, portal, browser)
    finally:
        await admin.close()
        await server.close()


async def test_tenant_sees_his_own_namespace_alone() -> None:
    async with served() as env:
        assert "alices" in await env.shows("/in/orchard/", ALICE, "c/orchard/alices")
        for path, token in (("/in/meadow/", ALICE), ("/in/orchard/", BOB), ("/", ALICE), ("/", BOB)):
            page = await env.shows(path, token, "you may not list clusters.anywhere.eks.amazonaws.com")
            assert "bobs" not in page
            assert "alices" not in page
        page = await env.shows("/", ADMINS, "c/meadow/bobs")
        assert "c/orchard/alices" in page


async def test_page_of_a_foreign_cluster_has_nothing_of_it() -> None:
    async with served() as env:
        await env.admin.patch(Cluster.resource, "bobs", "meadow", patch=CANARY, type=PatchType.MERGE)
        for path in ("/clusters/meadow/bobs", "/in/meadow/clusters/meadow/bobs", "/in/orchard/clusters/meadow/bobs"):
            status, page = await env.get(path, ALICE)
            assert "kestrel" not in page, (path, status)
            assert "1.35" not in page


async def test_caller_who_may_list_one_namespace_is_told() -> None:
    async with served() as env:
        page = await env.shows("/", ALICE, "you may not list")
        assert "sign out, and sign in with that namespace" in page
        assert "start `espalier dashboard`" not in page
        assert ">alice<" in page


async def test_request_without_a_token_asks_nothing() -> None:
    async with served() as env:
        for path in ("/", "/in/orchard/", "/events/fleet", "/clusters/orchard/alices", "/shoots"):
            status, page = await env.get(path)
            assert (status, "1.35" in page) == (401, False)
            assert "Sign in" in page
        assert env.front.sent == []


async def test_browser_gets_a_cookie_for_a_token() -> None:
    async with served() as env:
        assert await env.sign_in(ALICE, namespace="orchard") == 200
        (cookie,) = env.browser.cookie_jar
        assert (cookie.key, cookie.value) == (COOKIE, ALICE)
        flags = (cookie["path"], cookie["secure"], cookie["httponly"], cookie["samesite"])
        assert flags == ("/", True, True, "Strict")
        assert (cookie["domain"], cookie["max-age"], cookie["expires"]) == ("localhost", "", "")
        status, page = await env.get("/in/orchard/")
        assert (status, ALICE in page) == (200, False)


@pytest.mark.parametrize(
    ("token", "status", "sentence"),
    [
        ("not-known", 401, "The API server refuses this token: the token has ended"),
        ("", 400, "Token: found none"),
        ("two words", 400, "characters that no bearer token has"),
        ("a\r\nImpersonate-User: x", 400, "characters that no bearer token has"),
        ("x" * (LONGEST_TOKEN + 1), 400, f"found {LONGEST_TOKEN + 1} characters"),
    ],
)
async def test_wrong_token_gets_a_sentence_and_no_cookie(token: str, status: int, sentence: str) -> None:
    async with served() as env:
        headers = {"Sec-Fetch-Site": "same-origin"}
        async with env.browser.post(f"{env.origin}/login", data={"token": token}, headers=headers) as response:
            page = await response.text()
            assert (response.status, sentence in page) == (status, True), page
        assert len(env.browser.cookie_jar) == 0
        assert "token-of" not in page


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "{origin}"}, 403),
        ({"Origin": "{origin}"}, 303),
        ({"Sec-Fetch-Site": "same-origin"}, 303),
    ],
)
@pytest.mark.parametrize("path", ["/login", "/logout"])
async def test_form_of_another_site_is_refused(path: str, headers: dict[str, str], status: int) -> None:
    async with served() as env:
        sent = {name: value.format(origin=env.origin) for name, value in headers.items()}
        url, data = f"{env.origin}{path}", {"token": ALICE}
        async with env.browser.post(url, data=data, headers=sent, allow_redirects=False) as response:
            assert response.status == status
            assert bool(response.cookies) == (status == 303)


@pytest.mark.parametrize(
    "page", ["//evil.example/", "https://evil.example/", "/\\evil.example", "/a\r\nX: y", "javascript:a"]
)
async def test_sign_in_leads_to_no_other_server(page: str) -> None:
    async with served() as env:
        headers = {"Sec-Fetch-Site": "same-origin"}
        data = {"token": ALICE, "page": page}
        async with env.browser.post(f"{env.origin}/login", data=data, headers=headers, allow_redirects=False) as answer:
            assert answer.headers["Location"] == "/"


async def test_sign_in_opens_the_page_that_was_asked_for() -> None:
    async with served() as env:
        _, page = await env.get("/in/orchard/clusters/orchard/alices")
        assert 'value="/in/orchard/clusters/orchard/alices"' in page
        headers = {"Sec-Fetch-Site": "same-origin"}
        data = {"token": ALICE, "page": "/in/orchard/clusters/orchard/alices"}
        async with env.browser.post(f"{env.origin}/login", data=data, headers=headers) as response:
            assert (response.status, response.url.path) == (200, "/in/orchard/clusters/orchard/alices")


async def test_link_of_another_site_is_opened_once_more() -> None:
    """A browser sends no strict cookie with it."""
    async with served() as env:
        status, page = await env.get("/in/orchard/", Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="document")
        assert (status, 'content="0; url=/in/orchard/"' in page) == (200, True)
        status, _ = await env.get("/in/orchard/", ALICE, Sec_Fetch_Site="cross-site", Sec_Fetch_Dest="script")
        assert status == 403


async def test_headers_of_a_request_are_not_passed_on() -> None:
    hostile = {
        "Impersonate-User": "system:admin",
        "Impersonate-Group": "system:masters",
        "X-Remote-User": "system:admin",
        "X-Forwarded-For": "10.0.0.1",
        "X-Forwarded-Host": "evil.example",
        "Forwarded": "host=evil.example",
        "Host": "evil.example",
    }
    async with served() as env:
        headers = {"Authorization": f"Bearer {ALICE}", **hostile}
        async with env.browser.get(f"{env.origin}/", headers=headers) as response:
            page = await response.text()
        page = await env.shows("/", ALICE, "you may not list")
        assert "evil.example" not in page
        assert env.front.sent
        for token, request in env.front.sent:
            assert token == ALICE
            assert set(request.headers) <= {"accept", "user-agent", "content-type"}
            assert "evil" not in str(request.headers)


@pytest.mark.parametrize("authorization", ["Basic YWxpY2U6YWxpY2U=", "Bearer", "Bearer a b", "Negotiate x", "Bearer é"])
async def test_other_authorization_is_refused(authorization: str) -> None:
    async with served() as env:
        assert await env.sign_in(ALICE) == 200
        before = len(env.front.sent)
        status, page = await env.get("/in/other/", Authorization=authorization)
        assert (status, "Bearer TOKEN" in page) == (401, True)
        assert not [request for _, request in env.front.sent[before:] if "selfsubject" in request.path]


@pytest.mark.parametrize("watches_end", ["at once", "later"])
async def test_stream_ends_when_the_token_does(monkeypatch: pytest.MonkeyPatch, watches_end: str) -> None:
    monkeypatch.setattr("espalier.dashboard.probe.PERIOD", 0.05)
    running, ended = Pages.running, asyncio.Event()

    @asynccontextmanager
    async def slow(pages: Pages) -> AsyncIterator[None]:
        async with running(pages):
            yield
        await ended.wait()

    if watches_end == "later":
        monkeypatch.setattr(Pages, "running", slow)
    async with served() as env, asyncio.timeout(60):
        await env.shows("/in/orchard/", ALICE, "c/orchard/alices")
        headers = {"Authorization": f"Bearer {ALICE}"}
        async with env.browser.get(f"{env.origin}/in/orchard/events/fleet?since=0", headers=headers) as response:
            await response.read()  # an unknown number: it ends at once
        number = (await env.get("/in/orchard/", ALICE))[1].partition('data-number="')[2].partition('"')[0]
        url = f"{env.origin}/in/orchard/events/fleet?since={number}"
        async with env.browser.get(url, headers=headers) as response:
            assert response.status == 200
            del env.front.users[ALICE]
            assert b"event: reload" in await response.read()  # to the end of the stream
        status, page = await env.get("/in/orchard/", ALICE)
        assert (status, "alices" in page) == (401, False)
        assert "The API server refuses your token, which may have ended: the token has ended" in page
        ended.set()
        await eventually(lambda: asyncio.sleep(0, len(env.front.open)), lambda number: number == 0)


async def test_refused_token_leaves_the_browser() -> None:
    async with served() as env:
        assert await env.sign_in(ALICE) == 200
        del env.front.users[ALICE]
        status, _ = await env.get("/in/orchard/")
        assert status == 401
        assert [cookie.value for cookie in env.browser.cookie_jar if cookie.value] == []


async def test_sign_out_ends_watches_and_cookie() -> None:
    async with served() as env:
        assert await env.sign_in(ALICE, namespace="orchard") == 200
        assert env.front.open
        headers = {"Sec-Fetch-Site": "same-origin"}
        async with env.browser.post(f"{env.origin}/logout", headers=headers) as response:
            assert response.url.path == "/login"
        assert (await env.get("/in/orchard/"))[0] == 401
        await eventually(lambda: asyncio.sleep(0, len(env.front.open)), lambda number: number == 0)


async def test_session_ends_a_while_after_its_last_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINGER", 0.2)
    async with served() as env:
        await env.get("/", ALICE)
        assert env.front.open
        await eventually(lambda: asyncio.sleep(0, len(env.front.open)), lambda number: number == 0)


async def follow(env: Served, path: str, token: str) -> aiohttp.ClientResponse:
    """A stream of a page, which has begun."""
    root = path.removesuffix("events/fleet")
    number = (await env.get(root, token))[1].partition('data-number="')[2].partition('"')[0]
    return await env.browser.get(f"{env.origin}{path}?since={number}", headers={"Authorization": f"Bearer {token}"})


async def test_user_with_many_sessions_takes_none_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("espalier.dashboard.pages.PING", 0.2)  # after which it is noticed that a browser has left
    async with served() as env:
        tokens = [f"token-{number}.of-alice" for number in range(MOST_OF_USER + 1)]
        env.front.users |= dict.fromkeys(tokens, env.front.users[ALICE])
        streams = [await follow(env, "/in/orchard/events/fleet", token) for token in tokens[:-1]]
        assert {stream.status for stream in streams} == {200}
        status, page = await env.get("/in/orchard/", tokens[-1])
        assert (status, f"alice has {MOST_OF_USER} sessions already" in page) == (503, True)
        assert (await env.get("/in/meadow/", BOB))[0] == 200
        streams[0].close()
        assert await eventually(lambda: env.get("/in/orchard/", tokens[-1]), lambda value: value[0] == 200)
        for stream in streams:
            stream.close()


async def test_more_sessions_than_allowed_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("espalier.dashboard.pages.PING", 0.2)
    async with served() as env:
        tokens = [f"token.{number}" for number in range(MOST)]
        env.front.users |= {token: User(token, EVERYBODY) for token in tokens}
        streams = [await follow(env, "/events/fleet", token) for token in tokens]
        status, page = await env.get("/", ALICE)
        assert (status, f"{MOST} sessions are open already" in page) == (503, True)
        for stream in streams:
            stream.close()
        assert await eventually(lambda: env.get("/", ALICE), lambda value: value[0] == 200)


async def test_streams_of_a_session_are_limited() -> None:
    async with served() as env:
        streams = [await follow(env, "/events/fleet", ALICE) for _ in range(MOST_STREAMS)]
        refused = await follow(env, "/events/fleet", ALICE)
        assert refused.status == 503
        for stream in (*streams, refused):
            stream.close()


async def test_silent_api_server_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CHECK_WITHIN", 0.2)
    async with served() as env:
        env.front.answers.clear()
        status, page = await env.get("/", ALICE)
        assert (status, "no answer within 0.2 seconds" in page) == (503, True)
        env.front.answers.set()
        env.front.is_down = True
        status, page = await env.get("/", ALICE)
        assert (status, "connection refused" in page) == (503, True)
        env.front.is_down = False
        assert (await env.get("/", ALICE))[0] == 200


async def test_checks_of_tokens_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CHECKED", 1)
    async with served() as env:
        env.front.answers.clear()
        first = asyncio.create_task(env.get("/", "unknown"))
        await eventually(lambda: asyncio.sleep(0, env.front.sent), bool)
        status, page = await env.get("/", ALICE)
        assert (status, "tokens are being checked already" in page) == (503, True)
        env.front.answers.set()
        assert (await first)[0] == 401


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"])
async def test_method_that_could_write_is_refused(method: str) -> None:
    async with served() as env:
        headers = {"Authorization": f"Bearer {ALICE}", "Sec-Fetch-Site": "same-origin"}
        async with env.browser.request(method, f"{env.origin}/", headers=headers) as response:
            assert response.status == 405


async def test_nothing_is_written_for_a_caller() -> None:
    async with served() as env:
        await env.shows("/", ADMINS, "c/meadow/bobs")
        await env.get("/clusters/meadow/bobs", ADMINS)
        written = {request.path for _, request in env.front.sent if request.method != "GET"}
        assert written == {"/apis/authentication.k8s.io/v1/selfsubjectreviews"}  # it stores nothing


async def test_every_answer_has_the_policies() -> None:
    async with served() as env:
        for path, token in (("/", ""), ("/", ALICE), ("/login", ""), ("/none", ALICE), ("/static/dashboard.css", "")):
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            async with env.browser.get(f"{env.origin}{path}", headers=headers) as response:
                policy = response.headers["Content-Security-Policy"]
                assert "frame-ancestors 'none'" in policy
                assert "form-action 'self'" in policy
                assert "default-src 'none'" in policy
                assert response.headers["X-Frame-Options"] == "DENY"
                assert response.headers["Cache-Control"] == "no-store"
                assert response.headers["Referrer-Policy"] == "no-referrer"
                assert response.headers["X-Content-Type-Options"] == "nosniff"


async def test_large_headers_and_forms_are_refused() -> None:
    async with served() as env:
        status, _ = await env.get("/", ALICE, X_Large="x" * 20_000)
        assert status == 400
        headers = {"Sec-Fetch-Site": "same-origin"}
        async with env.browser.post(f"{env.origin}/login", data={"token": "x" * 100_000}, headers=headers) as response:
            assert response.status == 413


async def changes(env: Served, path: str, token: str) -> AsyncGenerator[bytes, None]:
    response = await follow(env, path, token)
    async with response:
        async for line in response.content:
            if line.startswith(b"data: "):
                yield line


async def test_change_reaches_those_only_who_may_see_it() -> None:
    async with served() as env, asyncio.timeout(60):
        await env.shows("/in/orchard/", ALICE, "c/orchard/alices")
        await env.shows("/in/meadow/", BOB, "c/meadow/bobs")
        alices = changes(env, "/in/orchard/events/fleet", ALICE)
        first = asyncio.ensure_future(anext(alices))
        await env.admin.create(Cluster.resource, cluster("new-of-bob", "meadow"))
        await env.shows("/in/meadow/", BOB, "new-of-bob")
        assert not first.done()
        await env.admin.create(Cluster.resource, cluster("new-of-alice", "orchard"))
        line = await first
        assert b"new-of-alice" in line
        assert b"new-of-bob" not in line
        await alices.aclose()
