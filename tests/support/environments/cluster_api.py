"""T2: a real control plane with the real Cluster API managers, our controllers, and simulated machines.

The control planes of its workload clusters use an etcd elsewhere: simulated machines have no members of one. Machines
are upgraded in place by runtime hooks: Cluster API asks them about every machine that it would replace.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from espalier.api.capi.cluster import Endpoint
from espalier.api.core import DEPLOYMENT, SECRET, Secret
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import FrontEnd
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.kinds import KubeObject
from espalier.api.meta import OwnerReference
from espalier.api.resource import Key
from espalier.cli.local.environment import programs
from espalier.cli.programs import components
from espalier.clusterapi.infrastructures.infrastructure import Infrastructure
from espalier.clusterapi.machines.network import Network
from espalier.clusters.design.names import labels as cluster_labels
from espalier.clusters.design.provider import Providers, infrastructures
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.access import Access
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import Authority
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.wire import Request, Response
from espalier.providers.kinds import EKSA_KINDS, INFRASTRUCTURE_KINDS
from espalier.providers.registry import PROVIDERS
from espalier.realnodes.management import cluster_api, control_plane, processes
from espalier.releases import Releases
from espalier.runtime.caches.cache import Caches
from espalier.runtime.clock import SystemClock
from espalier.runtime.component import assemble
from espalier.runtime.manager import Manager
from espalier.runtime.servers.webhooks import Webhooks
from espalier.simulator import setup as simulator
from espalier.simulator.capi.certificates import kubeconfig_secret
from espalier.simulator.controller import Timing
from espalier.simulator.workload_clusters.stores import MemoryStores
from espalier.simulator.workload_clusters.workloads import Workloads
from espalier.upgrades.hooks.registration import Extension
from tests.support.environments.cluster_lives import KUBERNETES
from tests.support.environments.control_plane import why_no_assets
from tests.support.environments.managed_clusters import NAMESPACE, BrokenImages, ManagedClusters
from tests.support.environments.managing import led_by, register_webhooks
from tests.support.environments.prepared_cluster import prepare
from tests.support.providers.external_etcd import EXTERNAL_ETCD

GATES = {**cluster_api.GATES, "ReconcilerRateLimiting": False}
"""Objects here change faster than once a second."""


def build(version: str) -> str:
    """The version that a kubelet of EKS Distro reports: of release `v1.36.3-eks-1-36-1`, the name of its build."""
    return f"{version.partition('-')[0]}-eks-{hashlib.sha256(version.encode()).hexdigest()[:7]}"


@dataclass(frozen=True, kw_only=True)
class Making:
    """Who makes machines: the simulator all of them, unless a real provider is there."""

    providers: Providers = field(default_factory=lambda: EXTERNAL_ETCD)
    """Of our manager."""
    kinds: Sequence[type[KubeObject]] = INFRASTRUCTURE_KINDS
    """Whose CRDs are ours."""
    simulated: Sequence[Infrastructure] = infrastructures(PROVIDERS).all
    managers: Mapping[cluster_api.Manager, Path] = field(default_factory=dict)
    """Of real providers, each with the folder of its program."""
    cluster_api: Path | None = None
    """The folder of Cluster API's programs; None: those of the row."""


class RecordingTransport(HttpTransport):
    """Keeps what is written, in the order of it."""

    def __init__(self, access: Access) -> None:
        super().__init__(access, environment={})
        self.written: list[Request] = []

    async def request(self, request: Request) -> Response:
        if request.method != "GET":
            self.written.append(request)
        return await super().request(request)


