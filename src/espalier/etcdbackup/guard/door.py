"""Passes clients' connections to the unix socket of an etcd, for as long as it may.

Before each chunk, in both directions, the deadline is compared with `CLOCK_BOOTTIME`. A timer cuts what is idle. So a
guard that was frozen and goes on passes nothing that it had not compared: at most the one chunk between both. At most
one chunk is held for each direction: a slow reader is not read for.
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
MOST_CONNECTIONS = 4096
"""Clients at a time; more are turned away. kube-apiserver has a few hundred."""
MOST_AHEAD = 86400.0
"""Seconds that a deadline may lie ahead."""
_ACCEPTED_AT_ONCE = 64
_PAUSE = 0.1
"""Seconds without accepting, when this process has no more files."""
_BUSY, _TRIES = 0.02, 250
"""Seconds between two tries to connect to an etcd that is too busy, and how many there are."""
_RESET = struct.pack("ii", 1, 0)
"""SO_LINGER with which closing drops what was not delivered, and tells the client so."""


def since_boot() -> float:
    """Seconds of `CLOCK_BOOTTIME`, which goes on while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Door:
    """The way to one etcd. Shut at first. To be used on one event loop, and closed."""

    def __init__(self, etcd: Path, now: Callable[[], float] = since_boot) -> None:
        self._etcd = str(etcd)
        self._now = now
        self._loop = asyncio.get_running_loop()
        self._until = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._listener: socket.socket | None = None
        self._connections: set[_Connection] = set()
        self._waiting = 0
        """Clients for whom etcd was too busy."""
        self._idle_since = now()
        """While nobody is connected: since when. A guard before this one took all connections with it.

        Silent clients are connected as well: they may answer from what they have read, and need not ask.
        """

    def listen(self, host: str, port: int) -> int:
        """Listen for clients; returns the port. Raises `OSError`."""
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
        """How many clients are connected."""
        return len(self._connections)

    def open(self, until: float) -> None:
        """Let clients pass until this time. Raises `ValueError` for one that can't be meant."""
        ahead = until - self._now()
        if not math.isfinite(until) or ahead > MOST_AHEAD:
            raise ValueError(f"until: found {ahead:g} s ahead, allowed are {MOST_AHEAD:g}")
        self._until = until
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_later(max(0.0, ahead), self._look)

    def shut(self) -> float:
        """Let nothing pass. When this returns, nothing is connected; since when, it says."""
        self._until = 0.0
        for connection in tuple(self._connections):
            connection.cut()
        return self._idle_since

    def close(self) -> None:
        """Shut, and do not listen any more."""
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

    def _look(self) -> None:
        """The time is over; or the machine was suspended, or the clock of timers is ahead, and some is left."""
        if self.passes:
            self._timer = self._loop.call_later(self._until - self._now(), self._look)
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
            self._let_in(client)

    def _accept_again(self) -> None:
        if self._listener is not None:
            self._loop.add_reader(self._listener, self._accept)

    def _let_in(self, client: socket.socket) -> None:
        if not self.passes or len(self._connections) + self._waiting >= MOST_CONNECTIONS:
            _reset(client)
            return
        try:
            client.setblocking(False)
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError:
            _reset(client)
            return
        self._connect(client, _TRIES)

    def _connect(self, client: socket.socket, tries: int) -> None:
        """Connect to etcd. A unix socket connects at once, or refuses; it is busy while too many wait for etcd."""
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
            etcd.connect(self._etcd)
        except OSError as error:
            etcd.close()
            if isinstance(error, BlockingIOError) and tries > 0:
                self._waiting += 1
                self._loop.call_later(_BUSY, self._connect_again, client, tries - 1)
            else:
                _reset(client)
            return
        self._connections.add(_Connection(self, self._loop, client, etcd))

    def _connect_again(self, client: socket.socket, tries: int) -> None:
        self._waiting -= 1
        self._connect(client, tries)


class _Connection:
    """One client, and its connection to etcd."""

    def __init__(self, door: Door, loop: asyncio.AbstractEventLoop, client: socket.socket, etcd: socket.socket) -> None:
        self._door = door
        self._client = client
        self._pumps = (_Pump(self, loop, client, etcd), _Pump(self, loop, etcd, client))
        self._etcd = etcd

    @property
    def passes(self) -> bool:
        """True while the door is open."""
        return self._door.passes

    def ended(self) -> None:
        """One direction has ended; when both have, all of it has."""
        if all(pump.is_over for pump in self._pumps):
            self._close()
            self._client.close()

    def cut(self) -> None:
        """End it at once; what was not delivered never will be."""
        self._close()
        _reset(self._client)

    def _close(self) -> None:
        for pump in self._pumps:
            pump.stop()
        self._etcd.close()
        self._door.forget(self)


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
        self._held = memoryview(b"")
        """What the sink has not taken yet. While there is something, nothing is read."""
        loop.add_reader(source, self._read)

    def stop(self) -> None:
        """Do nothing any more."""
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
        elif self._passed(memoryview(chunk)):
            self._loop.remove_reader(self._source)
            self._loop.add_writer(self._sink, self._write)

    def _write(self) -> None:
        if not self._passed(self._held) and not self.is_over:
            self._loop.remove_writer(self._sink)
            self._loop.add_reader(self._source, self._read)

    def _passed(self, chunk: memoryview) -> bool:
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
        self._held = chunk[sent:]
        return bool(self._held)

    def _end(self) -> None:
        """The source says nothing more; the other direction goes on."""
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
