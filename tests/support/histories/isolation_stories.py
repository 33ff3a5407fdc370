"""Stories of isolation: what a later manager does to steady clusters, told on the embedded and on a real API server.

Each story says what is done while there is no manager, and what a later one then does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import semver
from msgspec.structs import replace

from espalier.api.capi.machine import Machine
from espalier.api.core import MUTATING_WEBHOOK_CONFIGURATION, SECRET, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.clusterapi.contract import CLUSTER_NAME_LABEL
from espalier.clusters import Isolation
from espalier.clusters.design import names
from espalier.clusters.design.drift.gate import CHANGING, OPENED
from espalier.clusters.design.layers import LAYERS, Layer
from espalier.clusters.design.layers.pieces import changed
from espalier.clusters.design.rendered import Rendered
from espalier.clusters.observe.observe import written
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import Object
from espalier.providers.docker.cluster_api import DockerMachineTemplate, Mount
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.providers.kinds import CATALOG, CLUSTER_API_KINDS
from espalier.providers.registry import PROVIDERS
from tests.support.environments.managed_clusters import GARDEN, NAMESPACE, AccountedClusters, Write, manifests
from tests.support.providers.orchard import OrchardMachineTemplate
from tests.support.waiting import eventually

STATUS: Write = ("patch", "clusters", "status")
ANNOTATION: Write = ("patch", "clusters", "")


Step = Callable[[AccountedClusters], Awaitable[None]]


@dataclass(frozen=True)
class Story:
    """Of a steady garden: what is done while there is no manager, and what is so under a later one."""

    before: Step
    after: Step


def with_another_mount(rendered: Rendered) -> Rendered:
    return replace(
        rendered,
        machine_template=_mounted(rendered.machine_template),
        groups=tuple(replace(group, machine_template=_mounted(group.machine_template)) for group in rendered.groups),
    )


def _mounted(template: KubeObject) -> KubeObject:
    path = "/lib/modules"
    if isinstance(template, OrchardMachineTemplate):
        orchard = template.spec.template
        spec = changed(orchard.spec, mounts=[*orchard.spec.mounts, path])
        return changed(template, spec=changed(template.spec, template=changed(orchard, spec=spec)))
    assert isinstance(template, DockerMachineTemplate)
    docker = template.spec.template
    mounts = [*docker.spec.extra_mounts, Mount(host_path=path, container_path=path)]
    inner = changed(docker, spec=changed(docker.spec, extra_mounts=mounts))
    return changed(template, spec=changed(template.spec, template=inner))


NEXT: Sequence[Layer] = (
    *LAYERS,
    Layer("modules", semver.Version(0, 27, 0), "Machines see the modules.", functions=(with_another_mount,)),
    Layer("quieter", semver.Version(0, 27, 0), "An urgent fix.", is_patch=True),
)
"""The table of a later build: every machine of its own release is made of something else, and it has a patch to offer,
so that there is something to be said to every cluster."""


async def machines(client: Client) -> dict[str, str]:
    """Machines by uid, each with its cluster."""
    listed = await client.list(Machine.resource, SYSTEM_NAMESPACE)
    return {item.metadata.uid: item.metadata.labels[CLUSTER_NAME_LABEL] for item in listed.items}


async def mark(env: AccountedClusters, key: Key = GARDEN) -> str | None:
    """The gate's mark on a Cluster."""
    cluster = await env.client.get(Cluster.resource, key.name, key.namespace)
    return cluster.metadata.annotations.get(metadata_keys.GATE_ANNOTATION)


async def annotate(env: AccountedClusters, value: str | None, key: Key = GARDEN) -> None:
    patch = {"metadata": {"annotations": {metadata_keys.GATE_ANNOTATION: value}}}
    await env.client.patch(Cluster.resource, key.name, key.namespace, patch=patch, type=PatchType.MERGE)


async def set_status(env: AccountedClusters, status: Tree, key: Key = GARDEN) -> None:
    await env.client.patch(
        Cluster.resource,
        key.name,
        key.namespace,
        patch={"status": status},
        type=PatchType.MERGE,
        subresource="status",
    )


def numbered(number: int) -> Key:
    return Key(NAMESPACE, f"garden-{number:03}")


RELEASES = ("v0.26.0", "v0.25.1")


