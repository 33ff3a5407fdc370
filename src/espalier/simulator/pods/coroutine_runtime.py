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
from espalier.kube.objects import Object
from espalier.runtime.clock import Clock
from espalier.simulator.pods.in_process import Container, InProcessProgram, InProcessPrograms
from espalier.simulator.pods.inputs import Inputs
from espalier.simulator.pods.life import Life
from espalier.simulator.pods.memory_volumes import Disks, mounted
from espalier.simulator.pods.pod_network import PodNetwork
from espalier.simulator.pods.process import port_number
from espalier.simulator.pods.process_runtime import internal_ip
from espalier.simulator.pods.runtime import KILLED, TERMINATED, NotYet
from espalier.simulator.workload_cluster import WorkloadCluster

LONGEST_LOG = 1000
"""Lines of a log that are kept."""
_VARIABLE = re.compile(r"\$\$|\$\(([-._a-zA-Z0-9]+)\)")

_log = structlog.get_logger("espalier.simulator.pods")


class CoroutineRuntime:
    """Runs the containers whose images have one of the `programs`. Bound volumes live as long as this object."""

    def __init__(self, programs: InProcessPrograms, clock: Clock, rng: random.Random) -> None:
        self._programs = programs
        self.clock = clock
        self.rng = rng
        self._networks: dict[Key, PodNetwork] = {}
        self._disks: dict[Key, Disks] = {}
        self.logs: dict[tuple[str, str], list[str]] = {}
        self._addresses: dict[str, str] = {}

    def runs(self, image: str) -> bool:
        """True if there is a program for an image."""
        return self._programs(image) is not None

    def network(self, workload: WorkloadCluster) -> PodNetwork:
        """The network of a cluster's containers."""
        found = self._networks.get(workload.key)
        if found is None or found.workload is not workload:
            found = self._networks[workload.key] = PodNetwork(workload)
        return found

    def disks(self, cluster: Key) -> Disks:
        """The volumes of a cluster."""
        return self._disks.setdefault(cluster, Disks())

    def pod(self, workload: WorkloadCluster, pod: Object, node: Object) -> PodCoroutines:
        """The runtime of a pod."""
        address = self._address(workload, pod, node)
        inputs = Inputs(workload.client, pod.tree, _no_account)
        return PodCoroutines(self, pod, address, inputs, self.disks(workload.key), self.network(workload))

    def program(self, image: str) -> InProcessProgram:
        """The program of an image. Raises `ValueError`."""
        program = self._programs(image)
        if program is None:
            raise ValueError(f"the image {image} has no program on simulated nodes")
        return program

    def log(self, pod: str, container: str) -> list[str]:
        """The lines of a container, to be added to."""
        return self.logs.setdefault((pod, container), [])

    async def read_log(self, pod: Tree, container: str) -> bytes:
        """The last lines of a container."""
        return "".join(f"{line}\n" for line in self.logs.get((pod["metadata"]["uid"], container), ())).encode()

    def sweep(self, workload: WorkloadCluster, pods: Collection[str]) -> None:
        """Remove volumes and logs of what is gone."""
        disks = self.disks(workload.key)
        bound = {volume.name for volume in workload.cache(PERSISTENT_VOLUME).list()}
        for name in [name for name in disks.bound if name not in bound]:
            del disks.bound[name]
        for uid in [uid for uid in disks.of_pods if uid not in pods]:
            del disks.of_pods[uid]
        for key in [key for key in self.logs if key[0] not in pods]:
            del self.logs[key]
        for uid in [uid for uid in self._addresses if uid not in pods]:
            del self._addresses[uid]

    def _address(self, workload: WorkloadCluster, pod: Object, node: Object) -> str:
        """A free address of the node's range, as its network plugin assigns them."""
        if pod.metadata.uid in self._addresses:
            return self._addresses[pod.metadata.uid]
        range_ = (node.tree.get("spec") or {}).get("podCIDR")
        if not range_ or pod.tree["spec"].get("hostNetwork"):
            return internal_ip(node)
        used = {(one.tree.get("status") or {}).get("podIP") for one in workload.cache(POD).list()}
        used |= set(self._addresses.values())
        hosts = ipaddress.ip_network(range_).hosts()
        next(hosts, None)  # the node's bridge
        found = next((str(host) for host in hosts if str(host) not in used), internal_ip(node))
        self._addresses[pod.metadata.uid] = found
        return found


