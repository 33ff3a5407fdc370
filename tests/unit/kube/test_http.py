"""Requests travel over TLS to the one server that is trusted, as the user that was meant."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from msgspec.structs import replace

from espalier.kube.connection.access import Access, Impersonation
from espalier.kube.connection.pki import Authority
from espalier.kube.connection.tls import CertificateError
from espalier.kube.errors import Unreachable
from espalier.kube.transports import threaded
from espalier.kube.transports.channel import Channel
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.threaded import ThreadedTransport
from espalier.kube.transports.wire import Request, Response, Stream
from tests.support.servers.https_server import Handler, client_pair, serve, user_of

AnyTransport = HttpTransport | ThreadedTransport
Kind: type[AnyTransport] = HttpTransport
"""The transport under test, by `kind`."""

READ = Request("GET", "/api/v1/namespaces")


async def echo(request: web.Request) -> web.Response:
    body = await request.read()
    seen = {
        "method": request.method,
        "path": request.rel_url.raw_path_qs,
        "user": user_of(request),
        "body": body.decode(),
        "host": request.host,
        "groups": request.headers.getall("impersonate-group", []),
        "as": request.headers.get("impersonate-user", ""),
        "encoding": request.headers.get("accept-encoding"),
    }
    return web.json_response(seen, status=201, headers=[("Warning", '299 - "a"'), ("Warning", '299 - "b"')])


@pytest.fixture(autouse=True, params=[HttpTransport, ThreadedTransport])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways over HTTP are the same for whoever goes them."""
    monkeypatch.setitem(globals(), "Kind", request.param)


@asynccontextmanager
async def transport_to(access: Access, **environment: str) -> AsyncIterator[AnyTransport]:
    transport = Kind(access, environment=environment)
    try:
        yield transport
    finally:
        await transport.close()
        await transport.close()


async def seen_by(access: Access, request: Request = READ) -> dict[str, object]:
    async with transport_to(access) as transport:
        response = await transport.request(request)
        return dict(json.loads(response.body))


async def test_a_request_arrives_whole() -> None:
    async with serve(echo) as served, transport_to(served.access()) as transport:
        path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node proxier"
        response = await transport.request(Request("PUT", path, {"labelSelector": "a=b,c in (d)"}, {}, b"{}"))
    assert response.status == 201
    assert response.headers["warning"] == '299 - "a", 299 - "b"'
    text = response.body.decode()
    assert '"method": "PUT"' in text
    assert "/clusterroles/system:node%20proxier?labelSelector=a%3Db%2Cc+in+%28d%29" in text
    assert '"body": "{}"' in text


async def test_client_is_known_by_certificate_or_token(tmp_path: Path) -> None:
    pair = client_pair("jane", "system:masters")
    token_file = tmp_path / "token"
    token_file.write_text("from-file\n")
    async with serve(echo) as served:
        by_certificate = served.access(client_certificate=pair.certificate, client_key=pair.key)
        assert (await seen_by(by_certificate))["user"] == "jane"
        assert (await seen_by(served.access(token="secret")))["user"] == "Bearer secret"
        assert (await seen_by(served.access(token="x", token_file=token_file)))["user"] == "Bearer from-file"
        assert (await seen_by(served.access()))["user"] == ""


async def test_a_user_may_act_as_another() -> None:
    async with serve(echo) as served:
        seen = await seen_by(served.access(token="t", impersonation=Impersonation("joe", groups=("a", "b"))))
    assert (seen["as"], seen["groups"]) == ("joe", ["a", "b"])


async def test_rotated_token_is_read_when_old_one_is_refused(tmp_path: Path) -> None:
    token_file = tmp_path / "token"
    token_file.write_text("old")
    asked: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        asked.append(user_of(request))
        if user_of(request) == "Bearer new":
            return web.Response()
        token_file.write_text("new")
        return web.Response(status=401)

    async with serve(handler) as served, transport_to(served.access(token_file=token_file)) as transport:
        assert (await transport.request(READ)).status == 200
    assert asked == ["Bearer old", "Bearer new"]


async def test_refused_token_is_refused_without_another() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=401)

    async with serve(handler) as served, transport_to(served.access(token="x")) as transport:
        assert (await transport.request(READ)).status == 401
        assert isinstance(await transport.stream(READ), Response)


