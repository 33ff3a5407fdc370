"""`espalier kubeconfig NAME`: the way into a workload cluster."""

from __future__ import annotations

import click

from espalier.api.core import SECRET, Secret
from espalier.cli import connection, flags, output
from espalier.cli.commands import Command
from espalier.cli.failures import Failure
from espalier.kube.errors import NotFound


@click.command(cls=Command)
@click.argument("name", help="Name of the cluster.")
@flags.connection
async def kubeconfig(name: str, *, connect: flags.Connection) -> None:
    """Print the kubeconfig of a workload cluster.

    \b
    Example:
      espalier kubeconfig garden > garden.kubeconfig
    """
    async with connection.connect(connect) as connected:
        try:
            secret = await connected.client.get(SECRET, f"{name}-kubeconfig", connected.namespace)
        except NotFound:
            raise Failure(
                f"there is no Secret {name}-kubeconfig in namespace {connected.namespace}: "
                "the cluster does not exist there, "
                "or its control plane is not initialized yet (`espalier get clusters -A` tells)"
            ) from None
        output.write_data(secret.decode(Secret).data["value"].decode())
