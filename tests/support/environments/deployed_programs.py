"""Deployments of a real API server whose programs run as processes of this machine, with the rights of their accounts.

Nothing schedules pods there. The API server reaches the Services of webhooks through a proxy, as kube-proxy would lead
it there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path

import aiohttp

from espalier.api.core import DEPLOYMENT, SECRET, SERVICE, Secret
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.cli.install import manifests
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object
from espalier.realnodes.management.deployments import INSTALLATIONS
from espalier.realnodes.management.processes import Program, Supervisor
from tests.support.environments.control_plane import ControlPlane
from tests.support.environments.environment import PROGRAM
from tests.support.servers.ports import free_port

HOST = "127.0.0.1"
PAUSE = 0.3
EGRESS, SOCKET = "egress.yaml", "egress.sock"
FLAGS = {"egress-selector-config-file": EGRESS}
"""Of the API server whose Services are reached."""
_CAPI = {(names.namespace, names.deployment): manager for manager, names in INSTALLATIONS.items()}


def write_egress(folder: Path) -> None:
    """Write the configuration that those flags name, before the API server of the folder starts."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / EGRESS).write_text(
        "apiVersion: apiserver.k8s.io/v1beta1\n"
        "kind: EgressSelectorConfiguration\n"
        "egressSelections:\n"
        "- name: cluster\n"
        "  connection:\n"
        "    proxyProtocol: HTTPConnect\n"
        "    transport:\n"
        "      uds:\n"
        f"        udsName: {folder / SOCKET}\n"
    )


Start = Callable[[Object], Awaitable[str]]
"""Starts the program of a Deployment, and returns where its webhooks are; empty without any."""


