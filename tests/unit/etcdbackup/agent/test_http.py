"""The agent over HTTP: paths, methods and answers as those who know etcd-backup-restore expect them."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from espalier.etcdbackup.agent import serving
from espalier.etcdbackup.agent.http import application
from espalier.etcdbackup.agent.serving import ServerFiles
from espalier.etcdbackup.snapshots.names import Compression, Kind, Snapshot
from espalier.etcdbackup.snapshots.sets import StoredSnapshot
from espalier.etcdbackup.snapshotter.measures import Measures
from espalier.etcdbackup.snapshotter.requests import Inactive
from espalier.etcdbackup.stores.errors import Unavailable
from espalier.etcdbackup.stores.memory import MemoryStore
from espalier.runtime.clock import SystemClock
from espalier.runtime.servers.serving import HttpServer
from tests.support.etcd.agent_certificates import certificates
from tests.support.etcd.backups import delta, full, put
from tests.support.waiting import eventually

TAKEN = Snapshot(Kind.FULL, 0, 9002, 1_565_021_494, Compression.GZIP, True)


class Recorder:
    """Takes no snapshots, and remembers what was asked for."""

    def __init__(self, error: Exception | None = None, *, hangs: bool = False) -> None:
        self.asked: list[str] = []
        self.error, self.hangs = error, hangs

    async def full(self, *, is_final: bool = False) -> StoredSnapshot:
        await self._done(f"full final={is_final}")
        return StoredSnapshot(TAKEN, TAKEN.key, 5)

    async def delta(self) -> StoredSnapshot | None:
        await self._done("delta")
        return None

    async def _done(self, what: str) -> None:
        self.asked.append(what)
        if self.hangs:
            await asyncio.Event().wait()
        if self.error is not None:
            raise self.error


@asynccontextmanager
async def served(
    recorder: Recorder,
    store: MemoryStore | None = None,
    trouble: Callable[[], str] = lambda: "",
    context: ssl.SSLContext | None = None,
    files: ServerFiles | None = None,
) -> AsyncIterator[int]:
    store = store or MemoryStore(SystemClock())
    routes = application(recorder, store, Measures(), trouble, timeout=0.2 if recorder.hangs else 10)
    server = HttpServer(routes, "127.0.0.1", 0, context=serving.secured(routes, files) or context)
    await server.start()
    try:
        yield server.port
    finally:
        await server.stop()


async def asked(port: int, path: str, method: str = "GET", **options: Any) -> tuple[int, Any]:
    scheme = "https" if "ssl" in options else "http"
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, f"{scheme}://127.0.0.1:{port}{path}", **options) as response,
    ):
        is_json = response.content_type == "application/json"
        return response.status, await response.json() if is_json else await response.text()


async def test_full_snapshot_is_answered_as_by_etcdbrctl() -> None:
    recorder = Recorder()
    async with served(recorder) as port:
        expected = {
            "createdOn": "2019-08-05T16:11:34Z", "kind": "Full", "snapDir": "", "prefix": "v2",
            "snapName": "Full-00000000-00009002-1565021494.gz.final", "compressionSuffix": ".gz",
            "startRevision": 0, "lastRevision": 9002, "isChunk": False, "isFinal": True,
        }  # fmt: skip
        for method in ("GET", "POST"):
            assert await asked(port, "/snapshot/full?final=true", method) == (200, expected)
        assert await asked(port, "/snapshot/delta", "POST") == (200, None)
        assert recorder.asked == ["full final=True", "full final=True", "delta"]


@pytest.mark.parametrize("method", ["HEAD", "PUT", "DELETE", "PATCH"])
async def test_other_methods_take_nothing(method: str) -> None:
    recorder = Recorder()
    async with served(recorder) as port:
        status, _ = await asked(port, "/snapshot/full", method)
        assert (status, recorder.asked) == (405, [])


async def test_a_flag_that_is_none_is_refused_and_named() -> None:
    recorder = Recorder()
    async with served(recorder) as port:
        status, message = await asked(port, "/snapshot/full?final=perhaps")
        assert (status, message) == (400, "final: found 'perhaps', allowed are true and false\n")
        assert not recorder.asked


@pytest.mark.parametrize(
    ("error", "status"),
    [(Inactive("no snapshots are taken: etcd is away"), 503), (Unavailable("s3://a/b", "no answer"), 500)],
)
async def test_errors_are_answered_with_their_sentence(error: Exception, status: int) -> None:
    async with served(Recorder(error)) as port:
        assert await asked(port, "/snapshot/full") == (status, f"{error}\n")


async def test_nobody_waits_for_ever() -> None:
    async with served(Recorder(hangs=True)) as port:
        status, message = await asked(port, "/snapshot/full")
        assert (status, message) == (504, "it did not finish within 0.2 s; it may still finish\n")


async def test_the_latest_set_is_that_of_the_store() -> None:
    store = MemoryStore(SystemClock())
    async with served(Recorder(), store) as port:
        assert await asked(port, "/snapshot/latest") == (200, {"fullSnapshot": None, "deltaSnapshots": []})
        await put(store, full(10, 0), delta(11, 20, 60), full(20, 100), delta(21, 25, 160), delta(26, 30, 220))
        _, latest = await asked(port, "/snapshot/latest")
        assert latest["fullSnapshot"]["lastRevision"] == 20
        assert [delta_snapshot["startRevision"] for delta_snapshot in latest["deltaSnapshots"]] == [21, 26]


async def test_health_says_why_not() -> None:
    messages = ["etcd has revision 1, and its backups lead to 120"]
    async with served(Recorder(), trouble=lambda: messages[0]) as port:
        assert await asked(port, "/healthz") == (503, {"health": False, "message": messages[0]})
        messages[0] = ""
        assert await asked(port, "/healthz") == (200, {"health": True})


@pytest.mark.demand(G68="with client certificates")
async def test_only_who_shows_a_certificate_is_answered(tmp_path: Path) -> None:
    files, client = certificates(tmp_path)
    (tmp_path / "stranger").mkdir()
    certificates(tmp_path / "stranger")
    recorder = Recorder()
    async with served(recorder, files=files) as port:
        trusting = ssl.create_default_context(cafile=tmp_path / "ca.crt")
        for path in ("/snapshot/full", "/snapshot/latest", "/metrics", "/none", "//healthz", "/healthz/../metrics"):
            status, text = await asked(port, path, ssl=trusting)
            assert (status, "present a certificate" in text) == (403, True), path
        assert (await asked(port, "/healthz", ssl=trusting))[0] == 200, "kubelets have none"
        stranger = ssl.create_default_context(cafile=tmp_path / "ca.crt")
        stranger.load_cert_chain(tmp_path / "stranger" / "client.crt", tmp_path / "stranger" / "client.key")
        with pytest.raises(aiohttp.ClientError):
            await asked(port, "/snapshot/full", ssl=stranger)
        assert not recorder.asked
        trusting.load_cert_chain(client / "client.crt", client / "client.key")
        status, _ = await asked(port, "/snapshot/full", ssl=trusting)
        assert (status, len(recorder.asked)) == (200, 1)


async def test_unfit_certificate_leaves_the_former(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "RELOAD", 0.01)
    files, client = certificates(tmp_path)
    context = files.context()
    trusting = ssl.create_default_context(cafile=tmp_path / "ca.crt")
    trusting.load_cert_chain(client / "client.crt", client / "client.key")
    async with served(Recorder(), context=context) as port:
        reloading = asyncio.create_task(files.reloading(context))
        await asyncio.sleep(0)
        with capture_logs() as logs:
            files.certificate.write_bytes((client / "client.crt").read_bytes())
            await eventually(lambda: [entry for entry in logs if entry["event"] == "keeping the old certificates"])
        assert (await asked(port, "/healthz", ssl=trusting))[0] == 200
        reloading.cancel()


async def test_exchanged_authority_is_the_only_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "RELOAD", 0.01)
    (tmp_path / "later").mkdir()
    files, client = certificates(tmp_path)
    _, later = certificates(tmp_path / "later")
    context = files.context()
    old, new = (ssl.create_default_context(cafile=tmp_path / "ca.crt") for _ in range(2))
    old.load_cert_chain(client / "client.crt", client / "client.key")
    new.load_cert_chain(later / "client.crt", later / "client.key")
    async with served(Recorder(), context=context) as port:
        reloading = asyncio.create_task(files.reloading(context))
        assert (await asked(port, "/healthz", ssl=old))[0] == 200
        assert files.client_authority is not None
        files.client_authority.write_bytes((later / "ca.crt").read_bytes())

        async def is_refused() -> bool:
            try:
                await asked(port, "/healthz", ssl=old)
            except aiohttp.ClientError:
                return True
            return False

        await eventually(is_refused)
        assert (await asked(port, "/healthz", ssl=new))[0] == 200
        reloading.cancel()


def test_certificates_that_do_not_fit_are_named(tmp_path: Path) -> None:
    files, _ = certificates(tmp_path)
    other = ServerFiles(files.certificate, tmp_path / "client.key")
    with pytest.raises(ValueError, match=r"server\.crt and .*client\.key"):
        other.context()
    with pytest.raises(ValueError, match=r"missing\.crt"):
        ServerFiles(tmp_path / "missing.crt", files.key).context()
