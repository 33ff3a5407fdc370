"""Passes clients' connections to the unix socket of an etcd, until a deadline.

Before each chunk, in both directions, the deadline is compared with `CLOCK_BOOTTIME`. A timer cuts idle connections. So
a guard that was frozen and resumes passes at most the chunk that it had already compared. At most one chunk is held
for each direction: nothing is read in advance for a slow reader.

With a second socket, on which etcd listens without TLS, clients without TLS are passed to that one. Their first byte
tells: it is read, and stays for etcd.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import math
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

CHUNK = 64 * 1024
"""Bytes that are read at once, and held for one direction at most."""
MAX_CONNECTIONS = 4096
"""Clients at a time; more are rejected. kube-apiserver has a few hundred."""
MAX_AHEAD = 86400.0
"""The largest number of seconds until a deadline."""
_ACCEPTED_AT_ONCE = 64
_PAUSE = 0.1
"""Seconds without accepting connections when this process is out of file descriptors."""
_RETRY_AFTER, _MAX_ATTEMPTS = 0.02, 250
"""Seconds between two attempts to connect to an etcd that is too busy, and the number of attempts."""
_HANDSHAKE = b"\x16"
"""The first byte of a client with TLS."""
FIRST_BYTE_TIMEOUT = 10.0
"""Seconds in which a client must send its first byte, if that is waited for. HTTP/2 and TLS begin with the client."""
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with which closing discards undelivered bytes, and resets the client's connection."""


def since_boot() -> float:
    """Seconds of `CLOCK_BOOTTIME`, which continues while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Proxy:
    """The proxy of one etcd. Initially shut. Use it on one event loop, and close it."""

    def __init__(self, etcd: Path, now: Callable[[], float] = since_boot, *, plain: Path | None = None) -> None:
        """`plain`: the socket for clients without TLS; None: all clients are passed to `etcd`."""
        self._etcd = str(etcd)
        self._plain = str(plain) if plain is not None else None
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._listener: socket.socket | None = None
        self._connections: set[_Connection] = set()
        self._waiting = 0
        """Clients for whom etcd was too busy."""
        self._silent: dict[socket.socket, asyncio.TimerHandle] = {}
        """Clients that have sent nothing yet, with the ends of their times."""
        self._idle_since = now()
        """While nobody is connected: since when. Connections of an earlier guard ended with it.

        Idle clients count as connected: API servers may answer from their caches.
        """

    def listen(self, host: str, port: int) -> int:
        """Listen for clients; return the port. Raises `OSError`."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._listener = socket.create_server((host, port), family=family, backlog=256)
        self._listener.setblocking(False)
        self._loop.add_reader(self._listener, self._accept)
        return int(self._listener.getsockname()[1])

    @property
    def passes(self) -> bool:
        """True while clients may pass."""
        return self._now() < self._until

    @property
    def connections(self) -> int:
        """The number of connected clients."""
        return len(self._connections)

    def open(self, until: float) -> None:
        """Let clients pass until this time. Raises `ValueError` for an implausible time."""
        ahead = until - self._now()
        if not math.isfinite(until) or ahead > MAX_AHEAD:
            raise ValueError(f"until: found {ahead:g} s ahead, allowed are {MAX_AHEAD:g}")
        self._until = until
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, ahead), self._on_timer)

    def shut(self) -> float:
        """Let nothing pass. On return nothing is connected; the result is the time since when."""
        self._until = 0.0
        for connection in tuple(self._connections):
            connection.cut()
        for client in tuple(self._silent):
            self._drop_silent(client)
        return self._idle_since

    def close(self) -> None:
        """Shut, and stop listening."""
        self.shut()
        if self._timer is not None:
            self._timer.cancel()
        listener, self._listener = self._listener, None
        if listener is not None:
            self._loop.remove_reader(listener)
            listener.close()

    def forget(self, connection: _Connection) -> None:
        """A connection has ended."""
        self._connections.discard(connection)
        self._idle_since = self._now()

    def _on_timer(self) -> None:
        """The timer fired: either the deadline has passed, or some time is left because the machine was suspended or
        the clock of timers is ahead."""
        if self.passes:
            self._timer = self._loop.call_later(self._until - self._now(), self._on_timer)
        else:
            self.shut()

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            if self._listener is None:
                return
            try:
                client, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                    self._loop.remove_reader(self._listener)
                    self._loop.call_later(_PAUSE, self._accept_again)
                return
            self._admit(client)

    def _accept_again(self) -> None:
        if self._listener is not None:
            self._loop.add_reader(self._listener, self._accept)

    def _admit(self, client: socket.socket) -> None:
        if len(self._connections) + self._waiting + len(self._silent) >= MAX_CONNECTIONS:
            _reset(client)
            return
        try:
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError:
            _reset(client)
            return
        if self._plain is None:
            self._connect(client, self._etcd, _MAX_ATTEMPTS)
            return
        self._silent[client] = self._loop.call_later(FIRST_BYTE_TIMEOUT, self._drop_silent, client)
        self._loop.add_reader(client, self._choose, client, self._plain)

    def _choose(self, client: socket.socket, plain: str) -> None:
        """Connect a client to the socket that its first byte asks for."""
        try:
            first = client.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            first = b""
        if not first:
            self._drop_silent(client)
            return
        self._end_silence(client)
        self._connect(client, self._etcd if first == _HANDSHAKE else plain, _MAX_ATTEMPTS)

    def _drop_silent(self, client: socket.socket) -> None:
        self._end_silence(client)
        _reset(client)

    def _end_silence(self, client: socket.socket) -> None:
        self._silent.pop(client).cancel()
        self._loop.remove_reader(client)

    def _connect(self, client: socket.socket, path: str, attempts: int) -> None:
        """Connect to etcd. A unix socket connects or refuses at once; it is busy while its backlog is full."""
        if not self.passes:
            _reset(client)
            return
        try:
            etcd = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        except OSError:  # no more files
            _reset(client)
            return
        try:
            etcd.setblocking(False)
            etcd.connect(path)
        except OSError as error:
            etcd.close()
            if isinstance(error, BlockingIOError) and attempts > 0:
                self._waiting += 1
                self._loop.call_later(_RETRY_AFTER, self._connect_again, client, path, attempts - 1)
            else:
                _reset(client)
            return
        self._connections.add(_Connection(self, self._loop, client, etcd))

    def _connect_again(self, client: socket.socket, path: str, attempts: int) -> None:
        self._waiting -= 1
        self._connect(client, path, attempts)


