"""`espalier garden`: the controllers and webhooks of a garden, against the API server that a kubeconfig names."""

from __future__ import annotations

from pathlib import Path

import click

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Command
from espalier.cli.kit.failures import Usage
from espalier.cli.programs import garden_components, processes
from espalier.cli.programs.garden_components import SERVICE
from espalier.runtime.component import assemble
from espalier.runtime.servers.certificates import ServingCertificate
from espalier.shoots.garden.config import GardenConfig
from espalier.shoots.gardener_api.transport import GardenTransport

LEASE = "espalier-garden"
USER_AGENT = "espalier-garden"
CERTIFICATE = "espalier-garden-webhook-certificate"
SERVICE_NAMES = f"{SERVICE}.{SYSTEM_NAMESPACE}.svc,{SERVICE}.{SYSTEM_NAMESPACE}.svc.cluster.local"


@click.command(cls=Command)
@processes.served_cluster
@click.option(
    "--heartbeat-grace",
    default="40s",
    metavar="TIME",
    show_default=True,
    help="Time without Lease renewal after which a seed is not ready: no shoot moves there.",
)
@click.option(
    "--give-up-after",
    default="15m",
    metavar="TIME",
    show_default=True,
    help="Age of its Lease after which a seed counts as lost, and moves away from it no longer wait for it.",
)
@processes.leader_elect
@processes.webhook_address
@processes.webhook_names(SERVICE_NAMES)
@processes.webhook_client_ca
@processes.health_address
@processes.metrics_address
@flags.log_level(default="info")
async def garden(
    *,
    kubeconfig: Path | None,
    context: str | None,
    heartbeat_grace: str,
    give_up_after: str,
    leader_elect: bool,
    webhook_address: str,
    webhook_names: str,
    webhook_client_ca: Path | None,
    health_address: str,
    metrics_address: str,
    log_level: str,
) -> int:
    """Run the controllers of a garden, after installing `espalier manifests --of garden` there.

    They schedule new shoots to seeds, monitor the Leases of seeds, assign ownership epochs of shoots, grant gardenlets
    their permissions, and serve the admission webhooks.

    \b
    Example:
      espalier garden --kubeconfig garden.kubeconfig --webhook-names 127.0.0.1
    """
    config = config_of(heartbeat_grace, give_up_after)
    webhook_at = processes.address("--webhook-address", webhook_address)
    async with processes.managed(
        kubeconfig=kubeconfig,
        context=context,
        user_agent=USER_AGENT,
        lease=LEASE if leader_elect else None,
        health_address=health_address,
        metrics_address=metrics_address,
        log_level=log_level,
        component="garden",
        hint=garden_components.hint,
        wrap=GardenTransport,
    ) as running:
        webhooks = processes.webhooks(webhook_at, webhook_client_ca)
        if webhook_at:
            webhooks.certificate = ServingCertificate(
                running.replica_client,
                namespace=SYSTEM_NAMESPACE,
                names=webhook_names.split(","),
                validating=[garden_components.VALIDATING_WEBHOOKS],
                serve=webhooks.use,
                clock=running.clock,
                secret_name=CERTIFICATE,
            )
        assemble(running, garden_components.of_garden(config), webhooks=webhooks)
        return await running.run(signals=True)


def config_of(heartbeat_grace: str, give_up_after: str) -> GardenConfig:
    """Settings of a garden with these times. Raises `Usage`."""
    grace = flags.seconds(heartbeat_grace, "--heartbeat-grace")
    give_up = flags.seconds(give_up_after, "--give-up-after")
    least = 2 * GardenConfig().monitor_period
    if grace < least:
        raise Usage(f"--heartbeat-grace: found {heartbeat_grace}, allowed is {least:g}s or more: two checks of Leases")
    if give_up < grace:
        raise Usage(f"--give-up-after: found {give_up_after}, allowed is --heartbeat-grace ({grace:g}s) or more")
    return GardenConfig(heartbeat_grace=grace, give_up_after=give_up)
