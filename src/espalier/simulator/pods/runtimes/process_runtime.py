"""Containers as processes of this machine: their nodes' disks, their folders, volumes and ServiceAccounts."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Collection, Mapping
from pathlib import Path

import structlog

from espalier.api.core import NODE, PERSISTENT_VOLUME, SERVICE_ACCOUNT
from espalier.api.meta import Tree
from espalier.kube.errors import NotFound
from espalier.kube.objects import Object
from espalier.kube.transports.wire import User
from espalier.runtime import confined
from espalier.runtime.clock import Clock
from espalier.simulator.pods.runtimes.disks import Disks, nsenter_environment
from espalier.simulator.pods.runtimes.inputs import Inputs
from espalier.simulator.pods.runtimes.process import ProcessRun, kill_leftover_processes, log_path
from espalier.simulator.pods.runtimes.program import Programs
from espalier.simulator.pods.runtimes.runtime import DependencyMissing
from espalier.simulator.pods.runtimes.volumes import FolderVolumes
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster

LONGEST_LOG = confined.LONGEST_READ
"""Bytes of a log that are returned: the end of a longer one."""

_log = structlog.get_logger("espalier.simulator.pods")


class ProcessRuntime:
    """Runs the containers whose images have a program in `programs`. Its files are below `home`."""

    def __init__(self, programs: Programs, home: Path, clock: Clock) -> None:
        self._programs = programs
        self._home = home
        self._disks = Disks(home / "nodes", clock)

    def runs(self, image: str) -> bool:
        """True if there is a program for an image."""
        return self._programs(image) is not None

    def pod(self, workload: WorkloadCluster, pod: Object, node: Object) -> PodProcesses:
        """The runtime of a pod, whose folder and whose node's disk are created if they do not exist."""
        folder = self._folder(pod.metadata.uid)
        folder.mkdir(parents=True, exist_ok=True)
        root, persistent_volumes = self._disks.booted(workload, node), self._volumes(workload)
        return PodProcesses(workload, pod, node, self._programs, folder, root, persistent_volumes)

    async def read_log(self, pod: Tree, container: str) -> bytes:
        """The log of a container's last run; empty for one that is only simulated."""
        folder = self._folder(pod["metadata"]["uid"])
        try:
            return await asyncio.to_thread(confined.read, folder, log_path(container), start=-LONGEST_LOG)
        except (OSError, ValueError):
            return b""

    def sweep(self, workload: WorkloadCluster, pods: Collection[str]) -> None:
        """Remove the folders of pods and volumes, and the disks of nodes, that do not exist any more."""
        _remove_others(self._home / "pods", pods)
        _remove_others(self._volumes(workload), {volume.name for volume in workload.cache(PERSISTENT_VOLUME).list()})
        self._disks.remove_others(workload, workload.cache(NODE).list())

    def _folder(self, uid: str) -> Path:
        return confined.child(self._home / "pods", uid)

    def _volumes(self, workload: WorkloadCluster) -> Path:
        return confined.child(self._home / "volumes", f"{workload.key.namespace}-{workload.key.name}")


class PodProcesses:
    """Runs the containers of one pod as processes."""

    def __init__(
        self,
        workload: WorkloadCluster,
        pod: Object,
        node: Object,
        programs: Programs,
        folder: Path,
        root: Path,
        persistent_volumes: Path,
    ) -> None:
        self._workload = workload
        self._pod = pod
        self._programs = programs
        self._folder = folder
        self._root = root
        self._token = secrets.token_urlsafe(24)
        self._inputs = Inputs(workload.client, pod.tree, self._service_account)
        self._volumes = FolderVolumes(self._inputs, root, folder / "volumes", persistent_volumes)
        self.address = internal_ip(node)

    async def clear(self) -> None:
        """Kill the processes of the pod that an earlier process of the simulator left running."""
        while not await asyncio.to_thread(kill_leftover_processes, self._folder):
            _log.warning("leftover processes of a pod do not end", pod=self._pod.name)

    async def prepare(self, container: Tree) -> ProcessRun:
        """A run, whose files are written. Raises as `PodRuntime.prepare`."""
        program = self._programs(str(container.get("image", "")))
        if program is None:
            raise ValueError(f"the image {container.get('image')} has no program on simulated nodes")
        mounts = await self._volumes.mounts(container)
        variables = await self._inputs.environment(container)
        read = {name: value for name, value in variables.items() if name in program.variables}
        run = ProcessRun(program, container, self._folder, mounts, {**read, **self._environment()})
        run.write_files()
        return run

    def close(self) -> None:
        """Revoke the token of its ServiceAccount."""
        self._workload.tokens.pop(self._token, None)

    def _environment(self) -> dict[str, str]:
        endpoint = self._workload.served
        return {
            **nsenter_environment(self._root),
            "KUBERNETES_SERVICE_HOST": endpoint.host,
            "KUBERNETES_SERVICE_PORT": str(endpoint.port),
            "HOSTNAME": self._pod.name,
        }

    async def _service_account(self) -> Mapping[str, str]:
        """The files of the pod's ServiceAccount, whose token the API server accepts from now on.

        Raises `DependencyMissing`.
        """
        workload, namespace = self._workload, self._pod.namespace
        name = self._pod.tree["spec"].get("serviceAccountName") or "default"
        try:
            await workload.client.get(SERVICE_ACCOUNT, name, namespace)
        except NotFound:
            if name != "default":
                raise DependencyMissing(f'serviceaccount "{name}" not found') from None
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
        workload.tokens[self._token] = User(f"system:serviceaccount:{namespace}:{name}", groups)
        return {"token": self._token, "ca.crt": workload.authority.certificate.decode(), "namespace": namespace}


def internal_ip(node: Object) -> str:
    """The InternalIP of a node, empty if it has none."""
    addresses = (node.tree.get("status") or {}).get("addresses") or ()
    return next((str(address["address"]) for address in addresses if address["type"] == "InternalIP"), "")


def _remove_others(place: Path, names: Collection[str]) -> None:
    """Remove all folders of a place but those with these names."""
    for folder in place.iterdir() if place.is_dir() else ():
        if folder.name not in names:
            confined.remove(place, folder.name)
