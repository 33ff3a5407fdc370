"""An HTTP server of the process over TLS, and a client that never says goodbye."""

from __future__ import annotations

import asyncio
import gc
import socket
import ssl
import warnings
from datetime import UTC, datetime
from pathlib import Path

from aiohttp import web

from espalier.kube.connection.pki import Authority
from espalier.runtime.servers.serving import HttpServer


def serving(authority: Authority, folder: Path) -> ssl.SSLContext:
    pair = authority.issue_server("server", names=["127.0.0.1"], now=datetime.now(UTC))
    (folder / "pair.pem").write_bytes(pair.certificate + pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pair.pem")
    return context


def ask(port: int, authority: Authority) -> ssl.SSLSocket:
    """A connection over which one answer came, and which nobody reads any more: it answers no goodbye."""
    context = ssl.create_default_context(cadata=authority.certificate.decode())
    connected = context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="127.0.0.1")
    connected.sendall(b"GET /nowhere HTTP/1.1\r\nHost: test\r\n\r\n")
    assert connected.recv(12) == b"HTTP/1.1 404"
    return connected


def transports() -> set[int]:
    """The TLS connections that this process has, whoever opened them."""
    gc.collect()
    return {id(item) for item in gc.get_objects() if type(item).__name__ == "_SSLProtocolTransport"}


async def test_tls_connections_end_with_their_server(tmp_path: Path) -> None:
    authority = Authority.create("test", now=datetime.now(UTC))
    before = transports()
    server = HttpServer(web.Application(), "127.0.0.1", 0, context=serving(authority, tmp_path))
    await server.start()
    with (
        await asyncio.to_thread(ask, server.port, authority),
        warnings.catch_warnings(record=True) as recorded,
    ):
        warnings.simplefilter("always", ResourceWarning)
        async with asyncio.timeout(20):
            await server.stop()
        del server
        await asyncio.sleep(0)
        gc.collect()
        assert [str(warning.message) for warning in recorded] == []
        assert transports() <= before
