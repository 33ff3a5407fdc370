"""The HTTP shell: who is let in, what is carried, how watches end."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import aiohttp
import pytest

from espalier.apiserver import http
from espalier.apiserver.http import MAX_BODY, AddressTaken, HttpShell
from espalier.kube.connection.pki import Authority, KeyPair
from espalier.kube.transports import serving
from espalier.kube.transports.wire import Request, Response, Stream, User

NOW = datetime.now(UTC)
AUTHORITY = Authority.create("test", now=NOW, rng=random.Random(1))
SERVING = AUTHORITY.issue_server("server", names=["127.0.0.1", "localhost"], now=NOW)
ALICE = AUTHORITY.issue_client("alice", groups=["painters", "system:masters"], now=NOW)
BOB = AUTHORITY.issue_client("bob", now=NOW)
STRANGER = Authority.create("elsewhere", now=NOW, rng=random.Random(2)).issue_client("mallory", now=NOW)
TOKEN = "a-very-secret-token"


class Documents:
    """A watch that gives what is put into it, and ends when closed."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.closed = asyncio.Event()

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._documents()

    async def _documents(self) -> AsyncIterator[bytes]:
        while (document := await self.queue.get()) is not None:
            yield document

    async def close(self) -> None:
        self.closed.set()
        self.queue.put_nowait(None)


class Echo:
    """An endpoint that tells what it was asked, and by whom."""

    def __init__(self) -> None:
        self.requests: list[tuple[Request, User]] = []
        self.stream = Documents()
        self.asked = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()

    async def serve(self, request: Request, user: User) -> Response:
        self.requests.append((request, user))
        if request.path == "/broken":
            raise RuntimeError("a defect")
        return Response(200, b'{"ok":true}', {"content-type": "application/json", "warning": '299 - "careful"'})

    async def watch(self, request: Request, user: User) -> Stream | Response:
        self.requests.append((request, user))
        if request.path == "/gone":
            return Response(410, b"{}")
        self.asked.set()
        await self.may_answer.wait()
        return self.stream


def client_tls(identity: KeyPair | None, folder: Any) -> ssl.SSLContext:
    context = ssl.create_default_context(cadata=AUTHORITY.certificate.decode())
    if identity is not None:
        file = folder / "identity.pem"
        file.write_bytes(identity.certificate + identity.key)
        context.load_cert_chain(file)
    return context


class Environment:
    def __init__(self, shell: HttpShell, endpoint: Echo, folder: Any) -> None:
        self.shell, self.endpoint, self.folder = shell, endpoint, folder

    @asynccontextmanager
    async def client(self, identity: KeyPair | None = ALICE) -> AsyncIterator[aiohttp.ClientSession]:
        connector = aiohttp.TCPConnector(ssl=client_tls(identity, self.folder))
        async with aiohttp.ClientSession(self.shell.url, connector=connector) as session:
            yield session


@pytest.fixture
async def env(tmp_path: Any) -> AsyncIterator[Environment]:
    endpoint = Echo()
    shell = HttpShell(
        endpoint, serving=SERVING, client_ca=AUTHORITY.certificate, tokens={TOKEN: User("robot", ("machines",))}
    )
    await shell.start()
    async with asyncio.timeout(20):
        yield Environment(shell, endpoint, tmp_path)
    await shell.stop()


async def test_a_client_certificate_says_who_asks(env: Environment) -> None:
    async with env.client() as session, session.get("/api/v1/namespaces/a%2Fb?limit=5&x=") as response:
        assert response.status == 200
        assert await response.json() == {"ok": True}
        assert response.headers["Warning"] == '299 - "careful"'
        assert response.headers.getall("Content-Type") == ["application/json"]
    ((request, user),) = env.endpoint.requests
    assert user == User("alice", ("painters", "system:masters", "system:authenticated"))
    assert (request.method, request.path, request.query) == ("GET", "/api/v1/namespaces/a/b", {"limit": "5", "x": ""})


