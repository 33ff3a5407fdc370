"""`espalier manager`: the controllers against the cluster that a kubeconfig or the pod's service account names."""

from __future__ import annotations

import os
import random
import socket
import ssl
import uuid
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import click

from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.meta import Tree
from espalier.cli import components, flags, lasting, manifests
from espalier.cli.commands import Command
from espalier.cli.failures import Usage
from espalier.cli.hints import advice
from espalier.cli.installing import InstallReleases
from espalier.clusters import Isolation
from espalier.kube.access import Access
from espalier.kube.client import Client
from espalier.kube.http import HttpTransport
from espalier.kube.kubeconfig import find_access
from espalier.releases import Releases
from espalier.runtime import logs
from espalier.runtime.clock import Clock, SystemClock
from espalier.runtime.component import assemble
from espalier.runtime.election import Election
from espalier.runtime.election_thread import ElectionThread
from espalier.runtime.fencing import Fence
from espalier.runtime.manager import Manager
from espalier.runtime.options import Options
from espalier.runtime.remote import over_http
from espalier.runtime.webhooks import Webhooks

LEASE = "espalier-controller-manager"
USER_AGENT = "espalier-manager"


@click.command(cls=Command)
@click.option(
    "--kubeconfig",
    type=flags.FILE,
    metavar="FILE",
    help="Kubeconfig. Default: $KUBECONFIG, or the pod's service account.",
)
@click.option("--context", metavar="NAME", help="Context within the kubeconfig.")
@click.option(
    "--controllers",
    default="*",
    metavar="NAMES",
    show_default=True,
    help="Controllers to run: names separated by commas, * for all, -NAME to exclude one.",
)
@flags.watched_namespaces
@click.option(
    "--watch-filter",
    default="",
    metavar="VALUE",
    help="Only objects with this value of cluster.x-k8s.io/watch-filter.",
)
@flags.choice(
    "--isolation",
    Isolation.LAYERS,
    help="layers: unchanged clusters are left alone, and each is rendered as its own eksaVersion does it; "
    "gate: as this manager does it, from its next change on; off: always as this manager does it.",
)
@flags.choice(
    "--in-place",
    FrontEnd.ANNOTATIONS,
    help="Keeps Cluster API from replacing machines that are upgraded in place. annotations: it is paused; "
    "hooks: it calls the runtime hooks of this manager (its gates RuntimeSDK and InPlaceUpdates, three control "
    "plane machines or more, `espalier manifests --in-place hooks`).",
)
@click.option(
    "--sync-period",
    default="10h",
    metavar="TIME",
    show_default=True,
    help="Interval at which every Cluster is reconciled without an event: 90s, 5m, 1h30m.",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Act only while holding the Lease of this share.",
)
@click.option(
    "--copy-kubeconfig/--no-copy-kubeconfig",
    default=True,
    show_default=True,
    help="Copy workload kubeconfigs beside their Clusters.",
)
@click.option(
    "--webhook-address",
    default="0.0.0.0:9443",
    metavar="HOST:PORT",
    show_default=True,
    help="Listen address of the admission webhooks; 0 for none.",
)
@click.option(
    "--hooks-url",
    default="",
    metavar="URL",
    help="https://HOST:PORT of the runtime hooks, for a manager that runs outside of the cluster.",
)
@click.option(
    "--webhook-names",
    default=manifests.SERVICE_NAMES,
    metavar="NAMES",
    show_default="those of its Service",
    help="Names and addresses in the webhooks' certificate, separated by commas.",
)
@click.option(
    "--webhook-client-ca",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Serve admission reviews only to clients with a certificate of this authority (PEM); API servers get "
    "theirs by --admission-control-config-file.",
)
@click.option(
    "--health-address",
    default="0.0.0.0:8081",
    metavar="HOST:PORT",
    show_default=True,
    help="Listen address of /healthz and /readyz; 0 for none.",
)
@click.option(
    "--metrics-address",
    default="127.0.0.1:8080",
    metavar="HOST:PORT",
    show_default=True,
    help="Listen address of /metrics; 0 for none.",
)
@flags.releases
@flags.log_level(default="info")
async def manager(
    *,
    kubeconfig: Path | None,
    context: str | None,
    controllers: str,
    namespace: Sequence[str],
    watch_filter: str,
    isolation: Isolation,
    in_place: FrontEnd,
    sync_period: str,
    leader_elect: bool,
    copy_kubeconfig: bool,
    webhook_address: str,
    hooks_url: str,
    webhook_names: str,
    webhook_client_ca: Path | None,
    health_address: str,
    metrics_address: str,
    releases: Path | None,
    log_level: str,
) -> int:
    """Run the controllers on a management cluster; what it needs there comes from `espalier manifests`.

    \b
    Example:
      espalier manager --kubeconfig admin.kubeconfig --webhook-names 127.0.0.1
    """
    resync = flags.seconds(sync_period, "--sync-period")
    if resync < 1:
        raise Usage(f"--sync-period: found {sync_period}, allowed is 1s or more")
    webhook_at = _address("--webhook-address", webhook_address)
    by_hooks = in_place is FrontEnd.HOOKS
    if by_hooks and not webhook_at:
        raise Usage("--in-place hooks: Cluster API calls hooks where the webhooks are; give --webhook-address as well")
    hooks_at = _hooks_at(hooks_url)
    lasting.settle_in()
    logs.setup(level=log_level)
    offered = Releases.load(releases)
    access = find_access(kubeconfig=kubeconfig, context=context, environment=os.environ)
    clock, rng = SystemClock(), random.SystemRandom()
    options = Options(tuple(controllers.split(",")), flags.namespaces(namespace), watch_filter)
    client = Client(HttpTransport(access), field_manager="espalier", user_agent=USER_AGENT)
    election = _election(access, options.lease_name(LEASE), clock, rng) if leader_elect else None
    running = Manager(
        client,
        clock=clock,
        rng=rng,
        connect=partial(over_http, user_agent=USER_AGENT),
        options=options,
        election=election,
        health_address=_address("--health-address", health_address),
        metrics_address=_address("--metrics-address", metrics_address),
        fill_within=None,  # who ends is started again and again; who waits says for what
        advice=advice,
    )
    client_ca = _authority(webhook_client_ca) if webhook_client_ca else None
    webhooks = (
        Webhooks(host=webhook_at[0], port=webhook_at[1], client_ca=client_ca) if webhook_at else Webhooks(port=None)
    )
    if webhook_at:
        components.certify(running, webhooks, webhook_names.split(","), hooks_at if by_hooks else None)
    installing = InstallReleases(running.client, running.caches, offered)
    made_of = components.of_manager(
        copies_kubeconfigs=copy_kubeconfig,
        isolation=isolation,
        front_end=in_place,
        resync=resync,
        uninstalled=installing.uninstalled,
    )
    assemble(running, made_of, webhooks=webhooks)
    running.prepare(installing)
    running.notices["releases"] = lambda: str(installing.uninstalled)
    running.metrics.uninstalled.set_function(lambda: len(installing.uninstalled))
    try:
        return await running.run(signals=True)
    finally:
        await client.close()


