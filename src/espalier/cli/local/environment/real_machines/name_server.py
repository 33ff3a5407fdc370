"""A name server for nodes: serves the records of the cloud's DNS, in the format of RFC 1035."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from ipaddress import IPv4Address
from typing import NamedTuple, TypeAlias

PORT = 53
_HEAD = struct.Struct("!HHHHHH")
_QUESTION = struct.Struct("!HH")
_ANSWER = struct.Struct("!HHHLH")
_ADDRESS, _INTERNET = 1, 1
_IS_ANSWER, _IS_AUTHORITATIVE, _ASKED, _OPCODE = 0x8000, 0x0400, 0x0100, 0x7800
_NO_SUCH_NAME = 3
_NAME_OF_QUESTION = 0xC000 | _HEAD.size
_LONGEST_LABEL, _LONGEST_NAME = 63, 253


class Resolved(NamedTuple):
    """The target of a name."""

    address: IPv4Address
    ttl: int


Resolve: TypeAlias = Callable[[str], Resolved | None]
"""Finds a name, without the final dot; None if it does not exist."""


class NameServer(asyncio.DatagramProtocol):
    """Answers each query from the current records."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        self._transport: asyncio.DatagramTransport | None = None

    async def listen(self, host: str, port: int = PORT) -> asyncio.DatagramTransport:
        """Start; close the result to stop. Raises `OSError`."""
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=(host, port))
        return transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See `asyncio.DatagramProtocol`."""
        self._transport = transport  # type: ignore[assignment]

    def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
        """See `asyncio.DatagramProtocol`."""
        reply = answer(data, self._resolve)
        if reply is not None and self._transport is not None:
            self._transport.sendto(reply, addr)


def answer(question: bytes, resolve: Resolve) -> bytes | None:
    """The answer to a message; None if it is not a query for one name."""
    try:
        id_, flags, count, *_ = _HEAD.unpack_from(question)
        name, end = _name(question, _HEAD.size)
        type_, class_ = _QUESTION.unpack_from(question, end)
    except (struct.error, ValueError):
        return None
    if flags & (_IS_ANSWER | _OPCODE) or count != 1:
        return None
    resolved = resolve(name)
    status = _IS_ANSWER | _IS_AUTHORITATIVE | flags & _ASKED | (0 if resolved is not None else _NO_SUCH_NAME)
    is_given = resolved is not None and (type_, class_) == (_ADDRESS, _INTERNET)
    head = _HEAD.pack(id_, status, 1, int(is_given), 0, 0) + question[_HEAD.size : end + _QUESTION.size]
    if resolved is None or not is_given:
        return head
    return head + _ANSWER.pack(_NAME_OF_QUESTION, _ADDRESS, _INTERNET, resolved.ttl, 4) + resolved.address.packed


def _name(message: bytes, start: int) -> tuple[str, int]:
    """A name, and its end. Raises `ValueError` for compressed names, which do not occur in queries."""
    labels: list[str] = []
    position = start
    while position < len(message) and position - start <= _LONGEST_NAME:
        length = message[position]
        label = message[position + 1 : position + 1 + length]
        if length > _LONGEST_LABEL or len(label) != length:
            break
        position += 1 + length
        if not length:
            return ".".join(labels).lower(), position
        labels.append(label.decode("ascii"))
    raise ValueError("found no name")
