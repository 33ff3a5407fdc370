"""`espalier garden` and `espalier gardenlet` as processes, with the rights that `espalier manifests` gives them."""

from __future__ import annotations

import asyncio
import random
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from espalier.api import core
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.gardener.garden.backups import BackupBucket
from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.names import SEED_LEASES
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.apiserver.access.webhook_calls import HttpWebhooks
from espalier.apiserver.http import HttpShell
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.install import garden_manifests
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority
from espalier.kube.errors import Invalid, KubeError
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.shoots.admission.users import SEEDS
from espalier.shoots.garden.roles import USER
from tests.support.gardens import manifests
from tests.support.servers.ports import free_port
from tests.support.waiting import eventually


@dataclass(frozen=True)
class Served:
    """An API server at a port."""

    client: Client
    authority: Authority
    url: str
    folder: Path

    def kubeconfig(self, user: str, *groups: str) -> Path:
        credentials = self.authority.issue_client(user, groups=groups, now=datetime.now(UTC))
        made = Kubeconfig.of_cluster(
            "it",
            server=self.url,
            certificate_authority=self.authority.certificate,
            user=user,
            credentials=credentials,
        )
        file = self.folder / f"{user.rpartition(':')[2]}.kubeconfig"
        file.write_bytes(made.to_bytes())
        return file

    def of_account(self, name: str) -> Path:
        return self.kubeconfig(f"system:serviceaccount:{SYSTEM_NAMESPACE}:{name}", "system:serviceaccounts")

    async def apply(self, trees: Sequence[Tree]) -> None:
        await manifests.apply(self.client, trees)


@asynccontextmanager
async def served(folder: Path) -> AsyncIterator[Served]:
    folder.mkdir()
    now = datetime.now(UTC)
    authority, webhooks = Authority.create("kubernetes", now=now), HttpWebhooks()
    server = Server(MemoryStore(), now=lambda: datetime.now(UTC), random=random.Random(1), call_webhook=webhooks)
    serving = authority.issue_server("kube-apiserver", names=["127.0.0.1"], now=now)
    shell = HttpShell(server, serving=serving, client_ca=authority.certificate)
    await server.start()
    await shell.start()
    try:
        yield Served(Client(InProcessTransport(server)), authority, shell.url, folder)
    finally:
        await shell.stop()
        await server.close()
        await webhooks.close()


@asynccontextmanager
async def running(*words: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that has to end in order on SIGTERM."""
    silent = ("--health-address", "0", "--metrics-address", "0", "--log-level", "error")
    process = await asyncio.create_subprocess_exec(sys.executable, "-m", "espalier.cli", *words, *silent)
    try:
        yield process
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.demand(G34="garden and gardenlet as processes that admit and refuse")
async def test_a_garden_and_a_gardenlet_meet_as_processes(tmp_path: Path) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with served(tmp_path / "garden") as garden, served(tmp_path / "seed") as seed:
        await garden.apply(garden_manifests.of_garden(f"https://{address}"))
        await seed.apply(garden_manifests.of_seed())
        secret = {"name": "backup-west", "namespace": "garden"}
        await garden.client.create(core.SECRET, {"metadata": secret, "stringData": {"key": "value"}})
        in_garden = garden.of_account("espalier-garden")
        webhooks = ("--webhook-address", address, "--webhook-names", "127.0.0.1")
        as_west = garden.kubeconfig(USER.format(seed="west"), SEEDS)
        in_seed = seed.of_account("espalier-gardenlet")
        async with (
            running("garden", "--kubeconfig", str(in_garden), *webhooks),
            running("gardenlet", "--seed", "west", "--kubeconfig", str(in_seed), "--garden-kubeconfig", str(as_west)),
        ):
            backup = {"provider": "local", "credentialsRef": secret}
            spec = {"provider": {"type": "local"}, "backup": backup}
            await eventually(lambda: is_created(garden, spec))
            await eventually(lambda: has(garden, BackupBucket.resource))
            await eventually(lambda: has(garden, core.LEASE, SEED_LEASES))
            await eventually(lambda: is_refused(garden))


async def has(garden: Served, resource: Resource, namespace: str | None = None) -> bool:
    return bool((await garden.client.list(resource, namespace)).items)


async def is_created(garden: Served, spec: Tree) -> bool:
    """The garden's admission answers, and takes the Seed."""
    try:
        await garden.client.create(Seed.resource, {"metadata": {"name": "west"}, "spec": spec})
    except Invalid:
        raise
    except KubeError:
        return False  # it does not serve yet
    return True


async def is_refused(garden: Served) -> bool:
    """The garden's admission says why a shoot can't be where it shall be."""
    spec = {"provider": {"type": "local"}, "seedName": "nowhere"}
    body = {"metadata": {"name": "apple", "namespace": "garden"}, "spec": spec}
    try:
        await garden.client.create(Shoot.resource, body)
    except Invalid as refusal:
        return "spec.seedName: there is no such seed" in str(refusal)
    except KubeError:
        return False  # its webhooks are not trusted yet
    raise AssertionError("the Shoot was made")
