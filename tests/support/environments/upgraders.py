"""Stands for the kubelets of simulated nodes where upgrader pods run: their containers take a second each, in order.

What a step does on a real node is done to the objects that show it. A container in `failing` ends with that message;
one in `hanging` runs until its pod goes. The program on the node has tests of its own. As on a real node, containers
that have ended do not run again, and what runs goes on while its kubelet is silent; the next one does not begin.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from enum import Enum
from typing import Any

import yaml

from espalier.api.core import CONFIG_MAP, NODE, POD, SECRET
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import CORDONED_BY_UPGRADE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import PatchType
from espalier.kube.errors import KubeError, NotFound
from espalier.kube.objects import Object
from espalier.simulator.hosts.static_pods import StaticPod, rendered
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from espalier.simulator.workload_clusters.workloads import Workloads

GARDEN = Key(SYSTEM_NAMESPACE, "garden")
FIRST = "first-control-plane"
ENDED = ("Failed", "Succeeded")
WAITING = {"waiting": {"reason": "PodInitializing"}}


class Moment(Enum):
    """Moments in the life of a container in which something may happen to it."""

    RUNS = "runs"
    """It has begun, and nothing of its work is done."""
    ENDED = "ended"
    """Its work is done, and nobody was told."""


Happening = Callable[[WorkloadCluster, str, str, Moment], Awaitable[None]]
"""Told of the node, the container and the moment."""


class Upgraders:
    """Runs the upgrader pods of all workload clusters."""

    def __init__(self, workloads: Workloads) -> None:
        self.failing: dict[tuple[str, str], str] = {}
        """Messages by node (or its beginning) and container."""
        self.hanging: set[tuple[str, str]] = set()
        self.ran: list[tuple[str, str]] = []
        """Node and container, in the order in which they began."""
        self.commands: dict[tuple[str, str], list[str]] = {}
        self.static_pods: dict[str, dict[str, StaticPod]] = {}
        """The manifests that kubeadm rendered last, by node and component."""
        self.changes: dict[str, Tree] = {}
        """Files and kubelet flags that a pod has brought to its node."""
        self.files: dict[str, dict[str, str | None]] = {}
        """Content of the files that pods have brought, by node and path; None for one that they have removed."""
        self.read: dict[str, dict[str, str | None]] = {}
        """The same, as the kubelet of a node has read them when it started last."""
        self.at_once = 0
        """How many pods have run at the same time, at most."""
        self.happening: Happening | None = None
        """A callback for each moment of each container, before it goes on."""
        self._silent: dict[str, asyncio.Event] = {}
        self._workloads = workloads
        self._running: dict[str, asyncio.Task[None]] = {}
        workloads.subscribe(self._changed)
        garden = workloads.reach(GARDEN)
        for item in garden.cache(POD).list() if garden else ():
            self._changed(GARDEN, item)

    def _changed(self, cluster: Key, object_: Object) -> None:
        if object_.kind != "Pod" or not object_.metadata.labels.get("eks-d-upgrader"):
            return
        workload, uid = self._workloads.reach(cluster), object_.metadata.uid
        if workload is None:  # it is just being opened
            asyncio.get_running_loop().call_later(1, self._changed, cluster, object_)
            return
        present = workload.object(POD, object_.key)
        if present is None or present.metadata.uid != uid or present.metadata.deletion_timestamp is not None:
            task = self._running.pop(uid, None)
            if task is not None:
                task.cancel()
        elif uid not in self._running and (present.tree.get("status") or {}).get("phase") not in (
            "Failed",
            "Succeeded",
        ):
            task = asyncio.create_task(self._run(workload, present))
            self._running[uid] = task
            alive = sum(not task.done() for task in self._running.values())
            self.at_once = max(self.at_once, alive)

    def silence(self, node: str) -> None:
        """The kubelet of a node stops."""
        self._silent[node] = asyncio.Event()

    def wake(self, node: str) -> None:
        """It runs again."""
        self._silent.pop(node).set()

    async def _run(self, workload: WorkloadCluster, pod: Object) -> None:
        spec = pod.tree["spec"]
        node: str = spec["nodeName"]
        containers = [*spec["initContainers"], *spec["containers"]]
        brought = await self._changes(workload, pod)
        states = _states(pod, containers)
        for index, container in enumerate(containers):
            name = container["name"]
            if "terminated" in states[index]:
                continue
            await self._kubelet(node)
            states[index] = {"running": {}}
            self.ran.append((node, name))
            self.commands[node, name] = container["command"]
            await self._report(workload, pod, containers, states, "Pending")
            await self._happens(workload, node, name, Moment.RUNS)
            await asyncio.sleep(1)
            if any(node.startswith(where) and name == what for where, what in self.hanging):
                await asyncio.get_running_loop().create_future()
            message = next(
                (text for (where, what), text in self.failing.items() if node.startswith(where) and what == name), ""
            )
            if message:
                states[index] = {"terminated": {"exitCode": 1, "reason": "Error", "message": message}}
                await self._report(workload, pod, containers, states, "Failed")
                return
            await self._act(workload, node, name, container)
            self._bring(node, name, brought)
            await self._happens(workload, node, name, Moment.ENDED)
            states[index] = {"terminated": {"exitCode": 0, "reason": "Completed"}}
        await self._report(workload, pod, containers, states, "Succeeded")

    async def _happens(self, workload: WorkloadCluster, node: str, container: str, moment: Moment) -> None:
        if self.happening is not None:
            await self.happening(workload, node, container, moment)
            await asyncio.sleep(0.01)  # a pod that was deleted by it ends here

    async def _kubelet(self, node: str) -> None:
        if node in self._silent:
            await self._silent[node].wait()

    async def _report(
        self, workload: WorkloadCluster, pod: Object, containers: list[Tree], states: list[dict[str, Any]], phase: str
    ) -> None:
        await self._kubelet(pod.tree["spec"]["nodeName"])
        statuses = [{"name": item["name"], "state": state} for item, state in zip(containers, states, strict=True)]
        status = {"phase": phase, "initContainerStatuses": statuses[:-1], "containerStatuses": statuses[-1:]}
        body = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        try:
            await workload.client.patch(
                POD, pod.name, pod.namespace, patch=body, type=PatchType.MERGE, subresource="status"
            )
        except KubeError:
            return

    async def _act(self, workload: WorkloadCluster, node: str, name: str, container: Tree) -> None:
        version = next(item["value"] for item in container["env"] if item["name"] == "KUBERNETES_VERSION")
        match name:
            case "drainer" | "uncordoner":
                drains = name == "drainer"
                mark = {"annotations": {CORDONED_BY_UPGRADE: version if drains else None}}
                await self._node(workload, node, {"metadata": mark, "spec": {"unschedulable": drains or None}})
            case "kubelet-kubectl-upgrader":
                info = {"status": {"nodeInfo": {"kubeletVersion": version}}}
                await self._node(workload, node, info, "status")
            case "kubeadm-upgrader":
                if "worker" not in container["command"]:
                    await self._static_pods(workload, node, version if FIRST in container["command"] else "")

    def _bring(self, node: str, container: str, brought: Tree) -> None:
        """Files come with kubeadm; the kubelet reads them when it starts, which it does where any has changed."""
        files = self.files.setdefault(node, {})
        if container == "kubeadm-upgrader":
            files |= {file["path"]: base64.b64decode(file["content"]).decode() for file in brought.get("files", ())}
            files |= dict.fromkeys(brought.get("removedFiles", ()))
        elif container == "kubelet-kubectl-upgrader" and brought:
            self.read[node] = dict(files)

    async def _changes(self, workload: WorkloadCluster, pod: Object) -> Tree:
        """The other changes that the pod brings to its node."""
        volumes = {volume["name"]: volume for volume in pod.tree["spec"]["volumes"]}
        if "changes" not in volumes:
            return {}
        secret = await workload.client.get(SECRET, volumes["changes"]["secret"]["secretName"], pod.namespace)
        brought: Tree = json.loads(base64.b64decode(secret.tree["data"]["changes.json"]))
        self.changes[pod.tree["spec"]["nodeName"]] = brought
        return brought

    async def _static_pods(self, workload: WorkloadCluster, node: str, applied: str) -> None:
        """As kubeadm does: by kubeadm-config, of the version there; who applies another one writes it there."""
        config_map = await workload.client.get(CONFIG_MAP, "kubeadm-config", "kube-system")
        configuration = yaml.safe_load(config_map.tree["data"]["ClusterConfiguration"])  # Cluster API writes YAML
        if applied:
            configuration["kubernetesVersion"] = applied
            data = {"data": {"ClusterConfiguration": json.dumps(configuration)}}
            await workload.client.patch(
                CONFIG_MAP, config_map.name, config_map.namespace, patch=data, type=PatchType.MERGE
            )
        pods = self.static_pods[node] = rendered(configuration, configuration["kubernetesVersion"])
        for name, pod in pods.items():
            patch = {"spec": {"containers": [{"name": name, "image": pod.image}]}}
            with suppress(NotFound):
                await workload.client.patch(POD, f"{name}-{node}", "kube-system", patch=patch, type=PatchType.STRATEGIC)

    async def _node(self, workload: WorkloadCluster, node: str, patch: Tree, subresource: str | None = None) -> None:
        try:
            await workload.client.patch(NODE, node, patch=patch, type=PatchType.MERGE, subresource=subresource)
        except KubeError:
            return


def _states(pod: Object, containers: list[Tree]) -> list[dict[str, Any]]:
    """States of the containers as they were reported; what ran when its kubelet ended is begun anew."""
    status = pod.tree.get("status") or {}
    reported = (*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ()))
    ended = {item["name"]: item["state"] for item in reported if "terminated" in item["state"]}
    return [ended.get(container["name"], WAITING) for container in containers]
