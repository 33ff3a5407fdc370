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
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.simulator.pods.running import RETRY_SECONDS, PodRun, write_with_retries
from espalier.simulator.pods.runtimes.process_runtime import internal_ip
from espalier.simulator.pods.runtimes.runtime import PodRuntime, Runtime
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from espalier.simulator.workload_clusters.workloads import Workloads
from espalier.simulator.workload_controllers.views import Pod

TERMINAL_PHASES = ("Succeeded", "Failed")

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
        self._terminating: dict[Key, dict[str, asyncio.Task[None]]] = {}

    def runs(self, pod: Pod) -> bool:
        """True if a runtime has a program for an image of the pod; other pods are only simulated."""
        return any(runtime.runs(container.image) for runtime in self._runtimes for container in pod.spec.containers)

    async def reconcile(self, key: Key) -> Outcome:
        """Start and stop the pods of one cluster."""
        workload = self._workloads.reach(key)
        if workload is None:
            await self.stop(key)
            return Done()
        running, terminating = self._running.setdefault(key, {}), self._terminating.setdefault(key, {})
        workload.server.read_log = self.read_log
        nodes = {node.name: node for node in workload.cache(NODE).list()}
        pods = {}
        for pod in workload.cache(POD).list():
            if self.runs(pod.decode(Pod)):
                pods[pod.metadata.uid] = pod
            elif _lacks_image(pod.decode(Pod), pod.tree) and pod.tree["spec"].get("nodeName") in nodes:
                await _report_missing_image(workload, pod)
        for uid in [uid for uid in running if uid not in pods]:
            self._terminate(workload, uid, pod=None)
        running_keys = {record.run.key for record in running.values()}
        waiting = []
        for uid, pod in pods.items():
            node = nodes.get(str(pod.tree["spec"].get("nodeName", "")))
            if pod.metadata.deletion_timestamp is not None:
                self._terminate(workload, uid, pod)
            elif node is None or uid in running or (pod.tree.get("status") or {}).get("phase") in TERMINAL_PHASES:
                continue
            elif pod.key in running_keys:
                waiting.append(pod.name)
            elif uid not in terminating:
                running[uid] = self._start(workload, pod, node)
        existing = {pod.metadata.uid for cluster in self._clusters() for pod in cluster.cache(POD).list()}
        existing |= {uid for of_cluster in self._running.values() for uid in of_cluster}
        for runtime in self._runtimes:
            runtime.sweep(workload, existing)
        if waiting:
            return Wait(
                "PodsEnding",
                f"{', '.join(waiting)} start when their predecessors of the same names have ended",
                RETRY_SECONDS,
            )
        return Done()

    def kill(self, cluster: Key, pod: Key, container: str) -> None:
        """Kill a container, as `kill -9` on its node does. Raises `KeyError` if it does not run."""
        running = next((record for record in self._running.get(cluster, {}).values() if record.run.key == pod), None)
        if running is None:
            raise KeyError(f"the pod {pod} does not run")
        running.run.kill(container)

    async def stop(self, cluster: Key, *, grace: float | None = None) -> None:
        """Stop all containers of a cluster, within `grace` seconds; its pods stay unchanged in the API.

        With `grace=0` they are killed before this waits for anything.
        """
        running = list(self._running.pop(cluster, {}).values())
        for record in running:
            record.run.grace = record.run.grace if grace is None else grace
            record.task.cancel()
            if grace == 0:
                record.run.kill_all()
        terminating = list(self._terminating.pop(cluster, {}).values())
        for task in terminating:
            task.cancel()
        await asyncio.gather(*(record.task for record in running), *terminating, return_exceptions=True)

    async def close(self) -> None:
        """Stop all containers; the pods stay unchanged in the API."""
        for cluster in [*self._running]:
            await self.stop(cluster)

    async def read_log(self, pod: Tree, container: str) -> bytes:
        """The log of a container's last run; empty for one that is only simulated."""
        for runtime in self._runtimes:
            if log := await runtime.read_log(pod, container):
                return log
        return b""

    def _clusters(self) -> list[WorkloadCluster]:
        return [cluster for key in self._running if (cluster := self._workloads.reach(key)) is not None]

    def _start(self, workload: WorkloadCluster, pod: Object, node: Object) -> _Running:
        images = [str(container.get("image", "")) for container in pod.tree["spec"]["containers"]]
        runtime = next(runtime for runtime in self._runtimes if any(map(runtime.runs, images)))
        pod_runtime: PodRuntime = runtime.pod(workload, pod, node)
        run = PodRun(
            pod.tree, client=workload.client, runtime=pod_runtime, clock=self._clock, host_address=internal_ip(node)
        )
        task = asyncio.create_task(run.run_to_completion(), name=f"pod {pod.key}")
        task.add_done_callback(_log_failure)
        task.add_done_callback(lambda _: pod_runtime.close())
        return _Running(run, task)

    def _terminate(self, workload: WorkloadCluster, uid: str, pod: Object | None) -> None:
        """Stop a pod in the background; a `pod` of the API is deleted when its containers have ended."""
        terminating = self._terminating[workload.key]
        if uid in terminating:
            return
        terminating[uid] = asyncio.create_task(self._stop_and_delete(workload, uid, pod), name=f"end of pod {uid}")
        terminating[uid].add_done_callback(lambda _: terminating.pop(uid, None))
        terminating[uid].add_done_callback(_log_failure)

    async def _stop_and_delete(self, workload: WorkloadCluster, uid: str, pod: Object | None) -> None:
        running = self._running.get(workload.key, {})
        if (record := running.get(uid)) is not None:
            if pod is None:
                record.run.grace = 0.0
            elif (grace := pod.metadata.deletion_grace_period_seconds) is not None:
                record.run.grace = float(grace)
            record.task.cancel()
            await asyncio.gather(record.task, return_exceptions=True)
            running.pop(uid, None)
        if pod is not None:
            await self._delete(workload, pod)

    async def _delete(self, workload: WorkloadCluster, pod: Object) -> None:
        """Delete a pod whose containers have ended."""

        async def delete() -> None:
            key = pod.key
            await workload.client.delete(POD, key.name, key.namespace, uid=pod.metadata.uid, grace_period_seconds=0)

        try:
            await write_with_retries(delete)
        except NotFound:
            _log.debug("the pod is already deleted", pod=pod.name)


