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
from espalier.simulator.pods.probes import Health
from espalier.simulator.pods.runtime import NotYet, PodRuntime, Run
from espalier.simulator.pods.states import LOST_REASON, Container, Pod, restored

CHECK_AGAIN = 2.0
"""Seconds until a container with missing dependencies is tried again."""
GRACE = 30.0
SCHEME = "process"
"""Of the IDs of containers."""

_log = structlog.get_logger("espalier.simulator.pods")


FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0
FORGOTTEN_AFTER = 2 * LONGEST_PAUSE
"""A container that ran this long begins anew without a pause."""


class BackOff:
    """None before the first restart, then 10 s, 20 s and so on up to 300 s."""

    def __init__(self) -> None:
        self._started_again: float | None = None
        self._next = FIRST_PAUSE

    def pause(self, ended: float) -> float:
        """Seconds from the end of a container to its next start."""
        if self._started_again is None or ended - self._started_again > FORGOTTEN_AFTER:
            pause, self._next = 0.0, FIRST_PAUSE
        else:
            pause, self._next = self._next, min(2 * self._next, LONGEST_PAUSE)
        self._started_again = ended + pause
        return pause


class PodRun:
    """A running pod."""

    def __init__(self, pod: Tree, *, client: Client, runtime: PodRuntime, clock: Clock, host_address: str) -> None:
        self._tree = pod
        self._client = client
        self._runtime = runtime
        self._clock = clock
        self._conditions = (pod.get("status") or {}).get("conditions") or []
        self._reporting = asyncio.Lock()
        self._runs: dict[str, Run] = {}
        spec, status = pod["spec"], pod.get("status") or {}
        now = self._now()
        self.pod = Pod(
            [restored(one, status.get("initContainerStatuses") or (), now) for one in spec.get("initContainers") or ()],
            [restored(one, status.get("containerStatuses") or (), now) for one in spec["containers"]],
            spec.get("restartPolicy", "Always"),
            status.get("startTime") or now,
            runtime.address,
            host_address,
        )
        self.grace = float(spec.get("terminationGracePeriodSeconds", GRACE))
        """The grace period of its containers; a deletion of the pod may set another."""

    @property
    def key(self) -> Key:
        """Its namespace and name."""
        return Key(self._tree["metadata"]["namespace"], self._tree["metadata"]["name"])

    def kill(self, container: str) -> None:
        """Kill a container, as `kill -9` on its node does. Raises `KeyError` if it does not run."""
        self._runs[container].kill()

    def kill_all(self) -> None:
        """Kill what runs, as a node without power does. It is started again unless the pod is cancelled as well."""
        for run in list(self._runs.values()):
            run.kill()

    async def to_the_end(self) -> None:
        """Run the pod until it is complete; on cancellation its containers are stopped."""
        try:
            if any(one.reason == LOST_REASON for one in (*self.pod.inits, *self.pod.mains)):
                await self._runtime.clear()
            for init in self.pod.inits:
                if not await self._until_succeeded(init):
                    break
            else:
                for main in self.pod.mains:
                    if main.code is None:
                        main.wait("ContainerCreating")
                async with asyncio.TaskGroup() as group:
                    for main in self.pod.mains:
                        group.create_task(self._as_long_as_it_should(main), name=f"container {main.name} of {self.key}")
            await self._report()
        except* (NotFound, Conflict):  # possibly another pod of the same name
            _log.debug("the pod was deleted", pod=self.key.name)

    async def _until_succeeded(self, init: Container) -> bool:
        back_off = BackOff()
        while not init.succeeded:
            if init.code is not None:
                if not self.pod.again(init, init=True):
                    return False
                await self._pause(back_off)
            await self._once(init)
        return True

    async def _as_long_as_it_should(self, main: Container) -> None:
        back_off = BackOff()
        while main.code is None or self.pod.again(main):
            if main.code is not None:
                await self._pause(back_off)
            await self._once(main)

    async def _pause(self, back_off: BackOff) -> None:
        await self._report()
        await asyncio.sleep(back_off.pause(self._clock.monotonic()))

    async def _once(self, container: Container) -> None:
        """Run a container once, and probe it meanwhile; wait for missing dependencies before."""
        run = await self._prepared(container)
        container.start(
            self._now(), f"{SCHEME}://{self._tree['metadata']['uid']}-{container.name}-{container.restarts}"
        )
        running = asyncio.create_task(run.to_the_end(), name=f"run of {container.name} of {self.key}")
        self._runs[container.name] = run
        probing: asyncio.Task[None] | None = None
        try:
            await self._report()
            probing = asyncio.create_task(self._health(container, run).watch(), name=f"probes of {container.name}")
            code = await asyncio.shield(running)
        except BaseException:
            await run.stop(self.grace)
            await asyncio.gather(running, return_exceptions=True)
            raise
        finally:
            del self._runs[container.name]
            if probing is not None:
                probing.cancel()
                await asyncio.gather(probing, return_exceptions=True)
        container.end(self._now(), code, run.message(code))
        await self._report()

    def _health(self, container: Container, run: Run) -> Health:
        async def report(started: bool, ready: bool) -> None:
            container.up, container.ready = started, ready
            await self._report()

        async def restart(grace: float | None) -> None:
            await run.stop(self.grace if grace is None else grace)

        return Health(container.spec, run.probe, self._clock, report, restart)

    async def _prepared(self, container: Container) -> Run:
        while True:
            try:
                return await self._runtime.prepare(container.spec)
            except (NotYet, ValueError, KeyError, OSError) as missing:
                if container.code is None:
                    container.wait("CreateContainerConfigError", str(missing))
                    await self._report()
                await asyncio.sleep(CHECK_AGAIN)

    async def _report(self) -> None:
        """Write the status. Raises `NotFound`, `Conflict` when the pod was deleted."""
        metadata = self._tree["metadata"]
        async with self._reporting:
            status = self.pod.status(self._conditions, self._now())
            self._conditions = status["conditions"]
            patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
            await retried(
                lambda: self._client.patch(
                    POD, self.key.name, self.key.namespace, patch=patch, type=PatchType.MERGE, subresource="status"
                )
            )

    def _now(self) -> str:
        return condition_list.timestamp(self._clock.now())


async def retried(write: Callable[[], Awaitable[object]]) -> None:
    """Write, with retries while the API server is unavailable. Raises `NotFound`, `Conflict`."""
    pause = 0.05
    while True:
        try:
            await write()
        except (NotFound, Conflict):
            raise
        except KubeError as error:
            if pause > 1:
                _log.warning("could not write the status of a pod", error=str(error))
            await asyncio.sleep(pause)
            pause = min(pause * 2, 10)
        else:
            return
