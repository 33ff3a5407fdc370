"""Ports of this machine for programs that have to be told one."""

from __future__ import annotations

import contextlib
import random
import socket

HOST = "127.0.0.1"
PORTS = range(12_000, 32_000)
"""Below those that Linux gives to connections and to listeners on port 0 (from 32768 on): one of these may be taken
again before the program that it was meant for listens."""
_random = random.SystemRandom()  # workers of a test run must not choose alike


def free_port() -> int:
    """A port on which nothing listens."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Different ports on which nothing listens."""
    ports: list[int] = []
    with contextlib.ExitStack() as held:
        while len(ports) < count:
            port = _random.choice(PORTS)
            listener = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                listener.bind((HOST, port))
                ports.append(port)
    return ports
