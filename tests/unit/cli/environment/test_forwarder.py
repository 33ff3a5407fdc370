"""Connections that are passed on to where something is at that moment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from espalier.cli.local.environment.seed_processes.network import Forwarder, Target, TcpEndpoint
from espalier.simulator.pods.runtimes.life import Life


@asynccontextmanager
async def server(greeting: bytes) -> AsyncIterator[TcpEndpoint]:
    """Says something, and then nothing more."""
    ends = []

    async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(greeting)
        ends.append(writer)

    listening = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        yield TcpEndpoint(listening.sockets[0].getsockname()[1])
    finally:
        listening.close()
        for end in ends:
            end.transport.abort()


@asynccontextmanager
async def forwarded(find: Callable[[], Target]) -> AsyncIterator[tuple[asyncio.StreamReader, Forwarder]]:
    """One who has connected."""
    forwarder = Forwarder("a connection", find)
    port = await forwarder.listen()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, forwarder
    finally:
        forwarder.close()
        writer.transport.abort()


async def test_connection_leads_to_the_present_address() -> None:
    async with server(b"east") as east, server(b"west") as west:
        endpoints = iter([east, west])
        forwarder = Forwarder("a connection", lambda: (next(endpoints), ()))
        port = await forwarder.listen()
        for greeting in (b"east", b"west"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            assert await reader.readexactly(4) == greeting
            writer.transport.abort()
        forwarder.close()


async def test_a_connection_to_a_missing_port_is_refused() -> None:
    def find() -> Target:
        raise ConnectionRefusedError

    async with forwarded(find) as (reader, _):
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)


@pytest.mark.parametrize("what", ["what it leads to ends", "the forwarder closes"])
async def test_a_connection_ends_when(what: str) -> None:
    life = Life("an API server")
    async with server(b"here") as endpoint, forwarded(lambda: (endpoint, (life,))) as (reader, forwarder):
        assert await reader.readexactly(4) == b"here"
        if what == "the forwarder closes":
            forwarder.close()
        else:
            life.end()
        with pytest.raises((ConnectionResetError, asyncio.IncompleteReadError)):
            await reader.readexactly(1)
