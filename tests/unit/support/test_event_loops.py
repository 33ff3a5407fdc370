"""Leftovers of a test in its event loop end with that test."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import warnings
from collections.abc import Coroutine
from contextlib import closing
from datetime import UTC, datetime
from typing import Any

from espalier.kube.connection.pki import Authority
from tests.support.servers.web_server import tls


def context() -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """Of a server, and of who trusts it."""
    now = datetime.now(UTC)
    authority = Authority.create("test", now=now)
    pair = authority.issue_server("server", names=["127.0.0.1"], now=now)
    return tls(pair.certificate, pair.key), ssl.create_default_context(cadata=authority.certificate.decode())


def left_behind(main: Coroutine[Any, Any, socket.socket]) -> list[str]:
    """The garbage collector's findings about the loop that ran this, beside the socket that it gave."""
    gc.collect()  # of earlier tests
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        with closing(asyncio.run(main)):
            gc.collect()
        return [str(item.message) for item in caught]


def test_connection_without_close_notify_ends() -> None:
    serving, trusting = context()

    async def main() -> ssl.SSLSocket:
        accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        server = await asyncio.start_server(
            lambda _reader, writer: accepted.put_nowait(writer), "127.0.0.1", 0, ssl=serving
        )
        async with server:
            connection = await asyncio.to_thread(socket.create_connection, server.sockets[0].getsockname())
            silent = await asyncio.to_thread(trusting.wrap_socket, connection, server_hostname="127.0.0.1")
            (await accepted.get()).close()
        return silent

    assert left_behind(main()) == []


def test_connection_accepted_while_closing_ends() -> None:
    serving, _ = context()

    async def main() -> socket.socket:
        server = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0, ssl=serving)
        client = socket.create_connection(server.sockets[0].getsockname())
        for _ in range(2):
            await asyncio.sleep(0)  # it is accepted, and the task that makes its transport has not begun
        server.close()
        return client

    assert left_behind(main()) == []


def test_connection_closed_with_data_to_send_ends() -> None:
    """asyncio counts such a connection as lost nowhere: it takes away its loop, and that is all."""
    transports: list[asyncio.WriteTransport] = []

    async def main() -> socket.socket:
        accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
        server = await asyncio.start_server(lambda _reader, writer: accepted.put_nowait(writer), "127.0.0.1", 0)
        async with server:
            client = await asyncio.to_thread(socket.create_connection, server.sockets[0].getsockname())
            writer = await accepted.get()
            sent = 0
            while not writer.transport.get_write_buffer_size():
                writer.write(bytes(1 << 20))
                sent += 1 << 20
            transports.append(writer.transport)
            writer.close()
            await asyncio.to_thread(_receive, client, sent)
            await writer.wait_closed()
        return client

    assert left_behind(main()) == []


def _receive(client: socket.socket, size: int) -> None:
    while size > 0:
        size -= len(client.recv(1 << 20))
