"""Random histories of one upgrade in place: what fails, what somebody edits or deletes meanwhile, and how it ends.

A history is drawn from its seed alone. In the end faults are over, and what people held goes on; then the cluster has
what is asked for, or a sentence says what to do: that is done here, and nothing else.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from espalier.api.capi.kubeadm import KubeadmConfig, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.core import CLUSTER_ROLE, CONFIG_MAP, NODE, POD
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import (
    IN_PLACE_CONTROL_PLANE,
    IN_PLACE_DEPLOYMENT,
    NODE_IN_WORK,
    REPLACING,
    RETRY_ANNOTATION,
    UPGRADER_LABEL,
)
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusterapi.contract import PAUSED_ANNOTATION as CAPI_PAUSED
from espalier.clusterapi.contract import SKIP_REMEDIATION_ANNOTATION
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import ApiError, KubeError, NotFound, Unreachable
from espalier.runtime.virtual import Simulation, run
from espalier.upgrades.names import IMAGES
from espalier.upgrades.node.containers import STEPS
from tests.support.environments.in_place_environment import NEW, OLD, machines, ready_cluster
from tests.support.environments.in_place_watcher import CALM, HOURS, Watcher, say_ready
from tests.support.environments.managed_environment import NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.environments.upgraders import GARDEN, Upgraders
from tests.support.servers.faults import Fault, Faults

UPGRADES: tuple[Resource, ...] = (ControlPlaneUpgrade.resource, MachineDeploymentUpgrade.resource, NodeUpgrade.resource)
OWNERS: tuple[Resource, ...] = (KubeadmControlPlane.resource, MachineDeployment.resource)
MINE = "mine"
"""Value of annotations by which people hold something."""
SHAPES = ((1, 1), (1, 2), (3, 1), (3, 2))
NONE: Tree = {"apiServerExtraArgs": None, "kubeletConfiguration": None}
WISHES: tuple[Tree, ...] = (
    NONE,
    {"apiServerExtraArgs": {"v": "5"}, "kubeletConfiguration": None},
    {"apiServerExtraArgs": None, "kubeletConfiguration": {"maxPods": 50}},
    {"apiServerExtraArgs": {"v": "4"}, "kubeletConfiguration": {"maxPods": 60}},
)


@dataclass
class Wish:
    """The current request."""

    version: str
    planes: int
    workers: int
    fields: Tree = field(default_factory=lambda: NONE)
    is_replaced: bool = False
    """True if machines of the control plane are replaced after all."""

    @property
    def kubernetes(self) -> str:
        return OLD if self.version == "1.35" else NEW

    def spec(self) -> Tree:
        how = {"upgradeRolloutStrategy": {"type": "InPlace"}}
        replaced: Tree = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}
        of_planes = {"upgradeRolloutStrategy": replaced} if self.is_replaced else how
        return {
            "kubernetesVersion": self.version,
            "controlPlaneConfiguration": {"count": self.planes, **of_planes, **self.fields},
            "workerNodeGroupConfigurations": [{"name": "md-0", "count": self.workers, **how}],
        }


@dataclass
class Nodes:
    """The state of nodes, whichever manager is there."""

    static_pods: dict[str, Any] = field(default_factory=dict)
    files: dict[str, Any] = field(default_factory=dict)
    read: dict[str, Any] = field(default_factory=dict)


@dataclass
class History:
    """One environment, and what happened so far."""

    env: ManagedEnvironment
    rng: random.Random
    upgraders: Upgraders
    watcher: Watcher
    wish: Wish
    told: list[str]
    faults: Faults

    def say(self, text: str) -> None:
        self.told.append(f"{asyncio.get_running_loop().time():8.0f} s  {text}")

    async def ask(self, **fields: Any) -> str:
        before = self.wish
        self.wish = Wish(**{**vars(before), **fields})
        try:
            await self.env.change(**self.wish.spec())
        except ApiError as error:
            self.wish = before
            return f"refused: {str(error)[:160]}"
        return "accepted"

    @property
    def far(self) -> Client:
        """The workload cluster, past the manager. Raises `Unreachable` where its API server was not begun yet."""
        if (workload := self.env.workloads.reach(GARDEN)) is None:
            raise Unreachable("the API server of the cluster is not there", sent=False)
        return workload.client

    async def any(self, resource: Resource, client: Client | None = None, *, label: str = "") -> str:
        """Name of one object of a kind, empty without any."""
        namespace = SYSTEM_NAMESPACE if resource.namespaced else None
        results = await (client or self.env.client).list(resource, namespace)
        names = sorted(item.name for item in results.items if not label or label in item.metadata.labels)
        return self.rng.choice(names) if names else ""

    async def patch(self, resource: Resource, name: str, patch: Tree, subresource: str | None = None) -> str:
        if not name:
            return "nothing there"
        try:
            await self.env.client.patch(
                resource, name, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE, subresource=subresource
            )
        except ApiError as error:
            return f"{name}: refused: {str(error)[:120]}"
        return name


Act = Callable[[History], Awaitable[str]]


def removal(resource: Resource, *, far: bool = False, label: str = "") -> Act:
    async def act(h: History) -> str:
        client = h.far if far else h.env.client
        name = await h.any(resource, client, label=label)
        with suppress(KubeError):
            if name:
                await client.delete(resource, name, SYSTEM_NAMESPACE if resource.namespaced else None)
        return name or "nothing there"

    return act


def edit(resource: Resource, patch: Tree, subresource: str | None = None) -> Act:
    async def act(h: History) -> str:
        return await h.patch(resource, await h.any(resource), patch, subresource)

    return act


def annotation(resource: Resource, name: str, value: str | None) -> Act:
    return edit(resource, {"metadata": {"annotations": {name: value}}})


async def lose(h: History) -> str:
    """Delete a Machine, but for the only one of a control plane: with it goes etcd, and nothing brings that back."""
    planes = [machine.name for machine in await machines(h.env) if "-md-" not in machine.name]
    if (name := await h.any(Machine.resource)) in planes and len(planes) == 1:
        return f"{name}: the cluster would be lost"
    with suppress(KubeError):
        if name:
            await h.env.client.delete(Machine.resource, name, SYSTEM_NAMESPACE)
    return name or "nothing there"


async def fail(h: History) -> str:
    node, step = await h.any(Machine.resource), h.rng.choice(STEPS).container
    h.upgraders.failing[node, step] = "the disk is full"
    return f"{step} on {node}"


async def hang(h: History) -> str:
    node, step = await h.any(Machine.resource), h.rng.choice(STEPS).container
    h.upgraders.hanging.add((node, step))
    return f"{step} on {node}"


async def repair(h: History) -> str:
    h.upgraders.failing.clear()
    h.upgraders.hanging.clear()
    return "steps"


async def ill(h: History) -> str:
    name = await h.any(NODE, h.far)
    workload = h.env.workloads.reach(GARDEN)
    if workload is not None and name:
        with suppress(KubeError):
            await say_ready(h.env, workload, name, h.rng.choice(("Unknown", "False", "True")))
    return name


async def reboot(h: History) -> str:
    name = await h.any(POD, h.far, label=UPGRADER_LABEL)
    lost = {"phase": "Failed", "reason": "Terminated", "message": "Pod was terminated in response to node shutdown"}
    with suppress(KubeError):
        if name:
            body: Tree = {"status": lost}
            await h.far.patch(POD, name, SYSTEM_NAMESPACE, patch=body, type=PatchType.MERGE, subresource="status")
    return name


async def pause(h: History) -> str:
    return await annotate(h, "true")


async def go_on(h: History) -> str:
    return await annotate(h, None)


async def annotate(h: History, value: str | None) -> str:
    patch: Tree = {"metadata": {"annotations": {PAUSED_ANNOTATION: value}}}
    with suppress(ApiError):
        await h.env.client.patch(Cluster.resource, "garden", NAMESPACE, patch=patch, type=PatchType.MERGE)
    return str(value)


async def scale(h: History) -> str:
    return await h.ask(workers=h.rng.choice((1, 2, 3)))


async def change_version(h: History) -> str:
    version = h.rng.choice(("1.35", "1.36"))
    return f"{version}: {await h.ask(version=version)}"


async def change_fields(h: History) -> str:
    fields = h.rng.choice(WISHES)
    return f"{fields}: {await h.ask(fields=fields)}"


async def second_writer(h: History) -> str:
    name = await h.any(Machine.resource)
    version = h.wish.kubernetes
    kind = "Worker" if "-md-" in name else "ControlPlane"
    metadata = {"name": h.rng.choice((f"hand-{name}", f"{name}-node-upgrader")), "namespace": SYSTEM_NAMESPACE}
    spec = {"machine": {"name": name}, "kubernetesVersion": version, "nodeType": kind}
    try:
        await h.env.client.create(NodeUpgrade.resource, {"metadata": metadata, "spec": spec})
    except ApiError as error:
        return f"{metadata['name']}: refused: {str(error)[:100]}"
    return f"{metadata['name']} to {version}"


async def forget_images(h: History) -> str:
    return await h.patch(CONFIG_MAP, IMAGES, {"data": None})


async def mirror(h: History) -> str:
    pods = (await h.far.list(POD, "kube-system", labels="tier=control-plane")).items
    name = h.rng.choice(sorted(item.name for item in pods))
    with suppress(KubeError):
        await h.far.delete(POD, name, "kube-system")
    return name


ACTS: dict[str, Act] = {
    **{f"delete a {kind.kind}": removal(kind) for kind in UPGRADES},
    "delete a NodeUpgrade again": removal(NodeUpgrade.resource),
    "delete an upgrader pod": removal(POD, far=True, label=UPGRADER_LABEL),
    "delete an upgrader role": removal(CLUSTER_ROLE, far=True, label=UPGRADER_LABEL),
    "delete a Machine": lose,
    "delete a mirror pod": mirror,
    **{f"strip finalizers of a {kind.kind}": edit(kind, {"metadata": {"finalizers": None}}) for kind in UPGRADES},
    **{f"strip labels of a {kind.kind}": edit(kind, {"metadata": {"labels": None}}) for kind in UPGRADES},
    **{f"strip owners of a {kind.kind}": edit(kind, {"metadata": {"ownerReferences": None}}) for kind in UPGRADES},
    **{f"strip annotations of a {kind.kind}": edit(kind, {"metadata": {"annotations": None}}) for kind in OWNERS},
    **{f"strip conditions of a {kind.kind}": edit(kind, {"status": None}, "status") for kind in UPGRADES},
    "strip annotations of a Machine": edit(Machine.resource, {"metadata": {"annotations": None}}),
    "say that a NodeUpgrade is completed": edit(NodeUpgrade.resource, {"status": {"completed": True}}, "status"),
    "say that a ControlPlaneUpgrade is ready": edit(
        ControlPlaneUpgrade.resource, {"status": {"ready": True}}, "status"
    ),
    "unmark a control plane": annotation(OWNERS[0], IN_PLACE_CONTROL_PLANE, None),
    "mark a control plane": annotation(OWNERS[0], IN_PLACE_CONTROL_PLANE, "true"),
    "unmark a group": annotation(OWNERS[1], IN_PLACE_DEPLOYMENT, None),
    "mark a group": annotation(OWNERS[1], IN_PLACE_DEPLOYMENT, "true"),
    "pause a control plane": annotation(OWNERS[0], CAPI_PAUSED, MINE),
    "claim a control plane": annotation(OWNERS[0], NODE_IN_WORK, "somebody 1"),
    "say that a control plane is replacing": annotation(OWNERS[0], REPLACING, "so"),
    "protect a Machine": annotation(Machine.resource, SKIP_REMEDIATION_ANNOTATION, MINE),
    "forget the images": forget_images,
    "pause a NodeUpgrade's group": annotation(ControlPlaneUpgrade.resource, PAUSED_ANNOTATION, MINE),
    "retry a NodeUpgrade": annotation(NodeUpgrade.resource, RETRY_ANNOTATION, "true"),
    "fail a step of": fail,
    "fail a later step of": fail,
    "hang": hang,
    "repair": repair,
    "say of a node": ill,
    "reboot": reboot,
    "pause": pause,
    "go on": go_on,
    "scale": scale,
    "ask for version": change_version,
    "ask for": change_fields,
    "write a NodeUpgrade": second_writer,
}


def tell(seed: int) -> list[str]:
    """Live through the history of a seed. Raises `AssertionError` that tells it when it does not end well."""
    rng = random.Random(seed)
    state = ready_cluster(*(shape := rng.choice(SHAPES)))
    chosen = [rng.choice([*ACTS]) for _ in range(rng.randint(2, 9))]

    async def main(simulation: Simulation) -> list[str]:
        store, stores = state.opened()
        faults, watcher, nodes = Faults(random.Random(rng.getrandbits(64))), Watcher(store, stores), Nodes()
        wish, told, left, has_begun = Wish("1.35", *shape), [f"seed {seed}: {shape}"], iter(chosen), False
        while True:
            async with managed_environment(
                simulation.clock,
                seed=rng.getrandbits(32),
                store=store,
                stores=stores,
                wrap=faults,
            ) as env:
                upgraders = Upgraders(env.workloads)
                upgraders.static_pods, upgraders.files, upgraders.read = nodes.static_pods, nodes.files, nodes.read
                h = History(env, rng, upgraders, watcher, wish, told, faults)
                if not has_begun:
                    has_begun = True
                    h.say(f"ask: {await begin(h)}")
                is_over = await live(h, left)
                wish = h.wish
                if is_over:
                    faults.present, faults.after_write = (), None
                    try:
                        await end_well(h)
                    except AssertionError as error:
                        raise AssertionError("\n".join([*told, str(error)])) from None
                    return told

    return run(main, epoch=state.at, seed=seed)


async def begin(h: History) -> str:
    fields, version = h.rng.choice(WISHES), h.rng.choice(("1.36", "1.36", "1.35"))
    return f"{version} {fields}: {await h.ask(version=version, fields=fields)}"


async def live(h: History, left: Iterator[str]) -> bool:
    """Act after act, until there is none left (True), or until the manager dies after a write."""
    died = asyncio.Event()
    for name in left:
        h.faults.present = tuple(item for item in Fault if h.rng.random() < 0.12)
        if h.rng.random() < 0.25:
            h.faults.after_write = died.set
        with suppress(TimeoutError):
            async with asyncio.timeout(h.rng.choice((0.1, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 20.0, 60.0))):
                await died.wait()
        try:
            done = await ACTS[name](h)
        except Unreachable as error:
            done = str(error)
        h.say(f"{name}: {done}" + "".join(f"; {item.value}" for item in h.faults.present))
        if died.is_set():
            h.say("the manager dies after a write")
            return False
    return True


async def recover(h: History) -> None:
    """Continue upgrades that people held, and repair those that failed. Raises `AssertionError`."""
    await asyncio.sleep(h.rng.choice((0.0, 10.0, 1000.0)))
    await repair(h)
    await annotate(h, None)
    for kind in (*OWNERS, Machine.resource, ControlPlaneUpgrade.resource):
        for item in (await h.env.client.list(kind, SYSTEM_NAMESPACE)).items:
            own = [key for key, value in item.metadata.annotations.items() if value == MINE]
            if own:
                await h.patch(kind, item.name, {"metadata": {"annotations": dict.fromkeys(own)}})
    if (workload := h.env.workloads.reach(GARDEN)) is None:
        raise AssertionError("the API server of the cluster is not there")
    for node in (await h.far.list(NODE)).items:
        if any(
            condition["type"] == "Ready" and condition["status"] != "True"
            for condition in node.tree["status"]["conditions"]
        ):
            await say_ready(h.env, workload, node.name, "True")
    for pod in (await h.far.list(POD, SYSTEM_NAMESPACE, labels=UPGRADER_LABEL)).items:
        await h.far.delete(POD, pod.name, SYSTEM_NAMESPACE)  # of those that hang, nobody knows it


TWO_CONTROL_PLANES = re.compile(r"pods (?!.*-md-).*, .* run")
"""The watcher's line about pods on two control plane nodes at once. Nobody can cause that, not by hand either."""