@dataclass
class DeployedPrograms:
    """The programs of the Deployments of an API server. Those of images that nobody has here only seem to run."""

    plane: ControlPlane
    client: Client
    supervisor: Supervisor
    folder: Path
    cluster_api: Path
    """The folder of Cluster API's programs."""
    environment: Mapping[str, str]
    others: Mapping[tuple[str, str], Start]
    """Those of further Deployments, by namespace and name."""
    running: dict[Key, str] = field(default_factory=dict)
    """Deployments whose replicas are available, and where the webhooks of each are."""

    async def run(self) -> None:
        """Start what is deployed, again and again."""
        while True:
            with contextlib.suppress(KubeError):
                for item in (await self.client.list(DEPLOYMENT)).items:
                    await self._keep(item)
            await asyncio.sleep(PAUSE)

    async def _keep(self, item: Object) -> None:
        if item.key not in self.running:
            start = self._programs.get((item.namespace, item.name))
            self.running[item.key] = await start(item) if start is not None else ""
        replicas = item.tree["spec"].get("replicas", 1)
        status = {
            "observedGeneration": item.metadata.generation,
            "replicas": replicas,
            "updatedReplicas": replicas,
            "availableReplicas": replicas,
            "readyReplicas": replicas,
        }
        if {**(item.tree.get("status") or {}), **status} != item.tree.get("status"):
            await self.client.patch(
                DEPLOYMENT,
                item.name,
                item.namespace,
                patch={"status": status},
                type=PatchType.MERGE,
                subresource="status",
            )

    @property
    def _programs(self) -> Mapping[tuple[str, str], Start]:
        own = {(SYSTEM_NAMESPACE, manifests.NAME): self._manager}
        return {**dict.fromkeys(_CAPI, self._provider), **own, **self.others}

    async def _provider(self, item: Object) -> str:
        """One of Cluster API's managers; its certificate is in the Secret that its pod mounts."""
        manager = _CAPI[(item.namespace, item.name)]
        folder, webhooks, health = self.folder / manager, free_port(), free_port()
        folder.mkdir(parents=True)
        (container,) = item.tree["spec"]["template"]["spec"]["containers"]
        name = f"{INSTALLATIONS[manager].service}-cert"
        secret = (await self.client.get(SECRET, name, item.namespace)).decode(Secret)
        for file in ("tls.crt", "tls.key"):
            (folder / file).write_bytes(secret.data[file])
        own = {
            "kubeconfig": await self._kubeconfig(item, folder),
            "webhook-port": webhooks,
            "webhook-cert-dir": folder,
            "health-addr": f"{HOST}:{health}",
            "leader-elect": "false",  # only a pod knows the namespace of its lease
        }
        arguments = [
            self.cluster_api / manager,
            *container["args"],
            *(f"--{flag}={value}" for flag, value in own.items()),
        ]
        await self.supervisor.start(Program(manager, arguments, folder, serves(health)))
        return f"{HOST}:{webhooks}"

    async def _manager(self, item: Object) -> str:
        folder, webhooks, health = self.folder / "espalier", free_port(), free_port()
        folder.mkdir(parents=True)
        (container,) = item.tree["spec"]["template"]["spec"]["containers"]
        own = {
            "kubeconfig": await self._kubeconfig(item, folder),
            "webhook-address": f"{HOST}:{webhooks}",
            "health-address": f"{HOST}:{health}",
            "metrics-address": "0",
            "settle-time": "0s",
        }
        arguments = [*PROGRAM, *container["args"], *(f"--{flag}={value}" for flag, value in own.items())]
        await self.supervisor.start(
            Program("espalier", arguments, folder, serves(health), environment=self.environment)
        )
        return f"{HOST}:{webhooks}"

    async def _kubeconfig(self, item: Object, folder: Path) -> Path:
        """The kubeconfig of the account of a Deployment's pods."""
        account = item.tree["spec"]["template"]["spec"]["serviceAccountName"]
        token = await self.plane.run_kubectl("create", "token", account, "--namespace", item.namespace)
        kubeconfig = Kubeconfig.of_cluster(
            "target",
            server=self.plane.url,
            certificate_authority=self.plane.ca,
            user=account,
            credentials=token.strip(),
        )
        file = folder / "kubeconfig"
        kubeconfig.merge_into(file)
        return file

    async def connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A connection of the API server to a Service, by HTTP CONNECT."""
        line = (await reader.readuntil(b"\r\n\r\n")).decode()
        address = await self._behind(line.split()[1])
        if not address:
            writer.write(b"HTTP/1.1 502 no endpoints\r\n\r\n")
            writer.close()
            return
        host, _, port = address.partition(":")
        server_reader, server_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_copied(reader, server_writer), _copied(server_reader, writer))

    async def _behind(self, address: str) -> str:
        ip = address.rpartition(":")[0]
        for service in (await self.client.list(SERVICE)).items:
            if service.tree["spec"].get("clusterIP") == ip:
                places = (place for key, place in self.running.items() if key.namespace == service.namespace)
                return next((place for place in places if place), "")
        return ""


async def _copied(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    writer.close()


def serves(port: int) -> Callable[[], Awaitable[bool]]:
    """A check that a program is ready."""

    async def ask() -> bool:
        try:
            async with (
                aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as session,
                session.get(f"http://{HOST}:{port}/readyz") as response,
            ):
                return response.status == HTTPStatus.OK
        except (aiohttp.ClientError, TimeoutError):
            return False

    return ask


@contextlib.asynccontextmanager
async def deployed_programs(
    plane: ControlPlane,
    folder: Path,
    cluster_api: Path,
    environment: Mapping[str, str],
    others: Mapping[tuple[str, str], Start],
) -> AsyncIterator[DeployedPrograms]:
    """Run what is deployed in an API server that was started with the flags of this module."""
    async with plane.connected() as client:
        programs = DeployedPrograms(plane, client, plane.supervisor, folder, cluster_api, environment, others)
        server = await asyncio.start_unix_server(programs.connect, plane.folder / SOCKET)
        task = asyncio.create_task(programs.run())
        try:
            yield programs
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            server.close()
