"""The API server as a process, beside a real etcd: it serves, and ends when its etcd is gone."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from espalier.api.core import CONFIG_MAP
from espalier.assets.recipes import ETCD
from espalier.etcd.credentials import TlsFiles
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority
from espalier.kube.errors import KubeError
from espalier.kube.transports.http import HttpTransport
from espalier.realnodes.management.processes import killed_with_parent
from tests.support.etcd.real_etcd import RealEtcd, built, real_etcd

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.envtest]

NOW = datetime.now(UTC)
AUTHORITY = Authority.create("all", now=NOW)
SOON = 30.0


@dataclass
class Running:
    process: asyncio.subprocess.Process
    client: Client
    folder: Path

    @property
    def log(self) -> str:
        return (self.folder / "apiserver.log").read_text()


@pytest_asyncio.fixture(loop_scope="session")
async def etcd(tmp_path: Path) -> AsyncIterator[RealEtcd]:
    """One that wants client certificates."""
    programs = built(ETCD)
    if programs is None:
        pytest.skip(f"etcd {ETCD.version} was not built: run make real-assets")
    server = AUTHORITY.issue_server("etcd", names=["localhost"], now=NOW)
    client = AUTHORITY.issue_client("kube-apiserver", now=NOW)
    for name, content in (
        ("ca.crt", AUTHORITY.certificate),
        ("server.crt", server.certificate),
        ("server.key", server.key),
        ("client.crt", client.certificate),
        ("client.key", client.key),
    ):
        (tmp_path / name).write_bytes(content)
    flags = {
        "cert-file": "server.crt",
        "key-file": "server.key",
        "client-cert-auth": "true",
        "trusted-ca-file": "ca.crt",
    }
    tls = TlsFiles(tmp_path / "ca.crt", tmp_path / "client.crt", tmp_path / "client.key")
    async with real_etcd(programs, tmp_path, flags, tls=tls) as running:
        yield running


@contextlib.asynccontextmanager
async def api_server(etcd: RealEtcd) -> AsyncIterator[Running]:
    folder = etcd.folder
    serving = AUTHORITY.issue_server("kube-apiserver", names=["127.0.0.1"], now=NOW)
    (folder / "serving.crt").write_bytes(serving.certificate)
    (folder / "serving.key").write_bytes(serving.key)
    arguments = [
        *(sys.executable, "-m", "espalier.apiserver", "--secure-port=0", "--etcd-lost-after=1"),
        f"--etcd-servers={etcd.endpoint}",
        *("--etcd-cafile=ca.crt", "--etcd-certfile=client.crt", "--etcd-keyfile=client.key"),
        *("--tls-cert-file=serving.crt", "--tls-private-key-file=serving.key", "--client-ca-file=ca.crt"),
    ]
    with (folder / "apiserver.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            *killed_with_parent(arguments), cwd=folder, stdout=asyncio.subprocess.PIPE, stderr=log
        )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(SOON):
            url = (await process.stdout.readline()).decode().strip()
        assert url, (folder / "apiserver.log").read_text()
        admin = AUTHORITY.issue_client("admin", groups=["system:masters"], now=NOW)
        kubeconfig = Kubeconfig.of_cluster(
            "it", server=url, certificate_authority=AUTHORITY.certificate, user="admin", credentials=admin
        )
        client = Client(HttpTransport(kubeconfig.context(), environment={}), user_agent="tester")
        yield Running(process, client, folder)
        await client.close()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_server_without_etcd_ends_watches_and_itself(etcd: RealEtcd) -> None:
    async with api_server(etcd) as running:
        await running.client.create(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "default"}})
        seen = asyncio.Event()

        async def watch() -> None:
            async for event in running.client.watch(CONFIG_MAP, "default", resource_version="0"):
                if event.object.name == "a":
                    seen.set()

        watching = asyncio.ensure_future(watch())
        async with asyncio.timeout(SOON):
            await seen.wait()
            etcd.freeze()
            with contextlib.suppress(KubeError):
                await watching
            assert await running.process.wait() == 3
        assert '"reason": "etcd has not answered for 1 s"' in running.log
        assert "the API server exits, because it lost etcd" in running.log
        etcd.thaw()
    async with api_server(etcd) as running:  # what a supervisor does: the objects are there
        assert (await running.client.get(CONFIG_MAP, "a", "default")).name == "a"
        running.process.terminate()
        async with asyncio.timeout(SOON):
            assert await running.process.wait() == 0


async def test_a_server_that_can_not_start_says_why(etcd: RealEtcd) -> None:
    (etcd.folder / "client.key").write_text("no key")
    with pytest.raises(AssertionError, match=r"client\.key holds no PEM key"):
        async with api_server(etcd):
            pass
