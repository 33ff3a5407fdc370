"""Runs containers as coroutines of this process."""

from __future__ import annotations

import asyncio
import ipaddress
import random
import re
from collections.abc import Collection, Mapping
from functools import partial
from signal import Signals

import structlog

from espalier.api.core import PERSISTENT_VOLUME, POD
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object
from espalier.runtime.clock import Clock
from espalier.simulator.pods.runtimes.in_process import Container, InProcessProgram, InProcessPrograms
from espalier.simulator.pods.runtimes.inputs import Inputs
from espalier.simulator.pods.runtimes.life import Life
from espalier.simulator.pods.runtimes.memory_volumes import ClusterVolumes, mount_volumes
from espalier.simulator.pods.runtimes.pod_network import PodNetwork
from espalier.simulator.pods.runtimes.process import port_number
from espalier.simulator.pods.runtimes.process_runtime import internal_ip
from espalier.simulator.pods.runtimes.runtime import KILLED, TERMINATED, DependencyMissing
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster

LONGEST_LOG = 1000
"""Lines of a log that are kept."""
_VARIABLE = re.compile(r"\$\$|\$\(([-._a-zA-Z0-9]+)\)")

_log = structlog.get_logger("espalier.simulator.pods")


class CoroutineRuntime:
    """Runs the containers whose images have a program in `programs`. PersistentVolumes live as long as this object."""

    def __init__(self, programs: InProcessPrograms, clock: Clock, rng: random.Random) -> None:
        self._programs = programs
        self.clock = clock
        self.rng = rng
        self._networks: dict[Key, PodNetwork] = {}
        self._volumes: dict[Key, ClusterVolumes] = {}
        self.logs: dict[tuple[str, str], list[str]] = {}
        self._addresses: dict[str, str] = {}

    def runs(self, image: str) -> bool:
        """True if there is a program for an image."""
        return self._programs(image) is not None

    def network(self, workload: WorkloadCluster) -> PodNetwork:
        """The pod network of a cluster; a new one for a recreated cluster."""
        network = self._networks.get(workload.key)
        if network is None or network.workload is not workload:
            network = self._networks[workload.key] = PodNetwork(workload)
        return network

    def volumes_of(self, cluster: Key) -> ClusterVolumes:
        """The volumes of a cluster."""
        return self._volumes.setdefault(cluster, ClusterVolumes())

    def pod(self, workload: WorkloadCluster, pod: Object, node: Object) -> PodCoroutines:
        """The runtime of a pod."""
        address = self._address(workload, pod, node)
        inputs = Inputs(workload.client, pod.tree, partial(_service_account, workload, pod))
        return PodCoroutines(self, pod, address, inputs, self.volumes_of(workload.key), self.network(workload))

    def program(self, image: str) -> InProcessProgram:
        """The program of an image. Raises `ValueError` if it has none."""
        program = self._programs(image)
        if program is None:
            raise ValueError(f"the image {image} has no program on simulated nodes")
        return program

    def log(self, pod: str, container: str) -> list[str]:
        """The log of a container by its pod's uid: lines, to be appended to by its program."""
        return self.logs.setdefault((pod, container), [])

    async def read_log(self, pod: Tree, container: str) -> bytes:
        """The log of a container, of all its runs; each run's end leaves the last `LONGEST_LOG` lines."""
        return "".join(f"{line}\n" for line in self.logs.get((pod["metadata"]["uid"], container), ())).encode()

    def sweep(self, workload: WorkloadCluster, pods: Collection[str]) -> None:
        """Remove volumes that do not exist any more, and the volumes, logs and addresses of such pods."""
        volumes = self.volumes_of(workload.key)
        existing = {volume.name for volume in workload.cache(PERSISTENT_VOLUME).list()}
        for name in [name for name in volumes.persistent if name not in existing]:
            del volumes.persistent[name]
        for uid in [uid for uid in volumes.of_pods if uid not in pods]:
            del volumes.of_pods[uid]
        for key in [key for key in self.logs if key[0] not in pods]:
            del self.logs[key]
        for uid in [uid for uid in self._addresses if uid not in pods]:
            del self._addresses[uid]

    def _address(self, workload: WorkloadCluster, pod: Object, node: Object) -> str:
        """A free address of the node's podCIDR, as its CNI assigns them; the node's with hostNetwork or without one."""
        if pod.metadata.uid in self._addresses:
            return self._addresses[pod.metadata.uid]
        pod_cidr = (node.tree.get("spec") or {}).get("podCIDR")
        if not pod_cidr or pod.tree["spec"].get("hostNetwork"):
            return internal_ip(node)
        used = {(other.tree.get("status") or {}).get("podIP") for other in workload.cache(POD).list()}
        used |= set(self._addresses.values())
        hosts = ipaddress.ip_network(pod_cidr).hosts()
        next(hosts, None)  # the node's bridge
        address = next((str(host) for host in hosts if str(host) not in used), internal_ip(node))
        self._addresses[pod.metadata.uid] = address
        return address


