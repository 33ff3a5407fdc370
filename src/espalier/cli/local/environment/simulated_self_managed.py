"""The environment of a management cluster on simulated machines."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from espalier.api.eksa.vocabulary.group import BOOTSTRAP, SYSTEM_NAMESPACE
from espalier.cli.kit.connecting.home import Home
from espalier.cli.local.environment.self_managed import SelfManagedEnvironment
from espalier.cli.local.environment.simulated import machines_of, management_side
from espalier.releases import Releases


@asynccontextmanager
async def simulated_self_managed(
    home: Home, *, port: int, boot_seconds: float, releases: Releases
) -> AsyncIterator[SelfManagedEnvironment]:
    """Start the machines, and the bootstrap if it is wanted; or delete what a removed one left.

    Raises as `SimulatedEnvironment.run`.
    """
    home.create()
    async with machines_of(home, boot_seconds, releases) as hosts:
        side = partial(management_side, home, hosts, port=port, releases=releases, name=BOOTSTRAP)
        running = hosts.workloads.running(SYSTEM_NAMESPACE)
        url = running[0].served.url if running else ""
        async with SelfManagedEnvironment(home, side, partial(_delete_data, home), url).run() as environment:
            yield environment


def _delete_data(home: Home) -> None:
    shutil.rmtree(home.authority, ignore_errors=True)
    for suffix in ("-wal", "-shm", ""):
        home.database.with_name(home.database.name + suffix).unlink(missing_ok=True)
