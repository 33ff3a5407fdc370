"""Makes the archive of this folder: a local environment that is killed in the middle of its work.

    python -m tests.stored.make VERSION

Run it from a checkout of the version that the archive is to be of: `README.md` tells what is in it, and when to make
another one.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from espalier.api.capi.machine import Machine
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.manifests.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.cli.kit.connecting.home import Home
from espalier.cli.local import lock
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.transports.http import HttpTransport
from espalier.providers.kinds import CATALOG
from tests.support.environments.environment import LocalEnvironment

HERE = Path(__file__).parent
EXAMPLE = HERE.parents[1] / "examples" / "docker.yaml"
NAMESPACE = "default"
NEW = "1.36"
IN_PLACE = {"upgradeRolloutStrategy": {"type": "InPlace"}}
WORKERS = {"garden": 3, "rolling": 2, "settled": 1}
STATE_FILES = ("management.db", "clusters")
"""The parts of the home that are state. The rest is made anew at each start, or names this machine: kubeconfig, log,
lock, own certificate authority, folders of simulated nodes."""


async def make(target: Path) -> None:
    """Make clusters, begin to change two of them, kill the process, and pack what is left."""
    with tempfile.TemporaryDirectory(prefix="espalier-stored-") as folder:
        env = LocalEnvironment(Path(folder) / "home")
        env.home.mkdir()
        await asyncio.to_thread(env.up, "--boot-seconds", "2")
        client = _client(env.home)
        try:
            for name in WORKERS:
                await _apply(client, name)
            for name in WORKERS:
                await _until(client, partial(_is_ready, name))
            await _change(client, "garden")
            await _until(client, lambda objects: len(_completed(objects)) >= 2)
            await _change(client, "rolling")
            await _until(client, _is_in_the_middle)
        finally:
            await client.close()
            running = lock.holder(Home(env.home).lock)
            if running is not None:
                os.kill(running.pid, signal.SIGKILL)
        killed = datetime.now(UTC)
        assert await lock.released(Home(env.home).lock, 60)
        _pack(env.home, killed, target)


def _client(home: Path) -> Client:
    return Client(HttpTransport(Kubeconfig.load([Home(home).kubeconfig]).context(), environment={}))


async def _apply(client: Client, name: str) -> None:
    for document in read_manifests(EXAMPLE.read_bytes(), source=EXAMPLE.name):
        tree = document.tree
        tree["metadata"] |= {"name": name, "namespace": NAMESPACE}
        if tree["kind"] == Cluster.resource.kind:
            how = IN_PLACE if name == "garden" else {}
            group = {"name": "md-0", "count": WORKERS[name], **how}
            tree["spec"] |= {
                "datacenterRef": tree["spec"]["datacenterRef"] | {"name": name},
                "controlPlaneConfiguration": {"count": 1, **how},
                "workerNodeGroupConfigurations": [group],
            }
        await client.apply(CATALOG.resource_of(document.api_version, document.kind), tree, field_manager="kubectl")


async def _change(client: Client, name: str) -> None:
    patch: Tree = {"spec": {"kubernetesVersion": NEW}}
    await client.patch(Cluster.resource, name, NAMESPACE, patch=patch, type=PatchType.MERGE)


Objects = dict[str, list[Tree]]


async def _until(client: Client, is_so: Callable[[Objects], bool]) -> None:
    """Look again and again: a client of any version can do that, and the moment has to be hit, not waited for."""
    async with asyncio.timeout(180):
        while True:
            objects: Objects = {}
            for resource in (Cluster.resource, Machine.resource, NodeUpgrade.resource):
                namespace = NAMESPACE if resource is Cluster.resource else SYSTEM_NAMESPACE
                objects[resource.kind] = [item.tree for item in (await client.list(resource, namespace)).items]
            if is_so(objects):
                return
            await asyncio.sleep(0.02)


def _is_ready(name: str, objects: Objects) -> bool:
    first = next(item for item in objects["Cluster"] if item["metadata"]["name"] == name)
    return _holds(first, "Ready") and first["status"].get("observedGeneration") == first["metadata"]["generation"]


def _holds(tree: Tree, type_: str) -> bool:
    conditions = tree.get("status", {}).get("conditions", [])
    return any(condition["type"] == type_ and condition["status"] == "True" for condition in conditions)


def _completed(objects: Objects) -> list[str]:
    """Machines of clusters in place whose version is the new one."""
    machines = [item for item in objects["Machine"] if item["spec"]["clusterName"] == "garden"]
    return [machine["metadata"]["name"] for machine in machines if machine["spec"]["version"].startswith(f"v{NEW}")]


def _is_in_the_middle(objects: Objects) -> bool:
    """A node is between its steps, others of its group are done or not begun; a machine is being replaced."""
    begun = [item for item in objects["NodeUpgrade"] if not item.get("status", {}).get("completed")]
    is_between = any(_holds(item, "KubeadmUpgraded") and not _holds(item, "KubeletUpgraded") for item in begun)
    rolling = [item for item in objects["Machine"] if item["spec"]["clusterName"] == "rolling"]
    return is_between and len(_completed(objects)) in (2, 3) and len(rolling) > 1 + WORKERS["rolling"]


def _files(home: Path) -> Iterator[Path]:
    for name in STATE_FILES:
        for path in sorted(home.glob(f"{name}*")):
            yield from sorted(item for item in path.rglob("*") if item.is_file()) if path.is_dir() else [path]


def _pack(home: Path, killed: datetime, target: Path) -> None:
    (home / "killed.json").write_text(json.dumps({"at": killed.isoformat(timespec="seconds")}))
    with tarfile.open(target, "w:xz", preset=9) as archive:
        for path in [home / "killed.json", *_files(home)]:
            if path.suffix != ".db-shm":
                entry = archive.gettarinfo(path, str(path.relative_to(home)))
                entry.uid = entry.gid = 0
                entry.uname = entry.gname = ""
                with path.open("rb") as file:
                    archive.addfile(entry, file)


if __name__ == "__main__":
    asyncio.run(make(HERE / f"{sys.argv[1]}.tar.xz"))