async def test_an_unknown_authority_is_not_trusted() -> None:
    other = Authority.create("other", now=datetime.now(UTC))
    async with serve(echo) as served:
        async with transport_to(replace(served.access(), certificate_authority=other.certificate)) as transport:
            with pytest.raises(
                Unreachable, match=f"cannot reach the API server at {served.url}: .*not trusted"
            ) as caught:
                await transport.request(READ)
        assert not caught.value.sent
        insecure = replace(served.access(), certificate_authority=None, insecure_skip_tls_verify=True)
        assert (await seen_by(insecure))["method"] == "GET"


async def test_a_server_may_be_known_by_another_name() -> None:
    async with serve(echo, name="kube.test") as served:
        async with transport_to(served.access()) as transport:
            with pytest.raises(Unreachable, match="not trusted"):
                await transport.request(READ)
        assert (await seen_by(served.access(tls_server_name="kube.test")))["method"] == "GET"


async def test_a_server_that_is_not_there_is_named() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, not listening
        url = f"https://127.0.0.1:{taken.getsockname()[1]}"
        async with transport_to(Access(url)) as transport:
            for send in (transport.request, transport.stream):
                with pytest.raises(Unreachable, match=f"cannot reach the API server at {url}: .*refused") as caught:
                    await send(READ)
                assert not caught.value.sent


async def test_a_silent_server_is_given_up() -> None:
    async def handler(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        return web.Response()

    slow = Request("POST", "/api", timeout=1)
    async with serve(handler) as served, transport_to(served.access()) as transport:
        for send in (transport.request, transport.stream):
            with pytest.raises(Unreachable, match=r"no answer within 1 seconds") as caught:
                await send(slow)
            assert caught.value.sent


async def test_connection_lost_in_middle_may_have_been_write() -> None:
    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with serve(handler) as served, transport_to(served.access()) as transport:
        with pytest.raises(Unreachable) as caught:
            await transport.request(Request("POST", "/api"))
    assert caught.value.sent


async def test_certificates_that_are_none_are_said_to_be() -> None:
    pair = client_pair("jane")
    for access, message in (
        (Access("https://127.0.0.1:1", certificate_authority=b"?"), "certificate authority"),
        (Access("https://127.0.0.1:1", client_certificate=b"?", client_key=b"?"), "usable PEM"),
        (
            Access(
                "https://127.0.0.1:1",
                client_certificate=pair.certificate,
                client_key=client_pair("joe").key,
            ),
            "do not belong together",
        ),
    ):
        async with transport_to(access) as transport:
            with pytest.raises(CertificateError, match=rf"https://127\.0\.0\.1:1: .*{message}"):
                await transport.request(READ)


async def test_a_redirect_is_not_followed_with_a_token() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=302, headers={"location": "https://elsewhere.test/"})

    async with serve(handler) as served, transport_to(served.access(token="t")) as transport:
        assert (await transport.request(READ)).status == 302


async def test_requests_go_through_the_proxy_that_is_named() -> None:
    async with serve(echo, tls=False) as proxy:
        through = Access("http://kube.test:8080/base", proxy_url=proxy.url)
        async with transport_to(through) as transport:
            response = await transport.request(READ)
        assert '"path": "/base/api/v1/namespaces"' in response.body.decode()
        assert '"host": "kube.test' in response.body.decode()
        async with transport_to(replace(through, proxy_url=""), HTTP_PROXY=proxy.url) as transport:
            assert (await transport.request(READ)).status == 201
        async with transport_to(replace(through, server="https://kube.test")) as transport:
            with pytest.raises(Unreachable, match="the proxy answered 404"):
                await transport.request(READ)


async def test_nothing_is_sent_after_close() -> None:
    async with serve(echo) as served:
        transport = Kind(served.access())
        await transport.request(READ)
        await transport.close()
        with pytest.raises(Unreachable, match="closed"):
            await transport.request(READ)


