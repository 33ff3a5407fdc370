"""The proxy of etcd: real sockets, and a clock that tests move."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest

from espalier.etcdbackup.guard import proxy as proxy_module
from espalier.etcdbackup.guard.proxy import CHUNK, Proxy, since_boot
from espalier.kube.connection.pki import Authority
from tests.support.waiting import eventually

PATIENCE = 60.0
T = TypeVar("T")


class Hand:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.before_look: Callable[[], None] = lambda: None

    def __call__(self) -> float:
        self.before_look()
        return self.now


class Behind:
    """The listener behind the door instead of etcd: received data, and connections to answer on."""

    def __init__(self) -> None:
        self.connections: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()
        self.writers: list[asyncio.StreamWriter] = []

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        await self.connections.put((reader, writer))

    async def next(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await within(self.connections.get())


class Setting:
    def __init__(self, proxy: Proxy, hand: Hand, behind: Behind, port: int) -> None:
        self.proxy, self.hand, self.behind, self.port = proxy, hand, behind, port
        self.writers: list[asyncio.StreamWriter] = []

    async def client(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return reader, writer

    async def pair(
        self,
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, asyncio.StreamReader, asyncio.StreamWriter]:
        """A client, and the other end of its connection."""
        return *(await self.client()), *(await self.behind.next())


@asynccontextmanager
async def guarded(tls: ssl.SSLContext | None = None) -> AsyncIterator[Setting]:
    with tempfile.TemporaryDirectory(prefix="proxy") as folder:
        path = Path(folder) / "etcd.sock"
        behind, hand = Behind(), Hand()
        server = await asyncio.start_unix_server(behind.accept, path, ssl=tls)
        proxy = Proxy(path, hand)
        setting = Setting(proxy, hand, behind, proxy.listen("127.0.0.1", 0))
        try:
            yield setting
        finally:
            proxy.close()
            server.close()
            for writer in (*setting.writers, *behind.writers):
                writer.transport.abort()
            await asyncio.sleep(0)


async def within(work: Awaitable[T]) -> T:
    async with asyncio.timeout(PATIENCE):
        return await work


async def cut(reader: asyncio.StreamReader) -> bool:
    """True once the connection was ended from the other side, with nothing to read any more."""
    try:
        return await within(reader.read()) == b""
    except ConnectionError:
        return True


async def turned_away(setting: Setting) -> bool:
    """True if a client is let nowhere: it may notice while it connects, or after."""
    try:
        reader, _ = await setting.client()
    except ConnectionError:
        return True
    return await cut(reader)


async def test_bytes_pass_both_ways_while_it_is_open() -> None:
    async with guarded() as setting:
        setting.proxy.open(setting.hand.now + 10)
        reader, writer, etcd, answers = await setting.pair()
        writer.write(b"request")
        assert await within(etcd.readexactly(7)) == b"request"
        answers.write(b"response")
        assert await within(reader.readexactly(8)) == b"response"


async def test_it_is_shut_at_first_and_turns_clients_away() -> None:
    async with guarded() as setting:
        assert await turned_away(setting)
        assert setting.behind.connections.empty()


async def test_request_after_deadline_does_not_reach_etcd() -> None:
    async with guarded() as setting:
        setting.proxy.open(setting.hand.now + 10)
        reader, writer, etcd, _ = await setting.pair()
        setting.hand.now += 10
        writer.write(b"too late")
        assert await cut(reader)
        assert await within(etcd.read()) == b""


async def test_answer_after_deadline_does_not_reach_client() -> None:
    async with guarded() as setting:
        setting.proxy.open(setting.hand.now + 10)
        reader, writer, etcd, answers = await setting.pair()
        writer.write(b"request")
        await within(etcd.readexactly(7))
        setting.hand.now += 10
        answers.write(b"too late")
        assert await cut(reader)


async def test_deadline_is_checked_before_each_chunk() -> None:
    async with guarded() as setting:
        setting.proxy.open(setting.hand.now + 10)
        reader, _, _etcd, answers = await setting.pair()
        looks = 0

        def count() -> None:
            nonlocal looks
            looks += 1
            if looks == 5:
                setting.hand.now += 10

        setting.hand.before_look = count
        answers.write(bytes(64 * CHUNK))
        received = 0
        try:
            while chunk := await within(reader.read(1 << 20)):
                received += len(chunk)
        except ConnectionError:
            pass
        assert received <= 4 * CHUNK


async def test_buffered_data_are_dropped_after_the_deadline() -> None:
    async with guarded() as setting:
        setting.proxy.open(setting.hand.now + 10)
        client = socket.socket()
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, ("127.0.0.1", setting.port))
        _, answers = await setting.behind.next()
        answers.write(bytes(200 * CHUNK))
        with pytest.raises(TimeoutError):  # it is not read for: etcd's side stops taking
            async with asyncio.timeout(0.3):
                await answers.drain()
        setting.hand.now += 10
        received = 0
        try:
            while chunk := await within(loop.sock_recv(client, 1 << 20)):
                received += len(chunk)
        except ConnectionError:
            pass
        client.close()
        assert received < 100 * CHUNK
        assert setting.proxy.connections == 0


@pytest.mark.demand("G55")
async def test_shutdown_cuts_clients_and_then_returns() -> None:
    async with guarded() as setting:
        setting.proxy.open(setting.hand.now + 10)
        ends = [await setting.pair() for _ in range(20)]
        assert setting.proxy.connections == 20
        setting.proxy.shut()
        assert setting.proxy.connections == 0
        for reader, _, etcd, _ in ends:
            assert await cut(reader)
            assert await within(etcd.read()) == b""


async def test_connection_counts_until_its_end() -> None:
    async with guarded() as setting:
        proxy, hand = setting.proxy, setting.hand
        assert proxy.shut() == hand.now, "a guard that starts has seen nobody yet"
        proxy.open(hand.now + 1000)
        _, writer, etcd, answers = await setting.pair()
        hand.now += 100
        assert proxy.connections == 1, "who is silent is connected"
        writer.close()
        await within(etcd.read())
        answers.close()
        await eventually(lambda: proxy.connections == 0)
        left = hand.now
        hand.now += 7
        assert proxy.shut() == left


async def test_whoever_is_cut_was_connected_until_then() -> None:
    async with guarded() as setting:
        proxy, hand = setting.proxy, setting.hand
        proxy.open(hand.now + 1000)
        await setting.pair()
        hand.now += 100
        assert proxy.shut() == hand.now


async def test_idle_clients_are_cut_at_deadline_by_timer() -> None:
    async with guarded() as setting:
        setting.hand.now = since_boot()
        proxy = setting.proxy
        proxy._now = since_boot
        proxy.open(since_boot() + 0.2)
        reader, _, etcd, _ = await setting.pair()
        assert await cut(reader)
        assert await within(etcd.read()) == b""


async def test_timer_that_fires_before_deadline_cuts_nobody() -> None:
    """A machine that was suspended, or whose clocks differ: the deadline is one of `CLOCK_BOOTTIME`."""
    async with guarded() as setting:
        fired = asyncio.Event()
        setting.proxy.open(setting.hand.now + 0.01)  # the clock stands
        setting.hand.before_look = fired.set
        _, writer, etcd, _ = await setting.pair()
        fired.clear()
        await within(fired.wait())
        writer.write(b"still")
        assert await within(etcd.readexactly(5)) == b"still"


async def test_moved_deadlines_use_one_timer() -> None:
    """The agent moves it every second, for months."""
    async with guarded() as setting:
        timers = []
        for seconds in range(1, 10):
            setting.proxy.open(setting.hand.now + seconds)
            timers.append(setting.proxy._timer)
        assert [timer is not None and timer.cancelled() for timer in timers] == [*[True] * 8, False]


async def test_no_files_left_means_pause_and_not_busy_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "_PAUSE", 600)
    async with guarded() as setting:
        asked: list[int] = []

        class Listener:
            def accept(self) -> None:
                asked.append(1)
                raise OSError(errno.EMFILE, "too many open files")

        setting.proxy.open(setting.hand.now + 10)
        listener = setting.proxy._listener
        assert listener is not None
        monkeypatch.setattr(Listener, "fileno", lambda _self: listener.fileno(), raising=False)
        setting.proxy._listener = Listener()  # type: ignore[assignment]
        waiting = asyncio.ensure_future(setting.client())
        await eventually(lambda: len(asked) == 1)
        for _ in range(20):
            await asyncio.sleep(0)
        setting.proxy._listener = listener
        assert len(asked) == 1
        setting.proxy._accept_again()  # the pause is over
        await within(waiting)
        await setting.behind.next()


async def test_later_and_earlier_deadlines_keep_connections() -> None:
    async with guarded() as setting:
        setting.proxy.open(setting.hand.now + 10)
        _reader, writer, etcd, _ = await setting.pair()
        setting.proxy.open(setting.hand.now + 20)
        setting.hand.now += 15
        writer.write(b"still")
        assert await within(etcd.readexactly(5)) == b"still"
        setting.proxy.open(setting.hand.now - 1)
        assert not setting.proxy.passes


@pytest.mark.parametrize("until", [float("nan"), float("inf"), 1000.0 + proxy_module.MAX_AHEAD + 1])
async def test_absurd_deadline_is_refused_without_effect(until: float) -> None:
    async with guarded() as setting:
        with pytest.raises(ValueError, match="until"):
            setting.proxy.open(until)
        assert not setting.proxy.passes


async def test_silent_client_still_gets_its_answer() -> None:
    async with guarded() as setting:
        setting.proxy.open(setting.hand.now + 10)
        reader, writer, etcd, answers = await setting.pair()
        writer.write(b"the end")
        writer.write_eof()
        assert await within(etcd.read()) == b"the end"
        answers.write(b"answer")
        answers.close()
        assert await within(reader.read()) == b"answer"


async def test_when_etcd_hangs_up_the_client_hears_of_it() -> None:
    async with guarded() as setting:
        setting.proxy.open(setting.hand.now + 10)
        reader, writer, _, answers = await setting.pair()
        answers.write(b"last words")
        answers.close()
        assert await within(reader.read()) == b"last words"
        writer.close()
        await eventually(lambda: setting.proxy.connections == 0)


async def test_without_an_etcd_clients_are_turned_away() -> None:
    async with guarded() as setting:
        setting.proxy._etcd += ".gone"
        setting.proxy.open(setting.hand.now + 10)
        assert await turned_away(setting)
        assert setting.proxy.connections == 0


async def test_more_clients_than_it_takes_are_turned_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "MAX_CONNECTIONS", 3)
    async with guarded() as setting:
        setting.proxy.open(setting.hand.now + 10)
        ends = [await setting.pair() for _ in range(3)]
        assert await turned_away(setting)
        ends[0][1].write(b"x")
        assert await within(ends[0][2].readexactly(1)) == b"x"


@pytest.mark.soak
async def test_hundreds_of_clients_get_their_own_answers() -> None:
    async with guarded() as setting:
        setting.proxy.open(setting.hand.now + 10)

        async def echo() -> None:
            while True:
                reader, writer = await setting.behind.connections.get()
                writer.write(await reader.readexactly(4))
                writer.close()

        echoing = asyncio.create_task(echo())

        async def ask(number: int) -> None:
            reader, writer = await setting.client()
            writer.write(b"%04d" % number)
            assert await within(reader.read()) == b"%04d" % number

        await asyncio.gather(*(ask(number) for number in range(300)))
        echoing.cancel()


async def test_tls_goes_through_with_the_clients_certificate(tmp_path: Path) -> None:
    authority = Authority.create("etcd", now=datetime.now(UTC))
    (tmp_path / "ca.crt").write_bytes(authority.certificate)
    contexts = {}
    for name, pair, purpose in (
        ("server", authority.issue_server("etcd", names=["127.0.0.1"], now=datetime.now(UTC)), ssl.Purpose.CLIENT_AUTH),
        ("client", authority.issue_client("apiserver", now=datetime.now(UTC)), ssl.Purpose.SERVER_AUTH),
    ):
        (tmp_path / f"{name}.crt").write_bytes(pair.certificate)
        (tmp_path / f"{name}.key").write_bytes(pair.key)
        context = contexts[name] = ssl.create_default_context(purpose, cafile=str(tmp_path / "ca.crt"))
        context.load_cert_chain(tmp_path / f"{name}.crt", tmp_path / f"{name}.key")
    contexts["server"].verify_mode = ssl.CERT_REQUIRED
    async with guarded(contexts["server"]) as setting:
        setting.proxy.open(setting.hand.now + 10)
        reader, writer = await asyncio.open_connection("127.0.0.1", setting.port, ssl=contexts["client"])
        setting.writers.append(writer)
        etcd, answers = await setting.behind.next()
        shown = answers.get_extra_info("peercert")
        assert dict(part[0] for part in shown["subject"])["commonName"] == "apiserver"
        writer.write(b"request")
        assert await within(etcd.readexactly(7)) == b"request"
        setting.proxy.shut()
        assert await cut(reader)


@asynccontextmanager
async def with_two_sockets() -> AsyncIterator[tuple[Setting, Behind]]:
    """A proxy with a second socket for clients without TLS, and what listens there."""
    async with guarded() as setting:
        with tempfile.TemporaryDirectory(prefix="plain") as folder:
            path, behind = Path(folder) / "etcd.sock", Behind()
            server = await asyncio.start_unix_server(behind.accept, path)
            setting.proxy._plain = str(path)
            try:
                yield setting, behind
            finally:
                server.close()
                for writer in behind.writers:
                    writer.transport.abort()


@pytest.mark.parametrize(("sent", "is_plain"), [(b"\x16\x03\x01", False), (b"PRI * HTTP/2.0", True)])
async def test_first_byte_chooses_the_socket(sent: bytes, is_plain: bool) -> None:
    async with with_two_sockets() as (setting, plain):
        setting.proxy.open(setting.hand.now + 10)
        _, writer = await setting.client()
        writer.write(sent)
        etcd, _ = await (plain if is_plain else setting.behind).next()
        assert await within(etcd.readexactly(len(sent))) == sent, "the first byte is etcd's as well"
        assert (setting.behind if is_plain else plain).connections.empty()


async def test_silent_client_is_cut_when_proxy_shuts() -> None:
    async with with_two_sockets() as (setting, _):
        setting.proxy.open(setting.hand.now + 10)
        reader, _ = await setting.client()
        await eventually(lambda: setting.proxy._silent)
        setting.proxy.shut()
        assert await cut(reader)


async def test_silent_client_has_a_limited_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "FIRST_BYTE_TIMEOUT", 0.05)
    async with with_two_sockets() as (setting, _):
        setting.proxy.open(setting.hand.now + 10)
        reader, _ = await setting.client()
        assert await cut(reader)
        assert not setting.proxy._silent


async def test_silent_client_that_leaves_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "MAX_CONNECTIONS", 1)
    async with with_two_sockets() as (setting, _):
        setting.proxy.open(setting.hand.now + 10)
        _, writer = await setting.client()
        await eventually(lambda: setting.proxy._silent)
        assert await turned_away(setting), "it counts as a client"
        writer.close()
        await eventually(lambda: not setting.proxy._silent)


async def test_first_byte_after_deadline_reaches_no_etcd() -> None:
    async with with_two_sockets() as (setting, plain):
        setting.proxy.open(setting.hand.now + 10)
        reader, writer = await setting.client()
        await eventually(lambda: setting.proxy._silent)
        setting.hand.now += 10
        writer.write(b"PRI")
        assert await cut(reader)
        assert plain.connections.empty()


async def test_late_end_is_not_a_clean_end() -> None:
    """No timer has looked yet: a frozen guard goes on with what is ready to be read."""
    async with guarded() as setting:
        setting.proxy.open(setting.hand.now + 10)
        reader, _, _, etcd = await setting.pair()
        setting.hand.now += 20
        etcd.write_eof()
        with pytest.raises(ConnectionResetError):
            await within(reader.read())


@asynccontextmanager
async def busy() -> AsyncIterator[tuple[Setting, socket.socket]]:
    """An etcd that accepts nobody yet; its listener."""
    with tempfile.TemporaryDirectory(prefix="proxy") as folder, socket.socket(socket.AF_UNIX) as etcd:
        etcd.bind(f"{folder}/etcd.sock")
        etcd.listen(0)
        etcd.setblocking(False)
        with socket.socket(socket.AF_UNIX) as first:
            first.connect(f"{folder}/etcd.sock")
            hand = Hand()
            proxy = Proxy(Path(folder) / "etcd.sock", hand)
            setting = Setting(proxy, hand, Behind(), proxy.listen("127.0.0.1", 0))
            try:
                yield setting, etcd
            finally:
                proxy.close()
                for writer in setting.writers:
                    writer.transport.abort()
                await asyncio.sleep(0)


async def test_waiting_client_is_refused_after_the_deadline() -> None:
    async with busy() as (setting, etcd):
        setting.proxy.open(setting.hand.now + 10)
        reader, _ = await setting.client()
        setting.hand.now += 20
        etcd.accept()[0].close()
        assert await cut(reader)
        with pytest.raises(BlockingIOError):
            etcd.accept()


async def test_waiting_client_counts_as_a_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proxy_module, "MAX_CONNECTIONS", 1)
    async with busy() as (setting, etcd):
        setting.proxy.open(setting.hand.now + 10)
        _, waiting = await setting.client()
        assert await turned_away(setting)
        etcd.accept()[0].close()
        loop = asyncio.get_running_loop()
        served, _ = await within(loop.sock_accept(etcd))
        with served:
            served.setblocking(False)
            waiting.write(b"x")
            assert await within(loop.sock_recv(served, 1)) == b"x", "it has not waited in vain"