async def apply(client: Client, count: int, **annotations: str) -> None:
    """So many clusters, of two releases in turn."""
    for number, tree in enumerate(manifests(count)):
        if tree["kind"] == Cluster.resource.kind:
            groups = [{"name": "md-0", "count": 1}]
            tree["spec"] |= {"eksaVersion": RELEASES[number % 2], "workerNodeGroupConfigurations": groups}
            tree["metadata"]["annotations"] = annotations
        await client.apply(CATALOG.resource_of(tree["apiVersion"], tree["kind"]), tree, field_manager="kubectl")


def is_synced(object_: Object) -> bool:
    status = object_.decode(Cluster).status
    return any(condition.type == names.SYNCED and condition.status == "True" for condition in status.conditions)


THREE_WORKERS = [{"name": "md-0", "count": 3}]


async def scale(env: AccountedClusters, key: Key) -> tuple[set[str], set[str], list[str]]:
    """Scale the workers of a cluster to three: the machines (by name) that should be replaced, and those that were,
    and all fields that were written."""
    before = {item.name: item for item in (await env.client.list(Machine.resource, SYSTEM_NAMESPACE)).items}
    generations = await made_for(env, key)
    await env.change(key, workerNodeGroupConfigurations=THREE_WORKERS)
    await env.until_ready(key)
    after = {machine.name for machine in (await env.client.list(Machine.resource, SYSTEM_NAMESPACE)).items}
    assert sum(name.startswith(f"{key.name}-") for name in after) == 1 + 3
    grown = [what for what, number in (await made_for(env, key)).items() if generations.get(what) != number]
    all_of_it = {name for name in before if name.startswith(f"{key.name}-")}
    return all_of_it, before.keys() - after, sorted(grown)


async def made_for(env: AccountedClusters, key: Key) -> dict[str, int]:
    """The objects of Cluster API that are made for a cluster, with their generations."""
    results = {}
    for resource in written(PROVIDERS):
        for object_ in (await env.client.list(resource, SYSTEM_NAMESPACE)).items:
            if names.cluster_of(object_.metadata.labels) == key:
                results[f"{resource.kind} {object_.name}"] = object_.metadata.generation
    return results


async def scaling_replaces_no_machine(env: AccountedClusters, first: int = 0) -> None:
    """A cluster keeps the ways of its own release through its first change as well: nothing but replicas changes."""
    for key in (numbered(first), numbered(first + 1)):  # one of each release
        _, replaced, written = await scale(env, key)
        assert replaced == set()
        assert written == [f"MachineDeployment {key.name}-md-0"]


async def scaling_replaces_all_of_its_machines_and_no_others(env: AccountedClusters, first: int = 0) -> None:
    """The price of the gate alone: the first change of a cluster brings what the later build does otherwise."""
    for key in (numbered(first), numbered(first + 1)):  # one of each release
        foreseen = await machines_that_a_plan_names(env, key)
        all_of_it, replaced, _ = await scale(env, key)
        assert replaced == all_of_it == foreseen


async def machines_that_a_plan_names(env: AccountedClusters, key: Key) -> set[str]:
    """By name: what `espalier plan` says of the change before it is made, if asked about the later manager."""
    present = await env.client.get(Cluster.resource, key.name, key.namespace)
    manifest = {
        "apiVersion": Cluster.resource.api_version,
        "kind": Cluster.resource.kind,
        "metadata": {"name": key.name, "namespace": key.namespace},
        "spec": present.tree["spec"] | {"workerNodeGroupConfigurations": THREE_WORKERS},
    }
    preview = await env.preview(key, [manifest], isolation=Isolation.GATE, layers=NEXT)
    assert preview.refusals == ()
    return {machine.name for group in preview.groups for machine in group.replaced}


def adoption(older: str | None) -> Story:
    """A cluster without a mark, or with one of another format: the mark is written, and nothing else."""
    uids: dict[str, str] = {}

    async def before(env: AccountedClusters) -> None:
        await annotate(env, older)
        uids.update(await machines(env.client))

    async def after(env: AccountedClusters) -> None:
        await eventually(env.written)
        await env.until_it_rests()
        assert env.written() == {ANNOTATION: 1}
        assert (await mark(env) or "").startswith("v1:")
        assert await machines(env.client) == uids

    return Story(before, after)


def a_change_without_a_mark() -> Story:
    """Generations that differ are reconciled, if there is no mark to compare with."""

    async def before(env: AccountedClusters) -> None:
        await annotate(env, None)
        await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])

    async def after(env: AccountedClusters) -> None:
        await env.until_ready()
        assert len(await env.nodes()) == 4

    return Story(before, after)