async def end_well(h: History) -> None:
    """All is as it was asked for in the end, with what conditions say to do. Raises `AssertionError`."""
    await recover(h)
    for _ in range(8):
        messages = await settled(h)
        if not messages:
            break
        done = await remedy(h, messages)
        await asyncio.sleep(CALM)
        if not done:
            raise AssertionError("\n".join(["nothing is said that helps:", *messages]))
        h.say(f"remedy: {done}")
    else:
        raise AssertionError("\n".join(["no remedy helps:", *await settled(h)]))
    for kind in UPGRADES:
        for item in (await h.env.client.list(kind, SYSTEM_NAMESPACE)).items:
            await remove(h, kind, item.name)  # written by hand, or made somebody's own
    await asyncio.sleep(CALM)
    wrong = [*await untrue(h), *h.watcher.left()]
    wrong += [what for what in h.watcher.broken if TWO_CONTROL_PLANES.fullmatch(what)]
    assert not wrong, "\n".join(["it ended otherwise:", *wrong])


async def settled(h: History) -> list[str]:
    """The complaints of conditions once nothing more changes; empty when all is as requested."""
    asked = (await h.env.client.get(Cluster.resource, "garden", NAMESPACE)).metadata.generation
    with suppress(TimeoutError):
        await h.env.until(
            lambda item: bool(item.status.ready) and item.status.observed_generation >= asked, seconds=HOURS
        )
        return []
    cluster = await h.env.client.get(Cluster.resource, "garden", NAMESPACE)
    messages = [text for text in _messages("Cluster", cluster.tree) if text]
    for kind in UPGRADES:
        for system_namespace in (await h.env.client.list(kind, SYSTEM_NAMESPACE)).items:
            messages += _messages(f"{kind.kind} {system_namespace.name}", system_namespace.tree)
    return messages or ["nothing is said"]