class PodCoroutines:
    """Runs the containers of one pod as coroutines."""

    def __init__(
        self,
        runtime: CoroutineRuntime,
        pod: Object,
        address: str,
        inputs: Inputs,
        volumes: ClusterVolumes,
        network: PodNetwork,
    ) -> None:
        self._runtime = runtime
        self._pod = pod
        self.address = address
        self._inputs = inputs
        self._cluster_volumes = volumes
        self._network = network
        self._running: dict[str, CoroutineRun] = {}
        self._shared = bool(pod.tree["spec"].get("shareProcessNamespace"))

    async def clear(self) -> None:
        """Do nothing: coroutines do not outlive this process."""

    async def prepare(self, container: Tree) -> CoroutineRun:
        """A run, whose volumes are mounted. Raises as `PodRuntime.prepare`."""
        name, image = str(container["name"]), str(container.get("image", ""))
        program = self._runtime.program(image)
        life = Life(f"container {name} of pod {self._pod.key}")
        volumes = await mount_volumes(container, self._inputs, self._cluster_volumes, life)
        environment = {"HOSTNAME": self._pod.name, **await self._inputs.environment(container)}
        command = (*(container.get("command") or ()), *(container.get("args") or ()))
        context = Container(
            self._pod.key,
            self._pod.metadata.uid,
            name,
            image,
            [_expanded(argument, environment) for argument in command],
            environment,
            volumes,
            self._runtime.clock,
            random.Random(self._runtime.rng.getrandbits(64)),  # noqa: S311 - not for keys
            self._network,
            life,
            partial(self._send_signal, name),
            log=self._runtime.log(self._pod.metadata.uid, name),
        )
        run = CoroutineRun(program, container, context)
        self._running[name] = run
        life.at_end(lambda: self._forget(run))
        return run

    def close(self) -> None:
        """Do nothing: each run releases its resources at its end."""

    def _forget(self, run: CoroutineRun) -> None:
        self._running = {name: other for name, other in self._running.items() if other is not run}

    def _send_signal(self, sender: str, container: str, signal: Signals) -> None:
        run = self._running.get(container)
        if run is None or not (self._shared or sender == container):
            raise ProcessLookupError(f"container {sender} sees no process of container {container}")
        run.signal(signal)


class CoroutineRun:
    """One run of one container."""

    def __init__(self, program: InProcessProgram, container: Tree, context: Container) -> None:
        self._program = program
        self._container = container
        self._context = context
        self._task: asyncio.Task[int] | None = None
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._terminated = False

    async def run_to_completion(self) -> int:
        """Run the program; return its exit code. On cancellation it is killed."""
        if not self._code.done():
            self._task = asyncio.ensure_future(self._program(self._context))
            self._task.set_name(self._context.life.name)
            self._task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(self._code)
        except asyncio.CancelledError:
            self.kill()
            raise

    def signal(self, signal: Signals) -> None:
        """Deliver SIGTERM or SIGKILL; others do nothing."""
        if signal == Signals.SIGKILL:
            self.kill()
        elif signal == Signals.SIGTERM:
            self._terminate()

    async def stop(self, grace: float) -> None:
        """SIGTERM, and SIGKILL after `grace` seconds."""
        if grace > 0:
            self._terminate()
            await asyncio.wait((self._code,), timeout=grace)
        self.kill()

    def kill(self) -> None:
        """Kill the container: its volumes, listeners and connections are gone at once, before its coroutine ends."""
        self._finish(KILLED)
        if self._task is not None:
            self._task.cancel()

    async def probe(self, action: Tree) -> bool:
        """True if a listener answers the probe, or a command of the program succeeds.

        Raises `ConnectionRefused` where nothing listens, and `ValueError` for an unknown port or command.
        """
        for kind in ("httpGet", "tcpSocket"):
            if (target := action.get(kind)) is not None:
                port = port_number(self._container, target["port"])
                listener = self._context.network.of_pod(self._context.pod_uid, port)
                if kind == "tcpSocket":
                    return True
                if listener.answers is None:
                    return False
                return 200 <= await listener.answers(str(target.get("path") or "/")) < 400
        name, *arguments = (action.get("exec") or {}).get("command") or ("",)
        if name not in self._context.commands:
            raise ValueError(f"the program has no command {name!r}; allowed are {', '.join(self._context.commands)}")
        return await self._context.commands[name](arguments) == 0

    def message(self, _code: int) -> str:
        """The termination message of the program, or its error."""
        return self._context.message

    def _terminate(self) -> None:
        if self._task is None:
            self._finish(TERMINATED)
        elif not self._terminated:
            self._terminated = True
            self._task.cancel()

    def _ended(self, task: asyncio.Task[int]) -> None:
        del self._context.log[:-LONGEST_LOG]
        if task.cancelled():
            self._finish(TERMINATED if self._terminated else KILLED)
        elif (error := task.exception()) is not None:
            if not self._context.life.over:
                self._context.message = self._context.message or f"{type(error).__name__}: {error}"
                _log.warning("a container failed", container=self._context.life.name, error=str(error), exc_info=error)
            self._finish(1)
        else:
            self._finish(task.result())

    def _finish(self, code: int) -> None:
        if not self._code.done():
            self._code.set_result(code)
        self._context.life.end()


async def _service_account(workload: WorkloadCluster, pod: Object) -> Mapping[str, str]:
    try:
        files = await workload.service_account_files(pod)
    except KubeError as error:
        raise DependencyMissing(f"no token of its ServiceAccount: {error}") from error
    if files is None:
        raise DependencyMissing("containers of this process have no ServiceAccount token")
    return files


def _expanded(argument: str, variables: Mapping[str, str]) -> str:
    """Expand `$(NAME)` in a word of a command, as kubelets do: `$$` is a dollar, an unknown name stays as it is."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else variables.get(match[1], match[0])

    return _VARIABLE.sub(value, argument)
