"""Runs pods that are bound to nodes of this process and whose images have a program. One reconcile covers one
cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import structlog

from espalier.api.core import NODE, POD
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import PatchType
from espalier.kube.errors import Conflict, NotFound
from espalier.kube.objects import Object
from espalier.runtime.clock import Clock
from espalier.runtime.outcome import Done, Outcome, Wait
from espalier.simulator.pods.process_runtime import internal_ip
from espalier.simulator.pods.running import CHECK_AGAIN, PodRun, retried
from espalier.simulator.pods.runtime import PodRuntime, Runtime
from espalier.simulator.workload_cluster import WorkloadCluster
from espalier.simulator.workload_controllers.views import Pod
from espalier.simulator.workloads import Workloads

ENDED = ("Succeeded", "Failed")

_log = structlog.get_logger("espalier.simulator.pods")


@dataclass(frozen=True)
class _Running:
    """A pod that runs, or is terminating."""

    run: PodRun
    task: asyncio.Task[None]


class Pods:
    """Runs the pods of all workload clusters of this process, each by the runtime that has a program for its images."""

    def __init__(self, workloads: Workloads, runtimes: Sequence[Runtime], clock: Clock) -> None:
        self._workloads = workloads
        self._runtimes = runtimes
        self._clock = clock
        self._running: dict[Key, dict[str, _Running]] = {}
        self._ending: dict[Key, dict[str, asyncio.Task[None]]] = {}

    def runs(self, pod: Pod) -> bool:
        """True if a pod runs."""
        return any(runtime.runs(container.image) for runtime in self._runtimes for container in pod.spec.containers)

    async def reconcile(self, key: Key) -> Outcome:
        """Start and stop the pods of one cluster."""
        workload = self._workloads.reach(key)
        if workload is None:
            await self.stop(key)
            return Done()
        running, ending = self._running.setdefault(key, {}), self._ending.setdefault(key, {})
        workload.server.read_log = self.read_log
        nodes = {node.name: node for node in workload.cache(NODE).list()}
        pods = {}
        for pod in workload.cache(POD).list():
            if self.runs(pod.decode(Pod)):
                pods[pod.metadata.uid] = pod
            elif _waits_for_image(pod.decode(Pod), pod.tree) and pod.tree["spec"].get("nodeName") in nodes:
                await _say_unpulled(workload, pod)
        for uid in [uid for uid in running if uid not in pods]:
            self._end(workload, uid, pod=None)
        names = {found.run.key for found in running.values()}
        held_up = []
        for uid, pod in pods.items():
            node = nodes.get(str(pod.tree["spec"].get("nodeName", "")))
            if pod.metadata.deletion_timestamp is not None:
                self._end(workload, uid, pod)
            elif node is None or uid in running or (pod.tree.get("status") or {}).get("phase") in ENDED:
                continue
            elif pod.key in names:
                held_up.append(pod.name)
            elif uid not in ending:
                running[uid] = self._begin(workload, pod, node)
        known = {pod.metadata.uid for one in self._clusters() for pod in one.cache(POD).list()}
        known |= {uid for one in self._running.values() for uid in one}
        for runtime in self._runtimes:
            runtime.sweep(workload, known)
        if held_up:
            return Wait(
                "PodsEnding",
                f"{', '.join(held_up)} start when their predecessors of the same names have ended",
                CHECK_AGAIN,
            )
        return Done()

    def kill(self, cluster: Key, pod: Key, container: str) -> None:
        """Kill a container, as `kill -9` on its node does. Raises `KeyError` if it does not run."""
        found = next((one for one in self._running.get(cluster, {}).values() if one.run.key == pod), None)
        if found is None:
            raise KeyError(f"the pod {pod} does not run")
        found.run.kill(container)

    async def stop(self, cluster: Key, *, grace: float | None = None) -> None:
        """Stop all containers of a cluster, within `grace` seconds; its pods stay unchanged in the API.

        Without any grace they are dead before this is awaited.
        """
        running = list(self._running.pop(cluster, {}).values())
        for found in running:
            found.run.grace = found.run.grace if grace is None else grace
            found.task.cancel()
            if grace == 0:
                found.run.kill_all()
        ending = list(self._ending.pop(cluster, {}).values())
        for task in ending:
            task.cancel()
        await asyncio.gather(*(found.task for found in running), *ending, return_exceptions=True)

    async def close(self) -> None:
        """Stop all containers; the pods stay unchanged in the API."""
        for cluster in [*self._running]:
            await self.stop(cluster)

    async def read_log(self, pod: Tree, container: str) -> bytes:
        """The log of a container's last run; empty for one that is only simulated."""
        for runtime in self._runtimes:
            if found := await runtime.read_log(pod, container):
                return found
        return b""

    def _clusters(self) -> list[WorkloadCluster]:
        return [found for key in self._running if (found := self._workloads.reach(key)) is not None]

    def _begin(self, workload: WorkloadCluster, pod: Object, node: Object) -> _Running:
        images = [str(container.get("image", "")) for container in pod.tree["spec"]["containers"]]
        runtime = next(one for one in self._runtimes if any(map(one.runs, images)))
        of_pod: PodRuntime = runtime.pod(workload, pod, node)
        run = PodRun(
            pod.tree, client=workload.client, runtime=of_pod, clock=self._clock, host_address=internal_ip(node)
        )
        task = asyncio.create_task(run.to_the_end(), name=f"pod {pod.key}")
        task.add_done_callback(_log_failure)
        task.add_done_callback(lambda _: of_pod.close())
        return _Running(run, task)

    def _end(self, workload: WorkloadCluster, uid: str, pod: Object | None) -> None:
        """End a pod, and delete it from the API when its containers have ended, without blocking other pods."""
        ending = self._ending[workload.key]
        if uid in ending:
            return
        ending[uid] = asyncio.create_task(self._ended(workload, uid, pod), name=f"end of pod {uid}")
        ending[uid].add_done_callback(lambda _: ending.pop(uid, None))
        ending[uid].add_done_callback(_log_failure)

    async def _ended(self, workload: WorkloadCluster, uid: str, pod: Object | None) -> None:
        running = self._running.get(workload.key, {})
        if (found := running.get(uid)) is not None:
            if pod is None:
                found.run.grace = 0.0
            elif (grace := pod.metadata.deletion_grace_period_seconds) is not None:
                found.run.grace = float(grace)
            found.task.cancel()
            await asyncio.gather(found.task, return_exceptions=True)
            running.pop(uid, None)
        if pod is not None:
            await self._delete(workload, pod)

    async def _delete(self, workload: WorkloadCluster, pod: Object) -> None:
        """Delete a pod whose containers have ended."""

        async def delete() -> None:
            key = pod.key
            await workload.client.delete(POD, key.name, key.namespace, uid=pod.metadata.uid, grace_period_seconds=0)

        try:
            await retried(delete)
        except NotFound:
            _log.debug("the pod is already deleted", pod=pod.name)