async def test_a_bearer_token_says_who_asks(env: Environment) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    async with env.client(None) as session, session.get("/api", headers=headers) as response:
        assert response.status == 200
    assert env.endpoint.requests[0][1] == User("robot", ("machines", "system:authenticated"))


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic YTpi"}])
async def test_anonymous_requests_get_health_and_version(env: Environment, headers: dict[str, str]) -> None:
    async with env.client(None) as session:
        async with session.get("/api/v1/secrets", headers=headers) as response:
            assert response.status == 401
            assert (await response.json())["message"] == "Unauthorized"
        for path in ("/version", "/healthz", "/livez", "/readyz"):
            async with session.get(path, headers=headers) as response:
                assert response.status == 200
    assert {user.name for _, user in env.endpoint.requests} == {"system:anonymous"}


async def test_a_certificate_of_another_authority_is_refused(env: Environment) -> None:
    async with env.client(STRANGER) as session:
        with pytest.raises(aiohttp.ClientError):
            await session.get("/api")
    assert not env.endpoint.requests


async def test_masters_may_impersonate_and_others_may_not(env: Environment) -> None:
    headers = {"Impersonate-User": "carol", "Impersonate-Group": "weavers"}
    async with env.client() as session, session.get("/api", headers=headers) as response:
        assert response.status == 200
    assert env.endpoint.requests[0][1] == User("carol", ("weavers", "system:authenticated"))
    async with env.client(BOB) as session, session.get("/api", headers=headers) as response:
        assert response.status == 403
        assert 'User "bob" cannot impersonate resource "users"' in (await response.json())["message"]


async def test_compressed_bodies_are_limited_when_unpacked(env: Environment) -> None:
    plain = json.dumps({"kind": "ConfigMap"}).encode()
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    async with env.client() as session:
        async with session.post("/api", data=gzip.compress(plain), headers=headers) as response:
            assert response.status == 200
        assert env.endpoint.requests[0][0].body == plain
        bomb = gzip.compress(b'"' + b"x" * MAX_BODY + b'"')
        async with session.post("/api", data=bomb, headers=headers) as response:
            assert response.status == 413
            assert (await response.json())["reason"] == "RequestEntityTooLarge"


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("application/vnd.kubernetes.protobuf,application/json", 200),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", 200),
        ("application/vnd.kubernetes.protobuf", 406),
    ],
)
async def test_protobuf_clients_get_json_if_they_take_it(env: Environment, accept: str, status: int) -> None:
    async with env.client() as session, session.get("/api", headers={"Accept": accept}) as response:
        assert response.status == status


async def test_a_watch_is_streamed_line_by_line(env: Environment) -> None:
    async with env.client() as session, session.get("/pods?watch=true") as response:
        assert response.status == 200
        for number in (b"1", b"2"):
            env.endpoint.stream.queue.put_nowait(number)
            assert await response.content.readline() == number + b"\n"
        env.endpoint.stream.queue.put_nowait(None)
        assert await response.content.read() == b""
    await env.endpoint.stream.closed.wait()


async def test_refused_watch_answers_as_other_requests(env: Environment) -> None:
    async with env.client() as session, session.get("/gone?watch=1") as response:
        assert response.status == 410


async def test_a_watch_is_closed_when_its_client_leaves(env: Environment) -> None:
    async with env.client() as session:
        response = await session.get("/pods?watch=true")
        assert response.status == 200
        response.close()
    await env.endpoint.stream.closed.wait()


async def test_watches_end_when_the_shell_stops(env: Environment) -> None:
    async with env.client() as session, session.get("/pods?watch=true") as response:
        await env.shell.stop()
        assert await response.content.read() == b""
    assert env.endpoint.stream.closed.is_set()
    await env.shell.stop()


async def test_a_watch_that_is_late_for_the_end_ends_as_well(env: Environment) -> None:
    env.endpoint.may_answer.clear()
    async with env.client() as session:
        answer = asyncio.create_task(session.get("/pods?watch=true"))
        await env.endpoint.asked.wait()
        stop = asyncio.create_task(env.shell.stop())
        await asyncio.sleep(0)
        env.endpoint.may_answer.set()
        async with await answer as response:
            assert await response.content.read() == b""
        await stop
    assert env.endpoint.stream.closed.is_set()