async def test_connection_does_not_outlive_its_transport() -> None:
    asked: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()

    async def handler(request: web.Request) -> web.Response:
        assert request.transport is not None
        request.transport.pause_reading()
        asked.set_result(request.transport)
        await asyncio.Event().wait()
        return web.Response()

    async with serve(handler) as served:
        transport = Kind(served.access())
        request = asyncio.create_task(transport.request(READ))
        silent = await asked
        request.cancel()
        await asyncio.wait([request])
        await transport.close()
        for thread in threading.enumerate():
            if thread.name.startswith("request"):  # one that was given up closes its connection by itself
                await asyncio.to_thread(thread.join, 30)
        assert not connections_to(urlsplit(served.url).port)
        silent.abort()


async def test_closed_connection_is_not_reopened_without_tls() -> None:
    """Python's client would connect anew by itself, in plain text, and send the token."""
    async with serve(echo) as served:
        to = Channel(served.access(token="secret"))
        credential = await to.credentials.current()
        connection = threaded.Connection(to, credential)
        await asyncio.to_thread(connection.send, READ, credential)
        connection.close()
        with pytest.raises(Unreachable, match="is closed"):
            await asyncio.to_thread(connection.send, READ, credential)


def connections_to(port: int | None) -> list[socket.socket]:
    sockets = [item for item in gc.get_objects() if isinstance(item, socket.socket) and item.family == socket.AF_INET]
    return [connection for connection in sockets if _peer(connection) == port]


def _peer(connection: socket.socket) -> int | None:
    with suppress(OSError):  # closed, or never connected
        return int(connection.getpeername()[1])
    return None


# -- watches


def lines(*chunks: bytes, broken: bool = False) -> Handler:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        response.enable_chunked_encoding()
        await response.prepare(request)
        for chunk in chunks:
            await response.write(chunk)
        if broken:
            assert request.transport is not None
            request.transport.abort()
        return response

    return handler


async def documents(stream: Stream | Response) -> list[bytes]:
    assert not isinstance(stream, Response)
    try:
        return [document async for document in stream]
    finally:
        await stream.close()
        await stream.close()


async def test_documents_are_split_at_line_ends() -> None:
    handler = lines(b'{"a":1}\n{"b"', b":2", b"}", b'\n\n{"c":3}', b'\n{"unfinished":')
    async with serve(handler) as served, transport_to(served.access()) as transport:
        assert await documents(await transport.stream(READ)) == [b'{"a":1}', b'{"b":2}', b'{"c":3}']


async def test_a_watch_that_breaks_says_so() -> None:
    handler = lines(b'{"a":1}\n', broken=True)
    async with serve(handler) as served, transport_to(served.access()) as transport:
        with pytest.raises(Unreachable):
            await documents(await transport.stream(READ))


async def test_closing_a_watch_ends_who_waits_for_it() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"{}\n")
        await asyncio.Event().wait()
        return response

    async with serve(handler) as served, transport_to(served.access()) as transport:
        stream = await transport.stream(READ)
        assert not isinstance(stream, Response)
        events = aiter(stream)
        assert await anext(events) == b"{}"
        waiting = asyncio.ensure_future(anext(events, None))
        await asyncio.sleep(0)
        await stream.close()
        async with asyncio.timeout(60):
            assert await waiting is None


async def test_a_refused_watch_is_a_response() -> None:
    async with serve(echo) as served, transport_to(served.access()) as transport:
        response = await transport.stream(READ)
    assert isinstance(response, Response)
    assert response.status == 201


@pytest.mark.parametrize("count", [3])
async def test_at_most_so_many_requests_are_under_way(count: int) -> None:
    under_way, most = 0, 0
    release = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        if under_way == count:
            release.set()
        await release.wait()
        under_way -= 1
        return web.Response(text=datetime.now(UTC).isoformat())

    async with serve(handler) as served:
        transport = Kind(served.access(), max_requests=count)
        await asyncio.gather(*(transport.request(READ) for _ in range(3 * count)))
        await transport.close()
    assert most == count


async def test_fast_server_is_asked_over_one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threaded, "NEAR", 60.0)
    peers = set()

    async def handler(request: web.Request) -> web.Response:
        peers.add(request.get_extra_info("peername"))
        return web.Response()

    async with serve(handler) as served:
        transport = ThreadedTransport(served.access(), max_requests=4)
        await asyncio.gather(*(transport.request(READ) for _ in range(9)))
        await transport.close()
    assert len(peers) == 1