def _lacks_image(pod: Pod, tree: Tree) -> bool:
    """True for a pod without a program that runs to completion and has no status yet: others are only simulated."""
    return (
        pod.spec.restart_policy == "Never"
        and not pod.deleting
        and "containerStatuses" not in (tree.get("status") or {})
    )


async def _report_missing_image(workload: WorkloadCluster, pod: Object) -> None:
    """Write the status of a pod whose image can't be pulled, as a kubelet does."""
    inits, containers = pod.tree["spec"].get("initContainers") or [], pod.tree["spec"]["containers"]
    image = str([*inits, *containers][0].get("image", ""))
    waiting = {"reason": "ErrImagePull", "message": f"no image {image} can be pulled on simulated nodes"}
    states = [{"waiting": waiting}, *({"waiting": {"reason": "PodInitializing"}} for _ in [*inits, *containers][1:])]
    statuses = [
        {
            "name": container["name"],
            "image": str(container.get("image", "")),
            "imageID": "",
            "ready": False,
            "restartCount": 0,
        }
        | {"state": state}
        for container, state in zip([*inits, *containers], states, strict=True)
    ]
    status = {
        "phase": "Pending",
        "initContainerStatuses": statuses[: len(inits)],
        "containerStatuses": statuses[len(inits) :],
    }
    body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
    with suppress(NotFound, Conflict):
        await workload.client.patch(
            POD, pod.name, pod.namespace, patch=body, type=PatchType.MERGE, subresource="status"
        )


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("running a pod failed", task=task.get_name(), exc_info=error)
