"""Runs one pod: its init containers one by one, then its containers, and writes its status."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from espalier.api.core import POD
from espalier.api.meta import Tree
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Conflict, KubeError, NotFound
from espalier.runtime.clock import Clock
from espalier.simulator.pods.process import Run, end_left_over
from espalier.simulator.pods.program import Programs
from espalier.simulator.pods.states import LOST_REASON, Container, Pod, restored
from espalier.simulator.pods.volumes import NotYet, Source

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0
"""Seconds before a container is started again; doubled each time, as kubelets do."""
CHECK_AGAIN = 2.0
"""Seconds until a container with missing dependencies is tried again."""
GRACE = 30.0

_log = structlog.get_logger("espalier.simulator.pods")


class PodRun:
    """A running pod."""

    def __init__(
        self,
        pod: Tree,
        *,
        client: Client,
        programs: Programs,
        source: Source,
        environment: Callable[[], dict[str, str]],
        folder: Path,
        clock: Clock,
        host_address: str,
        written: Callable[[], None] = lambda: None,
    ) -> None:
        self._tree = pod
        self._client = client
        self._programs = programs
        self._source = source
        self._environment = environment
        self._folder = folder
        self._clock = clock
        self._written = written
        self._conditions = (pod.get("status") or {}).get("conditions") or []
        spec, status = pod["spec"], pod.get("status") or {}
        now = self._now()
        self.pod = Pod(
            [restored(one, status.get("initContainerStatuses") or (), now) for one in spec.get("initContainers") or ()],
            [restored(one, status.get("containerStatuses") or (), now) for one in spec["containers"]],
            spec.get("restartPolicy", "Always"),
            status.get("startTime") or now,
            host_address,
            host_address,
        )
        self.grace = float(spec.get("terminationGracePeriodSeconds", GRACE))

    async def to_the_end(self) -> None:
        """Run the pod until it is complete; on cancellation its processes are stopped."""
        try:
            if any(one.reason == LOST_REASON for one in (*self.pod.inits, *self.pod.mains)):
                while not await asyncio.to_thread(end_left_over, self._folder):
                    _log.warning("what is left over of a pod does not end", pod=self._tree["metadata"]["name"])
            for init in self.pod.inits:
                if not await self._until_succeeded(init):
                    break
            else:
                for main in self.pod.mains:
                    if main.code is None:
                        main.wait("ContainerCreating")
                async with asyncio.TaskGroup() as group:
                    for main in self.pod.mains:
                        group.create_task(self._as_long_as_it_should(main))
            await self._report()
        except (NotFound, Conflict):  # possibly another pod of the same name
            _log.debug("the pod was deleted", pod=self._tree["metadata"]["name"])

    async def _until_succeeded(self, init: Container) -> bool:
        while not init.succeeded:
            if init.code is not None:
                if not self.pod.again(init, init=True):
                    return False
                await self._pause(init)
            await self._once(init)
        return True

    async def _as_long_as_it_should(self, main: Container) -> None:
        while main.code is None or self.pod.again(main):
            if main.code is not None:
                await self._pause(main)
            await self._once(main)

    async def _pause(self, container: Container) -> None:
        await self._report()
        await asyncio.sleep(min(FIRST_PAUSE * 2**container.restarts, LONGEST_PAUSE))

    async def _once(self, container: Container) -> None:
        """Run a container once; wait for missing dependencies."""
        run = await self._prepared(container)
        container.start(self._now(), f"{self._tree['metadata']['uid']}-{container.name}-{container.restarts}")
        await self._report()
        code = await run.to_the_end(self.grace)
        container.end(self._now(), code, run.message(code))
        await self._report()

    async def _prepared(self, container: Container) -> Run:
        while True:
            program = self._programs(str(container.spec.get("image", "")))
            try:
                if program is None:
                    raise ValueError(f"the image {container.spec.get('image')} has no program on simulated nodes")
                mounts = await self._source.mounts(container.spec)
                variables = await self._source.environment(container.spec)
                asked = {name: value for name, value in variables.items() if name in program.variables}
                run = Run(program, container.spec, self._folder, mounts, {**asked, **self._environment()})
                run.write_files()
            except (NotYet, ValueError, KeyError, OSError) as missing:
                if container.code is None:
                    container.wait("CreateContainerConfigError", str(missing))
                    await self._report()
                await asyncio.sleep(CHECK_AGAIN)
                continue
            return run

    async def _report(self) -> None:
        """Write the status. Raises `NotFound`, `Conflict` when the pod was deleted."""
        metadata = self._tree["metadata"]
        status = self.pod.status(self._conditions, self._now())
        self._conditions = status["conditions"]
        patch = {"metadata": {"uid": metadata["uid"]}, "status": status}
        await retried(
            lambda: self._client.patch(
                POD, metadata["name"], metadata["namespace"], patch=patch, type=PatchType.MERGE, subresource="status"
            )
        )
        self._written()

    def _now(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


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