def a_change_that_generations_hide() -> Story:
    """Deletion and re-creation, hashes that stay equal, and edited statuses do not open the gate."""
    marks: list[str | None] = []

    async def before(env: AccountedClusters) -> None:
        marks.append(await mark(env))
        await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
        present = await env.client.get(Cluster.resource, "garden", NAMESPACE)
        await set_status(env, {"observedGeneration": present.metadata.generation, "childrenObservedGeneration": 1})

    async def after(env: AccountedClusters) -> None:
        await env.until(
            lambda cluster: (
                cluster.metadata.annotations[metadata_keys.GATE_ANNOTATION] not in (OPENED, CHANGING, *marks)
            ),
            seconds=30,
        )
        await env.until(lambda cluster: bool(cluster.status.ready) and cluster.status.phase == "Running")
        assert len(await env.nodes()) == 4

    return Story(before, after)


def a_reference_that_is_moved() -> Story:
    """To another child with the generation of the first, so that the sum over the children stays as it was."""
    marks: list[str | None] = []

    async def before(env: AccountedClusters) -> None:
        marks.append(await mark(env))
        other = {"metadata": {"name": "other", "namespace": NAMESPACE}, "spec": {}}
        await env.client.create(DockerDatacenterConfig.resource, other)
        await without_admission(env.client)  # it refuses this to a cluster that isn't paused
        await env.change(datacenterRef={"kind": "DockerDatacenterConfig", "name": "other"})

    async def after(env: AccountedClusters) -> None:
        cluster = await env.until_ready()
        assert cluster.metadata.annotations[metadata_keys.GATE_ANNOTATION] not in marks
        docker_machine_templates = (await env.client.list(DockerMachineTemplate.resource)).items
        template = docker_machine_templates[0].decode(DockerMachineTemplate)
        assert len(template.spec.template.spec.extra_mounts) == 2

    return Story(before, after)


def a_child_that_is_made_again() -> Story:
    """With equal content: no change, but it has to go with the Cluster again."""

    async def before(env: AccountedClusters) -> None:
        datacenter = await env.client.get(DockerDatacenterConfig.resource, "garden", NAMESPACE)
        await env.client.delete(DockerDatacenterConfig.resource, "garden", NAMESPACE)
        again = {"metadata": {"name": "garden", "namespace": NAMESPACE}, "spec": datacenter.tree["spec"]}
        await env.client.create(DockerDatacenterConfig.resource, again)

    async def after(env: AccountedClusters) -> None:
        await eventually(env.written)
        await env.until_it_rests()
        assert env.written() == {("patch", "dockerdatacenterconfigs", ""): 1}

    return Story(before, after)


STORIES: Mapping[str, Callable[[], Story]] = {
    "adopted without a mark": lambda: adoption(None),
    "adopted with a mark of another format": lambda: adoption("v0:5eed"),
    "changed without a mark": a_change_without_a_mark,
    "changed behind equal generations": a_change_that_generations_hide,
    "a reference is moved": a_reference_that_is_moved,
    "a child is made again": a_child_that_is_made_again,
}


async def without_admission(client: Client) -> None:
    """Take our webhooks away, as long as nobody answers them or they would refuse what a story is about."""
    for resource in (VALIDATING_WEBHOOK_CONFIGURATION, MUTATING_WEBHOOK_CONFIGURATION):
        for item in (await client.list(resource)).items:
            await client.delete(resource, item.name)


RESTORED: tuple[Resource, ...] = (
    DockerDatacenterConfig.resource,
    Cluster.resource,
    *(kind.resource for kind in CLUSTER_API_KINDS),
    SECRET,
)


OWN: tuple[Resource, ...] = (Cluster.resource, DockerDatacenterConfig.resource)


async def everything_of_the_garden(client: Client, *linked: Resource) -> list[tuple[Resource, Object]]:
    """All that a management cluster has of each of its clusters; owners come first or later.

    `linked` are kinds of linked objects, if a provider has others than Docker.
    """
    results = [(resource, item) for resource in (*linked, *RESTORED) for item in (await client.list(resource)).items]
    results = [
        (resource, value) for resource, value in results if "garden" in value.name or value.key == names.GATE_KEY
    ]
    kinds = {resource.kind for resource in (*linked, *RESTORED)}
    while True:  # what the garbage collector is still going to delete is left out: it may need half a minute
        uids = {value.metadata.uid for _, value in results}
        owned = [
            (resource, value)
            for resource, value in results
            if all(ref.uid in uids or ref.kind not in kinds for ref in value.metadata.owner_references)
        ]
        if len(owned) == len(results):
            return results
        results = owned