async def test_a_defect_is_a_500_without_details(env: Environment, caplog: pytest.LogCaptureFixture) -> None:
    async with env.client() as session:
        headers = {"Authorization": "Bearer of-bad-news"}
        async with session.get("/broken?password=p4ss", headers={}) as response:
            assert response.status == 500
            assert "a defect" not in await response.text()
        async with session.get("/broken", headers=headers) as response:
            assert response.status == 401
    assert "a defect" in caplog.text
    assert "p4ss" not in caplog.text
    assert "of-bad-news" not in caplog.text


async def test_a_port_that_is_taken_is_named(env: Environment) -> None:
    second = HttpShell(Echo(), port=env.shell.port, serving=SERVING, client_ca=AUTHORITY.certificate)
    with pytest.raises(AddressTaken) as taken:
        await second.start()
    assert str(taken.value) == f"cannot listen on 127.0.0.1:{env.shell.port}: the port is in use"


@pytest.mark.soak
async def test_many_shells_live_side_by_side(env: Environment) -> None:
    shells = [HttpShell(Echo(), serving=SERVING, client_ca=AUTHORITY.certificate) for _ in range(50)]
    for shell in shells:
        await shell.start()
    assert len({shell.url for shell in shells}) == 50
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=client_tls(ALICE, env.folder))) as session:
        for shell in shells:
            async with session.get(f"{shell.url}/api") as response:
                assert response.status == 200
    for shell in shells:
        await shell.stop()


async def test_public_paths_are_answered_without_a_body(env: Environment) -> None:
    headers = {"Content-Type": "application/yaml"}
    async with env.client(None) as session:
        for method in ("GET", "POST"):
            async with session.request(method, "/healthz", data=b"[" * 60_000, headers=headers) as response:
                assert response.status == 200
    assert [request.body for request, _ in env.endpoint.requests] == [b"", b""]


@pytest.mark.parametrize("header", ["Impersonate-Group", "Impersonate-Uid", "Impersonate-Extra-Scopes"])
async def test_parts_of_somebody_else_are_nobody(env: Environment, header: str) -> None:
    async with env.client(ALICE) as session, session.get("/api", headers={header: "guests"}) as response:
        assert response.status == 400
        assert header in (await response.json())["message"]
    assert env.endpoint.requests == [], "least of all is it the administrator who asked"


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
async def test_the_body_of_a_read_is_not_waited_for(env: Environment, method: str) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", env.shell.port, ssl=client_tls(ALICE, env.folder))
    writer.write(f"{method} /api/v1/pods HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf of it".encode())
    async with asyncio.timeout(10):
        assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    writer.write(b"-" * 90)  # the other half, or the server waits for it when it stops
    await writer.drain()
    writer.close()
    assert [request.body for request, _ in env.endpoint.requests] == [b""]


async def test_a_watch_whose_client_stops_reading_is_ended(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "ANSWER_WITHIN", 0.05)
    for _ in range(50):
        env.endpoint.stream.queue.put_nowait(b"x" * 1_000_000)  # more than all buffers on the way take
    tls = client_tls(ALICE, env.folder)
    reader, writer = await asyncio.open_connection("127.0.0.1", env.shell.port, ssl=tls, limit=1024)
    writer.write(b"GET /pods?watch=true HTTP/1.1\r\nHost: a\r\n\r\n")
    assert (await reader.readline()).startswith(b"HTTP/1.1 200 ")
    async with asyncio.timeout(10):
        await env.endpoint.stream.closed.wait()
    writer.transport.abort()


async def test_quiet_watch_goes_on(env: Environment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "ANSWER_WITHIN", 0.02)
    async with env.client() as session, session.get("/pods?watch=true") as response:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(response.content.readline(), 0.1)
        env.endpoint.stream.queue.put_nowait(b"1")
        assert await response.content.readline() == b"1\n"


def test_certificate_without_a_common_name_is_nobody() -> None:
    masters = {"subject": ((("organizationName", "system:masters"),),)}
    assert http._user_of_certificate(masters) is None
    named = {"subject": (*masters["subject"], (("commonName", "admin"),))}
    assert http._user_of_certificate(named) == User("admin", ("system:masters", http.AUTHENTICATED))
