"""Seeds whose API server is kube-apiserver, with etcd and kube-controller-manager as processes of this machine.

What a seed has besides, its Deployments, volumes, nodes and pods, is simulated.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

from espalier.api import core
from espalier.api.capi.cluster import Endpoint
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.gardener import SEED_KINDS
from espalier.api.resource import Key
from espalier.api.trees import json_trees
from espalier.apiserver.server import Server
from espalier.cli.install import garden_manifests
from espalier.cli.local.environment.garden.gardens import Garden, SimulatedSeed
from espalier.cli.local.environment.seed_processes.kubernetes import ApiServer
from espalier.clusterapi.machines.network import Network
from espalier.kube.client import Client
from espalier.kube.connection.pki import Authority
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.objects import Object, encode_json
from espalier.kube.transports.wire import Request, Response, User
from espalier.realnodes.management.control_plane import stored_authority
from espalier.runtime.clock import Clock, SystemClock
from espalier.simulator.connections import Link
from espalier.simulator.pods.runtimes.life import Life
from espalier.simulator.workload_clusters.stores import MemoryStores
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from espalier.simulator.workload_clusters.workloads import Workloads
from tests.support.environments.control_plane import ControlPlane, real_control_plane
from tests.support.gardens import manifests
from tests.support.waiting import eventually

JSON: Mapping[str, str] = {"content-type": "application/json"}


class KubernetesServer(ApiServer):
    """A control plane in a folder, which is the API server of a seed while it is started."""

    def __init__(self, folder: Path, binaries: Path, clock: Clock, version: str) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        super().__init__(stored_authority(folder / "authority", "espalier", clock), clock)
        self.version = version
        self.read_log: object = None
        self._folder, self._binaries = folder, binaries
        self._stack = AsyncExitStack()
        self._control_plane: ControlPlane | None = None

    @property
    def control_plane(self) -> ControlPlane:
        """It, while it is started."""
        assert self._control_plane is not None, "the seed has no power"
        return self._control_plane

    async def start(self) -> None:
        """Start it, with the objects that it had."""
        self._control_plane = await self._stack.enter_async_context(real_control_plane(self._folder, self._binaries))
        self.port = urlsplit(self.control_plane.url).port or 0

    async def serve(self, request: Request, user: User) -> Response:
        """See `Endpoint`. The simulated scheduler writes into pods what only a Binding may say here."""
        body = json_trees.decode(request.body) if request.method == "PATCH" and request.body else None
        node = body.get("spec", {}).get("nodeName") if isinstance(body, dict) else None
        if node is None:
            return await super().serve(request, user)
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": request.path.rpartition("/")[2]},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = f"{request.path}/binding"
        bound = await super().serve(Request("POST", path, headers=JSON, body=encode_json(binding)), user)
        return bound if bound.status >= 400 else await super().serve(Request("GET", request.path), user)

    async def close(self) -> None:
        """Stop it; its objects stay."""
        await super().close()
        self._transports.clear()
        self._control_plane = None
        await self._stack.aclose()


class KubernetesCluster(WorkloadCluster):
    """A workload cluster whose pods get the tokens that its API server issues."""

    async def service_account_files(self, pod: Object) -> Mapping[str, str]:
        """See `WorkloadCluster`."""
        account = pod.tree["spec"]["serviceAccountName"]
        path = core.SERVICE_ACCOUNT.path(pod.namespace, account, "token")
        body = encode_json({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
        response = await self.client.raw(Request("POST", path, headers=JSON, body=body))
        answer = json_trees.decode(response.body)
        if response.status >= 400:
            raise NotFound.of(f"{path}: {answer}")
        return {
            "token": answer["status"]["token"],
            "ca.crt": self.authority.certificate.decode(),
            "namespace": pod.namespace,
        }


class KubernetesWorkloads(Workloads):
    """Workload clusters whose API servers are real: one for each seed, in a folder of its own."""

    def __init__(self, folder: Path, binaries: Path, clock: Clock, rng: random.Random) -> None:
        super().__init__(clock=clock, rng=rng, stores=MemoryStores(), listen=False)
        self._folder, self._binaries = folder, binaries
        self.servers: dict[Key, KubernetesServer] = {}

    def _new(
        self, cluster: Key, endpoint: Endpoint, authority: Authority, version: str, network: Network
    ) -> WorkloadCluster:
        server = KubernetesServer(self._folder / cluster.name, self._binaries, SystemClock(), version)
        self.servers[cluster] = server
        return KubernetesCluster(
            cluster, endpoint, endpoint, cast(Server, server), server.authority, network, SystemClock()
        )


class KubernetesSeed(SimulatedSeed):
    """See the module."""

    def __init__(self, garden: Garden, name: str, folder: Path, binaries: Path) -> None:
        self._workloads = KubernetesWorkloads(folder, binaries, garden.clock, garden.random)
        super().__init__(garden, name)

    def workloads(self) -> Workloads:
        """See `SimulatedSeed`."""
        return self._workloads

    async def install(self) -> None:
        """See `GardenSeed`: by the manifests, as its gardenlet has no other rights."""
        await manifests.apply(self.client, garden_manifests.of_seed())
        for kind in SEED_KINDS:
            await eventually(partial(self.client.list, kind.resource), despite=KubeError, every=0.2)

    def own_client(self, program: str, link: Link, life: Life | None = None) -> Client:
        """See `GardenSeed`."""
        if not program.startswith("gardenlet"):
            return super().own_client(program, link, life)
        name = f"system:serviceaccount:{SYSTEM_NAMESPACE}:{garden_manifests.GARDENLET}"
        return self.cluster.client(User(name, ("system:serviceaccounts",)), link=link, life=life)

    @property
    def control_plane(self) -> ControlPlane:
        """Its control plane, while the seed has power."""
        return self._workloads.servers[self.cluster.key].control_plane