@dataclass(kw_only=True)
class RealClusterApi(ManagedClusters):
    """The running environment. `written` is what our manager wrote, but for leases and events."""

    transport: RecordingTransport
    supervisor: processes.Supervisor
    """Of Cluster API's managers."""
    control_plane: control_plane.ControlPlane
    folder: Path
    images: BrokenImages

    def kubelet(self, version: str) -> str:
        """The name of the build, as kubelets of EKS Distro report it."""
        return build(version)

    @property
    def written(self) -> list[Request]:
        apart = ("/leases", "/events", "/selfsubject")
        return [item for item in self.transport.written if not any(part in item.path for part in apart)]

    async def provide_etcd(self, cluster: str) -> None:
        """Bring an administrator's parts for a cluster whose etcd is elsewhere: its authority, and a client of it."""
        now = SystemClock().now()
        authority = Authority.create("etcd-ca", now=now)
        client = authority.issue_client("kube-apiserver-etcd-client", groups=["system:masters"], now=now)
        secrets = {
            "etcd": {"tls.crt": authority.certificate},
            "apiserver-etcd-client": {"tls.crt": client.certificate, "tls.key": client.key},
        }
        for purpose, data in secrets.items():
            body = {
                "apiVersion": SECRET.api_version,
                "kind": SECRET.kind,
                "metadata": {
                    "name": f"{cluster}-{purpose}",
                    "namespace": SYSTEM_NAMESPACE,
                    "labels": meant_for(cluster),
                },
                "stringData": {name: pem.decode() for name, pem in data.items()},
            }
            await self.client.apply(SECRET, body)

    async def head_start(self, cluster: str, version: str, endpoint: Endpoint | None = None) -> None:
        """Have the API server of a cluster answer before its first machine boots.

        Cluster API tries to reach a cluster as soon as its infrastructure is there, and again only 30 s later when that
        failed; at that moment it always fails. So the administrator brings authority and kubeconfig as well.
        `endpoint` is the one that the manifest names, if it does.
        """
        key, now = Key(SYSTEM_NAMESPACE, cluster), SystemClock().now()
        endpoint = endpoint or self.workloads.reserve(key)
        authority = Authority.create("kubernetes", now=now)
        server = self.workloads.served(key, endpoint).url
        kubeconfig = kubeconfig_secret(
            key, server, authority, OwnerReference(api_version="", kind="", name="", uid=""), now=now
        )
        kubeconfig["metadata"].pop("ownerReferences")
        kubeconfig["metadata"]["labels"] |= meant_for(cluster)
        await self.client.apply(SECRET, kubeconfig)
        data = {"tls.crt": authority.certificate.decode(), "tls.key": authority.key.decode()}
        metadata = {**kubeconfig["metadata"], "name": f"{cluster}-ca"}
        await self.client.apply(SECRET, kubeconfig | {"metadata": metadata, "data": {}, "stringData": data})
        await self.workloads.open(key, endpoint, authority=authority, version=version, network=Network())

    async def make(self, name: str) -> Key:
        """A ready cluster to make changes to, of the oldest Kubernetes."""
        await self.provide_etcd(name)
        await self.head_start(name, KUBERNETES["1.34"])
        await self.apply(name=name, kubernetesVersion="1.34")
        key = Key(NAMESPACE, name)
        await self.until_ready(key)
        await self.without_pods_to_drain(name)
        return key

    async def without_pods_to_drain(self, cluster: str) -> None:
        """Scale CoreDNS away: Cluster API looks at a node that it drains every 20 s only."""
        secret = await self.client.get(SECRET, f"{cluster}-kubeconfig", SYSTEM_NAMESPACE)
        workload = self.workloads.connect(secret.decode(Secret).data["value"])
        patch = {"spec": {"replicas": 0}}
        await workload.patch(DEPLOYMENT, "coredns", "kube-system", patch=patch, type=PatchType.MERGE)


def meant_for(cluster: str) -> dict[str, str]:
    """Labels of Secrets that an administrator brings for a cluster that is yet to come."""
    return cluster_labels(Key(NAMESPACE, cluster))


def why_no_cluster_api() -> str:
    """Advice when something is not there that `real_cluster_api` needs; empty when all is."""
    if programs.find_control_plane() is None:
        return why_no_assets()
    return "" if programs.find_cluster_api() else "Cluster API's managers are not built: run make real-assets"


@asynccontextmanager
async def real_cluster_api(folder: Path, making: Making = Making()) -> AsyncIterator[RealClusterApi]:
    """The environment, in a folder of its own. Ready when clusters can be applied."""
    binaries, managers = programs.find_control_plane(), making.cluster_api or programs.find_cluster_api()
    assert binaries is not None
    assert managers is not None
    clock, rng = SystemClock(), random.SystemRandom()
    async with AsyncExitStack() as stack:
        below = await stack.enter_async_context(processes.supervised(folder, clock))
        made = await stack.enter_async_context(
            control_plane.control_plane(below, binaries, folder / "control-plane", clock, durable=False)
        )
        supervisor = await stack.enter_async_context(processes.supervised(folder / "managers", clock))

        def transport() -> RecordingTransport:
            return RecordingTransport(Kubeconfig.load([made.kubeconfig]).context())

        def connected(agent: str, by: RecordingTransport) -> Client:
            return Client(by, field_manager=agent, user_agent=agent)

        recorded = transport()
        user, machines = connected("journey", transport()), connected("espalier-laptop", transport())
        ours = connected("espalier", recorded)
        for client in (user, machines, ours):
            stack.push_async_callback(client.close)
        releases = Releases.load()
        installing = cluster_api.run_cluster_api(
            supervisor, managers, folder / "cluster-api", made, user, clock, gates=GATES, providers=making.managers
        )
        await asyncio.gather(installing, prepare(user, releases, (*EKSA_KINDS, *making.kinds)))

        workloads = Workloads(clock=clock, rng=rng, stores=MemoryStores(), kubelet_version=build)
        stack.push_async_callback(workloads.close)
        manager = Manager(ours, clock=clock, rng=rng, connect=workloads.connect)
        webhooks = Webhooks(host=control_plane.HOST, port=0)
        webhooks.use(made.authority.issue_server("espalier", names=[control_plane.HOST], now=clock.now()))
        assemble(manager, components.of_manager(making.providers, front_end=FrontEnd.HOOKS), webhooks=webhooks)
        caches = Caches(machines, rng=rng)
        images = BrokenImages()
        simulated = simulator.component(
            workloads,
            rng=rng,
            timing=Timing(boot=0.1, boots=images.boots),
            infrastructures=making.simulated,
            cluster_api=False,
        )
        assemble(manager, [simulated], client=machines, caches=caches)
        await stack.enter_async_context(led_by(manager))
        url = f"https://{control_plane.HOST}:{webhooks.port}"
        await Extension(ours, {"url": url}).trust(made.ca)
        await register_webhooks(user, url, made.ca)
        yield RealClusterApi(
            client=user,
            manager=manager,
            capi_objects=caches,
            workloads=workloads,
            clusters=manager.caches.of(Cluster.resource),
            providers=making.providers,
            transport=recorded,
            supervisor=supervisor,
            control_plane=made,
            folder=folder,
            images=images,
        )
