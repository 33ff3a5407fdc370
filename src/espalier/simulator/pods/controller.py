"""Runs pods that are bound to nodes of this process and whose images have a program. One reconcile covers one
cluster."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from pathlib import Path

import structlog

from espalier.api.core import NODE, POD, SERVICE_ACCOUNT
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.kube.wire import User
from espalier.runtime import confined
from espalier.runtime.clock import Clock
from espalier.runtime.outcome import Done, Outcome
from espalier.simulator.pods.disks import Disks, entrance
from espalier.simulator.pods.process import log_path
from espalier.simulator.pods.program import Programs
from espalier.simulator.pods.running import PodRun, retried
from espalier.simulator.pods.volumes import NotYet, Source
from espalier.simulator.workload_cluster import WorkloadCluster
from espalier.simulator.workload_controllers.views import Pod
from espalier.simulator.workloads import Workloads

ENDED = ("Succeeded", "Failed")
LONGEST_LOG = confined.LONGEST_READ
"""The maximum length of a log; of longer ones the end is kept."""

_log = structlog.get_logger("espalier.simulator.pods")


class Pods:
    """Runs the pods of all workload clusters of this process. Its files are below `home`."""

    def __init__(self, workloads: Workloads, programs: Programs, home: Path, clock: Clock) -> None:
        self._workloads = workloads
        self._programs = programs
        self._home = home
        self._clock = clock
        self._disks = Disks(home / "nodes", clock)
        self._tasks: dict[Key, dict[str, asyncio.Task[None]]] = {}

    def runs(self, pod: Pod) -> bool:
        """True if a pod runs as processes."""
        return any(self._programs(container.image) is not None for container in pod.spec.containers)

    async def reconcile(self, key: Key) -> Outcome:
        """Start and stop the pods of one cluster."""
        workload = self._workloads.reach(key)
        tasks = self._tasks.setdefault(key, {})
        if workload is None:
            await self._end(list(tasks.values()))
            self._tasks.pop(key, None)
            return Done()
        workload.server.read_log = self.read_log
        pods = {pod.metadata.uid: pod for pod in workload.cache(POD).list() if self.runs(pod.decode(Pod))}
        nodes = {node.name: node for node in workload.cache(NODE).list()}
        gone = [uid for uid in tasks if uid not in pods or pods[uid].metadata.deletion_timestamp is not None]
        await self._end([tasks.pop(uid) for uid in gone])
        for uid, pod in pods.items():
            node = nodes.get(str(pod.tree["spec"].get("nodeName", "")))
            if pod.metadata.deletion_timestamp is not None:
                await self._delete(workload, pod)
            elif node is not None and uid not in tasks and (pod.tree.get("status") or {}).get("phase") not in ENDED:
                tasks[uid] = self._begin(workload, pod, node)
        self._sweep(pods)
        self._disks.keep(workload, list(nodes.values()))
        return Done()

    async def close(self) -> None:
        """Stop all processes; the pods stay unchanged in the API."""
        await self._end([task for tasks in self._tasks.values() for task in tasks.values()])
        self._tasks.clear()

    async def read_log(self, pod: Tree, container: str) -> bytes:
        """The log of a container's last run; empty for one that is only simulated."""
        folder = self._folder(pod["metadata"]["uid"])
        try:
            return await asyncio.to_thread(confined.read, folder, log_path(container), start=-LONGEST_LOG)
        except (OSError, ValueError):
            return b""

    def _begin(self, workload: WorkloadCluster, pod: Object, node: Object) -> asyncio.Task[None]:
        tree = pod.tree
        root = self._disks.of(workload, node)
        folder = self._folder(pod.metadata.uid)
        folder.mkdir(parents=True, exist_ok=True)
        token = secrets.token_urlsafe(24)

        async def account() -> Mapping[str, str]:
            return await _account(workload, tree, token)

        def environment() -> dict[str, str]:
            endpoint = workload.served
            return {
                **entrance(root),
                "KUBERNETES_SERVICE_HOST": endpoint.host,
                "KUBERNETES_SERVICE_PORT": str(endpoint.port),
                "HOSTNAME": pod.name,
            }

        addresses = node.tree["status"].get("addresses") or ()
        run = PodRun(
            tree,
            client=workload.client,
            programs=self._programs,
            source=Source(workload.client, tree, root, folder / "volumes", account),
            environment=environment,
            folder=folder,
            clock=self._clock,
            host_address=next((one["address"] for one in addresses if one["type"] == "InternalIP"), ""),
        )
        task = asyncio.create_task(run.to_the_end(), name=f"pod {pod.key}")
        task.add_done_callback(_log_failure)
        task.add_done_callback(lambda _: workload.tokens.pop(token, None))
        return task

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _delete(self, workload: WorkloadCluster, pod: Object) -> None:
        """Delete a pod whose processes have ended."""

        async def delete() -> None:
            key = pod.key
            await workload.client.delete(POD, key.name, key.namespace, uid=pod.metadata.uid, grace_period_seconds=0)

        try:
            await retried(delete)
        except NotFound:
            _log.debug("the pod is deleted already", pod=pod.name)

    def _folder(self, uid: str) -> Path:
        return confined.child(self._home / "pods", uid)

    def _sweep(self, pods: Mapping[str, Object]) -> None:
        """Remove the folders of deleted pods, in every cluster."""
        running = {uid for tasks in self._tasks.values() for uid in tasks}
        known = {
            pod.metadata.uid
            for key in self._tasks
            if (workload := self._workloads.reach(key)) is not None
            for pod in workload.cache(POD).list()
        }
        place = self._home / "pods"
        for folder in place.iterdir() if place.is_dir() else ():
            if folder.name not in pods and folder.name not in known and folder.name not in running:
                confined.remove(place, folder.name)


async def _account(workload: WorkloadCluster, pod: Tree, token: str) -> dict[str, str]:
    """The files of the pod's ServiceAccount; the API server accepts its token from now on. Raises `NotYet`."""
    namespace, name = pod["metadata"]["namespace"], pod["spec"].get("serviceAccountName") or "default"
    try:
        await workload.client.get(SERVICE_ACCOUNT, name, namespace)
    except NotFound:
        if name != "default":
            raise NotYet(f'serviceaccount "{name}" not found') from None
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    workload.tokens[token] = User(f"system:serviceaccount:{namespace}:{name}", groups)
    return {"token": token, "ca.crt": workload.authority.certificate.decode(), "namespace": namespace}


def _log_failure(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("running a pod failed", task=task.get_name(), exc_info=error)