def _waits_for_image(pod: Pod, tree: Tree) -> bool:
    """True for a pod without a program that runs to completion: others are only simulated."""
    return (
        pod.spec.restart_policy == "Never"
        and not pod.deleting
        and "containerStatuses" not in (tree.get("status") or {})
    )


async def _say_unpulled(workload: WorkloadCluster, pod: Object) -> None:
    """Report a missing image, as a kubelet does."""
    inits, containers = pod.tree["spec"].get("initContainers") or [], pod.tree["spec"]["containers"]
    image = str([*inits, *containers][0].get("image", ""))
    why = {"reason": "ErrImagePull", "message": f"no image {image} can be pulled on simulated nodes"}
    states = [{"waiting": why}, *({"waiting": {"reason": "PodInitializing"}} for _ in [*inits, *containers][1:])]
    told = [
        {"name": one["name"], "image": str(one.get("image", "")), "imageID": "", "ready": False, "restartCount": 0}
        | {"state": state}
        for one, state in zip([*inits, *containers], states, strict=True)
    ]
    status = {"phase": "Pending", "initContainerStatuses": told[: len(inits)], "containerStatuses": told[len(inits) :]}
    body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
    with suppress(NotFound, Conflict):
        await workload.client.patch(
            POD, pod.name, pod.namespace, patch=body, type=PatchType.MERGE, subresource="status"
        )


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("running a pod failed", task=task.get_name(), exc_info=error)
