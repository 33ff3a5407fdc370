"""Shared by the programs that run controllers: where they serve, how they are elected, and the flags for both."""

from __future__ import annotations

import os
import random
import socket
import ssl
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.cli.kit import flags
from espalier.cli.kit.failures import Usage
from espalier.cli.kit.process_tuning import tune
from espalier.kube.client import Client
from espalier.kube.connection.access import Access
from espalier.kube.connection.kubeconfig import find_access
from espalier.kube.connection.tls import trust
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.wire import Transport
from espalier.runtime import logs
from espalier.runtime.clock import Clock, SystemClock
from espalier.runtime.leadership.election import Election
from espalier.runtime.leadership.election_thread import ElectionThread
from espalier.runtime.leadership.fencing import Fence
from espalier.runtime.manager import Hint, Manager
from espalier.runtime.options import Options
from espalier.runtime.servers.webhooks import Webhooks
from espalier.runtime.workload_clusters.remote import over_http

Decorated = TypeVar("Decorated", bound=Callable[..., Any])


def served_cluster(command: Decorated) -> Decorated:
    """`--kubeconfig` and `--context`, for a program that may also run in a pod."""
    kubeconfig = click.option(
        "--kubeconfig",
        type=flags.FILE,
        metavar="FILE",
        help="Kubeconfig. Default: $KUBECONFIG, or the pod's service account.",
    )
    return kubeconfig(click.option("--context", metavar="NAME", help="Context within the kubeconfig.")(command))


leader_elect = click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Act only while holding the leader election Lease.",
)

webhook_address = click.option(
    "--webhook-address",
    default="0.0.0.0:9443",
    metavar="HOST:PORT",
    show_default=True,
    help="Listen address of the admission webhooks; 0 for none.",
)


def webhook_names(default: str) -> Callable[[Decorated], Decorated]:
    """`--webhook-names`."""
    return click.option(
        "--webhook-names",
        default=default,
        metavar="NAMES",
        show_default="those of its Service",
        help="Names and addresses in the webhooks' certificate, separated by commas.",
    )


webhook_client_ca = click.option(
    "--webhook-client-ca",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Serve admission reviews only to clients with a certificate from this CA (PEM); API servers get "
    "theirs from --admission-control-config-file.",
)

health_address = click.option(
    "--health-address",
    default="0.0.0.0:8081",
    metavar="HOST:PORT",
    show_default=True,
    help="Listen address of /healthz and /readyz; 0 for none.",
)

metrics_address = click.option(
    "--metrics-address",
    default="127.0.0.1:8080",
    metavar="HOST:PORT",
    show_default=True,
    help="Listen address of /metrics; 0 for none.",
)


dashboard_address = click.option(
    "--dashboard-address",
    default="0",
    metavar="HOST:PORT",
    show_default="none",
    help="Listen address of the dashboard, for whoever has a token of the API server; 0 for none. It is served over "
    "TLS, with the webhooks' certificate.",
)


@asynccontextmanager
async def managed(
    *,
    kubeconfig: Path | None,
    context: str | None,
    user_agent: str,
    field_manager: str = "espalier",
    lease: str | None,
    health_address: str,
    metrics_address: str,
    log_level: str,
    hint: Hint,
    options: Options | None = None,
    component: str = "espalier",
    wrap: Callable[[Transport], Transport] = lambda transport: transport,
) -> AsyncIterator[Manager]:
    """The manager of a program, not yet running, for the cluster that its flags name; the connection ends with the
    block. Without a `lease` it acts without being elected. `wrap` is what its requests go through. Raises `Usage`, and
    what `find_access` raises."""
    health, metrics = address("--health-address", health_address), address("--metrics-address", metrics_address)
    tune()
    logs.setup(level=log_level)
    access = find_access(kubeconfig=kubeconfig, context=context, environment=os.environ)
    clock, rng = SystemClock(), random.SystemRandom()
    client = Client(wrap(HttpTransport(access)), field_manager=field_manager, user_agent=user_agent)
    try:
        yield Manager(
            client,
            clock=clock,
            rng=rng,
            connect=partial(over_http, user_agent=user_agent),
            options=options,
            election=election(access, lease, user_agent, clock, rng) if lease else None,
            health_address=health,
            metrics_address=metrics,
            component=component,
            fill_within=None,  # a process that exits is restarted again and again; one that waits reports for what
            hint=hint,
        )
    finally:
        await client.close()


def webhooks(at: tuple[str, int] | None, client_ca: Path | None) -> Webhooks:
    """Webhooks that are served at this address; None serves nothing. Raises `Usage`."""
    authorities = authority(client_ca) if client_ca else None
    return Webhooks(host=at[0], port=at[1], client_ca=authorities) if at else Webhooks(port=None)


def authority(file: Path) -> bytes:
    """The authority of --webhook-client-ca. Raises `Usage`."""
    try:
        content = file.read_bytes()
        trust(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), content)
    except (ssl.SSLError, ValueError):
        raise Usage(f"--webhook-client-ca: {file} contains no PEM certificate") from None
    except OSError as error:
        raise Usage(f"--webhook-client-ca: cannot read {file}: {error.strerror}") from None
    return content


def address(flag: str, text: str) -> tuple[str, int] | None:
    """Host and port to listen on; None for nothing. Raises `Usage`."""
    if text in ("0", ""):
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise Usage(f"{flag}: found {text!r}, allowed is HOST:PORT such as 127.0.0.1:8081, or 0 for none")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104  what an empty host means everywhere


def election(access: Access, lease: str, user_agent: str, clock: Clock, rng: random.Random) -> ElectionThread:
    """The election by a Lease in the system's namespace, in its own thread."""
    fence = Fence(clock.monotonic)
    identity = f"{socket.gethostname()}_{uuid.uuid4()}"
    return ElectionThread(
        lease,
        lambda client, alive: Election(
            client,
            namespace=SYSTEM_NAMESPACE,
            name=lease,
            identity=identity,
            fence=fence,
            clock=clock,
            rng=rng,
            alive=alive,
        ),
        lambda: Client(HttpTransport(access), field_manager="espalier", user_agent=user_agent),
        fence,
    )
