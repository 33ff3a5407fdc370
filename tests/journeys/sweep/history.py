"""One random history of a cluster: what was asked for, what happened so far, and the objects that there are."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from espalier.api.capi.cluster import Cluster as CapiCluster
from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineHealthCheck, MachineSet
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.client import PatchType
from espalier.kube.errors import ApiError, NotFound
from espalier.kube.objects import Object
from espalier.providers.docker.cluster_api import DockerCluster, DockerMachineTemplate
from tests.support.environments.managed_clusters import NAMESPACE
from tests.support.environments.managed_environment import ManagedEnvironment
from tests.support.servers.faults import Faults

LONG = 4 * 3600.0
"""Simulated seconds in which all that was begun ends: boots, health checks, backoffs, resyncs."""

MADE: tuple[Resource, ...] = (
    CapiCluster.resource,
    DockerCluster.resource,
    KubeadmControlPlane.resource,
    MachineDeployment.resource,
    DockerMachineTemplate.resource,
    KubeadmConfigTemplate.resource,
    MachineHealthCheck.resource,
)
"""Kinds of what a manager makes for a cluster."""

PAUSABLE = (
    KubeadmControlPlane.resource,
    MachineDeployment.resource,
    MachineSet.resource,
    Machine.resource,
    DockerCluster.resource,
)

Where = tuple[Resource, str, str]


@dataclass
class Wish:
    """The current request of users; None: that there be no cluster."""

    version: str = "1.35"
    workers: int = 2
    second: bool = False
    label: str = ""
    taint: str = ""
    in_place: bool = False

    def spec(self) -> Tree:
        how = {"upgradeRolloutStrategy": {"type": "InPlace"}} if self.in_place else {}
        labels = {"labels": {"team": self.label}} if self.label else {}
        taints = {"taints": [{"key": "team", "value": self.taint, "effect": "PreferNoSchedule"}]} if self.taint else {}
        groups = [{"name": "md-0", "count": self.workers, **how, **labels, **taints}]
        if self.second:
            groups.append({"name": "md-1", "count": 1, **how})
        return {
            "kubernetesVersion": self.version,
            "controlPlaneConfiguration": {"count": 1, **how},
            "workerNodeGroupConfigurations": groups,
        }


@dataclass
class History:
    """One environment and what happened in it so far."""

    env: ManagedEnvironment
    rng: random.Random
    wish: Wish
    faults: Faults
    told: list[str] = field(default_factory=list)
    foreign: list[Where] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.told.append(f"{asyncio.get_running_loop().time():8.0f} s  {text}")

    async def ask(self, **fields: Any) -> None:
        """Ask for something else, as a user who applies a manifest; what is refused is as if it was never asked."""
        before = self.wish
        self.wish = Wish(**{**vars(before), **fields})
        try:
            await self.env.apply(**self.wish.spec())
        except ApiError as error:
            self.wish = before
            self.say(f"  refused: {str(error)[:200]}")


Act = Callable[[History], Awaitable[str]]


async def annotate(h: History, marks: dict[str, str | None]) -> None:
    await edit(h, (Cluster.resource, "garden", NAMESPACE), {"metadata": {"annotations": marks}})


async def objects(h: History, *resources: Resource) -> list[Where]:
    """All objects that are made for the cluster, or kept beside it, in an order that depends on nothing."""
    results: list[Where] = []
    for resource in resources or MADE:
        listed = await h.env.client.list(resource, SYSTEM_NAMESPACE)
        results += [(resource, item.name, item.namespace) for item in listed.items]
    return sorted(results, key=lambda item: (item[0].kind, item[1]))


async def any_object(h: History, *resources: Resource) -> Where | None:
    results = await objects(h, *resources)
    return h.rng.choice(results) if results else None


async def there(h: History, where: Where) -> Object | None:
    resource, name, namespace = where
    try:
        return await h.env.client.get(resource, name, namespace)
    except NotFound:
        return None


async def edit(h: History, where: Where, patch: Tree) -> None:
    resource, name, namespace = where
    try:
        await h.env.client.patch(resource, name, namespace, patch=patch, type=PatchType.MERGE)
    except ApiError as error:
        h.say(f"  refused: {str(error)[:200]}")


def kind_of(resource: Resource) -> str:
    """A kind, apart from that of Cluster API whose name we have as well."""
    return resource.kind if resource != CapiCluster.resource else "Cluster API's Cluster"


def named(where: Where | None) -> str:
    return f"{where[0].kind} {where[1]}" if where else "nothing"
