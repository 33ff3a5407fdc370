"""The disks of simulated nodes: created for the first running pod of a node, and kept as long as the node."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Collection
from pathlib import Path

import semver
import structlog

from espalier.api.core import POD
from espalier.api.meta import Tree
from espalier.kube.objects import Object
from espalier.runtime import confined
from espalier.runtime.clock import Clock
from espalier.simulator.hosts import folder, programs
from espalier.simulator.hosts.programs import Host
from espalier.simulator.hosts.static_pods import MIRROR, StaticPod
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster

TOOLS = "var/lib/simulated-node/bin"
SOURCES = Path(confined.__file__).parents[2]
LIBRARIES = str(Path(semver.__file__).parents[1])
"""The folder of the only library that the stand-ins import: they start without site-packages, to be faster."""
_log = structlog.get_logger("espalier.simulator.pods")
_VERSION = re.compile(r"[\w.+-]{1,64}", re.ASCII)


class Disks:
    """The disks below one folder, one for each node that needs it."""

    def __init__(self, place: Path, clock: Clock) -> None:
        self._place = place
        self._clock = clock
        self._booted: set[Path] = set()

    def booted(self, workload: WorkloadCluster, node: Object) -> Path:
        """The folder of a node's disk, booted; a missing one is installed with the versions in the Node's status.

        Pods may write to it, so it may be unable to boot: then it is recreated.
        """
        root = confined.child(self._folder(workload), _name(node))
        if root in self._booted:
            return root
        try:
            self._boot(workload, node, root)
        except (OSError, ValueError) as error:
            _log.warning("the disk of a simulated node is broken, and is recreated", node=node.name, error=str(error))
            confined.remove(root.parent, root.name)
            self._boot(workload, node, root)
        self._booted.add(root)
        return root

    def _boot(self, workload: WorkloadCluster, node: Object, root: Path) -> None:
        if not root.is_dir():
            folder.make(root, _machine(workload, node))
        self._connect(workload, root, node.name)
        Host(root).boot()

    def remove_others(self, workload: WorkloadCluster, nodes: Collection[Object]) -> None:
        """Remove the disks of all other nodes of the cluster."""
        place = self._folder(workload)
        wanted = {_name(node) for node in nodes}
        for root in place.iterdir() if place.is_dir() else ():
            if root.name not in wanted:
                confined.remove(place, root.name)
                self._booted.discard(root)

    def _folder(self, workload: WorkloadCluster) -> Path:
        return confined.child(self._place, f"{workload.key.namespace}-{workload.key.name}")

    def _connect(self, workload: WorkloadCluster, root: Path, name: str) -> None:
        """Write `nsenter`, and the API server access of the stand-ins (they act for kubelet and kubeadm)."""
        now = self._clock.now()
        pair = workload.authority.issue_client(f"system:node:{name}", groups=["system:masters"], now=now)
        access = {
            "server": f"{workload.served.host}:{workload.served.port}",
            "authority": workload.authority.certificate.decode(),
            "certificate": pair.certificate.decode(),
            "key": pair.key.decode(),
        }
        confined.write(root, programs.ACCESS, json.dumps(access))
        script = (
            # Imported, not run as a script, which would be compiled at each of its many starts.
            f"#!{sys.executable} -IS\nimport sys\nsys.path[:0] = {[str(SOURCES), LIBRARIES]!r}\n"
            f"from {programs.__name__} import main\nsys.exit(main())\n"
        )
        confined.write(root, f"{TOOLS}/nsenter", script, 0o755)


def nsenter_environment(root: Path) -> dict[str, str]:
    """The environment of a program that enters a node by `nsenter`: PATH has the stand-in for it."""
    return {"PATH": str(root / TOOLS), programs.NODE: str(root)}


def _name(node: Object) -> str:
    return f"{node.name}-{node.metadata.uid[:8]}"


def _machine(workload: WorkloadCluster, node: Object) -> folder.Machine:
    info = node.tree["status"].get("nodeInfo", {})
    runtime = str(info.get("containerRuntimeVersion", "")).rpartition("/")[2]
    pods = []
    for pod in workload.cache(POD).list():
        if MIRROR in pod.metadata.annotations and pod.tree["spec"].get("nodeName") == node.name:
            pods.append(_static_pod(pod.name.removesuffix(f"-{node.name}"), pod.tree["spec"]))
    kubelet = str(info.get("kubeletVersion", ""))
    versions = [text if _VERSION.fullmatch(text) else "" for text in (kubelet, runtime)]
    return folder.Machine(node.name, versions[0], versions[1] or "2.1.5", static_pods=pods)


def _static_pod(name: str, spec: Tree) -> StaticPod:
    """A static pod by its mirror pod, which users of the cluster may have changed: the disk gets it as text only."""
    container, volumes = spec["containers"][0], spec.get("volumes") or ()
    paths = [str((volume.get("hostPath") or {}).get("path", "")) for volume in volumes]
    return StaticPod(name, str(container["image"]), [str(flag) for flag in (container.get("command") or ())[1:]], paths)
