"""`espalier demo`: a cluster is created, used, scaled, upgraded and deleted, with output for each step."""

from __future__ import annotations

import asyncio
import copy
import shlex
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from espalier.api.capi.cluster import CLUSTER_NAME_LABEL
from espalier.api.core import NODE, SECRET, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key, Resource
from espalier.cli.clusters.manifests import documents
from espalier.cli.clusters.reports import waiting
from espalier.cli.kit import flags, process_tuning, shown_commands
from espalier.cli.kit.commands import Command
from espalier.cli.kit.connecting.connection import FIELD_MANAGER
from espalier.cli.kit.connecting.home import Home
from espalier.cli.kit.failures import Failure, Usage
from espalier.cli.kit.printing import output, tables
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.kit.printing.tables import Selection
from espalier.cli.local.demo_folder import demo_folder
from espalier.clusterapi.kubernetes_versions import minor
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.objects import Object
from espalier.kube.transports.http import HttpTransport
from espalier.providers.kinds import CLUSTER_API_KINDS
from espalier.releases import Releases
from espalier.runtime import logs

TIMEOUT = 120.0


@dataclass
class Run:
    """The state of a demo: the local environment's client, the current manifest, and the output."""

    client: Client
    prepared: list[tuple[Resource, dict[str, Any]]]
    progress: Progress

    @property
    def cluster(self) -> dict[str, Any]:
        """The Cluster of the manifest."""
        return next(tree for resource, tree in self.prepared if resource == Cluster.resource)

    @property
    def key(self) -> Key:
        """Namespace and name of the Cluster."""
        return Key(self.cluster["metadata"]["namespace"], self.cluster["metadata"]["name"])


@click.command(cls=Command)
@click.argument(
    "what",
    required=False,
    default="cluster",
    type=flags.OneOf(["cluster", "migration", "garden"]),
    help="cluster: a manifest becomes a cluster; migration: a shoot's control plane moves between seeds; garden: three "
    "seeds and a shoot that stay, to try out moves and drills.",
)
@click.option(
    "--filename",
    "-f",
    type=flags.FILE,
    default=shown_commands.EXAMPLE.resolve(),
    metavar="FILE",
    show_default="examples/docker.yaml",
    help="Manifest of the cluster.",
)
@flags.boot_seconds(0.5)
@click.option(
    "--control-plane",
    type=flags.OneOf(["simulated", "real"]),
    default="simulated",
    show_default=True,
    help="For migration; real runs etcd, kube-apiserver and kube-controller-manager as processes.",
)
@click.option(
    "--nodes",
    type=flags.OneOf(["simulated", "real"]),
    default="simulated",
    show_default=True,
    help="For migration; real runs kubelets in containers, and needs root and a real control plane.",
)
async def demo(what: str, *, filename: Path, boot_seconds: float, control_plane: str, nodes: str) -> None:
    """Demonstrate the life of a cluster, or a migration, in a temporary local environment, or run a garden there.

    \b
    Examples:
      espalier demo -f examples/docker.yaml
      espalier demo migration
      espalier demo migration --control-plane real
      espalier demo migration --control-plane real --nodes real
      espalier demo garden
    """
    if nodes == "real" and (what, control_plane) != ("migration", "real"):
        raise Usage("--nodes: found real, allowed only with `demo migration --control-plane real`")
    if what == "migration":
        from espalier.cli.local import demo_migration  # noqa: PLC0415  the other commands need not load a whole garden

        await demo_migration.show(real=control_plane == "real", real_nodes=nodes == "real")
        return
    if control_plane == "real":
        raise Usage(f"--control-plane: found real, allowed with `demo {what}` is simulated")
    if what == "garden":
        from espalier.cli.local import demo_garden  # noqa: PLC0415  as above

        await demo_garden.show()
        return
    from espalier.cli.local.environment.simulated import SimulatedEnvironment  # noqa: PLC0415  the other commands need not load a whole local environment

    process_tuning.tune()
    logs.setup(level="error")
    began = time.monotonic()
    documents_ = documents.read([str(filename)])
    with demo_folder("demo-") as folder, Progress(output.console()) as progress:
        home = Home(folder)
        progress.wait("starting a management cluster: API server and controllers, in this process")
        async with (
            SimulatedEnvironment.run(home, port=0, boot_seconds=boot_seconds, releases=Releases.load()) as environment,
            _client(home.kubeconfig.read_bytes()) as client,
        ):
            progress.say(f"management cluster serves at {environment.url}", aside=f"{time.monotonic() - began:.1f} s")
            run = Run(client, documents.in_namespace(documents_, "default"), progress)
            await _create(run, filename)
            await _scale(run)
            await _upgrade(run, environment.kubernetes_versions)
            await _delete(run)
            progress.wait("stopping the management cluster")
        program, manifest = shown_commands.program(), shown_commands.path(filename)
        key, kubeconfig = run.key, f"{run.key.name}.kubeconfig"
        progress.say(f"the demonstration took {time.monotonic() - began:.1f} s and left nothing behind")
        progress.out.print("\nBy hand, in an environment that stays:")
        progress.show(f"{program} up --detach")
        progress.out.print("with kubectl:")
        progress.show(
            f"export KUBECONFIG={shlex.quote(str(Home.locate().kubeconfig))}",
            f"kubectl apply -f {manifest}",
            f"kubectl wait --for=condition=Ready --timeout=2m clusters.anywhere.eks.amazonaws.com/{key.name}",
            f"{program} kubeconfig {key.name} > {kubeconfig}",
            f"kubectl --kubeconfig {kubeconfig} get nodes",
        )
        progress.out.print("or without kubectl:")
        progress.show(
            f"{program} create cluster -f {manifest}",
            f"{program} get clusters -A",
        )
        progress.out.print("and finally:")
        progress.show(f"{program} down", "")


