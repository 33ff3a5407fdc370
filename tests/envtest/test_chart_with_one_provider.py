"""The chart's manager, with the rights and webhooks of the chart, where one infrastructure provider is installed."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import msgspec
import pytest

from espalier.api import capi
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.cli.install import manifests
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.providers.kinds import CLUSTER_API_KINDS
from espalier.providers.registry import PROVIDERS
from tests.support.child_process import ChildProcess
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.environment import PROGRAM
from tests.support.environments.management import ROOT
from tests.support.servers import helm
from tests.support.servers.helm import CHART, RELEASE, Helm, sets
from tests.support.servers.ports import free_port
from tests.support.waiting import eventually

pytestmark = [pytest.mark.envtest, helm.NEEDED]

HOST = "127.0.0.1"
INSTALLED = "VSphereDatacenterConfig"
"""It has cluster-scoped kinds, too. With each provider alone: tests/journeys/test_start_without_kinds.py."""


async def install(control_plane: ControlPlane, folder: Path) -> None:
    values = sets({"image.repository": "registry.example.com/espalier"})
    arguments = ("install", RELEASE, str(CHART), "--namespace", SYSTEM_NAMESPACE, "--create-namespace", *values)
    ended = await asyncio.to_thread(Helm(folder, control_plane.kubeconfig).run, *arguments)
    assert ended.code == 0, ended.complaint


async def lead_to(port: int, client: Client) -> None:
    """Have the webhooks, whose Service nothing serves here, reached at this port."""
    for resource, tree in manifests.webhook_configurations(f"https://{HOST}:{port}"):
        patch = [
            {"op": "replace", "path": f"/webhooks/{at}/clientConfig", "value": webhook["clientConfig"]}
            for at, webhook in enumerate(tree["webhooks"])
        ]
        await client.patch(resource, tree["metadata"]["name"], patch=patch, type=PatchType.JSON)


async def start(control_plane: ControlPlane, folder: Path, webhooks: int, health: int) -> ChildProcess:
    """`espalier manager` with the account of the chart."""
    token = await control_plane.run_kubectl("create", "token", manifests.NAME, "--namespace", SYSTEM_NAMESPACE)
    kubeconfig = Kubeconfig.of_cluster(
        "management",
        server=control_plane.url,
        certificate_authority=control_plane.ca,
        user=manifests.NAME,
        credentials=token.strip(),
    )
    kubeconfig.merge_into(folder / "manager.kubeconfig")
    flags = ["--kubeconfig", str(folder / "manager.kubeconfig"), "--webhook-names", HOST, "--metrics-address", "0"]
    flags += ["--webhook-address", f"{HOST}:{webhooks}", "--health-address", f"{HOST}:{health}"]
    environment = {"HOME": str(folder), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
    return ChildProcess([*PROGRAM, "manager", *flags], folder=folder, environment=environment)


async def test_the_manager_gets_ready_with_one_provider(control_plane: ControlPlane, tmp_path: Path) -> None:
    known = PROVIDERS[INSTALLED].infrastructure
    theirs = {item.group_resource for item in (known.cluster, known.machine, known.machine_template)}
    webhooks, health = free_port(), free_port()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(control_plane.connected())
        for kind in CLUSTER_API_KINDS:
            if kind in capi.KINDS or kind.resource.group_resource in theirs:
                await client.apply(CUSTOM_RESOURCE_DEFINITION, msgspec.to_builtins(crd_of(kind)))
        await install(control_plane, tmp_path)
        await lead_to(webhooks, client)
        manager = await start(control_plane, tmp_path, webhooks, health)
        stack.push_async_callback(manager.stop)
        session = await stack.enter_async_context(aiohttp.ClientSession())

        async def answer() -> str:
            manager.check()
            async with session.get(f"http://{HOST}:{health}/readyz?verbose") as response:
                return f"{response.status} {await response.text()}"

        ready = await eventually(answer, lambda text: text.startswith("200"), despite=aiohttp.ClientError)
        assert "forbidden" not in ready
        lease = manifests.NAME
        held = ("get", "lease", lease, "--namespace", SYSTEM_NAMESPACE, "-o", "jsonpath={.spec.holderIdentity}")
        await eventually(lambda: control_plane.run_kubectl(*held, "--ignore-not-found"))
        releases = ("get", "eksareleases", "-A", "-o", "name")
        await eventually(lambda: control_plane.run_kubectl(*releases))
