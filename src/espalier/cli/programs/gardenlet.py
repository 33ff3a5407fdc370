"""`espalier gardenlet --seed NAME`: runs shoots' control planes in one seed, as the garden requests."""

from __future__ import annotations

from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path

import click

from espalier.api.core import SECRET, Secret
from espalier.cli.backups import backup_reads, store_connections
from espalier.cli.backups.election_times import read_times
from espalier.cli.backups.etcd_agent_calls import over_http
from espalier.cli.kit import distribution, flags
from espalier.cli.kit.commands import Command
from espalier.cli.kit.connecting.own_user import own_user
from espalier.cli.kit.failures import Failure
from espalier.cli.programs import garden_components, processes
from espalier.cli.shoots.shoot_apis import ConnectedShootAPIs
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import KubeError
from espalier.kube.transports.http import HttpTransport
from espalier.runtime.component import assemble
from espalier.shoots.admission.users import SEED_USER, SEEDS, seed_of
from espalier.shoots.gardener_api.transport import GardenTransport
from espalier.shoots.gardenlet.config import GardenletConfig

USER_AGENT = "espalier-gardenlet"
LEASE = "espalier-gardenlet"
SHOOT_ACCESS = "gardenlet"
"""The Secret in a shoot's namespace with the kubeconfig with which its gardenlet lists nodes."""


@click.command(cls=Command)
@click.option("--seed", required=True, metavar="NAME", help="Name of the Seed in the garden.")
@processes.served_cluster
@click.option(
    "--garden-kubeconfig",
    type=flags.FILE,
    required=True,
    metavar="FILE",
    help="Kubeconfig of the garden, as user gardener.cloud:system:seed:NAME of group gardener.cloud:system:seeds.",
)
@click.option(
    "--timing",
    type=flags.FILE,
    metavar="FILE",
    help="Timing of migrations (YAML or JSON), the same for all seeds of a garden. Default: as in docs/migration.md.",
)
@click.option(
    "--domain",
    default="internal.example.com",
    metavar="DOMAIN",
    show_default=True,
    help="Parent domain of shoots' API servers.",
)
@click.option("--dns-type", default="", metavar="TYPE", help="Type of their DNSRecords. Default: none are created.")
@processes.leader_elect
@processes.health_address
@processes.metrics_address
@flags.log_level(default="info")
async def gardenlet(
    *,
    seed: str,
    kubeconfig: Path | None,
    context: str | None,
    garden_kubeconfig: Path,
    timing: Path | None,
    domain: str,
    dns_type: str,
    leader_elect: bool,
    health_address: str,
    metrics_address: str,
    log_level: str,
) -> int:
    """Run the gardenlet of a seed, with its Etcd controller and the synchronization of ShootStates.

    First install `espalier manifests --of seed` in the seed. `espalier garden` grants the permissions in the garden.

    \b
    Example:
      espalier gardenlet --seed a --kubeconfig a.yaml --garden-kubeconfig g.yaml
    """
    config = GardenletConfig(
        seed, timing=read_times(timing), domain=domain, dns_type=dns_type, version=distribution.version()
    )
    async with AsyncExitStack() as stack:
        running = await stack.enter_async_context(
            processes.managed(
                kubeconfig=kubeconfig,
                context=context,
                user_agent=USER_AGENT,
                field_manager="gardenlet",
                lease=LEASE if leader_elect else None,
                health_address=health_address,
                metrics_address=metrics_address,
                log_level=log_level,
                component="gardenlet",
                hint=garden_components.hint,
            )
        )
        to_garden = Client(
            GardenTransport(HttpTransport(Kubeconfig.load([garden_kubeconfig]).context())),
            field_manager="gardenlet",
            user_agent=f"{USER_AGENT}/{seed}",
        )
        stack.push_async_callback(to_garden.close)
        await check_user(to_garden, seed)
        call = await stack.enter_async_context(over_http())
        made = garden_components.of_gardenlet(
            config,
            to_garden=to_garden,
            call=call,
            read_backup=backup_reads.over_network,
            connect=store_connections.over_network,
            shoots=ConnectedShootAPIs(partial(to_shoot, running.client)),
        )
        assemble(running, made)
        return await running.run(signals=True)


async def check_user(garden: Client, seed: str) -> None:
    """Raises `Failure` if the kubeconfig of the garden is that of a gardenlet, but not of this seed's: it would be
    refused whatever it reads or writes. While the garden does not answer, its controllers say so."""
    with suppress(KubeError):
        user = await own_user(garden)
        if user.name.startswith(SEED_USER) and seed_of(user) != seed:
            groups = ", ".join(user.groups)
            raise Failure(
                f"--garden-kubeconfig: found user {user.name} of groups {groups}, allowed with --seed {seed}: user "
                f"{SEED_USER}{seed} of group {SEEDS}; give the name of that seed, or its own kubeconfig"
            )


async def to_shoot(seed: Client, namespace: str) -> Client:
    """A client of the shoot whose control plane is in this namespace of the seed. Raises `KubeError`."""
    secret = (await seed.get(SECRET, SHOOT_ACCESS, namespace)).decode(Secret)
    inside = Kubeconfig.parse(secret.data["kubeconfig"]).context()
    return Client(HttpTransport(inside), user_agent=USER_AGENT)
