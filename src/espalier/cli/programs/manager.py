"""`espalier manager`: the controllers against the cluster that a kubeconfig or the pod's service account names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from urllib.parse import urlsplit

import click

from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary.group import MANAGER, SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.cli.kit import flags
from espalier.cli.kit.commands import Command
from espalier.cli.kit.failures import Usage
from espalier.cli.kit.hints import hint
from espalier.cli.programs import components, processes
from espalier.cli.programs.installation import InstallReleases
from espalier.cli.programs.webhook_configurations import DASHBOARD_NAMES, SERVICE, SERVICE_NAMES
from espalier.clusters import Isolation
from espalier.clusters.observe.settling import SETTLE_TIME
from espalier.kube.connection.kubeconfig import find_access
from espalier.providers.registry import PROVIDERS
from espalier.releases import Releases
from espalier.runtime.component import assemble
from espalier.runtime.options import Options

USER_AGENT = "espalier-manager"


@click.command(cls=Command)
@processes.served_cluster
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
    help="How changes of the manager reach clusters. layers: each is rendered as for its eksaVersion, and only when "
    "it is changed; gate: as by this manager, at its next requested change; off: as by this manager, immediately.",
)
@flags.choice(
    "--in-place",
    FrontEnd.ANNOTATIONS,
    help="Keeps Cluster API from replacing machines that are upgraded in place. annotations: pauses it; "
    "hooks: serves runtime hooks to it (needs its gates RuntimeSDK and InPlaceUpdates, three control plane machines "
    "or more, and `espalier manifests --in-place hooks`).",
)
@click.option(
    "--sync-period",
    default="10h",
    metavar="TIME",
    show_default=True,
    help="Interval at which every Cluster is reconciled without an event: 90s, 5m, 1h30m.",
)
@click.option(
    "--settle-time",
    default=f"{SETTLE_TIME:g}s",
    metavar="TIME",
    show_default=True,
    help="A change of a cluster begins when the Cluster and the objects that it names have not changed for this time, "
    "so that what is written together is rolled out together: 3s, 1m; 0s: at once.",
)
@processes.leader_elect
@click.option(
    "--copy-kubeconfig/--no-copy-kubeconfig",
    default=True,
    show_default=True,
    help="Copy workload kubeconfigs to the namespaces of their Clusters.",
)
@processes.webhook_address
@click.option(
    "--hooks-url",
    default="",
    metavar="URL",
    help="https://HOST:PORT of the runtime hooks, for a manager that runs outside the cluster.",
)
@processes.webhook_names(SERVICE_NAMES)
@flags.webhook_secret
@processes.webhook_client_ca
@processes.health_address
@processes.metrics_address
@processes.dashboard_address
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
    settle_time: str,
    leader_elect: bool,
    copy_kubeconfig: bool,
    webhook_address: str,
    hooks_url: str,
    webhook_names: str,
    webhook_secret: str,
    webhook_client_ca: Path | None,
    health_address: str,
    metrics_address: str,
    dashboard_address: str,
    releases: Path | None,
    log_level: str,
) -> int:
    """Run the controllers of a management cluster, after installing `espalier manifests` there.

    \b
    Example:
      espalier manager --kubeconfig admin.kubeconfig --webhook-names 127.0.0.1
    """
    # Wrong flags end the program before anything is connected.
    resync = flags.seconds(sync_period, "--sync-period")
    if resync < 1:
        raise Usage(f"--sync-period: found {sync_period}, allowed is 1s or more")
    settles = flags.seconds(settle_time, "--settle-time")
    webhook_at = processes.address("--webhook-address", webhook_address)
    dashboard_at = processes.address("--dashboard-address", dashboard_address)
    if dashboard_at and not webhook_at:
        raise Usage(
            "--dashboard-address: the dashboard is served with the certificate of the webhooks; give --webhook-address "
            "as well"
        )
    uses_hooks = in_place is FrontEnd.HOOKS
    if uses_hooks and not webhook_at:
        raise Usage("--in-place hooks: hooks are served at the webhook address; give --webhook-address as well")
    hooks_at = _hooks_at(hooks_url)
    if webhook_secret:
        flags.check_name("--webhook-secret", webhook_secret, flags.SECRET_OF_WEBHOOKS)
    offered = Releases.load(releases)
    options = Options(tuple(controllers.split(",")), flags.namespaces(namespace), watch_filter)
    serving = AsyncExitStack()
    managed = processes.managed(
        kubeconfig=kubeconfig,
        context=context,
        user_agent=USER_AGENT,
        lease=options.lease_name(MANAGER) if leader_elect else None,
        health_address=health_address,
        metrics_address=metrics_address,
        log_level=log_level,
        options=options,
        hint=hint,
    )
    async with managed as running, serving:
        # Each replica serves webhooks. Without releases no cluster can be rendered: what could not be installed is
        # reported.
        webhooks = processes.webhooks(webhook_at, webhook_client_ca)
        if webhook_at:
            names = webhook_names.split(",")
            trusting = hooks_at if uses_hooks else None
            others = []
            if dashboard_at:
                # It renders, and loads what pages and plans need: for those who want it.
                from espalier.cli.programs import portal as portals  # noqa: PLC0415

                portal = portals.portal(find_access(kubeconfig=kubeconfig, context=context, environment=os.environ))
                await serving.enter_async_context(portal.running(*dashboard_at))
                names += DASHBOARD_NAMES
                others.append(portal.use)
            components.certify(running, webhooks, names, trusting, webhook_secret, others)
        installing = InstallReleases(running.client, running.caches, offered)
        made_of = components.of_manager(
            PROVIDERS,
            copies_kubeconfigs=copy_kubeconfig,
            isolation=isolation,
            front_end=in_place,
            resync=resync,
            settle_time=settles,
            uninstalled=installing.uninstalled,
        )
        assemble(running, made_of, webhooks=webhooks)
        running.prepare(installing)
        running.notices["releases"] = lambda: str(installing.uninstalled)
        running.metrics.uninstalled.set_function(lambda: len(installing.uninstalled))
        return await running.run(signals=True)


def _hooks_at(url: str) -> Tree:
    """Address of the hooks for Cluster API: the webhooks' Service, unless a URL is given."""
    if not url:
        return {"service": {"namespace": SYSTEM_NAMESPACE, "name": SERVICE, "port": 443}}
    if urlsplit(url).scheme != "https" or not urlsplit(url).hostname:
        raise Usage(f"--hooks-url: found {url!r}, allowed is https://HOST:PORT (Cluster API calls nothing else)")
    return {"url": url}
