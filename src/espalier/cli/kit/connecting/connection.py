"""A client from flags and environment: the order in which kubeconfigs are searched."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from espalier.api.eksa.cluster import Cluster
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.text.listing import first
from espalier.api.text.printable import quoted
from espalier.cli.kit import flags
from espalier.cli.kit.connecting.announcing import Announcing
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Failure, NotReachable
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import LONGEST
from espalier.kube.client import Client
from espalier.kube.connection.access import Access
from espalier.kube.connection.kubeconfig import Kubeconfig, kubeconfig_files
from espalier.kube.discovery import Discovery
from espalier.kube.errors import KubeError, NotFound, Unreachable
from espalier.kube.transports.channel import CONNECT_SECONDS
from espalier.kube.transports.retry import Retry
from espalier.kube.transports.threaded import ThreadedTransport
from espalier.kube.transports.wire import Transport

FIELD_MANAGER = "eks-a-cli"
GARDENER = "gardener.cloud"
"""End of the names of Gardener's groups of kinds."""

MAX_REQUESTS = 4
"""At once: a further connection costs a handshake, which takes longer than the requests of a command."""

RETRY = Retry(within=CONNECT_SECONDS / 2)
"""Somebody waits: what fails at once is repeated, and an API server that is silent gets the time of one attempt."""


class Connected(msgspec.Struct, frozen=True):
    """A client, and the default namespace of commands."""

    client: Client
    namespace: str


def access_of(connection: flags.Connection, home: Home | None = None) -> Access:
    """The first that exists of `--kubeconfig`, `$KUBECONFIG`, the local environment's and `~/.kube/config`. Raises
    `NotReachable` if there is none."""
    return Kubeconfig.load(files_of(connection, home)).context(connection.context)


def files_of(connection: flags.Connection, home: Home | None = None) -> list[Path]:
    """The kubeconfig files that the flags select. Raises `NotReachable` if there is none."""
    home = home or Home.locate()
    requested = connection.kubeconfig or os.environ.get("KUBECONFIG")
    files = kubeconfig_files(connection.kubeconfig, os.environ)
    if not requested and home.kubeconfig.exists():
        files = [home.kubeconfig]
    if not requested and not any(file.exists() for file in files):
        raise NotReachable(
            f"no kubeconfig: --kubeconfig and $KUBECONFIG are not set, "
            f"and neither {home.kubeconfig} nor ~/.kube/config exists. "
            "Start the local environment with `espalier up`, or name the kubeconfig of a management cluster."
        )
    return list(files)


@asynccontextmanager
async def connect(
    connection: flags.Connection, wrap: Callable[[Transport], Transport] = lambda transport: transport
) -> AsyncIterator[Connected]:
    """A client for the API server that the flags select; closed afterwards. `wrap` is what its requests go through."""
    access = access_of(connection)
    client = Client(
        wrap(Announcing(ThreadedTransport(access, max_requests=MAX_REQUESTS), access)),
        field_manager=FIELD_MANAGER,
        user_agent="espalier-cli",
        retry=RETRY,
        on_warning=print_each_once(),
    )
    try:
        async with explaining(client):
            yield Connected(client, connection.namespace or access.namespace)
    except Unreachable as error:
        home = Home.locate()
        if files_of(connection, home) != [home.kubeconfig] or access.server not in str(error):
            raise
        raise NotReachable(f"{error}; this is the local environment: start it with `espalier up`") from error
    finally:
        await client.close()


@asynccontextmanager
async def explaining(client: Client) -> AsyncIterator[None]:
    """Raises `Failure` for a request within the block for a kind that the API server does not serve: it says what this
    API server is, and what to use instead."""
    try:
        yield
    except NotFound as error:
        if not error.is_of_kind:
            raise
        try:
            served = await Discovery(client).resources()
        except KubeError:
            raise error from None
        raise Failure(_elsewhere({entry.resource.kind: entry.resource.group for entry in served})) from error


def _elsewhere(groups: Mapping[str, str]) -> str:
    """The advice for an API server that serves these kinds, given with their groups."""
    kinds = sorted(kind for kind, group in groups.items() if group.endswith(GARDENER))
    if Shoot.resource.kind in kinds:
        return (
            f"this API server is a garden: it serves {first(kinds, 8)}, but not what this command shows. Clusters of "
            "a garden are Shoots: use `espalier shoots list -A`, `espalier shoots describe NAME`, "
            "`espalier kubeconfig --shoot NAME` and `espalier seeds list`. For Clusters, use the kubeconfig of a "
            "management cluster"
        )
    if kinds:
        return (
            f"this API server is a seed of a garden: it serves {first(kinds, 8)}, but not what this command shows. "
            "Shoots are in the garden, Clusters in a management cluster: use the kubeconfig of one of these"
        )
    if Cluster.resource.group in groups.values():
        return (
            "this management cluster lacks a kind that this command needs: apply what `espalier manifests` of this "
            "version prints"
        )
    return (
        "this API server is neither a management cluster nor a garden: use the kubeconfig of one (--kubeconfig, "
        "--context), or install what `espalier manifests` prints"
    )


def print_each_once(*, without: str = "") -> Callable[[str], None]:
    """Print each warning of the server once: it repeats those of a dry run in the write. One is expected, and left out:
    the one `without`.
    """
    printed = {without}

    def print_once(text: str) -> None:
        if text not in printed:
            output.say_wrapped(f"Warning: {quoted(text, LONGEST)}", stderr=True)
        printed.add(text)

    return print_once