def _messages(what: str, tree: Tree) -> list[str]:
    conditions = (tree.get("status") or {}).get("conditions") or []
    return [
        f"{what}: {condition['type']} {condition['reason']}: {condition.get('message', '')}"
        for condition in conditions
        if condition["status"] != "True" and condition.get("message")
    ]


async def remedy(h: History, messages: list[str]) -> str:
    """Do the first thing that is said; empty when nothing is."""
    text = "\n".join(messages)
    if "set upgradeRolloutStrategy.type to RollingUpdate to let it continue" in text:
        return f"RollingUpdate: {await h.ask(is_replaced=True)}"
    if match := re.search(r"ask for v1\.(\d+)\.\S+ again", text):
        return f"ask for 1.{match[1]} again: {await h.ask(version=f'1.{match[1]}')}"
    if match := re.search(r"espalier upgrades retry (\S+?)[`;,)]*(\s|$)", text):
        return f"retry {await h.patch(NodeUpgrade.resource, match[1], retried())}"
    if match := re.search(r"delete (\w+Upgrade) (\S+) to have the manager create its own", text):
        return await remove(h, next(upgrade for upgrade in UPGRADES if upgrade.kind == match[1]), match[2])
    for kind in (NodeUpgrade, ControlPlaneUpgrade):
        if match := re.search(rf"\b{kind.__name__} (?:eksa-system/)?([\w.-]+) .*delete (?:it|the NodeUpgrade)\b", text):
            return await remove(h, kind.resource, match[1])
    if match := re.search(r"delete Machine (?:eksa-system/)?([\w-]+)", text):
        return await remove(h, Machine.resource, match[1])
    if match := re.search(r"delete Pod eksa-system/(\S+)", text):
        await h.far.delete(POD, match[1], SYSTEM_NAMESPACE)
        return f"delete Pod {match[1]}"
    if match := re.search(r"anywhere.eks.amazonaws.com/drift=(correct[a-z-]*)", text):
        patch: Tree = {"metadata": {"annotations": {"anywhere.eks.amazonaws.com/drift": match[1]}}}
        await h.env.client.patch(Cluster.resource, "garden", NAMESPACE, patch=patch, type=PatchType.MERGE)
        return f"drift={match[1]}"
    if "UpgraderImageMissing" in text:
        await h.env.client.delete(CONFIG_MAP, IMAGES, SYSTEM_NAMESPACE)
        return "make the ConfigMap of images anew"
    return ""


