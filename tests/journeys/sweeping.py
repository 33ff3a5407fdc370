"""Random histories of a cluster: what users ask, what hands edit, what fails; and whether it ends well.

A history is drawn from its seed alone. When it is over, the faults end, and what people paused goes on. Then the
cluster is what is asked for, or a condition says what to do: the harness does that, and nothing else.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from espalier.api.capi.cluster import Cluster as CapiCluster
from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment, MachineHealthCheck
from espalier.api.core import DAEMON_SET, NODE, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.group import CLUSTER_NAME_LABEL, PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.eksa.upgrades import PAUSED_FOR_UPGRADE
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.store import MemoryStore
from espalier.clusterapi.contract import PAUSED_ANNOTATION as CAPI_PAUSED
from espalier.clusters import names
from espalier.kube.client import PatchType
from espalier.kube.errors import ApiError, KubeError, NotFound
from espalier.kube.objects import Object
from espalier.providers.docker.cluster_api import DockerCluster, DockerMachineTemplate
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.stores import MemoryStores
from tests.journeys.asking import NAMESPACE
from tests.journeys.faulty import Fault, Faults
from tests.journeys.in_place import EPOCH
from tests.journeys.in_place_watch import releases
from tests.journeys.managed import ManagedLaptop, managed_laptop
from tests.support.recording import Kept
from tests.support.upgraders import Upgraders

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

Where = tuple[Resource, str, str]


@dataclass
class Wish:
    """What users ask for now; None: that there be no cluster."""

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
    """One world and what happened in it so far."""

    world: ManagedLaptop
    entropy: random.Random
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
            await self.world.apply(**self.wish.spec())
        except ApiError as error:
            self.wish = before
            self.say(f"  refused: {str(error)[:200]}")


Act = Callable[[History], Awaitable[str]]


# What users do.


async def scale(h: History) -> str:
    count = h.entropy.choice((1, 2, 3))
    await h.ask(workers=count)
    return f"scale to {count}"


async def upgrade(h: History) -> str:
    await h.ask(version="1.36")
    return "upgrade to 1.36"


async def label(h: History) -> str:
    await h.ask(label=h.entropy.choice(("", "a", "b")), taint=h.entropy.choice(("", "x")))
    return f"labels and taints: {h.wish.label!r} {h.wish.taint!r}"


async def group(h: History) -> str:
    await h.ask(second=not h.wish.second)
    return f"second group: {h.wish.second}"


async def pause(h: History) -> str:
    await annotate(h, {PAUSED_ANNOTATION: "true"})
    return "pause the Cluster"


async def go_on(h: History) -> str:
    await annotate(h, {PAUSED_ANNOTATION: None})
    return "have the Cluster go on"


async def annotate(h: History, marks: dict[str, str | None]) -> None:
    await edit(h, (Cluster.resource, "garden", NAMESPACE), {"metadata": {"annotations": marks}})


async def delete_and_ask_again(h: History) -> str:
    await annotate(h, {PAUSED_ANNOTATION: None})
    with suppress(NotFound):
        await h.world.client.delete(Cluster.resource, "garden", NAMESPACE)
    until = asyncio.get_running_loop().time() + LONG
    while await there(h, (Cluster.resource, "garden", NAMESPACE)):
        await asyncio.sleep(5)
        with suppress(NotFound):
            for said in await wrong(h):
                if said.reason == "ClusterAPIPaused":
                    h.say(f"remedy for {said.where} {said.reason}: {await remedy(h, said)}")
        if asyncio.get_running_loop().time() > until:
            raise AssertionError(f"the Cluster does not go: {await ready_of(h)}")
    await h.ask()
    return "delete the Cluster, and ask for it again once it is gone"


# What hands do.


async def objects(h: History, *resources: Resource) -> list[Where]:
    """All objects that are made for the cluster, or kept beside it, in an order that depends on nothing."""
    found: list[Where] = []
    for resource in resources or MADE:
        listed = await h.world.client.list(resource, SYSTEM_NAMESPACE)
        found += [(resource, one.name, one.namespace) for one in listed.items]
    return sorted(found, key=lambda one: (one[0].kind, one[1]))


async def any_object(h: History, *resources: Resource) -> Where | None:
    found = await objects(h, *resources)
    return h.entropy.choice(found) if found else None


async def there(h: History, where: Where) -> Object | None:
    resource, name, namespace = where
    try:
        return await h.world.client.get(resource, name, namespace)
    except NotFound:
        return None


async def edit(h: History, where: Where, patch: Tree) -> None:
    resource, name, namespace = where
    try:
        await h.world.client.patch(resource, name, namespace, patch=patch, type=PatchType.MERGE)
    except ApiError as error:
        h.say(f"  refused: {str(error)[:200]}")


def hand(what: str, patch: Callable[[History], Tree], *resources: Resource) -> Act:
    """An edit of any object of some kinds."""

    async def act(h: History) -> str:
        where = await any_object(h, *resources)
        if where is not None:
            await edit(h, where, patch(h))
        return f"{what} {_named(where)}"

    return act


def _of(resource: Resource) -> str:
    """A kind, apart from that of Cluster API whose name we have as well."""
    return resource.kind if resource != CapiCluster.resource else "Cluster API's Cluster"


def _named(where: Where | None) -> str:
    return f"{where[0].kind} {where[1]}" if where else "nothing"


def removal(resource: Resource) -> Act:
    """The deletion of an object of a kind."""

    async def act(h: History) -> str:
        where = await any_object(h, resource)
        if where is not None:
            await h.world.client.delete(*where)
        return f"delete {_named(where)}"

    return act


async def delete_copy(h: History) -> str:
    with suppress(NotFound):
        await h.world.client.delete(SECRET, "garden-kubeconfig", NAMESPACE)
    return "delete the copy of the kubeconfig"


async def foreign(h: History) -> str:
    """An object of somebody else, under a name that the cluster may need."""
    name = h.entropy.choice(("garden-md-1", "garden-md-0-2", "garden-md-0-3", "garden-control-plane-2"))
    resource = DockerMachineTemplate.resource if name[-1] in "23" else MachineHealthCheck.resource
    template: Tree = {"template": {"spec": {}}}
    check = {"clusterName": "other", "selector": {"matchLabels": {"a": "b"}}}
    spec: Tree = template if resource is DockerMachineTemplate.resource else check
    body = {"metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": {"owner": "somebody"}}, "spec": spec}
    try:
        await h.world.client.create(resource, body)
    except ApiError as error:
        return f"no foreign {resource.kind} {name}: {str(error)[:80]}"
    h.foreign.append((resource, name, SYSTEM_NAMESPACE))
    return f"foreign {resource.kind} {name}"


async def strip_cluster(h: History) -> str:
    await edit(h, (Cluster.resource, "garden", NAMESPACE), {"metadata": {"finalizers": None}})
    return "strip the finalizers of the Cluster"


async def strip_status(h: History) -> str:
    marks: dict[str, str | None] = {names.GATE_ANNOTATION: None, names.KUBECONFIG_ANNOTATION: None}
    await annotate(h, marks)
    return "strip the annotations of the Cluster"


async def disown(h: History) -> str:
    where = (DockerDatacenterConfig.resource, "garden", NAMESPACE)
    await edit(h, where, {"metadata": {"ownerReferences": None, "finalizers": None}})
    return "strip the datacenter"


async def drop_datacenter(h: History) -> str:
    with suppress(NotFound):
        await h.world.client.delete(DockerDatacenterConfig.resource, "garden", NAMESPACE)
    return "delete the datacenter"


async def drop_node(h: History) -> str:
    try:
        workload = await h.world.workload()
        nodes = sorted(one.name for one in (await workload.list(NODE)).items if "-md-" in one.name)
        if nodes:
            name = h.entropy.choice(nodes)
            await workload.delete(NODE, name)
            return f"delete node {name}"
    except KubeError as error:
        return f"no node: {str(error)[:80]}"
    return "no node"


async def drop_cni(h: History) -> str:
    with suppress(ApiError):
        workload = await h.world.workload()
        for one in (await workload.list(DAEMON_SET, "kube-system")).items:
            if one.name == "kindnet":
                await workload.delete(DAEMON_SET, one.name, one.namespace)
    return "delete the CNI"


def none(*path: str) -> Callable[[History], Tree]:
    def patch(_: History) -> Tree:
        tree: Any = None
        for step in reversed(path):
            tree = {step: tree}
        return dict(tree)

    return patch


USERS: dict[str, Act] = {
    "scale": scale,
    "upgrade": upgrade,
    "label": label,
    "group": group,
    "pause": pause,
    "go on": go_on,
    "delete and ask again": delete_and_ask_again,
}
STRIPPED = {
    "strip the finalizers of": none("metadata", "finalizers"),
    "strip the owners of": none("metadata", "ownerReferences"),
    "strip the annotations of": none("metadata", "annotations"),
    "strip the labels of": none("metadata", "labels"),
    "say of another cluster:": lambda _: {"metadata": {"labels": {CLUSTER_NAME_LABEL: "other"}}},
}
PAUSABLE = (KubeadmControlPlane.resource, MachineDeployment.resource, DockerCluster.resource)
KEPT = (*MADE, Machine.resource)


def _pause(_: History) -> Tree:
    return {"metadata": {"annotations": {CAPI_PAUSED: "true"}}}


def _replicas(h: History) -> Tree:
    return {"spec": {"replicas": h.entropy.choice((1, 2, 4))}}


HANDS: dict[str, Act] = {
    **{f"delete {_of(one)}": removal(one) for one in KEPT},
    **{f"{what} {_of(one)}": hand(what, patch, one) for what, patch in STRIPPED.items() for one in KEPT},
    **{f"pause {_of(one)}": hand("pause", _pause, one) for one in PAUSABLE},
    "set replicas": hand("set the replicas of", _replicas, MachineDeployment.resource),
    "delete the copy": delete_copy,
    "foreign": foreign,
    "strip the Cluster": strip_cluster,
    "strip the gate": strip_status,
    "strip the datacenter": disown,
    "delete the datacenter": drop_datacenter,
    "delete a node": drop_node,
    "delete the CNI": drop_cni,
}


# What is left at the end.


class Wrong(NamedTuple):
    """What is not as it should be: where, a word for programs, a sentence that says what to do."""

    where: str
    reason: str
    message: str


async def cluster_of(h: History) -> Tree:
    found = await there(h, (Cluster.resource, "garden", NAMESPACE))
    return found.tree if found else {"metadata": {}, "status": {}}


async def ready_of(h: History) -> str:
    tree = await cluster_of(h)
    conditions = (tree.get("status") or {}).get("conditions") or []
    return "; ".join(
        f"{one['type']}={one['status']} {one['reason']}: {one.get('message', '')[:300]}" for one in conditions
    )


async def wrong(h: History) -> list[Wrong]:
    """What differs from the undisturbed end; empty when nothing does."""
    tree = await cluster_of(h)
    status = tree.get("status") or {}
    by_type = {one["type"]: one for one in status.get("conditions") or []}
    found = []
    for type_ in ("Ready", "Synced"):
        one = by_type.get(type_, {"status": "missing", "reason": "", "message": ""})
        if one["status"] != "True":
            found.append(Wrong(type_, one["reason"], one.get("message", "")))
    if found:
        return found
    if status.get("observedGeneration") != tree["metadata"].get("generation"):
        found.append(Wrong("status", "", "observedGeneration is not the generation"))
    wanted, there_is = undisturbed(tuple(vars(h.wish).items())), await end_of(h)
    return [
        Wrong(name, "", f"{name}: is {there_is.get(name)}, undisturbed {wanted.get(name)}")
        for name in sorted(wanted.keys() | there_is.keys())
        if wanted.get(name) != there_is.get(name)
    ]


async def end_of(h: History) -> dict[str, object]:
    """The end state, without the names and numbers in which two worlds may differ."""
    found: dict[str, object] = {}
    for where in await objects(h, *MADE):
        one = await there(h, where)
        if one is None or where in h.foreign:
            continue
        kind, meta = where[0].kind, one.metadata
        series = where[1].rstrip("0123456789") if kind.endswith("Template") else where[1]
        found[f"{kind} {series}"] = _shape(one)
        found[f"{kind} {series} held"] = sorted(meta.finalizers)
        found[f"{kind} {series} owned"] = sorted(owner.kind for owner in meta.owner_references)
        found[f"{kind} {series} labels"] = dict(sorted(meta.labels.items()))
    cluster = await there(h, (Cluster.resource, "garden", NAMESPACE))
    datacenter = await there(h, (DockerDatacenterConfig.resource, "garden", NAMESPACE))
    found["Cluster held"] = sorted(cluster.metadata.finalizers) if cluster else None
    found["datacenter owned"] = sorted(one.kind for one in datacenter.metadata.owner_references) if datacenter else None
    copy = await there(h, (SECRET, "garden-kubeconfig", NAMESPACE))
    found["copy of the kubeconfig"] = sorted(copy.tree["data"]) if copy else None
    workload = await h.world.workload() if copy else None
    nodes = (await workload.list(NODE)).items if workload else []
    found["nodes"] = sorted(_node(one) for one in nodes)
    return found


def _shape(one: Object) -> Tree:
    """What is asked of an object, apart from names of templates."""
    spec = one.tree.get("spec") or {}
    if one.kind.endswith("Template"):
        return dict(spec)
    kept = {name: spec.get(name) for name in ("replicas", "version", "paused")}
    template = (spec.get("template") or {}).get("spec") or {}
    return kept | {"version of machines": template.get("version")}


def _node(one: Object) -> tuple[str, str, str]:
    conditions = one.tree["status"].get("conditions", [])
    is_ready = any(entry["type"] == "Ready" and entry["status"] == "True" for entry in conditions)
    role = "worker" if "-md-" in one.name else "control plane"
    group = "md-1" if "-md-1" in one.name else "md-0" if "-md-0" in one.name else ""
    return role + group, one.tree["status"]["nodeInfo"]["kubeletVersion"], str(is_ready)


# Remedies: what a condition says, done.


async def remedy(h: History, found: Wrong) -> str:
    """Do what is said; empty when nothing is said that one could do."""
    if found.reason == "Drifted" and "correct-machines" in found.message:
        await annotate(h, {names.DRIFT_ANNOTATION: "correct-machines"})
        return "correct drift, and replace machines"
    if found.reason == "Drifted" and f"{names.DRIFT_ANNOTATION}=correct" in found.message:
        await annotate(h, {names.DRIFT_ANNOTATION: "correct"})
        return "correct drift"
    if found.reason in ("MachineryMissing", "ClusterAPIObjectsMissing") and names.GATE_ANNOTATION in found.message:
        await annotate(h, {names.GATE_ANNOTATION: None})
        return "have the cluster made anew"
    if found.reason == names.MISSING_DEPENDENT_OBJECTS:
        await h.ask()
        return "apply the datacenter again"
    if "remove that object" in found.message or "belongs to somebody else" in found.message:
        for where in await objects(h):
            if f"{where[0].kind}.{where[0].group} {where[2]}/{where[1]} (" not in found.message:
                continue
            if where in h.foreign:
                await h.world.client.delete(where[0], where[1], where[2])
                h.foreign.remove(where)
                return f"remove {_named(where)}"
            await edit(h, where, {"metadata": {"labels": names.labels(Key(NAMESPACE, "garden"))}})
            return f"give {_named(where)} its labels"
    if CAPI_PAUSED in found.message or "paused" in found.message.lower():
        for where in await objects(h, KubeadmControlPlane.resource, MachineDeployment.resource, DockerCluster.resource):
            if where[1] in found.message:
                await edit(h, where, {"metadata": {"annotations": {CAPI_PAUSED: None}}})
                return f"have {_named(where)} go on"
    return ""


async def ends_well(h: History) -> None:
    """Faults are over; people let go on what they paused. Raises `AssertionError` that tells the history."""
    await annotate(h, {PAUSED_ANNOTATION: None})
    for where in await objects(h, *PAUSABLE):
        one = await there(h, where)
        if one is not None and one.metadata.annotations.get(CAPI_PAUSED) != PAUSED_FOR_UPGRADE:
            await edit(h, where, {"metadata": {"annotations": {CAPI_PAUSED: None}}})
    for _ in range(8):
        left = await settled(h)
        if not left:
            return
        done = ""
        for each in left:
            done = await remedy(h, each)
            if done:
                h.say(f"remedy for {each.where} {each.reason}: {done}")
                break
        if not done:
            break
    else:
        left = await settled(h)
    if left:
        raise AssertionError("\n".join([*h.told, "left:", *(f"  {one}" for one in left), await ready_of(h)]))


async def settled(h: History) -> list[Wrong]:
    """What is wrong once nothing more comes of it."""
    until = asyncio.get_running_loop().time() + LONG
    left = await wrong(h)
    while left and asyncio.get_running_loop().time() < until:
        await asyncio.sleep(300)
        left = await wrong(h)
    return left


# Histories.


@cache
def beginning(*, in_place: bool = False) -> Kept:
    """A cluster that is ready, and nothing was ever wrong."""

    async def main(simulation: Simulation) -> Kept:
        store, stores = MemoryStore(), MemoryStores()
        async with managed_laptop(simulation.clock, store=store, stores=stores, releases=releases()) as world:
            await world.apply(**Wish(in_place=in_place).spec())
            await world.until_ready()
            await asyncio.sleep(60)
            return Kept.of(store, stores, simulation.clock)

    return run(main, epoch=EPOCH, seed=1)


_ENDS: dict[tuple[tuple[str, Any], ...], dict[str, object]] = {}


def undisturbed(wish: tuple[tuple[str, Any], ...]) -> dict[str, object]:
    """The end of a world in which nothing else was ever asked for; see `learn`."""
    return _ENDS[wish]


def learn(wish: Wish) -> None:
    """Have a world come to its end undisturbed, once for each wish."""
    key = tuple(vars(wish).items())
    if key in _ENDS:
        return

    async def main(simulation: Simulation) -> None:
        async with managed_laptop(simulation.clock, releases=releases()) as world:
            Upgraders(world.workloads)
            await world.apply(**wish.spec())
            await world.until_ready()
            await asyncio.sleep(60)
            _ENDS[key] = await end_of(History(world, random.Random(1), wish, Faults(random.Random(1))))

    run(main, epoch=EPOCH, seed=1)


class Unlearned(Exception):
    """The end that a history is to be compared with is not known yet."""

    def __init__(self, wish: Wish) -> None:
        super().__init__(wish)
        self.wish = wish


def tell(
    seed: int, acts: Sequence[str] = (), *, without: Sequence[str] = (), in_place: bool | None = None
) -> list[str]:
    """Live through the history of a seed, or through these acts. Returns what was done.

    Raises `AssertionError` that tells the history when it does not end well.
    """
    for _ in range(2):
        try:
            return _tell(seed, acts, without, in_place)
        except Unlearned as unlearned:
            learn(unlearned.wish)
    raise AssertionError("a history that is told again is another one: it is not deterministic")


def _tell(seed: int, acts: Sequence[str], without: Sequence[str], in_place: bool | None) -> list[str]:
    entropy = random.Random(seed)
    is_in_place = entropy.random() < 0.3 if in_place is None else in_place
    kept = beginning(in_place=is_in_place)
    known = {**USERS, **HANDS}
    allowed = [name for name in known if name not in without]
    chosen = list(acts) or [entropy.choice(allowed) for _ in range(entropy.randint(3, 8))]

    async def main(simulation: Simulation) -> list[str]:
        store, stores = kept.opened()
        faults = Faults(random.Random(entropy.getrandbits(64)))
        wish, told = Wish(in_place=is_in_place), [f"seed {seed}"]
        foreign_ones: list[Where] = []
        left = iter(chosen)
        over = False
        while not over:
            async with managed_laptop(
                simulation.clock,
                seed=entropy.getrandbits(32),
                store=store,
                stores=stores,
                wrap=faults,
                releases=releases(),
            ) as world:
                Upgraders(world.workloads)
                h = History(world, entropy, wish, faults, told, foreign_ones)
                over = await _live(h, left, known, fails=not acts)
                if over:
                    faults.present, faults.after_write = (), None
                    if tuple(vars(h.wish).items()) not in _ENDS:
                        raise Unlearned(h.wish)
                    await ends_well(h)
                wish = h.wish
        return told

    return run(main, epoch=kept.at, seed=seed)


async def _live(h: History, left: Iterator[str], known: dict[str, Act], *, fails: bool) -> bool:
    """Act after act, until there is none left (True), or until the manager crashes."""
    crashed = asyncio.Event()
    for name in left:
        if fails:
            h.faults.present = tuple(one for one in Fault if h.entropy.random() < 0.2)
            if h.faults.present:
                h.say(f"faults: {', '.join(one.value for one in h.faults.present)}")
        h.say(await known[name](h))
        if fails and h.entropy.random() < 0.25:
            h.faults.after_write = crashed.set
        try:
            async with asyncio.timeout(h.entropy.choice((0.0, 1.0, 7.0, 30.0, 200.0, 1000.0))):
                await crashed.wait()
        except TimeoutError:
            continue
        h.say("the manager crashes after a write")
        return False
    return True