class _Connection:
    """One client, and its connection to etcd."""

    def __init__(
        self, proxy: Proxy, loop: asyncio.AbstractEventLoop, client: socket.socket, etcd: socket.socket
    ) -> None:
        self._proxy = proxy
        self._client = client
        self._pumps = (_Pump(self, loop, client, etcd), _Pump(self, loop, etcd, client))
        self._etcd = etcd

    @property
    def passes(self) -> bool:
        """True while the proxy is open."""
        return self._proxy.passes

    def ended(self) -> None:
        """One direction has ended; once both directions have, the connection has."""
        if all(pump.is_over for pump in self._pumps):
            self._close()
            self._client.close()

    def cut(self) -> None:
        """End the connection at once; undelivered bytes are lost."""
        self._close()
        _reset(self._client)

    def _close(self) -> None:
        for pump in self._pumps:
            pump.stop()
        self._etcd.close()
        self._proxy.forget(self)


class _Pump:
    """One direction of a connection."""

    def __init__(
        self, connection: _Connection, loop: asyncio.AbstractEventLoop, source: socket.socket, sink: socket.socket
    ) -> None:
        self.is_over = False
        self._connection = connection
        self._loop = loop
        self._source = source
        self._sink = sink
        self._unsent = memoryview(b"")
        """Bytes that the sink has not taken yet. While there are any, nothing is read."""
        loop.add_reader(source, self._read)

    def stop(self) -> None:
        """Stop reading and writing."""
        self._loop.remove_reader(self._source)
        self._loop.remove_writer(self._sink)

    def _read(self) -> None:
        try:
            chunk = self._source.recv(CHUNK)
        except BlockingIOError:
            return
        except OSError:
            self._connection.cut()
            return
        if not chunk:
            self._end()
        elif self._pass(memoryview(chunk)):
            self._loop.remove_reader(self._source)
            self._loop.add_writer(self._sink, self._write)

    def _write(self) -> None:
        if not self._pass(self._unsent) and not self.is_over:
            self._loop.remove_writer(self._sink)
            self._loop.add_reader(self._source, self._read)

    def _pass(self, chunk: memoryview) -> bool:
        """Pass as much as the sink takes. True if something is left, which is held."""
        if not self._connection.passes:
            self._connection.cut()
            self.is_over = True
            return False
        try:
            sent = self._sink.send(chunk)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._connection.cut()
            self.is_over = True
            return False
        self._unsent = chunk[sent:]
        return bool(self._unsent)

    def _end(self) -> None:
        """The source has closed its side; the other direction continues."""
        self.is_over = True
        self._loop.remove_reader(self._source)
        if not self._connection.passes:
            self._connection.cut()
            return
        try:
            self._sink.shutdown(socket.SHUT_WR)
        except OSError:
            self._connection.cut()
            return
        self._connection.ended()


def _reset(client: socket.socket) -> None:
    with contextlib.suppress(OSError):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    client.close()
