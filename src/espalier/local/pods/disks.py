"""The disks of simulated nodes: made when the first pod that runs comes to a node, and kept as long as the node."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Collection
from pathlib import Path

from espalier.api.core import POD
from espalier.kube.objects import Object
from espalier.local.hosts import folder, programs
from espalier.local.hosts.programs import Host
from espalier.local.workload_cluster import WorkloadCluster
from espalier.runtime.clock import Clock

TOOLS = "var/lib/simulated-node/bin"
MIRROR = "kubernetes.io/config.mirror"


class Disks:
    """Below one folder, one for each node that needs it."""

    def __init__(self, place: Path, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self._booted: set[Path] = set()

    def of(self, workload: WorkloadCluster, node: Object) -> Path:
        """The disk of a node, booted; made as the Node says it was installed, if it is not there."""
        root = self._folder(workload) / _name(node)
        if not root.is_dir():
            folder.make(root, _machine(workload, node))
        if root not in self._booted:
            self._connect(workload, root)
            Host(root).boot()
            self._booted.add(root)
        return root

    def keep(self, workload: WorkloadCluster, nodes: Collection[Object]) -> None:
        """Remove the disks of all other nodes of the cluster."""
        place = self._folder(workload)
        wanted = {_name(node) for node in nodes}
        for root in place.iterdir() if place.is_dir() else ():
            if root.name not in wanted:
                shutil.rmtree(root)
                self._booted.discard(root)

    def _folder(self, workload: WorkloadCluster) -> Path:
        return self._place / f"{workload.key.namespace}-{workload.key.name}"

    def _connect(self, workload: WorkloadCluster, root: Path) -> None:
        """Give the stand-ins their way to the API server (they act for kubelet and kubeadm), and a name to start by."""
        name = (root / "etc/hostname").read_text().strip()
        now = self._clock.now()
        pair = workload.authority.issue_client(f"system:node:{name}", groups=["system:masters"], now=now)
        access = {
            "server": f"{workload.endpoint.host}:{workload.endpoint.port}",
            "authority": workload.authority.certificate.decode(),
            "certificate": pair.certificate.decode(),
            "key": pair.key.decode(),
        }
        place = root / programs.ACCESS
        place.parent.mkdir(parents=True, exist_ok=True)
        place.touch(mode=0o600)
        place.write_text(json.dumps(access))
        script = root / TOOLS / "nsenter"
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(
            f"#!{sys.executable} -IS\nimport runpy\nrunpy.run_path({programs.__file__!r}, run_name='__main__')\n"
        )
        script.chmod(0o755)


def entrance(root: Path) -> dict[str, str]:
    """Environment of a program that enters a node by `nsenter`: the stand-in is what it finds by that name."""
    return {"PATH": str(root / TOOLS), programs.NODE: str(root)}


def _name(node: Object) -> str:
    return f"{node.name}-{node.metadata.uid[:8]}"


def _machine(workload: WorkloadCluster, node: Object) -> folder.Machine:
    info = node.tree["status"].get("nodeInfo", {})
    runtime = str(info.get("containerRuntimeVersion", "")).rpartition("/")[2]
    images = {}
    for pod in workload.cache(POD).list():
        tree = pod.tree
        if MIRROR in pod.metadata.annotations and tree["spec"].get("nodeName") == node.name:
            images[pod.name.removesuffix(f"-{node.name}")] = tree["spec"]["containers"][0]["image"]
    return folder.Machine(node.name, info.get("kubeletVersion", ""), runtime or "2.1.5", static_pods=images)
