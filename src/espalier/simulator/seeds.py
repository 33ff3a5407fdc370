"""Seeds of the local environment: clusters with an API server, workload controllers and nodes in this process.

Their pods run as coroutines (`simulator/pods/runtimes/in_process.py`), so a seed runs on virtual time as well. It can
lose and regain power, and be disconnected from others.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TypeVar

from espalier.api import conditions as condition_list
from espalier.api.core import NODE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.version_matrix import DEFAULT_ROW, KUBERNETES, ROWS
from espalier.clusterapi.machines.network import Network
from espalier.kube.client import Client
from espalier.kube.connection.pki import Authority
from espalier.kube.errors import AlreadyExists
from espalier.kube.objects import Object
from espalier.kube.transports.wire import ADMIN, User
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.reconciler import replanned
from espalier.simulator import nodes
from espalier.simulator.bootstrap_data import Kubeadm
from espalier.simulator.connections import Link, Reached, ReachingTransport
from espalier.simulator.pods.controller import Pods
from espalier.simulator.pods.runtimes.coroutine_runtime import CoroutineRuntime
from espalier.simulator.pods.runtimes.in_process import InProcessPrograms
from espalier.simulator.pods.runtimes.life import Life
from espalier.simulator.pods.runtimes.pod_network import Listener, endpoint_of
from espalier.simulator.workload_clusters.stores import MemoryStores
from espalier.simulator.workload_clusters.workload_cluster import CONTAINER_RUNTIME, WorkloadCluster
from espalier.simulator.workload_clusters.workloads import Workloads
from espalier.simulator.workload_controllers.controller import WorkloadControllers

T = TypeVar("T")

NAMESPACE = "seeds"
"""The namespace in the keys of seeds, among the clusters of this process."""
POD_SECONDS = 0.05
"""Seconds from a change in a seed until its controllers react."""


class SeedDown(ConnectionError):
    """A seed has no power."""


class Seed:
    """One seed. Its objects and volumes live as long as this Python object, also without power."""

    def __init__(
        self,
        name: str,
        programs: InProcessPrograms,
        *,
        clock: Clock,
        rng: random.Random,
        keys: random.Random | None = None,
        version: str = f"v{KUBERNETES[ROWS[DEFAULT_ROW].nodes[-2]].patch}",
        node_count: int = 1,
        workloads: Workloads | None = None,
    ) -> None:
        """`keys` generates private keys; None for the system's randomness. `workloads` runs its API server; None for
        one of this process, in memory."""
        self.name = name
        self.key = Key(NAMESPACE, name)
        self._clock = clock
        self._rng = rng
        self._version = version
        self._node_count = node_count
        self._authority = Authority.create("kubernetes", now=clock.now(), rng=keys)
        self._workloads = workloads or Workloads(clock=clock, rng=rng, stores=MemoryStores(), listen=False)
        self._runtime = CoroutineRuntime(programs, clock, random.Random(rng.getrandbits(64)))  # noqa: S311 - no keys
        self._pods = Pods(self._workloads, [self._runtime], clock)
        workload_controllers = WorkloadControllers(self._workloads, clock=clock, rng=rng, runs=self._pods.runs)
        self._pod_controller = Controller("seed-pods", replanned(self._pods.reconcile), resync=None)
        self._workload_controller = Controller("seed-workloads", replanned(workload_controllers.reconcile), resync=None)
        self._workloads.subscribe(self._changed)
        self._life: Life | None = None
        self._tasks: list[asyncio.Task[None]] = []

    # --- Power ------------------------------------------------------------------------------------------------------

    @property
    def is_up(self) -> bool:
        """True while the seed's API server runs."""
        return self._life is not None

    @property
    def workload(self) -> WorkloadCluster:
        """The running cluster. Raises `SeedDown`."""
        workload = self._workloads.reach(self.key) if self.is_up else None
        if workload is None:
            raise SeedDown(f"seed {self.name} has no power")
        return workload

    @property
    def life(self) -> Life:
        """The life that ends when the seed loses power. Raises `SeedDown`."""
        if self._life is None:
            raise SeedDown(f"seed {self.name} has no power")
        return self._life

    async def start(self) -> None:
        """Power on: start the API server, controllers and nodes, and the pods that ran before.

        Idempotent.
        """
        if self.is_up:
            return
        await self._workloads.open(
            self.key,
            self._workloads.reserve(self.key),
            authority=self._authority,
            version=self._version,
            network=Network(),
        )
        self._life = Life(f"seed {self.name}")
        for number in range(self._node_count):
            with suppress(AlreadyExists):
                await self.workload.client.create(NODE, self._node(number))
        for controller in (self._workload_controller, self._pod_controller):
            self._tasks.append(asyncio.create_task(controller.run(), name=f"{controller.name} of {self.name}"))
            controller.enqueue(self.key)

    async def destroy(self) -> None:
        """Power off at once, without any cleanup. Objects and volumes are kept for the next `start`.

        Idempotent.
        """
        if self._life is None:
            return
        life, self._life = self._life, None
        life.end()
        for task in self._tasks:
            task.cancel()
        await self._pods.stop(self.key, grace=0)
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await self._workloads.stop(self.key)

    # --- Access -----------------------------------------------------------------------------------------------------

    def client(
        self,
        user: User = ADMIN,
        *,
        link: Link | None = None,
        life: Life | None = None,
        field_manager: str = "espalier",
        agent: str = "espalier",
    ) -> Client:
        """A client of the seed's API server: through a network, and for a container as long as it lives.

        It reconnects when the seed has power again.
        """

        def reach() -> Reached:
            others = [link.life if link is not None else None, life]
            return Reached(self.workload.server, [self.life, *(other for other in others if other is not None)])

        return Client(
            ReachingTransport(reach, user), field_manager=field_manager, user_agent=agent, rng=self.new_random()
        )

    def new_random(self) -> random.Random:
        """Random numbers for a client, so that its retries are spread and simulations are reproducible."""
        return random.Random(self._rng.getrandbits(64))  # noqa: S311 - no keys

    def listener(self, service: Key, port: int) -> Listener:
        """The listener behind a Service of the seed. Raises `ConnectionError`."""
        return self._runtime.network(self.workload).of_service(service, port)

    def connect(self, service: Key, port: int, type_: type[T]) -> T:
        """The endpoint of the listener behind a Service, which is a `type_`. Raises `ConnectionError`."""
        return endpoint_of(self.listener(service, port), type_)

    @property
    def logs(self) -> Mapping[tuple[str, str], Sequence[str]]:
        """The last lines of each container, by the uid of its pod and its name."""
        return self._runtime.logs

    # --- Faults -----------------------------------------------------------------------------------------------------

    def kill(self, pod: Key, container: str) -> None:
        """Kill a container, as `kill -9` on its node. Raises `KeyError` if it does not run."""
        self._pods.kill(self.key, pod, container)

    def _node(self, number: int) -> Tree:
        kubeadm = Kubeadm(version=self._version, control_plane=False, node_name=f"{self.name}-{number}")
        now = condition_list.timestamp(self._clock.now())
        address = f"10.250.{number // 250}.{1 + number % 250}"
        node = nodes.node(
            kubeadm,
            provider_id=f"simulated://{self.name}/{number}",
            address=address,
            container_runtime=CONTAINER_RUNTIME,
            now=now,
        )
        node["spec"]["taints"] = []
        node["status"]["conditions"] = nodes.ready_conditions(now)
        return node

    def _changed(self, cluster: Key, _object: Object) -> None:
        self._workload_controller.enqueue(cluster, after=POD_SECONDS)
        self._pod_controller.enqueue(cluster)
