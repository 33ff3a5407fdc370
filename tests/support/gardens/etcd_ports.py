"""How a shoot's API server reaches its etcd, and a shoot of an earlier gardenlet, whose etcd had no TLS for clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import NamedTuple

import pytest

from espalier.api.core import DEPLOYMENT, POD
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary.metadata_keys import OPERATION, PLAIN_CLIENTS
from espalier.api.meta import Tree
from espalier.cli.local.environment.garden.migration_scenario import GARDEN_NAMESPACE, NAME, TECHNICAL_ID
from espalier.kube.client import Client, PatchType
from espalier.shoots.secrets import peers


class Port(NamedTuple):
    """The port of an etcd for clients, as it is rendered, and who uses it."""

    demands_certificates: bool
    takes_plain: bool
    server: str
    """The scheme with which the API server calls it."""


PLAIN, SECURE = Port(False, True, "http"), Port(True, False, "https")


def of_an_earlier_gardenlet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have gardenlets render etcds whose clients present nothing, until that is undone."""
    monkeypatch.setattr(peers, "has_clients", lambda _data: False)


async def port_in(seed: Client) -> Port:
    """The port of the shoot's etcd in a seed."""
    etcd = (await seed.get(Etcd.resource, "etcd-main", TECHNICAL_ID)).decode(Etcd)
    takes_plain = not etcd.client_secret or etcd.metadata.annotations.get(PLAIN_CLIENTS) == "true"
    deployment = await seed.get(DEPLOYMENT, "kube-apiserver", TECHNICAL_ID)
    return Port(bool(etcd.client_secret), takes_plain, _scheme(deployment.tree["spec"]["template"]))


async def pods_are(seed: Client, port: Port) -> bool:
    """True if no pod is left that is of another port."""
    pods = (await seed.list(POD, TECHNICAL_ID)).items
    schemes = {_scheme(pod.tree) for pod in pods if pod.name.startswith("kube-apiserver")}
    sockets = {
        ("--etcd-socket=/run/etcd/clients.sock" in command, any(word.startswith("--plain-socket") for word in command))
        for pod in pods
        if pod.name.startswith("etcd-main")
        for command in [pod.tree["spec"]["containers"][0]["command"]]
    }
    guard = (port.demands_certificates, port.demands_certificates and port.takes_plain)
    return await port_in(seed) == port and schemes == {port.server} and sockets == {guard}


def _scheme(pod: Tree) -> str:
    words: list[str] = pod["spec"]["containers"][0]["args"]
    return next(word for word in words if word.startswith("--etcd-servers=")).split("=")[1].partition(":")[0]


async def reconcile(garden: Client) -> None:
    """Ask for a reconcile of the shoot."""
    patch = {"metadata": {"annotations": {OPERATION: "reconcile"}}}
    await garden.patch(Shoot.resource, NAME, GARDEN_NAMESPACE, patch=patch, type=PatchType.MERGE)


@asynccontextmanager
async def ports_seen(seed: Client, every: float) -> AsyncIterator[list[Port]]:
    """All ports that there are in a seed within the block, in their order."""
    seen: list[Port] = []

    async def look() -> None:
        while True:
            port = await port_in(seed)
            if port not in seen[-1:]:
                seen.append(port)
            await asyncio.sleep(every)

    task = asyncio.create_task(look())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