async def restore(objects: Iterable[tuple[Resource, Object]], client: Client, *, with_status: bool = False) -> None:
    """Make all of these anew, owners first. Uids and generations are the server's, references to owners follow them.

    Unless it is `with_status`, the status of our own kinds is lost, and who owned which field, as in most backups.
    """
    waiting = list(objects)
    uids: dict[str, str] = {}
    few = asyncio.Semaphore(8)

    async def make(resource: Resource, object_: Object) -> None:
        async with few:
            made = await client.create(resource, anew(object_.tree, uids))
            uids[object_.metadata.uid] = made.metadata.uid
            change = partial(client.patch, resource, made.name, made.namespace, type=PatchType.MERGE)
            status = object_.tree.get("status")
            if status and (with_status or resource not in OWN):
                await change(patch={"status": status}, subresource="status")
            if with_status:
                await change(patch={"metadata": {"managedFields": object_.tree["metadata"]["managedFields"]}})

    while waiting:
        ready = [all(ref.uid in uids for ref in item.metadata.owner_references) for _, item in waiting]
        assert any(ready), "somebody's owner is not among what is restored"
        await asyncio.gather(*(make(*item) for item, is_ready in zip(waiting, ready, strict=True) if is_ready))
        waiting = [item for item, is_ready in zip(waiting, ready, strict=True) if not is_ready]


def anew(tree: Tree, uids: Mapping[str, str]) -> Tree:
    fields = ("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences")
    metadata = {name: value for name, value in tree["metadata"].items() if name in fields}
    for reference in metadata.get("ownerReferences", []):
        reference["uid"] = uids[reference["uid"]]
    return {name: value for name, value in tree.items() if name != "status"} | {"metadata": metadata}


async def plant(env: AccountedClusters) -> None:
    """A steady garden."""
    await env.apply()
    await env.until_ready()
    await env.until_it_rests()


class Backup:
    """Of everything that a management cluster has of the garden, and what was so when it was taken."""

    async def take(self, env: AccountedClusters, group: Tree, *linked: Resource) -> None:
        """Of a garden whose group is changed once more, so that its generation starts anew with a restore.

        Then its manager is gone for good, like its API server. `linked` are kinds of linked objects.
        """
        await env.change(workerNodeGroupConfigurations=[group])
        await env.until_ready()
        await env.until_it_rests()
        self.objects = await everything_of_the_garden(env.client, *linked)
        self.mark = await mark(env)
        self.generation = (await env.client.get(Cluster.resource, "garden", NAMESPACE)).metadata.generation
        self.nodes = await uids_of_nodes(env)

    async def restore(self, client: Client, *lost: Key) -> None:
        """Into an API server that knows nothing of a garden; without objects of the keys that were `lost`."""
        await restore([(resource, value) for resource, value in self.objects if value.key not in lost], client)
        self.machines = {item.metadata.uid for item in (await client.list(Machine.resource)).items}

    async def is_left_alone(self, env: AccountedClusters) -> None:
        """By a later manager, which is all there is now."""
        cluster = await env.until(lambda cluster: bool(cluster.status.ready))
        await asyncio.sleep(env.calm)
        assert cluster.metadata.generation < self.generation
        assert cluster.status.observed_generation == cluster.metadata.generation
        assert await mark(env) == self.mark
        assert (await machines(env.client)).keys() == self.machines
        assert await uids_of_nodes(env) == self.nodes
        # The copy of the kubeconfig follows the uid of its Cluster, and the record of the management cluster, which is
        # a new one, gets its finalizer; nothing else was lacking.
        # Which images upgrade nodes is written for all clusters at once, and is nothing of any.
        written = env.written()
        copy = {("create", "secrets", ""), ("update", "secrets", "")}
        assert written.keys() <= {STATUS, ANNOTATION, *copy, ("create", "configmaps", "")}
        assert written[ANNOTATION] <= 3  # those two, and of which record it was reconciled


async def back_up(env: AccountedClusters) -> Backup:
    """A garden that was planted."""
    backup = Backup()
    await backup.take(env, {"name": "md-0", "count": 1})
    return backup


async def uids_of_nodes(env: AccountedClusters) -> list[str]:
    """Of the garden's workload cluster."""
    return sorted(node["metadata"]["uid"] for node in await env.nodes())
