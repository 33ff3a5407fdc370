"""Addresses of infrastructure servers, which tenants name."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence

from espalier.clusters.design import addresses

Address = tuple[str, int]
Resolve = Callable[[str, int], Sequence[Address]]


def resolved(host: str, port: int) -> Sequence[Address]:
    """The addresses of a host. Local addresses (`addresses.is_local`) are rejected. Blocks. Raises `OSError`."""
    resolved = [entry[4][:2] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for address, _ in resolved:
        ip = addresses.parsed(str(address))
        if ip is None or addresses.is_local(ip):
            raise OSError(f"{host} resolves to {ip}, a loopback, link-local or multicast address")
    return [(str(address), int(port)) for address, port in resolved]


def connected(addresses: Sequence[Address], seconds: float) -> socket.socket:
    """A connection to the first address that accepts one within this time. Blocks. Raises `OSError`."""
    failure: OSError | None = None
    for address in addresses:
        try:
            return socket.create_connection(address, seconds)
        except OSError as error:
            failure = error
    raise failure or OSError("the name resolves to no address")


_LONGEST_SAYING = 300


def brief(words: object) -> str:
    """A message from another program, in one line that fits a status."""
    text = " ".join(str(words).split())
    return text if len(text) <= _LONGEST_SAYING else f"{text[:_LONGEST_SAYING]}..."
