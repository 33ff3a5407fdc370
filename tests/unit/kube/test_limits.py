"""Answers of an API server are bounded: whoever runs one cluster must not fill the memory of what serves all."""

from __future__ import annotations

import asyncio
import gzip
import resource
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web

from espalier.api.core import CONFIG_MAP
from espalier.kube.client import Client
from espalier.kube.connection.access import LARGEST_ANSWER, LARGEST_REMOTE_ANSWER, Access
from espalier.kube.connection.credentials import CredentialsError
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.kubeconfig_entries import KubeconfigError
from espalier.kube.errors import AnswerTooLarge, KubeError, NotKubernetes, error_of
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.threaded import ThreadedTransport
from espalier.kube.transports.wire import Request, Response
from tests.support.sampling import sampled
from tests.support.servers.https_server import authority, client_pair, serve, user_of
from tests.support.servers.scripted_server import Script, client_of, json_response

KIB = 1024
LARGEST = 64 * KIB
READ = Request("GET", "/api/v1/nodes")

AnyTransport = HttpTransport | ThreadedTransport
BOTH = pytest.mark.parametrize("kind", [HttpTransport, ThreadedTransport])


@asynccontextmanager
async def transport_to(kind: type[AnyTransport], access: Access) -> AsyncIterator[AnyTransport]:
    transport = kind(access, environment={})
    try:
        yield transport
    finally:
        await transport.close()


class Endless:
    """Answers with parts until nobody takes them any more; `sent` is what went out."""

    def __init__(self, part: bytes, *, status: int = 200, parts: int = 100_000) -> None:
        self._part, self._status, self._parts = part, status, parts
        self.sent = 0

    async def handle(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=self._status)
        await response.prepare(request)
        for _ in range(self._parts):
            if request.transport is None or request.transport.is_closing():
                break
            await response.write(self._part)
            self.sent += len(self._part)
            await asyncio.sleep(0)
        return response


@BOTH
@pytest.mark.parametrize("status", [200, 500])
async def test_an_answer_without_end_is_given_up(kind: type[AnyTransport], status: int) -> None:
    endless = Endless(b"[" * 16 * KIB, status=status)
    async with (
        serve(endless.handle) as served,
        transport_to(kind, served.access(largest_answer=LARGEST)) as transport,
    ):
        with pytest.raises(AnswerTooLarge, match=r"answered with more than 0\.0625 MiB"):
            await transport.request(READ)
        async with asyncio.timeout(60):
            assert (await _after(transport)).status in {200, 500}, "and the next request has a connection of its own"
    assert endless.sent < 64 * 1024 * KIB, "what the buffers on the way take, no more"


async def _after(transport: AnyTransport) -> Response:
    try:
        return await transport.request(READ)
    except AnswerTooLarge:
        return Response(200)


@BOTH
async def test_too_large_announced_answer_is_not_begun(kind: type[AnyTransport]) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-length": str(10**12)})
        await response.prepare(request)
        await response.write(b"x" * KIB)
        await asyncio.Event().wait()
        return response

    async with serve(handler) as served, transport_to(kind, served.access(largest_answer=LARGEST)) as transport:
        with pytest.raises(AnswerTooLarge):
            await transport.request(READ)


@BOTH
async def test_the_largest_answer_is_taken(kind: type[AnyTransport]) -> None:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=b"x" * LARGEST)

    async with serve(handler) as served, transport_to(kind, served.access(largest_answer=LARGEST)) as transport:
        assert len((await transport.request(READ)).body) == LARGEST


@BOTH
@pytest.mark.parametrize("encoding", sampled(["gzip", "deflate", "br", "GZIP"], 0))
async def test_an_unrequested_compression_is_not_unpacked(kind: type[AnyTransport], encoding: str) -> None:
    bomb = gzip.compress(bytes(64 * 1024 * KIB))

    async def handler(_: web.Request) -> web.Response:
        return web.Response(body=bomb, headers={"content-encoding": encoding})

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    async with serve(handler) as served, transport_to(kind, served.access()) as transport:
        with pytest.raises(NotKubernetes, match="which was not requested"):
            await transport.request(READ)
        with pytest.raises(NotKubernetes, match="which was not requested"):
            await transport.stream(READ)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * KIB, "KiB"


async def test_endless_event_is_given_up_many_small_are_not() -> None:
    endless = Endless(b"x" * KIB)
    async with (
        serve(endless.handle) as served,
        transport_to(HttpTransport, served.access(largest_answer=LARGEST)) as transport,
    ):
        stream = await transport.stream(READ)
        assert not isinstance(stream, Response)
        with pytest.raises(AnswerTooLarge):
            [line async for line in stream]
        await stream.close()
    small = Endless(b"x" * KIB + b"\n", parts=1000)
    async with (
        serve(small.handle) as served,
        transport_to(HttpTransport, served.access(largest_answer=LARGEST)) as transport,
    ):
        stream = await transport.stream(READ)
        assert not isinstance(stream, Response)
        assert len([line async for line in stream]) == 1000
        await stream.close()


async def test_event_may_be_as_large_as_an_answer() -> None:
    """The kept beginning of one event counts no more when that event is complete."""
    taken = asyncio.Semaphore(0)

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"x" * 20 * KIB)
        for _ in range(10):
            await response.write(b"x\n" + b"x" * 20 * KIB)
            await taken.acquire()
        return response

    async with (
        serve(handler) as served,
        transport_to(HttpTransport, served.access(largest_answer=LARGEST)) as transport,
    ):
        stream = await transport.stream(READ)
        assert not isinstance(stream, Response)
        sizes = []
        async for line in stream:
            sizes.append(len(line))
            taken.release()
        await stream.close()
    assert sizes == [20 * KIB + 1] * 10