async def _create(run: Run, filename: Path) -> None:
    _print_title(run, f"Create: {shown_commands.path(filename)}")
    began = time.monotonic()
    await _settle(run)
    run.progress.say(f"cluster {run.key} is ready", aside=f"{time.monotonic() - began:.1f} s")
    await _show(run)


async def _scale(run: Run) -> None:
    _print_title(run, "Scale: four workers")
    began = time.monotonic()
    run.cluster["spec"]["workerNodeGroupConfigurations"][0]["count"] = 4
    await _settle(run)
    run.progress.say("four workers are ready", aside=f"{time.monotonic() - began:.1f} s")
    await _show(run)


async def _upgrade(run: Run, offered: tuple[str, ...]) -> None:
    now = str(run.cluster["spec"]["kubernetesVersion"])
    later = [version for version in offered if minor(version) == minor(now) + 1]
    if not later:
        raise Failure(
            f"spec.kubernetesVersion: {now} is the newest of this release ({', '.join(offered)}); nothing to upgrade to"
        )
    _print_title(run, f"Upgrade: Kubernetes {now} to {later[0]}, machine by machine")
    began = time.monotonic()
    run.cluster["spec"]["kubernetesVersion"] = later[0]
    async with _workload(run) as workload, asyncio.TaskGroup() as group:
        reporter = group.create_task(_report_machines(workload, run.progress))
        await _settle(run)
        reporter.cancel()
    run.progress.say(f"every node runs {later[0]}", aside=f"{time.monotonic() - began:.1f} s")
    await _show(run)


async def _delete(run: Run) -> None:
    _print_title(run, f"Delete: {run.key.name}")
    for resource, tree in reversed(run.prepared):
        await run.client.delete(resource, tree["metadata"]["name"], tree["metadata"]["namespace"])
    await waiting.until_gone(run.client, run.key, timeout=TIMEOUT, progress=run.progress)
    left = await _leftovers(run)
    if left:
        raise Failure("left behind: " + ", ".join(left))
    run.progress.say("cluster, machines and secrets are gone; nothing is left behind")


async def _settle(run: Run) -> None:
    applied = await documents.apply_all(run.client, copy.deepcopy(run.prepared), dry_run=False)
    generation = next(item.metadata.generation for item in applied if item.kind == Cluster.resource.kind)
    await waiting.until_ready(run.client, run.key, generation=generation, timeout=TIMEOUT, progress=run.progress)


async def _show(run: Run) -> None:
    run.progress.settle()
    async with _workload(run) as workload:
        run.progress.out.print("  [dim]kubectl --kubeconfig " + run.key.name + ".kubeconfig get nodes[/]")
        await tables.write(workload, Selection(NODE, None))


async def _report_machines(workload: Client, progress: Progress) -> None:
    """Print when a node joins or leaves, until cancelled."""
    listed = await workload.list(NODE)
    async for event in workload.watch(NODE, resource_version=listed.resource_version):
        version = (
            event.object.tree.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", "")
            if event.type != "BOOKMARK"
            else ""
        )
        if event.type == "ADDED":
            progress.say(f"node {event.object.name} joined with {version}", sign="[cyan]+[/]")
        elif event.type == "DELETED":
            progress.say(f"node {event.object.name} left ({version})", sign="[yellow]-[/]")


async def _leftovers(run: Run) -> list[str]:
    left = []
    for resource in (Cluster.resource, *(kind.resource for kind in CLUSTER_API_KINDS), SECRET):
        namespace = run.key.namespace if resource == Cluster.resource else SYSTEM_NAMESPACE
        listed = await run.client.list(resource, namespace)
        left += [f"{resource.kind} {item.key}" for item in listed.items if _belongs(item, run.key.name)]
    return left


def _belongs(item: Object, cluster: str) -> bool:
    return item.name == cluster or item.metadata.labels.get(CLUSTER_NAME_LABEL) == cluster


@asynccontextmanager
async def _workload(run: Run) -> AsyncIterator[Client]:
    secret = await run.client.get(SECRET, f"{run.key.name}-kubeconfig", run.key.namespace)
    async with _client(secret.decode(Secret).data["value"]) as client:
        yield client


@asynccontextmanager
async def _client(kubeconfig: bytes) -> AsyncIterator[Client]:
    client = Client(
        HttpTransport(Kubeconfig.parse(kubeconfig).context()), field_manager=FIELD_MANAGER, user_agent="espalier-demo"
    )
    try:
        yield client
    finally:
        await client.close()


def _print_title(run: Run, title: str) -> None:
    run.progress.settle()
    run.progress.out.print(f"\n[bold]{title}[/]")
