"""Stories of what a cluster depends on beside its Cluster: linked objects with content, and a Secret that they name.

Told on the embedded and on a real API server, like those of isolation_stories.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence

from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.core import CONFIG_MAP, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.clusters.design import names
from espalier.clusters.design.drift.gate import OPENED
from espalier.kube.client import Client, PatchType
from tests.support.environments.managed_clusters import GARDEN, NAMESPACE, AccountedClusters, Write
from tests.support.histories.isolation_stories import ANNOTATION, STATUS, Backup, Story, machines, made_for, mark
from tests.support.providers.orchard import (
    CARRIED,
    KINDS,
    OrchardCluster,
    OrchardDatacenterConfig,
    OrchardMachineConfig,
    OrchardMachineTemplate,
    carried,
)

DATACENTER, MACHINES = OrchardDatacenterConfig.resource, OrchardMachineConfig.resource
CREDENTIALS, MORE_MOUNTS = "garden-credentials", "garden-mounts"
CARRIER: Write = ("patch", "orchardclusters", "")
CARRIED_AS_WELL: Write = ("patch", "secrets", "")
CARRIERS = {CARRIER, CARRIED_AS_WELL}


async def plant(env: AccountedClusters) -> None:
    """A garden whose datacenter and control plane config have the generation 1, and its workers' config 2."""
    await put(env, SECRET, CREDENTIALS, data=password("rose"))
    await put(env, CONFIG_MAP, MORE_MOUNTS, data={"paths": "/srv/plums"})
    await put(env, DATACENTER, "garden", spec=of_datacenter("/srv/apples"))
    await put(env, MACHINES, "garden-control-plane", spec={"users": ["ann"]})
    await put(env, MACHINES, "garden-workers", spec={"users": ["bob"]})
    await env.apply(
        datacenterRef={"kind": DATACENTER.kind, "name": "garden"},
        controlPlaneConfiguration={"count": 1, "machineGroupRef": machine_config("garden-control-plane")},
        workerNodeGroupConfigurations=[workers("garden-workers")],
    )
    await env.until_ready()
    await edit(env, MACHINES, "garden-workers", spec={"users": ["bea"]})
    await until_made(env)
    await asyncio.sleep(env.calm)
    assert await generations(env) == {"garden": 1, "garden-control-plane": 1, "garden-workers": 2}


async def put(env: AccountedClusters, resource: Resource, name: str, **content: object) -> None:
    namespace = SYSTEM_NAMESPACE if resource in (SECRET, CONFIG_MAP) else NAMESPACE
    tree: Tree = {"apiVersion": resource.api_version, "kind": resource.kind, **content}
    await env.client.create(resource, tree | {"metadata": {"name": name, "namespace": namespace}})


async def edit(env: AccountedClusters, resource: Resource, name: str, **content: object) -> None:
    namespace = SYSTEM_NAMESPACE if resource in (SECRET, CONFIG_MAP) else NAMESPACE
    await env.client.patch(resource, name, namespace, patch=dict(content), type=PatchType.MERGE)


async def make_again(env: AccountedClusters, resource: Resource, name: str, **content: object) -> None:
    await env.client.delete(resource, name, NAMESPACE)
    await put(env, resource, name, **content)


def of_datacenter(mount: str) -> Tree:
    return {"mounts": [mount], "moreMountsRef": MORE_MOUNTS, "credentialsRef": CREDENTIALS}


def password(value: str) -> dict[str, str]:
    return {"password": base64.b64encode(value.encode()).decode()}


def machine_config(name: str) -> Tree:
    return {"kind": MACHINES.kind, "name": name}


def workers(config: str) -> Tree:
    return {"name": "md-0", "count": 1, "machineGroupRef": machine_config(config)}


async def generations(env: AccountedClusters) -> dict[str, int]:
    """Of the linked objects."""
    results = [item for kind in KINDS for item in (await env.client.list(kind.resource, NAMESPACE)).items]
    return {item.name: item.metadata.generation for item in results}


