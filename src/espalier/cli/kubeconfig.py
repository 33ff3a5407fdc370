"""`espalier kubeconfig NAME`: the way into a workload cluster."""

from __future__ import annotations

import sys
from typing import Annotated

from cyclopts import App, Parameter

from espalier.api.core import SECRET, Secret
from espalier.cli import connection, flags
from espalier.cli.failures import Failure
from espalier.kube.errors import NotFound


def register(app: App) -> None:
    """Add the command to the program."""
    app.command(kubeconfig)


async def kubeconfig(
    name: Annotated[str, Parameter(help="Name of the cluster.")],
    *,
    connect: flags.Connection = flags.Connection(),  # noqa: B008  frozen
) -> None:
    """Print the kubeconfig of a workload cluster.

    Example: `espalier kubeconfig garden > garden.kubeconfig`
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
        sys.stdout.write(secret.decode(Secret).data["value"].decode())
