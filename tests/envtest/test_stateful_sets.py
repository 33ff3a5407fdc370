"""StatefulSets of seeds do what those of kube-controller-manager do."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import pytest

from espalier.api.core import NAMESPACE, PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET
from espalier.api.meta import Tree
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Conflict, NotFound
from espalier.kube.objects import Object
from espalier.runtime.clock import SystemClock
from espalier.simulator.pods.runtimes.in_process import Container
from espalier.simulator.seeds import Seed
from tests.support.environments.control_plane import ControlPlane, find_assets
from tests.support.waiting import eventually

pytestmark = pytest.mark.envtest

SHOP = "stateful-shop"


class Story:
    """A StatefulSet's history, told alike for both implementations."""

    def __init__(self, client: Client, *, kubelet: bool) -> None:
        self.client = client
        self.made: list[str] = []
        """Names and images of pods in the order in which they were made."""
        self._known: set[str] = set()
        self._kubelet = kubelet

    async def run(self) -> Tree:
        """Made with three pods, scaled to one and two, given another image, put to sleep."""
        told: Tree = {}
        await self.client.create(NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SHOP}})
        await self.client.create(STATEFUL_SET, stateful_set())
        await self.settled(3)
        told["made"] = [await self.status(), await self.pods(), await self.claims()]
        for replicas in (1, 2):
            await self.change({"spec": {"replicas": replicas}})
            await self.settled(replicas)
            told[f"scaled to {replicas}"] = await self.status()
        container = {"name": "db", "image": "db:2"}
        await self.change({"spec": {"template": {"spec": {"containers": [container]}}}})
        await self.settled(2)
        told["new image"] = [await self.status(), await self.pods()]
        await self.change({"spec": {"replicas": 0}})
        await self.settled(0)
        told["asleep"] = [await self.status(), await self.claims()]
        told["order"] = self.made
        return told

    async def change(self, patch: Tree) -> None:
        await self.client.patch(STATEFUL_SET, "db", SHOP, patch=patch, type=PatchType.MERGE)

    async def settled(self, replicas: int) -> None:
        """So many pods are ready, all of the newest template, and the status says so."""
        await eventually(partial(self._is_settled, replicas), every=0.02, told=lambda: f"{self.made}")

    async def _is_settled(self, replicas: int) -> bool:
        await self._look()
        result = (await self.client.get(STATEFUL_SET, "db", SHOP)).tree
        status = result.get("status") or {}
        counts = [status.get(name, 0) for name in ("replicas", "readyReplicas", "currentReplicas", "updatedReplicas")]
        is_seen = status.get("observedGeneration") == result["metadata"]["generation"]
        return is_seen and counts == [replicas] * 4 and status["currentRevision"] == status["updateRevision"]

    async def _look(self) -> None:
        """See which pods were made, and do what a kubelet does."""
        pods = sorted((await self.client.list(POD, SHOP)).items, key=lambda pod: int(pod.resource_version))
        for pod in pods:
            if pod.metadata.uid not in self._known:
                self._known.add(pod.metadata.uid)
                self.made.append(f"{pod.name} {pod.tree['spec']['containers'][0]['image']}")
            if self._kubelet:
                with suppress(NotFound, Conflict):
                    await self._ready(pod)

    async def _ready(self, pod: Object) -> None:
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        if (pod.tree.get("status") or {}).get("phase") != "Running":
            patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
            await self.client.patch(POD, pod.name, SHOP, patch=patch, type=PatchType.MERGE, subresource="status")

    async def status(self) -> Any:
        return anonymous((await self.client.get(STATEFUL_SET, "db", SHOP)).tree["status"])

    async def pods(self) -> Any:
        """The part of its pods that a StatefulSet decides."""
        results = sorted((await self.client.list(POD, SHOP)).items, key=lambda pod: pod.name)
        return [
            anonymous(
                {
                    "labels": pod.metadata.labels,
                    "hostname": pod.tree["spec"].get("hostname"),
                    "subdomain": pod.tree["spec"].get("subdomain"),
                    "volumes": [volume for volume in pod.tree["spec"]["volumes"] if "persistentVolumeClaim" in volume],
                }
            )
            for pod in results
        ]

    async def claims(self) -> list[Any]:
        persistent_volume_claims = (await self.client.list(PERSISTENT_VOLUME_CLAIM, SHOP)).items
        return sorted(
            (item.name, item.metadata.labels, item.tree["spec"]["accessModes"]) for item in persistent_volume_claims
        )


def stateful_set() -> Tree:
    template = {
        "metadata": {"labels": {"app": "db"}},
        "spec": {"containers": [{"name": "db", "image": "db:1"}], "automountServiceAccountToken": False},
    }
    requests = {"requests": {"storage": "1Gi"}}
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": requests}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": SHOP},
        "spec": {
            "replicas": 3,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template,
            "volumeClaimTemplates": [claim],
        },
    }


def anonymous(value: Any) -> Any:
    """Without hashes of templates."""
    if isinstance(value, dict):
        return {name: anonymous(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [anonymous(inner) for inner in value]
    return re.sub(r"^db-[0-9a-z]{5,}$", "db-HASH", value) if isinstance(value, str) else value


@asynccontextmanager
async def controlled(control_plane: ControlPlane) -> AsyncIterator[None]:
    """With the controller of StatefulSets, which control planes of tests are without."""
    programs = find_assets()
    assert programs is not None
    flags = {"kubeconfig": str(control_plane.kubeconfig), "controllers": "statefulset-controller"}
    flags |= {"leader-elect": "false", "secure-port": "0"}
    words = [f"--{name}={value}" for name, value in flags.items()]
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(
        programs / "kube-controller-manager", *words, stdout=quiet, stderr=quiet
    )
    try:
        yield
    finally:
        process.terminate()
        await process.wait()


@asynccontextmanager
async def seed() -> AsyncIterator[Seed]:
    async def rest(_container: Container) -> int:
        await asyncio.get_running_loop().create_future()
        return 0

    made = Seed("a", lambda _image: rest, clock=SystemClock(), rng=random.Random(1))
    await made.start()
    try:
        yield made
    finally:
        await made.destroy()


async def test_stateful_set_of_a_seed_lives_as_on_a_real_one(control_plane: ControlPlane) -> None:
    real = control_plane.client()
    try:
        async with controlled(control_plane):
            expected = await Story(real, kubelet=True).run()
    finally:
        await real.close()
    async with seed() as made:
        result = await Story(made.client(), kubelet=False).run()
    assert result == expected
