"""Stories in which machines are made, replaced and removed: told on simulated and on the real Cluster API alike.

What both promise is asserted here, so that a difference between the two shows where it is.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

import pytest

from espalier.api.capi import cluster as capi_cluster
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineSet
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusterapi import names
from espalier.clusterapi.contract import SKIP_COREDNS_ANNOTATION
from espalier.clusters.preview.previews import Preview
from espalier.kube.errors import ApiError, NotFound
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.providers.kinds import CLUSTER_API_KINDS
from tests.support.environments.managed_clusters import BrokenImages, ManagedClusters

KUBERNETES = {"1.34": "v1.34.4-eks-1-34-1", "1.35": "v1.35.4-eks-1-35-1", "1.36": "v1.36.3-eks-1-36-1"}

_RESTING = {"RollingOut": "False", "ScalingUp": "False", "ScalingDown": "False", "Remediating": "False"}
_ALIVE = {"Deleting": "False", "Paused": "False"}
_MACHINES = {"MachinesReady": "True", "MachinesUpToDate": "True"}
AT_REST: Mapping[type[KubeObject], Mapping[str, str]] = {
    Machine: {
        "Available": "True",
        "Ready": "True",
        "UpToDate": "True",
        "BootstrapConfigReady": "True",
        "InfrastructureReady": "True",
        "NodeHealthy": "True",
        "NodeReady": "True",
        **_ALIVE,
    },
    MachineSet: {**_MACHINES, **_ALIVE, "ScalingUp": "False", "ScalingDown": "False", "Remediating": "False"},
    MachineDeployment: {"Available": "True", **_MACHINES, **_RESTING, **_ALIVE},
    KubeadmControlPlane: {
        "Available": "True",
        "Initialized": "True",
        "CertificatesAvailable": "True",
        **_MACHINES,
        **_RESTING,
        **_ALIVE,
    },
    capi_cluster.Cluster: {
        "Available": "True",
        "InfrastructureReady": "True",
        "ControlPlaneInitialized": "True",
        "ControlPlaneAvailable": "True",
        "WorkersAvailable": "True",
        "RemoteConnectionProbe": "True",
        "ControlPlaneMachinesReady": "True",
        "ControlPlaneMachinesUpToDate": "True",
        "WorkerMachinesReady": "True",
        "WorkerMachinesUpToDate": "True",
        **_RESTING,
        **_ALIVE,
    },
}
"""Conditions of objects when nothing is under way."""
_NAME_OF_BUILD = re.compile(r"kubeletVersion \S+, \S+ required$|:$|Rolling out \d+ not up-to-date replicas")
"""The lines of messages about such names: the reason itself, who has it, and how many."""


async def rate_limits(env: ManagedClusters, cluster: str) -> None:
    """Every object of a cluster says that nothing is under way. Its Ready may come before the last of them does."""
    for kind, promised in AT_REST.items():
        await env.until_all(kind.resource, cluster, partial(broken, promised=promised))


def broken(tree: Tree, promised: Mapping[str, str]) -> dict[str, str]:
    """The conditions that are not as promised, but for what Cluster API says of names of kubelets' builds."""
    conditions = {condition["type"]: condition for condition in tree.get("status", {}).get("conditions", [])}
    results = {type_: conditions.get(type_, {"status": "missing"}) for type_ in promised}
    return {
        type_: f"{results[type_]['status']}: {results[type_].get('message', '')}"
        for type_, status in promised.items()
        if results[type_]["status"] != status and not _is_of_names(results[type_])
    }


def _is_of_names(condition: Tree) -> bool:
    """True if each reason of a condition is the name of a kubelet's build, which Cluster API compares since 1.14."""
    reasons = condition.get("message", "").splitlines()
    is_of_versions = condition.get("type", "").endswith(("UpToDate", "RollingOut"))
    return is_of_versions and bool(reasons) and all(map(_NAME_OF_BUILD.search, reasons))