async def test_too_large_page_is_requested_in_smaller_ones() -> None:
    """Somebody may have made enormous objects; who lists them gets them all the same."""

    def page(request: Request) -> Response:
        limit, begin = int(request.query["limit"]), int(request.query.get("continue", "0"))
        if limit > 10:
            raise AnswerTooLarge("more than is taken")
        names = [{"metadata": {"name": f"{number}"}} for number in range(begin, min(begin + limit, 25))]
        more = str(begin + limit) if begin + limit < 25 else ""
        return json_response({"metadata": {"resourceVersion": "7", "continue": more}, "items": names})

    listed = await client_of(Script(*[page] * 100)).list(CONFIG_MAP, "a", limit=500)
    assert [object_.name for object_ in listed.items] == [str(number) for number in range(25)]


async def test_one_object_that_is_too_large_fails_the_list() -> None:
    def page(_: Request) -> Response:
        raise AnswerTooLarge("more than is taken")

    script = Script(*[page] * 100)
    with pytest.raises(AnswerTooLarge):
        await client_of(script).list(CONFIG_MAP, "a", limit=500)
    assert len(script.requests) < 10


async def test_pages_without_end_are_given_up() -> None:
    def page(_: Request) -> Response:
        content = {"metadata": {"name": "a"}, "data": {"a": "x" * KIB * KIB}}
        return json_response({"metadata": {"continue": "more"}, "items": [content]})

    script = Script(*[page] * 1000)
    with pytest.raises(AnswerTooLarge, match="list"):
        await Client(client_of(script).transport, largest_list=16 * KIB * KIB).list(CONFIG_MAP, "a")
    assert len(script.requests) < 20


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff" * 10, b'{"message":"\xff"}', b"1" * 100_000]
)
@pytest.mark.parametrize("code", [400, 404, 500])
def test_any_failure_is_an_error_of_bounded_length(code: int, body: bytes) -> None:
    assert len(str(error_of(code, body))) <= 2000


def test_a_long_message_is_cut() -> None:
    """It would be written into a condition, which takes 32 KiB: then the status could not be written any more."""
    error = error_of(500, msgspec.json.encode({"message": "x" * 10**6, "reason": "y" * 10**6}))
    assert len(error.status.message) <= 10_100
    assert error.status.message.endswith("…")
    assert len(error.status.reason) <= 300


# -- what a kubeconfig from elsewhere may say


def of_cluster(**fields: object) -> bytes:
    config = Kubeconfig.of_cluster(
        "prod",
        server="https://10.0.0.1:6443",
        certificate_authority=authority().certificate,
        user="admin",
        credentials=client_pair("admin"),
    )
    (cluster,) = (entry for (kind, _), entry in config._entries.items() if kind == "cluster")
    cluster.fields.update(fields)  # type: ignore[attr-defined]
    return config.to_bytes()


def test_answers_of_foreign_clusters_have_lower_limits() -> None:
    assert Kubeconfig.parse(of_cluster()).context().largest_answer == LARGEST_REMOTE_ANSWER < LARGEST_ANSWER


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"server": "http://10.0.0.1"}, "server: found an address that begins with http://"),
        ({"insecure-skip-tls-verify": True}, "insecure-skip-tls-verify: found true"),
        ({"server": "https://me:PASSWORD@10.0.0.1"}, "server holds a user name or password"),
    ],
)
def test_kubeconfig_from_secret_must_say_whom_to_trust(fields: dict[str, object], message: str) -> None:
    with pytest.raises(KubeconfigError, match=message) as refusal:
        Kubeconfig.parse(of_cluster(**fields)).context()
    assert "PASSWORD" not in str(refusal.value)


# -- credentials, and whoever is on the way


@BOTH
async def test_no_credentials_go_over_plain_http(kind: type[AnyTransport]) -> None:
    """As kubectl has it; it also says why the server refuses."""
    seen: list[dict[str, str]] = []

    async def handler(request: web.Request) -> web.Response:
        seen.append({name.lower(): value for name, value in request.headers.items()})
        return web.Response(status=200 if request.path == "/open" else 401)

    async with serve(handler, tls=False) as served:
        access = Access(served.url, token="TOKEN")
        async with transport_to(kind, access) as transport:
            assert (await transport.request(Request("GET", "/open"))).status == 200
            with pytest.raises(CredentialsError, match="not sent over http://"):
                await transport.request(READ)
    assert not any("authorization" in headers for headers in seen)


@BOTH
async def test_password_in_address_is_neither_shown_nor_sent(kind: type[AnyTransport]) -> None:
    users: list[str] = []

    async def handler(request: web.Request) -> web.Response:
        users.append(user_of(request))
        return web.Response()

    async with serve(handler) as served:
        url = served.url.replace("https://", "https://me:PASSWORD@")
        access = Access(url, certificate_authority=authority().certificate)
        assert "PASSWORD" not in repr(access)
        async with transport_to(kind, access) as transport:
            await transport.request(READ)
    async with transport_to(kind, access) as transport:
        with pytest.raises(KubeError) as failure:
            await transport.request(READ)
    assert "PASSWORD" not in f"{failure.value}{failure.value!r}"
    assert users == [""]
