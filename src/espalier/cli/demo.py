"""`espalier demo`: a manifest becomes a cluster: created, reached, scaled, upgraded, deleted, told while it happens."""

from __future__ import annotations

import asyncio
import copy
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from espalier.api.core import NODE, SECRET, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.resource import Key, Resource
from espalier.cli import documents, flags, follow, lasting, output, tables
from espalier.cli.commands import Command
from espalier.cli.connection import FIELD_MANAGER
from espalier.cli.failures import Failure
from espalier.cli.home import Home
from espalier.cli.progress import Progress
from espalier.cli.tables import Selection
from espalier.clusterapi.kubernetes_versions import minor
from espalier.kube.client import Client
from espalier.kube.http import HttpTransport
from espalier.kube.kubeconfig import Kubeconfig
from espalier.kube.objects import Object
from espalier.providers.kinds import CLUSTER_API_KINDS
from espalier.releases import Releases
from espalier.runtime import logs

TIMEOUT = 120.0


@dataclass
class Story:
    """What every chapter needs: the local environment's client, the manifest as it is now, and a voice."""

    client: Client
    prepared: list[tuple[Resource, dict[str, Any]]]
    progress: Progress

    @property
    def cluster(self) -> dict[str, Any]:
        """The Cluster of the manifest."""
        return next(tree for resource, tree in self.prepared if resource == Cluster.resource)

    @property
    def key(self) -> Key:
        """Its namespace and name."""
        return Key(self.cluster["metadata"]["namespace"], self.cluster["metadata"]["name"])


@click.command(cls=Command)
@click.option(
    "--filename",
    "-f",
    type=flags.FILE,
    default="examples/docker.yaml",
    metavar="FILE",
    show_default=True,
    help="Manifest of the cluster.",
)
@flags.boot_seconds(0.5)
async def demo(*, filename: Path, boot_seconds: float) -> None:
    """Show the main job on simulated machines, in a temporary local environment.

    \b
    Example:
      espalier demo -f examples/docker.yaml
    """
    from espalier.cli.environment.simulated import World  # noqa: PLC0415  the other commands need not load a whole local environment

    lasting.settle_in()
    logs.setup(level="error")
    began = time.monotonic()
    found = documents.read([str(filename)])
    with tempfile.TemporaryDirectory(prefix="espalier-demo-") as folder, Progress(output.console()) as progress:
        home = Home(Path(folder))
        progress.wait("starting a management cluster: API server and controllers, in this process")
        async with (
            World.run(home, port=0, boot_seconds=boot_seconds, releases=Releases.load()) as world,
            _client(home.kubeconfig.read_bytes()) as client,
        ):
            progress.say(f"management cluster serves at {world.url}", aside=f"{time.monotonic() - began:.1f} s")
            story = Story(client, documents.in_namespace(found, "default"), progress)
            await _create(story, filename)
            await _scale(story)
            await _upgrade(story, world.kubernetes_versions)
            await _delete(story)
            progress.wait("stopping the management cluster")
        program = os.path.relpath(sys.argv[0])
        progress.say(f"the demonstration took {time.monotonic() - began:.1f} s and left nothing behind")
        progress.out.print(
            "\nBy hand, with kubectl:\n"
            f"  {program} up --detach\n"
            f"  export KUBECONFIG={Home.locate().kubeconfig}\n"
            f"  kubectl apply -f {filename}\n"
            "  kubectl get clusters.anywhere.eks.amazonaws.com -w\n"
            f"  {program} kubeconfig {story.key.name} > {story.key.name}.kubeconfig\n"
            f"  kubectl --kubeconfig {story.key.name}.kubeconfig get nodes\n"
            "or without kubectl:\n"
            f"  {program} create cluster -f {filename}\n"
            f"  {program} get clusters -A\n"
            f"and at last: {program} down\n",
            soft_wrap=True,
        )


async def _create(story: Story, filename: Path) -> None:
    _chapter(story, f"Create: {filename}")
    began = time.monotonic()
    await _settle(story)
    story.progress.say(f"cluster {story.key} is ready", aside=f"{time.monotonic() - began:.1f} s")
    await _show(story)