async def lives(env: ManagedClusters, key: Key, *, counts: Sequence[int] = (3, 1)) -> None:
    """A cluster that was applied gets ready, is scaled, upgraded and deleted, and leaves nothing behind."""
    cluster = await env.until_ready(key)
    assert {condition.status for condition in cluster.status.conditions} == {"True"}
    assert cluster.status.phase == "Running"
    assert await env.versions(key) == [env.kubelet(KUBERNETES["1.35"])] * 3
    await rate_limits(env, key.name)

    for count in counts:
        await env.change(key, workerNodeGroupConfigurations=[{"name": "md-0", "count": count}])
        await env.until_ready(key)
        assert len(await env.nodes(key)) == 1 + count

    before = await env.machine_names(key.name)
    await env.change(key, kubernetesVersion="1.36")
    await env.until_ready(key)
    await env.until_machines_rest(key.name)
    assert await env.versions(key) == [env.kubelet(KUBERNETES["1.36"])] * (1 + counts[-1])
    after = await env.machine_names(key.name)
    assert not set().union(*before.values()) & set().union(*after.values()), "all machines are others"
    await rate_limits(env, key.name)

    await env.client.delete(DockerDatacenterConfig.resource, key.name, key.namespace)
    await env.client.delete(Cluster.resource, key.name, key.namespace)
    await env.until_gone(key)
    assert await left(env, key.name) == []


async def left(env: ManagedClusters, name: str) -> list[str]:
    """Everything in the system's namespace that is a cluster's."""
    results = []
    for kind in CLUSTER_API_KINDS:
        with suppress(NotFound):  # external etcd is a kind of EKS Anywhere's build of Cluster API
            listed = await env.client.list(kind.resource, SYSTEM_NAMESPACE, labels=f"{names.CLUSTER}={name}")
            results += [f"{kind.resource.kind} {object_.name}" for object_ in listed.items]
    return results


async def hangs_and_goes_back(env: ManagedClusters, images: BrokenImages, key: Key, *, count: int) -> None:
    """An upgrade of a ready cluster of 1.35, whose first new machine never comes up, is taken back in the manifest."""
    broken_image = (key.name, KUBERNETES["1.36"])
    before, nodes = await env.machine_names(key.name), await env.versions(key)
    images.add(broken_image)
    await env.change(key, kubernetesVersion="1.36")
    await env.until_all(KubeadmControlPlane.resource, key.name, partial(differs, replicas=count + 1))
    await env.until_all(KubeadmControlPlane.resource, key.name, partial(differs, upToDateReplicas=1))
    await happens_as_planned(env, key, goes_back, random.Random(key.name))
    assert await env.machine_names(key.name) == before
    assert await env.versions(key) == nodes
    control_plane = await env.client.get(KubeadmControlPlane.resource, key.name, SYSTEM_NAMESPACE)
    assert SKIP_COREDNS_ANNOTATION not in control_plane.metadata.annotations, "the mark is of one write"
    await rate_limits(env, key.name)
    images.remove(broken_image)


async def can_not_go_back(env: ManagedClusters, key: Key) -> None:
    """Once a control plane machine of a cluster runs the new version, there is no rollback; the upgrade goes on."""
    await env.change(key, kubernetesVersion="1.36")
    machines = env.manager.caches.of(Machine.resource, SYSTEM_NAMESPACE, labels=names.CONTROL_PLANE)
    await env.until_any(machines, key.name, runs_newest)
    refused = (
        r"spec.kubernetesVersion: Kubernetes can't be downgraded from 1\.36: .* until a control plane machine runs"
    )
    with pytest.raises(ApiError, match=refused):
        await env.change(key, kubernetesVersion="1.35")
    await env.until_ready(key)
    assert set(await env.versions(key)) == {env.kubelet(KUBERNETES["1.36"])}


def differs(tree: Tree, **status: object) -> dict[str, object]:
    """The fields of a status that are not as described."""
    stored = tree.get("status", {})
    return {field: stored.get(field) for field, value in status.items() if stored.get(field) != value}


def runs_newest(machine: Tree) -> bool:
    """True if a machine is a node of 1.36."""
    return machine["spec"]["version"] == KUBERNETES["1.36"] and "nodeRef" in machine.get("status", {})


Change = Callable[[Tree, random.Random], None]


def control_plane(spec: Tree) -> Tree:
    result: Tree = spec.setdefault("controlPlaneConfiguration", {"count": 1})
    return result


