"""Programs of a management cluster on simulated nodes: Espalier's manager, simulated controllers of Cluster API, and a
stand-in for Flux.

They run as coroutines of the process that simulates the machines, with the rights of their pods' ServiceAccounts.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from espalier.api.core import POD
from espalier.api.eksa.vocabulary.group import MANAGER as LEASE
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.apiserver.access.webhook_calls import HttpWebhooks
from espalier.apiserver.access.webhooks import CallFailed, CallWebhook, WebhookCall
from espalier.cli.install.deployment import HEALTH_PORT, WEBHOOK_PORT
from espalier.cli.kit.hints import hint
from espalier.cli.local.environment.management import record_infrastructure
from espalier.cli.programs import components
from espalier.cli.programs.installation import InstallReleases
from espalier.clusters.design.provider import infrastructures
from espalier.kube.client import Client
from espalier.kube.transports.wire import User
from espalier.providers.simulated import SIMULATED
from espalier.releases import Releases
from espalier.runtime.component import Component, assemble
from espalier.runtime.leadership.election import Election
from espalier.runtime.leadership.fencing import Fence
from espalier.runtime.manager import Manager
from espalier.runtime.servers.webhooks import Webhooks
from espalier.simulator import setup as simulator
from espalier.simulator.connections import Reached, ReachingTransport
from espalier.simulator.controller import Timing
from espalier.simulator.flux import setup as stand_in
from espalier.simulator.flux.sources import Fetch
from espalier.simulator.pods.runtimes.coroutine_runtime import CoroutineRuntime
from espalier.simulator.pods.runtimes.in_process import Container, InProcessProgram
from espalier.simulator.pods.runtimes.pod_network import endpoint_of
from espalier.simulator.workload_clusters.workloads import Workloads

MANAGER, CLUSTER_API = "eks-anywhere-cluster-controller", "cluster-api-controller"
"""The last words of the images, as the Bundles name them; a registry mirror changes what stands before."""
SOURCE, KUSTOMIZE = "source-controller", "kustomize-controller"
"""Flux's: the second one is a stand-in for both, the first one only runs."""
_FLUX_HEALTH_PORT = 9440
_CAPI_LEASE = "controller-leader-election-capi"


class ManagementPods:
    """The programs of these images (`InProcessPrograms`). Whatever its tag, an image runs the program of this build."""

    def __init__(self, workloads: Workloads, releases: Releases, timing: Timing, fetch: Fetch) -> None:
        self._workloads = workloads
        self._fetch = fetch
        self._releases = releases
        self._timing = timing

    def __call__(self, image: str) -> InProcessProgram | None:
        """The program of an image; None for any other."""
        name = image.partition("@")[0].rpartition("/")[2].partition(":")[0]
        programs: dict[str, InProcessProgram] = {
            MANAGER: self.manager,
            CLUSTER_API: self.cluster_api,
            SOURCE: self.source,
            KUSTOMIZE: self.flux,
        }
        return programs.get(name)

    async def manager(self, container: Container) -> int:
        """`espalier manager`."""
        await record_infrastructure(container.network.workload.client, self._workloads.identity)
        webhooks = Webhooks(port=None)
        manager = self._manager(container, LEASE, SYSTEM_NAMESPACE)
        installing = InstallReleases(manager.client, manager.caches, self._releases)
        made_of = components.of_manager(SIMULATED, uninstalled=installing.uninstalled)
        assemble(manager, made_of, webhooks=webhooks)
        manager.prepare(installing)
        container.listen(WEBHOOK_PORT, webhooks)
        return await self._run(container, manager)

    async def cluster_api(self, container: Container) -> int:
        """Cluster API's controllers and those of its providers, for simulated machines."""
        manager = self._manager(container, _CAPI_LEASE, container.pod.namespace)
        assemble(manager, [machines(self._workloads, container.random, self._timing, hosts_workloads=False)])
        return await self._run(container, manager)

    async def flux(self, container: Container) -> int:
        """The stand-in for Flux: what it applies comes from the account of kustomize-controller."""
        manager = self._manager(container, f"{KUSTOMIZE}-leader-election", container.pod.namespace)
        assemble(manager, [stand_in.component(self._fetch)])
        return await self._run(container, manager, _FLUX_HEALTH_PORT)

    async def source(self, container: Container) -> int:
        """Nothing: the stand-in fetches repositories where it applies them."""

        async def answers(_path: str) -> int:
            return 200

        container.listen(_FLUX_HEALTH_PORT, self, answers=answers)
        await asyncio.get_running_loop().create_future()
        return 0

    def _manager(self, container: Container, lease: str, namespace: str) -> Manager:
        account = self._account(container)

        def connected(agent: str) -> Client:
            transport = ReachingTransport(lambda: self._reach(container), account)
            rng = random.Random(container.random.getrandbits(64))  # noqa: S311  spreads retries
            return Client(transport, field_manager="espalier", user_agent=agent, rng=rng)

        fence = Fence(container.clock.monotonic)
        election = Election(
            connected("espalier-election"),
            namespace=namespace,
            name=lease,
            identity=f"{container.pod.name}_{container.pod_uid}",
            fence=fence,
            clock=container.clock,
            rng=container.random,
            alive=lambda: not container.life.over,
        )
        return Manager(
            connected("espalier-manager"),
            clock=container.clock,
            rng=container.random,
            connect=self._workloads.connect,
            election=election,
            fill_within=None,
            hint=hint,
        )

    async def _run(self, container: Container, manager: Manager, port: int = HEALTH_PORT) -> int:
        async def answers(path: str) -> int:
            return 500 if path.startswith("/readyz") and manager.unready else 200

        container.listen(port, manager, answers=answers)
        return await manager.run()

    def _account(self, container: Container) -> User:
        pod = container.network.workload.object(POD, container.pod)
        spec = pod.tree["spec"] if pod is not None else {}
        namespace, name = container.pod.namespace, spec.get("serviceAccountName") or "default"
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return User(f"system:serviceaccount:{namespace}:{name}", groups)

    def _reach(self, container: Container) -> Reached:
        workload = container.network.workload
        if self._workloads.reach(workload.key) is not workload:
            raise ConnectionError(f"the API server of cluster {workload.key.name} does not run")
        return Reached(workload.server, [container.life])


def machines(workloads: Workloads, rng: random.Random, timing: Timing, *, hosts_workloads: bool) -> Component:
    """Simulated Cluster API and machines of all providers, without what runs in the clusters."""
    return simulator.component(
        workloads,
        rng=rng,
        infrastructures=infrastructures(SIMULATED).all,
        timing=timing,
        hosts_workloads=hosts_workloads,
    )


def webhooks_of(workloads: Workloads, runtime: CoroutineRuntime, outside: HttpWebhooks) -> Callable[[Key], CallWebhook]:
    """Calls of webhooks by the API server of a workload cluster: behind its Services, and by URL."""

    def of(cluster: Key) -> CallWebhook:
        async def call(call: WebhookCall) -> bytes:
            workload = workloads.reach(cluster)
            if call.url or workload is None:
                return await outside(call)
            namespace, _, name = call.service.partition("/")
            try:
                listener = runtime.network(workload).of_service(Key(namespace, name), call.port)
                return endpoint_of(listener, Webhooks).review(call.path, call.body)
            except (ConnectionError, LookupError, ValueError) as error:
                url = f"https://{name}.{namespace}.svc:{call.port}{call.path}"
                raise CallFailed(f'failed to call webhook: Post "{url}": {error}') from error

        return call

    return of
