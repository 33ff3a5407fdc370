"""A client from flags and environment: the order in which kubeconfigs are searched."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from espalier.api.printable import in_one_line
from espalier.cli import flags, output
from espalier.cli.failures import NotReachable
from espalier.cli.home import Home
from espalier.kube.access import Access
from espalier.kube.client import Client
from espalier.kube.kubeconfig import Kubeconfig, kubeconfig_files
from espalier.kube.threaded import ThreadedTransport

FIELD_MANAGER = "eks-a-cli"
MAX_REQUESTS = 4
"""At once: a further connection costs a handshake, which takes longer than the requests of a command."""


class Connected(msgspec.Struct, frozen=True):
    """A client, and the default namespace of commands."""

    client: Client
    namespace: str


def access_of(connection: flags.Connection, home: Home | None = None) -> Access:
    """The first that exists of `--kubeconfig`, `$KUBECONFIG`, the local environment's and `~/.kube/config`. Raises
    `NotReachable` if there is none."""
    home = home or Home.locate()
    asked = connection.kubeconfig or os.environ.get("KUBECONFIG")
    files = kubeconfig_files(connection.kubeconfig, os.environ)
    if not asked and home.kubeconfig.exists():
        files = [home.kubeconfig]
    if not asked and not any(file.exists() for file in files):
        raise NotReachable(
            f"no kubeconfig: --kubeconfig and $KUBECONFIG are not set, "
            f"and neither {home.kubeconfig} nor ~/.kube/config exists. "
            "Start the local environment with `espalier up`, or name the kubeconfig of a management cluster."
        )
    return Kubeconfig.load(files).context(connection.context)


@asynccontextmanager
async def connect(connection: flags.Connection) -> AsyncIterator[Connected]:
    """A client for the API server that the flags select; closed afterwards."""
    access = access_of(connection)
    client = Client(
        ThreadedTransport(access, max_requests=MAX_REQUESTS),
        field_manager=FIELD_MANAGER,
        user_agent="espalier-cli",
        on_warning=_print_each_once(),
    )
    try:
        yield Connected(client, connection.namespace or access.namespace)
    finally:
        await client.close()


def _print_each_once() -> Callable[[str], None]:
    """Print each warning of the server once: it repeats those of a dry run in the write."""
    printed: set[str] = set()

    def print_once(text: str) -> None:
        if text not in printed:
            output.say(f"Warning: {in_one_line(text)}", stderr=True)
        printed.add(text)

    return print_once