async def until_made(
    env: AccountedClusters, *, everywhere: Sequence[str] = ("/srv/apples", "/srv/plums"), **users: str
) -> None:
    """Wait until all that machines are made of is of this: mounts, and the user of the control plane and of workers."""

    def of_mounts(tree: Tree) -> object:
        mounts = tree["spec"]["template"]["spec"]["mounts"]
        return None if set(everywhere) <= set(mounts) else mounts

    def of_users(path: Sequence[str], wanted: str) -> Callable[[Tree], object]:
        def lacks(tree: Tree) -> object:
            for name in ("spec", *path):
                tree = tree[name]
            results = [user["name"] for user in tree["users"]]
            return None if results == [wanted] else results

        return lacks

    await env.until_all(OrchardMachineTemplate.resource, "garden", of_mounts)
    of_control_plane = of_users(["kubeadmConfigSpec"], users.get("control_plane", "ann"))
    await env.until_all(KubeadmControlPlane.resource, "garden", of_control_plane)
    of_workers = of_users(["template", "spec"], users.get("workers", "bea"))
    await env.until_all(KubeadmConfigTemplate.resource, "garden", of_workers)
    await env.until(lambda cluster: bool(cluster.status.ready) and _is_closed(cluster))


def _is_closed(cluster: Cluster) -> bool:
    return OPENED not in cluster.metadata.annotations.get(metadata_keys.GATE_ANNOTATION, OPENED)


def a_reference_to_a_child_whose_generation_is_one_lower() -> Story:
    """The Cluster's generation goes up by one, so that even the sum over everything stays as it was."""

    async def before(env: AccountedClusters) -> None:
        await put(env, MACHINES, "garden-others", spec={"users": ["cid"]})
        await env.change(workerNodeGroupConfigurations=[workers("garden-others")])
        result = await generations(env)
        assert result["garden-others"] == result["garden-workers"] - 1

    async def after(env: AccountedClusters) -> None:
        await until_made(env, workers="cid")

    return Story(before, after)


def a_child_that_is_made_again_with_other_content() -> Story:
    """Its generation starts anew, where it was."""

    async def before(env: AccountedClusters) -> None:
        await make_again(env, DATACENTER, "garden", spec=of_datacenter("/srv/pears"))
        await the_sum_tells_nothing(env)

    async def after(env: AccountedClusters) -> None:
        await until_made(env, everywhere=["/srv/pears", "/srv/plums"])

    return Story(before, after)


def two_children_that_move_in_opposite_directions() -> Story:
    """One is changed, the other made again: the sum of their generations stays as it was."""

    async def before(env: AccountedClusters) -> None:
        await edit(env, MACHINES, "garden-control-plane", spec={"users": ["dan"]})
        await make_again(env, MACHINES, "garden-workers", spec={"users": ["eve"]})
        assert await generations(env) == {"garden": 1, "garden-control-plane": 2, "garden-workers": 1}
        await the_sum_tells_nothing(env)

    async def after(env: AccountedClusters) -> None:
        await until_made(env, control_plane="dan", workers="eve")

    return Story(before, after)


def a_config_map_that_is_changed() -> Story:
    """It is content like any other, though it has no generation: machines are made of it."""

    async def before(env: AccountedClusters) -> None:
        await edit(env, CONFIG_MAP, MORE_MOUNTS, data={"paths": "/srv/cherries"})
        await the_sum_tells_nothing(env)

    async def after(env: AccountedClusters) -> None:
        await until_made(env, everywhere=["/srv/apples", "/srv/cherries"])
        await asyncio.sleep(env.calm)
        await edit(env, CONFIG_MAP, MORE_MOUNTS, data={"paths": "/srv/quinces"})  # now while a manager runs
        await until_made(env, everywhere=["/srv/apples", "/srv/quinces"])

    return Story(before, after)


