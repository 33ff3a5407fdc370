"""Runs one pod: its init containers one by one, then its containers, and writes its status."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from espalier.api import conditions as condition_list
from espalier.api.core import POD
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Conflict, KubeError, NotFound
from espalier.runtime.clock import Clock
from espalier.simulator.pods.probes import Prober
from espalier.simulator.pods.runtimes.runtime import DependencyMissing, PodRuntime, Run
from espalier.simulator.pods.states import LOST_REASON, Container, Pod, container_from_status

RETRY_SECONDS = 2.0
"""Seconds until a container with missing dependencies is tried again."""
GRACE = 30.0
"""Seconds: the default of `terminationGracePeriodSeconds`."""
SCHEME = "process"
"""The scheme of container IDs, in place of `containerd`."""

_log = structlog.get_logger("espalier.simulator.pods")


FIRST_BACK_OFF, LONGEST_BACK_OFF = 10.0, 300.0
RESET_AFTER = 2 * LONGEST_BACK_OFF
"""Seconds: a container that ran longer is restarted at once, and its back-off begins again, as kubelets do it."""


class BackOff:
    """The back-off of a container's restarts: 0 s before the first, then 10 s, 20 s and so on up to 300 s."""

    def __init__(self) -> None:
        self._started_again: float | None = None
        self._next = FIRST_BACK_OFF

    def pause(self, ended: float) -> float:
        """Seconds from the end of a container to its next start."""
        if self._started_again is None or ended - self._started_again > RESET_AFTER:
            pause, self._next = 0.0, FIRST_BACK_OFF
        else:
            pause, self._next = self._next, min(2 * self._next, LONGEST_BACK_OFF)
        self._started_again = ended + pause
        return pause


class PodRun:
    """Runs one pod and reports its status; `status` of the given `pod` is where an earlier process left off."""

    def __init__(self, pod: Tree, *, client: Client, runtime: PodRuntime, clock: Clock, host_address: str) -> None:
        self._tree = pod
        self._client = client
        self._runtime = runtime
        self._clock = clock
        self._conditions = (pod.get("status") or {}).get("conditions") or []
        self._status_lock = asyncio.Lock()
        self._runs: dict[str, Run] = {}
        spec, status = pod["spec"], pod.get("status") or {}
        now = self._now()
        self.pod = Pod(
            [
                container_from_status(init, status.get("initContainerStatuses") or (), now)
                for init in spec.get("initContainers") or ()
            ],
            [container_from_status(main, status.get("containerStatuses") or (), now) for main in spec["containers"]],
            spec.get("restartPolicy", "Always"),
            status.get("startTime") or now,
            runtime.address,
            host_address,
        )
        self.grace = float(spec.get("terminationGracePeriodSeconds", GRACE))
        """The grace period of its containers; a deletion of the pod may set another."""

    @property
    def key(self) -> Key:
        """The pod's namespace and name."""
        return Key(self._tree["metadata"]["namespace"], self._tree["metadata"]["name"])

    def kill(self, container: str) -> None:
        """Kill a container, as `kill -9` on its node does. Raises `KeyError` if it does not run."""
        self._runs[container].kill()

    def kill_all(self) -> None:
        """Kill all containers, as a power cut of the node does. They restart unless the pod is cancelled as well."""
        for run in list(self._runs.values()):
            run.kill()

    async def run_to_completion(self) -> None:
        """Run the pod until it is complete; on cancellation its containers are stopped."""
        try:
            if any(container.reason == LOST_REASON for container in (*self.pod.inits, *self.pod.mains)):
                await self._runtime.clear()
            for init in self.pod.inits:
                if not await self._run_init_container(init):
                    break
            else:
                for main in self.pod.mains:
                    if main.code is None:
                        main.wait("ContainerCreating")
                async with asyncio.TaskGroup() as group:
                    for main in self.pod.mains:
                        group.create_task(self._run_container(main), name=f"container {main.name} of {self.key}")
            await self._report()
        except* (NotFound, Conflict):  # Conflict: another pod of the same name
            _log.debug("the pod was deleted", pod=self.key.name)

    async def _run_init_container(self, init: Container) -> bool:
        back_off = BackOff()
        while not init.succeeded:
            if init.code is not None:
                if not self.pod.should_restart(init, init=True):
                    return False
                await self._back_off(back_off)
            await self._run_once(init)
        return True

    async def _run_container(self, main: Container) -> None:
        back_off = BackOff()
        while main.code is None or self.pod.should_restart(main):
            if main.code is not None:
                await self._back_off(back_off)
            await self._run_once(main)

    async def _back_off(self, back_off: BackOff) -> None:
        await self._report()
        await asyncio.sleep(back_off.pause(self._clock.monotonic()))

    async def _run_once(self, container: Container) -> None:
        """Wait for the dependencies of a container, run it once, and probe it meanwhile."""
        run = await self._prepare_run(container)
        container.start(
            self._now(), f"{SCHEME}://{self._tree['metadata']['uid']}-{container.name}-{container.restarts}"
        )
        task = asyncio.create_task(run.run_to_completion(), name=f"run of {container.name} of {self.key}")
        self._runs[container.name] = run
        probing: asyncio.Task[None] | None = None
        try:
            await self._report()
            probing = asyncio.create_task(self._prober(container, run).watch(), name=f"probes of {container.name}")
            code = await asyncio.shield(task)
        except BaseException:
            await run.stop(self.grace)
            await asyncio.gather(task, return_exceptions=True)
            raise
        finally:
            del self._runs[container.name]
            if probing is not None:
                probing.cancel()
                await asyncio.gather(probing, return_exceptions=True)
        container.end(self._now(), code, run.message(code))
        await self._report()

    def _prober(self, container: Container, run: Run) -> Prober:
        async def report(started: bool, ready: bool) -> None:
            container.up, container.ready = started, ready
            await self._report()

        async def restart(grace: float | None) -> None:
            await run.stop(self.grace if grace is None else grace)

        return Prober(container.spec, run.probe, self._clock, report, restart)

    async def _prepare_run(self, container: Container) -> Run:
        while True:
            try:
                return await self._runtime.prepare(container.spec)
            except (DependencyMissing, KubeError, ValueError, KeyError, OSError) as missing:
                if container.code is None:
                    container.wait("CreateContainerConfigError", str(missing))
                    await self._report()
                await asyncio.sleep(RETRY_SECONDS)

    async def _report(self) -> None:
        """Write the status. Raises `NotFound`, or `Conflict` for another pod of the name, if the pod was deleted."""
        metadata = self._tree["metadata"]
        async with self._status_lock:
            status = self.pod.status(self._conditions, self._now())
            self._conditions = status["conditions"]
            patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
            await write_with_retries(
                lambda: self._client.patch(
                    POD, self.key.name, self.key.namespace, patch=patch, type=PatchType.MERGE, subresource="status"
                )
            )

    def _now(self) -> str:
        return condition_list.timestamp(self._clock.now())


async def write_with_retries(write: Callable[[], Awaitable[object]]) -> None:
    """Write, with retries while the API server is unavailable. Raises `NotFound`, `Conflict`."""
    back_off = 0.05
    while True:
        try:
            await write()
        except (NotFound, Conflict):
            raise
        except KubeError as error:
            if back_off > 1:
                _log.warning("could not write the status of a pod", error=str(error))
            await asyncio.sleep(back_off)
            back_off = min(back_off * 2, 10)
        else:
            return