def _authority(file: Path) -> bytes:
    try:
        content = file.read_bytes()
        ssl.create_default_context(cadata=content.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise Usage(f"--webhook-client-ca: {file} holds no certificate in PEM") from None
    except OSError as error:
        raise Usage(f"--webhook-client-ca: cannot read {file}: {error.strerror}") from None
    return content


def _hooks_at(url: str) -> Tree:
    """Address of the hooks for Cluster API: the webhooks' Service, unless a URL is given."""
    if not url:
        return {"service": {"namespace": SYSTEM_NAMESPACE, "name": manifests.SERVICE, "port": 443}}
    if urlsplit(url).scheme != "https" or not urlsplit(url).hostname:
        raise Usage(f"--hooks-url: found {url!r}, allowed is https://HOST:PORT (Cluster API calls nothing else)")
    return {"url": url}


def _election(access: Access, lease: str, clock: Clock, rng: random.Random) -> ElectionThread:
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
        lambda: Client(HttpTransport(access), field_manager="espalier", user_agent=USER_AGENT),
        fence,
    )


def _address(flag: str, text: str) -> tuple[str, int] | None:
    if text in ("0", ""):
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise Usage(f"{flag}: found {text!r}, allowed is HOST:PORT such as 127.0.0.1:8081, or 0 for none")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104  what an empty host means everywhere
