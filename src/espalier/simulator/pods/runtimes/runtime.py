"""Container runtimes: one interface for containers as processes and as coroutines."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from espalier.api.meta import Tree
from espalier.kube.objects import Object
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster

KILLED, TERMINATED = 137, 143
"""Exit codes of a container that was ended by SIGKILL, or by SIGTERM without a code of its own."""


class DependencyMissing(Exception):
    """A dependency of a container does not exist yet. The message names it, in kubelet's words."""


class Run(Protocol):
    """One run of one container."""

    async def run_to_completion(self) -> int:
        """Run the container; return its exit code. On cancellation it is killed."""

    async def stop(self, grace: float) -> None:
        """Send SIGTERM to the container, kill it after `grace` seconds, and return when it has ended; idempotent."""

    def kill(self) -> None:
        """Kill the container at once (SIGKILL); idempotent."""

    async def probe(self, action: Tree) -> bool:
        """True if a probe passes now: `action` has one of httpGet, tcpSocket and exec."""

    def message(self, code: int) -> str:
        """The termination message of a run that ended with this exit code."""


class PodRuntime(Protocol):
    """Runs the containers of one pod."""

    address: str
    """The address of the pod."""

    async def clear(self) -> None:
        """End containers of the pod that an earlier process left running."""

    async def prepare(self, container: Tree) -> Run:
        """A run of a container that can begin now.

        Raises `DependencyMissing`, and `ValueError`, `KeyError`, `OSError` for a container that can't be run.
        """

    def close(self) -> None:
        """Release the resources of the pod, whose containers have ended."""


class Runtime(Protocol):
    """Runs the containers of some images on all nodes of this process."""

    def runs(self, image: str) -> bool:
        """True if the runtime has a program for an image."""

    def pod(self, workload: WorkloadCluster, pod: Object, node: Object) -> PodRuntime:
        """The runtime of a pod that is bound to a node."""

    async def read_log(self, pod: Tree, container: str) -> bytes:
        """The log of a container's last run, empty if there is none."""

    def sweep(self, workload: WorkloadCluster, pods: Collection[str]) -> None:
        """Remove the resources of nodes, volumes and pods that do not exist any more.

        `pods` are the uids of the existing pods of all clusters, nodes and volumes are those of `workload`.
        """