async def _scale(story: Story) -> None:
    _chapter(story, "Scale: four workers")
    began = time.monotonic()
    story.cluster["spec"]["workerNodeGroupConfigurations"][0]["count"] = 4
    await _settle(story)
    story.progress.say("four workers are ready", aside=f"{time.monotonic() - began:.1f} s")
    await _show(story)


async def _upgrade(story: Story, offered: tuple[str, ...]) -> None:
    now = str(story.cluster["spec"]["kubernetesVersion"])
    later = [version for version in offered if minor(version) == minor(now) + 1]
    if not later:
        raise Failure(
            f"spec.kubernetesVersion: {now} is the newest of this release ({', '.join(offered)}); nothing to upgrade to"
        )
    _chapter(story, f"Upgrade: Kubernetes {now} to {later[0]}, machine by machine")
    began = time.monotonic()
    story.cluster["spec"]["kubernetesVersion"] = later[0]
    async with _workload(story) as workload, asyncio.TaskGroup() as group:
        teller = group.create_task(_tell_machines(workload, story.progress))
        await _settle(story)
        teller.cancel()
    story.progress.say(f"every node runs {later[0]}", aside=f"{time.monotonic() - began:.1f} s")
    await _show(story)


async def _delete(story: Story) -> None:
    _chapter(story, f"Delete: {story.key.name}")
    for resource, tree in reversed(story.prepared):
        await story.client.delete(resource, tree["metadata"]["name"], tree["metadata"]["namespace"])
    await follow.until_gone(story.client, story.key, timeout=TIMEOUT, progress=story.progress)
    left = await _leftovers(story)
    if left:
        raise Failure("left behind: " + ", ".join(left))
    story.progress.say("cluster, machines and secrets are gone; nothing is left behind")


async def _settle(story: Story) -> None:
    applied = await documents.apply_all(story.client, copy.deepcopy(story.prepared), dry_run=False)
    generation = next(item.metadata.generation for item in applied if item.kind == Cluster.resource.kind)
    await follow.until_ready(story.client, story.key, generation=generation, timeout=TIMEOUT, progress=story.progress)


async def _show(story: Story) -> None:
    story.progress.settle()
    async with _workload(story) as workload:
        story.progress.out.print("  [dim]kubectl --kubeconfig " + story.key.name + ".kubeconfig get nodes[/]")
        await tables.write(workload, Selection(NODE, None))


async def _tell_machines(workload: Client, progress: Progress) -> None:
    """Say of each node when it comes and goes; until cancelled."""
    listed = await workload.list(NODE)
    async for event in workload.watch(NODE, resource_version=listed.resource_version):
        version = (
            event.object.tree.get("status", {}).get("nodeInfo", {}).get("kubeletVersion", "")
            if event.type != "BOOKMARK"
            else ""
        )
        if event.type == "ADDED":
            progress.say(f"node {event.object.name} joined with {version}", mark="[cyan]+[/]")
        elif event.type == "DELETED":
            progress.say(f"node {event.object.name} left ({version})", mark="[yellow]-[/]")


async def _leftovers(story: Story) -> list[str]:
    left = []
    for resource in (Cluster.resource, *(kind.resource for kind in CLUSTER_API_KINDS), SECRET):
        namespace = story.key.namespace if resource == Cluster.resource else "eksa-system"
        listed = await story.client.list(resource, namespace)
        left += [f"{resource.kind} {item.key}" for item in listed.items if _belongs(item, story.key.name)]
    return left


def _belongs(item: Object, cluster: str) -> bool:
    return item.name == cluster or item.metadata.labels.get("cluster.x-k8s.io/cluster-name") == cluster


@asynccontextmanager
async def _workload(story: Story) -> AsyncIterator[Client]:
    secret = await story.client.get(SECRET, f"{story.key.name}-kubeconfig", story.key.namespace)
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


def _chapter(story: Story, title: str) -> None:
    story.progress.settle()
    story.progress.out.print(f"\n[bold]{title}[/]")
