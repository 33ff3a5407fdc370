"""Clusters that EKS Anywhere made are taken over: nothing of Cluster API is written, and nothing rolls later."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.core import CONFIG_MAP, DEPLOYMENT, SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.clusters.moves.move_judge import ClusterJudge
from espalier.clusters.design.cluster_objects.adoption import config_map
from espalier.clusters.observe.observe import written
from espalier.kube.client import Client, PatchType
from espalier.management.adoption.plan import Outcome, State, plan
from espalier.management.adoption.site import read
from espalier.management.steps import Refused
from espalier.moving.sides import Side
from espalier.providers.docker.cluster_api import DockerMachineTemplate
from espalier.providers.registry import PROVIDERS
from espalier.providers.simulated import SIMULATED
from tests.support.environments.managed_environment import CALM, GARDEN, ManagedEnvironment
from tests.support.environments.of_eks_anywhere import adopted, after, grows, nothing, undoing
from tests.support.objects import eks_anywhere

pytestmark = pytest.mark.embedded


def condition(env: ManagedEnvironment, type_: str = "Ready") -> Tree:
    garden = env.clusters.get(GARDEN)
    assert garden is not None
    return next(item for item in garden.tree["status"]["conditions"] if item["type"] == type_)


def test_cluster_of_eks_anywhere_waits_to_be_adopted() -> None:
    async def story(env: ManagedEnvironment) -> None:
        assert condition(env)["reason"] == Reason.NOT_ADOPTED

    assert after(nothing, story) == []


def test_cluster_can_be_adopted_beside_a_manager() -> None:
    async def story(env: ManagedEnvironment) -> None:
        assert condition(env)["reason"] == Reason.NOT_ADOPTED
        await adopted(env.client)
        await asyncio.sleep(CALM)
        assert condition(env)["status"] == "True"

    assert after(nothing, story) == []


def test_deleted_cluster_of_eks_anywhere_stays() -> None:
    """Its machines would go on running, and nobody would know of them."""

    async def story(env: ManagedEnvironment) -> None:
        await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await asyncio.sleep(CALM)
        assert condition(env)["reason"] == Reason.NOT_ADOPTED

    assert after(nothing, story) == []


def test_running_controller_reports_on_its_clusters() -> None:
    async def before(client: Client) -> None:
        await client.create(DEPLOYMENT, eks_anywhere.controller())

    async def story(env: ManagedEnvironment) -> None:
        assert "reason" not in condition(env)

    assert after(before, story) == []


def test_manager_writes_nothing_for_adopted_cluster() -> None:
    async def story(env: ManagedEnvironment) -> None:
        assert condition(env)["status"] == "True"

    assert after(adopted, story) == []


def test_plan_says_what_is_kept_and_what_is_changed() -> None:
    async def before(client: Client) -> None:
        planned = plan(await read(client, PROVIDERS), [GARDEN])
        assert planned.blocks == ()
        (cluster,) = planned.clusters
        assert (cluster.state, cluster.blocks) == (State.READY, ())
        by_outcome = {outcome: [row for row in cluster.rows if row.outcome is outcome] for outcome in Outcome}
        (control_plane,) = [row for row in by_outcome[Outcome.STAYS] if row.object.startswith("KubeadmControlPlane")]
        assert all("criSocket" in field for field in control_plane.fields)
        assert not any("kubeadmConfigSpec" in field for row in by_outcome[Outcome.NEXT] for field in row.fields)
        assert any("labels" in field for row in by_outcome[Outcome.NEXT] for field in row.fields)

    after(before, nothing)


def test_scaling_adopted_cluster_replaces_no_machine() -> None:
    async def story(env: ManagedEnvironment) -> None:
        before = await env.machine_names("garden")
        cluster = env.clusters.get(GARDEN)
        assert cluster is not None
        groups = [dict(group) for group in cluster.tree["spec"]["workerNodeGroupConfigurations"]]
        groups[0]["count"] += 1
        await env.change(workerNodeGroupConfigurations=groups)
        await env.until_ready()
        await asyncio.sleep(CALM)
        now = await env.machine_names("garden")
        assert all(before[name] <= now[name] for name in before)
        assert sum(map(len, now.values())) == sum(map(len, before.values())) + 1

    assert after(adopted, story)


def test_scaling_keeps_the_names_of_templates() -> None:
    async def story(env: ManagedEnvironment) -> None:
        before = await templates(env)
        await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
        await env.until_ready()
        await asyncio.sleep(CALM)
        assert await templates(env) == before

    after(adopted, story)


async def templates(env: ManagedEnvironment) -> dict[str, object]:
    """The content of templates by name."""
    listed = [
        *(await env.client.list(DockerMachineTemplate.resource, SYSTEM_NAMESPACE)).items,
        *(await env.client.list(KubeadmConfigTemplate.resource, SYSTEM_NAMESPACE)).items,
    ]
    return {f"{object_.kind} {object_.name}": object_.tree["spec"] for object_ in listed}


def test_upgrade_of_adopted_cluster_brings_all_of_ours() -> None:
    async def story(env: ManagedEnvironment) -> None:
        before = await env.machine_names("garden")
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        await asyncio.sleep(CALM)
        now = await env.machine_names("garden")
        assert not any(before[name] & now[name] for name in before)
        assert condition(env, "Synced")["status"] == "True"
        plane = await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)
        registration = plane.tree["spec"]["kubeadmConfigSpec"]["joinConfiguration"]["nodeRegistration"]
        assert registration["criSocket"].startswith("unix://")

    after(adopted, story)


def test_machines_edited_later_are_drift() -> None:
    """Only what machines were made of at the take-over stays; an edit since then is reported with all that differs."""

    async def story(env: ManagedEnvironment) -> None:
        patch = {"spec": {"kubeadmConfigSpec": {"joinConfiguration": {"nodeRegistration": {"criSocket": "/other"}}}}}
        await env.client.patch(
            KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE
        )
        await asyncio.sleep(CALM)
        assert "criSocket" in condition(env, "Synced")["message"]

    after(adopted, story)


def test_controller_that_runs_again_stops_the_manager() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.client.create(DEPLOYMENT, eks_anywhere.controller())
        await asyncio.sleep(CALM)
        assert condition(env)["reason"] == Reason.EKS_ANYWHERE_RUNS
        await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
        await asyncio.sleep(CALM)
        assert condition(env)["reason"] == Reason.EKS_ANYWHERE_RUNS
        with pytest.raises(Refused, match="replicas 1, allowed 0"):
            await adopted(env.client)

    assert after(adopted, story) == []


def test_undo_beside_a_manager_writes_nothing_more() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await undoing(env.client).undo([GARDEN])
        await asyncio.sleep(CALM)
        assert condition(env)["reason"] == Reason.NOT_ADOPTED

    assert after(adopted, story) == []


def test_scaled_cluster_is_not_given_back() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
        await env.until_ready()
        with pytest.raises(Refused, match="was changed since it was taken over"):
            await undoing(env.client).undo([GARDEN])

    after(adopted, story)


def test_deleted_adopted_cluster_leaves_nothing() -> None:
    """None of its objects has our labels, and the record goes before the last of them."""

    async def story(env: ManagedEnvironment) -> None:
        await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await env.until_gone()
        kinds = [*written(PROVIDERS), SECRET, CONFIG_MAP]
        listed = [await env.client.list(kind, SYSTEM_NAMESPACE if kind.namespaced else None) for kind in kinds]
        left = {object_.name for listing in listed for object_ in listing.items}
        assert not {name for name in left if name.startswith(GARDEN.name)}

    after(adopted, story)


def test_correction_labels_objects_replacing_nothing() -> None:
    """Then the cluster can be moved, which is refused before."""

    async def story(env: ManagedEnvironment) -> None:
        side = await Side.of(env.client)
        assert side is not None
        assert "have no labels yet" in "".join(ClusterJudge(SIMULATED).unsettled(await side.read(), GARDEN))
        before = await env.machine_names("garden")
        patch = {"metadata": {"annotations": {metadata_keys.DRIFT_ANNOTATION: "correct"}}}
        await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=patch, type=PatchType.MERGE)
        await asyncio.sleep(CALM)
        assert condition(env, "Synced")["status"] == "True"
        assert await env.machine_names("garden") == before
        assert [*ClusterJudge(SIMULATED).unsettled(await side.read(), GARDEN)] == []
        with pytest.raises(Refused, match="have our labels"):
            await undoing(env.client).undo([GARDEN])

    after(adopted, story)


MARKS = (metadata_keys.GATE_ANNOTATION, metadata_keys.IDENTITY_ANNOTATION, metadata_keys.RELEASE_ANNOTATION)


async def remove_marks(env: ManagedEnvironment) -> None:
    """Somebody removes what the take-over, or a reconcile, has written on the Cluster."""
    patch = {"metadata": {"annotations": dict.fromkeys(MARKS)}}
    await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=patch, type=PatchType.MERGE)
    await asyncio.sleep(CALM)


def test_removed_marks_are_written_by_adopt_again() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await remove_marks(env)
        assert condition(env)["reason"] == Reason.NOT_ADOPTED
        assert "`espalier adopt apply`" in condition(env)["message"]
        await adopted(env.client)
        await asyncio.sleep(CALM)
        assert condition(env)["status"] == "True"

    assert after(adopted, story) == []


def test_marks_removed_after_a_change_come_back() -> None:
    async def story(env: ManagedEnvironment) -> None:
        cluster = env.clusters.get(GARDEN)
        assert cluster is not None
        groups = [dict(group) for group in cluster.tree["spec"]["workerNodeGroupConfigurations"]]
        groups[0]["count"] += 1
        await env.change(workerNodeGroupConfigurations=groups)
        await env.until_ready()
        await asyncio.sleep(CALM)
        before = await env.machine_names("garden")
        await remove_marks(env)
        assert condition(env)["reason"] == Reason.NOT_ADOPTED
        await adopted(env.client)
        await env.until_ready()
        await asyncio.sleep(CALM)
        assert condition(env)["status"] == "True"
        assert await env.machine_names("garden") == before

    after(adopted, story)


def test_lost_record_after_a_change_rolls_no_machine() -> None:
    """Nothing else says which fields its machines keep: a change waits, and goes on after a new take-over."""
    key = Key(SYSTEM_NAMESPACE, config_map(GARDEN.name))

    async def story(env: ManagedEnvironment) -> None:
        await env.until_ready()
        await grows(env, GARDEN)
        await asyncio.sleep(CALM)
        before = await env.machine_names("garden")
        await env.client.delete(CONFIG_MAP, key.name, key.namespace)
        await asyncio.sleep(CALM)
        assert (condition(env)["reason"], str(key) in condition(env)["message"]) == (Reason.NOT_ADOPTED, True)
        with pytest.raises(Refused, match=f"ConfigMap {key}: found no record"):
            await adopted(env.client)
        await remove_marks(env)
        await adopted(env.client)
        await asyncio.sleep(CALM)
        assert condition(env)["status"] == "True"
        assert await env.machine_names("garden") == before
        await grows(env, GARDEN)

    after(adopted, story)


@pytest.mark.parametrize("edit", ["deleted", "edited", "without its owner"])
def test_lost_record_has_a_named_way_out(edit: str) -> None:
    key = Key(SYSTEM_NAMESPACE, config_map(GARDEN.name))

    async def story(env: ManagedEnvironment) -> None:
        if edit == "deleted":
            await env.client.delete(CONFIG_MAP, key.name, key.namespace)
        else:
            lost: Tree = {"data": {"record": "{"}} if edit == "edited" else {"metadata": {"ownerReferences": None}}
            await env.client.patch(CONFIG_MAP, key.name, key.namespace, patch=lost, type=PatchType.MERGE)
        await asyncio.sleep(CALM)
        assert (condition(env)["reason"], str(key) in condition(env)["message"]) == (Reason.NOT_ADOPTED, True)
        with pytest.raises(Refused, match=f"ConfigMap {key}: found no record.*remove annotation.*adopt apply"):
            await adopted(env.client)
        await remove_marks(env)
        await adopted(env.client)
        await asyncio.sleep(CALM)
        assert condition(env)["status"] == "True"

    assert after(adopted, story) == []