class PodCoroutines:
    """Runs the containers of one pod as coroutines."""

    def __init__(
        self, runtime: CoroutineRuntime, pod: Object, address: str, inputs: Inputs, disks: Disks, network: PodNetwork
    ) -> None:
        self._runtime = runtime
        self._pod = pod
        self.address = address
        self._inputs = inputs
        self._disks = disks
        self._network = network
        self._running: dict[str, CoroutineRun] = {}
        self._shared = bool(pod.tree["spec"].get("shareProcessNamespace"))

    async def clear(self) -> None:
        """Do nothing: coroutines do not outlive this process."""

    async def prepare(self, container: Tree) -> CoroutineRun:
        """A run, with its volumes mounted."""
        name, image = str(container["name"]), str(container.get("image", ""))
        program = self._runtime.program(image)
        life = Life(f"container {name} of pod {self._pod.key}")
        volumes = await mounted(container, self._inputs, self._disks, life)
        environment = {"HOSTNAME": self._pod.name, **await self._inputs.environment(container)}
        words = (*(container.get("command") or ()), *(container.get("args") or ()))
        seen = Container(
            self._pod.key,
            self._pod.metadata.uid,
            name,
            image,
            [_expanded(word, environment) for word in words],
            environment,
            volumes,
            self._runtime.clock,
            random.Random(self._runtime.rng.getrandbits(64)),  # noqa: S311 - not for keys
            self._network,
            life,
            partial(self._send_signal, name),
            log=self._runtime.log(self._pod.metadata.uid, name),
        )
        run = CoroutineRun(program, container, seen)
        self._running[name] = run
        life.at_end(lambda: self._forget(run))
        return run

    def close(self) -> None:
        """Release all resources of the pod."""

    def _forget(self, run: CoroutineRun) -> None:
        self._running = {name: one for name, one in self._running.items() if one is not run}

    def _send_signal(self, sender: str, container: str, signal: Signals) -> None:
        run = self._running.get(container)
        if run is None or not (self._shared or sender == container):
            raise ProcessLookupError(f"container {sender} sees no process of container {container}")
        run.signal(signal)


class CoroutineRun:
    """One run of one container."""

    def __init__(self, program: InProcessProgram, container: Tree, seen: Container) -> None:
        self._program = program
        self._container = container
        self._seen = seen
        self._task: asyncio.Task[int] | None = None
        self._code: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._terminated = False

    async def to_the_end(self) -> int:
        """Run the program. On cancellation it is killed."""
        if not self._code.done():
            self._task = asyncio.ensure_future(self._program(self._seen))
            self._task.set_name(self._seen.life.name)
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
        """Kill it: from now on it can't reach anything."""
        self._finish(KILLED)
        if self._task is not None:
            self._task.cancel()

    async def probe(self, action: Tree) -> bool:
        """Probe the container's listeners."""
        for kind in ("httpGet", "tcpSocket"):
            if (target := action.get(kind)) is not None:
                port = port_number(self._container, target["port"])
                listener = self._seen.network.of_pod(self._seen.pod_uid, port)
                if kind == "tcpSocket":
                    return True
                if listener.answers is None:
                    return False
                return 200 <= await listener.answers(str(target.get("path") or "/")) < 400
        name, *words = (action.get("exec") or {}).get("command") or ("",)
        if name not in self._seen.commands:
            raise ValueError(f"the program has no command {name!r}; allowed are {', '.join(self._seen.commands)}")
        return await self._seen.commands[name](words) == 0

    def message(self, _code: int) -> str:
        """The termination message of the program, or its error."""
        return self._seen.message

    def _terminate(self) -> None:
        if self._task is None:
            self._finish(TERMINATED)
        elif not self._terminated:
            self._terminated = True
            self._task.cancel()

    def _ended(self, task: asyncio.Task[int]) -> None:
        del self._seen.log[:-LONGEST_LOG]
        if task.cancelled():
            self._finish(TERMINATED if self._terminated else KILLED)
        elif (error := task.exception()) is not None:
            if not self._seen.life.over:
                self._seen.message = self._seen.message or f"{type(error).__name__}: {error}"
                _log.warning("a container failed", container=self._seen.life.name, error=str(error), exc_info=error)
            self._finish(1)
        else:
            self._finish(task.result())

    def _finish(self, code: int) -> None:
        if not self._code.done():
            self._code.set_result(code)
        self._seen.life.end()


async def _no_account() -> Mapping[str, str]:
    raise NotYet("containers of this process have no ServiceAccount token")


def _expanded(word: str, variables: Mapping[str, str]) -> str:
    """`$(NAME)` in a word of a command becomes the variable, as kubelets do it; `$$` is a dollar."""

    def value(match: re.Match[str]) -> str:
        return "$" if match[0] == "$$" else variables.get(match[1], match[0])

    return _VARIABLE.sub(value, word)
