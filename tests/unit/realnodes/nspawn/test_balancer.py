"""Three API servers at one port of three loopback addresses, and the balancer in front of them at a fourth."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from espalier.kube.connection.pki import Authority
from espalier.realnodes.nspawn.system.balancer import FAILURES_UNTIL_DOWN, Backend, Listener, no_verification

FRONT = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((FRONT, 0))
        port: int = probe.getsockname()[1]
        return port


class ApiServer:
    """Answers `/readyz` with its status, and everything else with its address."""

    def __init__(self, host: str, port: int, context: ssl.SSLContext) -> None:
        self.host, self._port, self._context = host, port, context
        self.status = "200 OK"
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._answer, self.host, self._port, ssl=self._context)

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            request = await reader.readline()
            answer = f"HTTP/1.1 {self.status}\r\n" if b"/readyz" in request else f"{self.host}\n"
            writer.write(answer.encode())
            await writer.drain()
            if b"stay" in request:
                await reader.read()
        writer.transport.abort()


@pytest.fixture
def context(tmp_path: Path) -> ssl.SSLContext:
    pair = Authority.create("test", now=datetime.now(UTC)).issue_server("api", names=[FRONT], now=datetime.now(UTC))
    (tmp_path / "crt").write_bytes(pair.certificate)
    (tmp_path / "key").write_bytes(pair.key)
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    return made


@pytest.fixture
async def servers(context: ssl.SSLContext) -> AsyncIterator[list[ApiServer]]:
    port = free_port()
    made = [ApiServer(f"127.0.0.{last}", port, context) for last in (2, 3, 4)]
    for server in made:
        await server.start()
    yield made
    for server in made:
        server.stop()


@pytest.fixture
async def listener(servers: list[ApiServer]) -> AsyncIterator[Listener]:
    made = Listener(FRONT, servers[0]._port)
    made.use([server.host for server in servers])
    await made.open()
    yield made
    made.close()


async def check(listener: Listener, times: int = 1) -> None:
    for _ in range(times):
        await asyncio.gather(*(backend.check(no_verification()) for backend in listener.backends))


def health(listener: Listener) -> list[bool]:
    return [backend.healthy for backend in listener.backends]


async def ask(listener: Listener) -> str:
    async with asyncio.timeout(10):
        reader, writer = await asyncio.open_connection(listener.address, listener.port, ssl=no_verification())
        writer.write(b"who\n")
        answer = await reader.readline()
        writer.transport.abort()
        return answer.decode().strip()


async def test_all_that_are_ready_are_used_in_turn(listener: Listener, servers: list[ApiServer]) -> None:
    await check(listener)
    assert health(listener) == [True, True, True]
    answers = [await ask(listener) for _ in range(6)]
    assert sorted(answers) == sorted(2 * [server.host for server in servers])


async def test_unready_backend_is_left_out_when_confirmed(listener: Listener, servers: list[ApiServer]) -> None:
    await check(listener)
    servers[0].status = "500 Internal Server Error"
    await check(listener)
    assert health(listener) == [True, True, True]
    await check(listener, FAILURES_UNTIL_DOWN - 1)
    assert health(listener) == [False, True, True]
    assert {await ask(listener) for _ in range(6)} == {servers[1].host, servers[2].host}
    servers[0].status = "200 OK"
    await check(listener)
    assert {await ask(listener) for _ in range(6)} == {server.host for server in servers}


async def test_nobody_notices_one_that_is_gone(listener: Listener, servers: list[ApiServer]) -> None:
    await check(listener)
    servers[1].stop()
    assert {await ask(listener) for _ in range(6)} == {servers[0].host, servers[2].host}


async def test_connections_to_a_down_backend_are_closed(listener: Listener, servers: list[ApiServer]) -> None:
    await check(listener)
    reader, writer = await asyncio.open_connection(listener.address, listener.port, ssl=no_verification())
    writer.write(b"stay\n")
    host = (await reader.readline()).decode().strip()
    server = next(server for server in servers if server.host == host)
    server.status = "500 Internal Server Error"
    await check(listener, FAILURES_UNTIL_DOWN)
    async with asyncio.timeout(10):
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            assert await reader.read() == b""
    writer.transport.abort()


async def test_only_backend_is_used_before_it_is_ready(listener: Listener, servers: list[ApiServer]) -> None:
    listener.use([servers[2].host])
    assert await ask(listener) == servers[2].host


async def test_client_without_a_backend_is_refused_at_once(listener: Listener) -> None:
    listener.use([])
    with pytest.raises(ConnectionError):
        await ask(listener)


async def test_a_backend_where_nobody_listens_is_not_ready() -> None:
    backend = Backend(FRONT, free_port())
    await backend.check(no_verification())
    assert not backend.healthy
