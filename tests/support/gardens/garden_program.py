"""`espalier garden` or `espalier gardenlet` where seeds are simulated: names of a seed lead to ports of this machine.

Run as a program, with the command's words. Only connections into a seed and intervals differ from `espalier` itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from unittest import mock

import msgspec

from espalier.api.core import SECRET, Secret
from espalier.cli import main
from espalier.cli.backups import backup_reads, store_connections
from espalier.cli.backups.etcd_agent_calls import posted, session
from espalier.cli.programs import garden, gardenlet
from espalier.etcdbackup.stores.local import LocalStore
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.shoots.garden.config import GardenConfig
from espalier.shoots.gardenlet.config import GardenletConfig
from espalier.shoots.gardenlet.context import Call
from espalier.shoots.secrets.persisted import Data

VARIABLE = "ESPALIER_TEST_PLACES"
HOST = "127.0.0.1"


class Places(msgspec.Struct):
    """Where the one shoot of a seed is reached, and the buckets."""

    agent: int
    """The port of the agent of its etcd."""
    api_server: int
    buckets: str


@asynccontextmanager
async def _over_ports(places: Places) -> AsyncIterator[Call]:
    async with session() as http:

        async def call(_namespace: str, path: str, body: bytes, files: Data | None) -> bytes:
            place = f"{HOST}:{places.agent}/{path.strip('/')}"
            return await posted(http, place, body, files, server_name="localhost")

        yield call


async def _to_shoot(places: Places, seed: Client, namespace: str) -> Client:
    secret = (await seed.get(SECRET, gardenlet.SHOOT_ACCESS, namespace)).decode(Secret)
    inside = Kubeconfig.parse(secret.data["kubeconfig"]).context()
    host = inside.server.removeprefix("https://").partition(":")[0]
    reached = msgspec.structs.replace(inside, server=f"https://{HOST}:{places.api_server}", tls_server_name=host)
    return Client(HttpTransport(reached, environment={}), user_agent=gardenlet.USER_AGENT)


def _run() -> None:
    with ExitStack() as patched:

        def replaced(module: object, name: str, value: object) -> None:
            patched.enter_context(mock.patch.object(module, name, value))

        replaced(garden, "GardenConfig", partial(GardenConfig, monitor_period=1))
        if given := os.environ.get(VARIABLE):
            places = msgspec.json.decode(given, type=Places)

            async def connect(place: str) -> str:
                return await store_connections.to_folder(Path(places.buckets) / place.removeprefix("file:///"))

            reads = backup_reads.through(
                lambda url, _given: LocalStore(Path(places.buckets) / url.removeprefix("file:///"))
            )
            quick = partial(GardenletConfig, heartbeat=1, agent_poll=0.5, dns_ttl=1, nodes_timeout=2)
            replaced(gardenlet, "GardenletConfig", quick)
            replaced(gardenlet, "over_http", partial(_over_ports, places))
            replaced(gardenlet, "to_shoot", partial(_to_shoot, places))
            replaced(backup_reads, "over_network", reads)
            replaced(store_connections, "over_network", connect)
        sys.argv[0] = "espalier"
        main.main()


if __name__ == "__main__":
    _run()
