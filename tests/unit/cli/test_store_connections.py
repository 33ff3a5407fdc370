"""Connections to stores without credentials: to real sockets of this machine."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from espalier.cli.backups import store_connections
from espalier.cli.backups.store_connections import over_network
from tests.support.etcd.agent_certificates import certificates


@asynccontextmanager
async def server(tls: ssl.SSLContext | None = None, *, answers: bytes = b"") -> AsyncIterator[int]:
    """The port of a server that says something, or nothing."""

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answers)
        await reader.read(1 << 16)
        if answers:
            writer.close()

    made = await asyncio.start_server(served, "127.0.0.1", 0, ssl=tls)
    async with made:
        yield made.sockets[0].getsockname()[1]


async def test_server_is_reached_whoever_signed_for_it(tmp_path: Path) -> None:
    files, _authority = certificates(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(files.certificate, files.key)
    async with server() as plain, server(tls) as secure:
        assert await over_network(f"http://127.0.0.1:{plain}/path") == ""
        assert await over_network(f"https://127.0.0.1:{secure}") == ""


async def test_connection_failure_is_told_without_noise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with server() as port:
        pass
    assert await over_network(f"http://127.0.0.1:{port}") == "connection refused"
    async with server(answers=b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
        assert (await over_network(f"https://127.0.0.1:{port}")).startswith("the TLS handshake failed (")
    monkeypatch.setattr(store_connections, "TIMEOUT", 0.05)
    async with server() as port:
        assert await over_network(f"https://127.0.0.1:{port}") == "no answer within 0.05 s"

    async def unknown(*_: object, **__: object) -> object:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", unknown)
    for host in ("nowhere.invalid", f"{'a' * 70}.example"):
        assert await over_network(f"https://{host}") == "its name can't be resolved"


async def test_different_failures_of_addresses_are_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fails(*_: object, **__: object) -> object:
        raise OSError("Multiple exceptions: [Errno 111] ('10.0.0.1', 80), [Errno 113] ('10.0.0.2', 80)")

    monkeypatch.setattr(asyncio, "open_connection", fails)
    assert await over_network("http://store.example") == "no connection"


async def test_hanging_folder_keeps_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on, looks, is_dir = threading.Event(), [0], Path.is_dir

    def hanging(path: Path) -> bool:
        if path == tmp_path:
            looks[0] += 1
            goes_on.wait(10)
        return is_dir(path)

    monkeypatch.setattr(Path, "is_dir", hanging)
    monkeypatch.setattr(store_connections, "TIMEOUT", 0.01)
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
    try:
        for _ in range(3):
            assert await over_network(f"file://{tmp_path}") == "no answer within 0.01 s"
        assert looks == [1]
        assert await asyncio.to_thread(int, 7) == 7
    finally:
        goes_on.set()
    monkeypatch.setattr(store_connections, "TIMEOUT", 10.0)
    assert await over_network(f"file://{tmp_path}") == ""


async def test_urls_of_servers_and_folders_are_connected() -> None:
    for place in ("/backups", "ftp://store.example", "store.example"):
        assert await over_network(place) == "it is neither an http, an https nor a file URL"


async def test_a_folder_has_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "with space").mkdir()
    assert await over_network(f"file://{tmp_path}/with%20space") == ""
    assert await over_network(f"file://{tmp_path}/none") == "there is no such folder"
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert await over_network(f"file://{tmp_path}/loop") == "there is no such folder"
    assert await over_network(f"file://{tmp_path}/{'a' * 300}") == "file name too long"