def a_secret_that_is_changed() -> Story:
    """Only what carries it is written, whatever the later manager would do otherwise; no machine is replaced."""
    marks: list[str] = []
    uids: dict[str, str] = {}
    made: dict[str, int] = {}

    async def before(env: AccountedClusters) -> None:
        marks.append(await mark(env) or "")
        assert await credentials(env) == seen("rose")
        await edit(env, SECRET, CREDENTIALS, data=password("lily"))
        uids.update(await machines(env.client))
        made.update(await made_for(env, GARDEN))

    async def after(env: AccountedClusters) -> None:
        await is_carried(env, "lily", times=1)
        await edit(env, SECRET, CREDENTIALS, data=password("tulip"))  # now while a manager runs
        await is_carried(env, "tulip", times=2)

    async def is_carried(env: AccountedClusters, value: str, *, times: int) -> None:
        await env.until_all(OrchardCluster.resource, "garden", lambda tree: _lacks(tree, seen(value)))
        marks.append(_mark(await env.until(lambda cluster: _is_closed(cluster) and _mark(cluster) not in marks)))
        assert len({item.split(":")[1] for item in marks}) == 1
        await asyncio.sleep(env.calm)
        written = env.written()
        assert written.keys() <= {*CARRIERS, ANNOTATION, STATUS}
        assert {written[carrier] for carrier in CARRIERS} == {times}
        assert written[ANNOTATION] == 2 * times  # opened, and closed
        assert await machines(env.client) == uids
        assert await made_for(env, GARDEN) == made

    return Story(before, after)


def a_secret_that_goes_and_comes_again() -> Story:
    """It is waited for by name, and nothing is written to what was made; then as if it had been changed."""
    uids: dict[str, str] = {}
    made: dict[str, int] = {}

    async def before(env: AccountedClusters) -> None:
        await env.client.delete(SECRET, CREDENTIALS, SYSTEM_NAMESPACE)
        uids.update(await machines(env.client))
        made.update(await made_for(env, GARDEN))

    async def after(env: AccountedClusters) -> None:
        cluster = await env.until(lambda cluster: cluster.status.failure_message is not None)
        assert cluster.status.failure_message == (
            "OrchardDatacenterConfig garden: spec.credentialsRef: "
            "waiting for Secret garden-credentials in namespace eksa-system, which does not exist"
        )
        assert env.written().keys() <= {STATUS}
        await put(env, SECRET, CREDENTIALS, data=password("lily"))
        await env.until_all(OrchardCluster.resource, "garden", lambda tree: _lacks(tree, seen("lily")))
        await env.until(lambda cluster: bool(cluster.status.ready) and _is_closed(cluster))
        await asyncio.sleep(env.calm)
        assert env.written().keys() <= {*CARRIERS, ANNOTATION, STATUS}
        assert await machines(env.client) == uids
        assert await made_for(env, GARDEN) == made

    return Story(before, after)


async def uproot(client: Client) -> None:
    """Delete what is linked, after the cluster."""
    for resource in (*(kind.resource for kind in KINDS), SECRET, CONFIG_MAP):
        for item in (await client.list(resource)).items:
            if item.name.startswith("garden"):
                await client.delete(resource, item.name, item.namespace)


async def back_up(env: AccountedClusters) -> Backup:
    """A garden that was planted."""
    backup = Backup()
    await backup.take(env, workers("garden-workers") | {"count": 2}, *(kind.resource for kind in KINDS), CONFIG_MAP)
    assert names.GATE_KEY in {item.key for _, item in backup.objects}
    return backup


async def the_sum_tells_nothing(env: AccountedClusters) -> None:
    """It is that of the last reconcile."""
    cluster = await env.client.get(Cluster.resource, "garden", NAMESPACE)
    total = sum((await generations(env)).values())
    assert cluster.decode(Cluster).status.children_observed_generation == total


async def credentials(env: AccountedClusters) -> str:
    """The credentials that the carrier holds."""
    orchard_cluster = await env.client.get(OrchardCluster.resource, "garden", SYSTEM_NAMESPACE)
    return orchard_cluster.metadata.annotations[CARRIED]


def seen(value: str) -> str:
    """The content of a carrier for credentials with this password."""
    return carried(value.encode())


def _lacks(tree: Tree, wanted: str) -> object:
    result = tree["metadata"]["annotations"][CARRIED]
    return None if result == wanted else result


def _mark(cluster: Cluster) -> str:
    return cluster.metadata.annotations[metadata_keys.GATE_ANNOTATION]


STORIES: Mapping[str, Callable[[], Story]] = {
    "a reference to a child whose generation is one lower": a_reference_to_a_child_whose_generation_is_one_lower,
    "a child is made again with other content": a_child_that_is_made_again_with_other_content,
    "two children move in opposite directions": two_children_that_move_in_opposite_directions,
    "a config map is changed": a_config_map_that_is_changed,
    "a secret is changed": a_secret_that_is_changed,
    "a secret goes and comes again": a_secret_that_goes_and_comes_again,
}