def group(spec: Tree) -> Tree:
    result: Tree = spec["workerNodeGroupConfigurations"][0]
    return result


def scales(spec: Tree, draw: random.Random) -> None:
    group(spec)["count"] = draw.choice([count for count in (1, 2, 3) if count != group(spec)["count"]])


def labels_workers(spec: Tree, draw: random.Random) -> None:
    group(spec)["labels"] = {"disk": draw.choice(["fast", "slow"]), "draw": str(draw.randrange(1000))}


def taints_workers(spec: Tree, draw: random.Random) -> None:
    group(spec)["taints"] = [{"key": "dedicated", "value": f"n{draw.randrange(1000)}", "effect": "PreferNoSchedule"}]


def configures_kubelets(spec: Tree, draw: random.Random) -> None:
    group(spec)["kubeletConfiguration"] = {"maxPods": 60 + draw.randrange(50)}


def watches_health(spec: Tree, draw: random.Random) -> None:
    spec["machineHealthCheck"] = {"nodeStartupTimeout": f"{10 + draw.randrange(50)}m0s"}


def rolls_otherwise(spec: Tree, draw: random.Random) -> None:
    rolling = {"maxSurge": draw.choice([1, 2]), "maxUnavailable": draw.choice([0, 1])}
    group(spec)["upgradeRolloutStrategy"] = {"type": "RollingUpdate", "rollingUpdate": rolling}


def names_api_server(spec: Tree, draw: random.Random) -> None:
    control_plane(spec)["certSans"] = [f"api-{draw.randrange(1000)}.example"]


def labels_control_plane(spec: Tree, draw: random.Random) -> None:
    control_plane(spec)["labels"] = {"draw": str(draw.randrange(1000))}


def adds_group(spec: Tree, draw: random.Random) -> None:
    name = f"extra-{draw.randrange(1000)}"
    spec["workerNodeGroupConfigurations"] = [*spec["workerNodeGroupConfigurations"][:1], {"name": name, "count": 1}]


def removes_group(spec: Tree, _draw: random.Random) -> None:
    del spec["workerNodeGroupConfigurations"][1:]


def upgrades(spec: Tree, _draw: random.Random) -> None:
    spec["kubernetesVersion"] = {"1.34": "1.35", "1.35": "1.36"}.get(spec["kubernetesVersion"], "1.36")


def goes_back(spec: Tree, _draw: random.Random) -> None:
    spec["kubernetesVersion"] = "1.35"


CHANGES: tuple[Change, ...] = (
    scales,
    adds_group,
    taints_workers,
    watches_health,
    removes_group,
    labels_workers,
    rolls_otherwise,
    names_api_server,
    configures_kubelets,
    upgrades,
    labels_control_plane,
)
"""In an order in which each has something to do, also for who takes every third."""


async def happens_as_planned(env: ManagedClusters, key: Key, change: Change, draw: random.Random) -> None:
    """Machines go and come as the preview said, by name, when a change is applied."""
    live = (await env.client.get(Cluster.resource, key.name, key.namespace)).tree
    spec = live["spec"]
    change(spec, draw)
    metadata = {"name": key.name, "namespace": key.namespace}
    preview = await env.preview(key, [{**live, "metadata": metadata, "spec": spec}])
    assert not preview.refusals
    before = await env.machine_names(key.name)
    await env.change(key, **spec)
    await env.until_ready(key)
    await env.until_machines_rest(key.name)
    after = await env.machine_names(key.name)
    assert (change.__name__, happened(before, after)) == (change.__name__, planned(preview))


Happened = dict[str, tuple[set[str], int]]
"""By group: names of the machines that go, and how many come."""


def happened(before: dict[str, set[str]], after: dict[str, set[str]]) -> Happened:
    results = {}
    for name in before.keys() | after.keys():
        gone, come = before.get(name, set()) - after.get(name, set()), after.get(name, set()) - before.get(name, set())
        if gone or come:
            results[name] = (gone, len(come))
    return results


def planned(preview: Preview) -> Happened:
    return {
        item.name: ({going.name for going in item.going}, item.coming)
        for item in preview.groups
        if item.going or item.coming
    }