async def remove(h: History, resource: Resource, name: str) -> str:
    try:
        await h.env.client.delete(resource, name, SYSTEM_NAMESPACE)
    except NotFound:
        return f"{resource.kind} {name} is not there: nothing to delete"
    return f"delete {resource.kind} {name}"


def retried() -> Tree:
    return {"metadata": {"annotations": {RETRY_ANNOTATION: "true"}}}


async def untrue(h: History) -> list[str]:
    """The differences between nodes and their Machines, in both directions."""
    version = h.wish.kubernetes
    loudness = (h.wish.fields["apiServerExtraArgs"] or {}).get("v")
    wrong = [f"versions are {item}" for item in [h.watcher.versions()] if item != {version}]
    present = {machine.name: machine for machine in await machines(h.env)}
    planes = [name for name in present if "-md-" not in name]
    if (len(planes), len(present)) != (h.wish.planes, h.wish.planes + h.wish.workers):
        wrong.append(f"machines are {sorted(present)}")
    for name in planes:
        config = await h.env.client.get(KubeadmConfig.resource, _config(present[name].tree), SYSTEM_NAMESPACE)
        pods = h.upgraders.static_pods.get(name)
        if pods is not None:
            flags, image = pods["kube-apiserver"].flags, pods["kube-apiserver"].image
            loud = [flag for flag in flags if flag.startswith("--v=")]
            if loud != ([f"--v={loudness}"] if loudness else []) or not image.endswith(version):
                wrong.append(f"kube-apiserver of {name} has {loud} and {image}")
        has = h.upgraders.files.get(name) or {}
        expected = {file["path"]: file.get("content", "") for file in config.tree["spec"].get("files") or ()}
        wrong += [
            f"{name} has another {path} than its Machine says"
            for path, text in has.items()
            if expected.get(path) != text
        ]
        if has != h.upgraders.read.get(name, has):
            wrong.append(f"the kubelet of {name} has not read its files")
    return wrong


def _config(machine: Tree) -> str:
    return str(machine["spec"]["bootstrap"]["configRef"]["name"])
