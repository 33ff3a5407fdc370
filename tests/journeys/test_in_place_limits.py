"""Limits of upgrades in place, and other events meanwhile: simulated Cluster API, nodes and clock."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.capi.kubeadm import KubeadmConfigTemplate, KubeadmControlPlane
from espalier.api.capi.machine import Machine, MachineDeployment
from espalier.api.core import NODE
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import DRAIN_BLOCKED
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.kube.client import PatchType
from espalier.kube.errors import ApiError
from tests.support.environments.in_place_environment import (
    IN_PLACE,
    NEW,
    OLD,
    generations,
    identities,
    journey,
    machines,
    marks,
    past_admission,
    reach,
    ready,
    told,
    until_machines,
    until_so,
)
from tests.support.environments.managed_environment import GARDEN, NAMESPACE, ManagedEnvironment
from tests.support.environments.upgraders import Upgraders
from tests.support.histories.in_place_changes import CONTROL_PLANE_CHANGES, WORKER_CHANGES
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

CAPI_PAUSED = "cluster.x-k8s.io/paused"
FALLS_BACK: Tree = {"type": "InPlace", "fallback": "RollingUpdate"}


def control_plane(strategy: Tree, **more: object) -> Tree:
    return {"count": 1, "upgradeRolloutStrategy": strategy, **more}


def group(strategy: Tree, **more: object) -> list[Tree]:
    return [{"name": "md-0", "count": 2, "upgradeRolloutStrategy": strategy, **more}]


@pytest.mark.demand("U25")
@pytest.mark.soak
@pytest.mark.parametrize("with_version", [False, True])
def test_impossible_change_in_place_names_alternatives(with_version: bool) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        version: Tree = {"kubernetesVersion": "1.36"} if with_version else {}
        cases = [
            ("spec.controlPlaneConfiguration", field, {"controlPlaneConfiguration": control_plane(IN_PLACE, **change)})
            for change, field in CONTROL_PLANE_CHANGES
        ] + [
            (
                "spec.workerNodeGroupConfigurations[0]",
                field,
                {"workerNodeGroupConfigurations": group(IN_PLACE, **change)},
            )
            for change, field in WORKER_CHANGES
        ]
        for place, field, change in cases:
            with pytest.raises(ApiError) as refused:
                await env.change(**version, **change)
            message = str(refused.value)
            assert f"{place}.upgradeRolloutStrategy: bootstrap." in message
            assert field in message
            assert "revert the change" in message
            assert "upgradeRolloutStrategy.fallback" in message
        assert upgraders.ran == []

    journey(story)


@pytest.mark.soak
def test_impossible_changes_are_all_reported_at_once() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        with pytest.raises(ApiError) as refused:
            await env.change(
                controlPlaneConfiguration=control_plane(IN_PLACE, **CERTIFICATE),
                workerNodeGroupConfigurations=group(IN_PLACE, **TAINTED),
            )
        details = refused.value.status.details
        assert details is not None
        fields = {cause.field for cause in details.causes}
        assert fields == {
            "spec.controlPlaneConfiguration.upgradeRolloutStrategy",
            "spec.workerNodeGroupConfigurations[0].upgradeRolloutStrategy",
        }

    journey(story)


CERTIFICATE: Tree = {"certSans": ["garden.example"]}
TAINTED: Tree = {"taints": [{"key": "a", "value": "b", "effect": "PreferNoSchedule"}]}


@pytest.mark.demand("U25")
@pytest.mark.soak
@pytest.mark.parametrize(
    ("change", "back", "condition", "field"),
    [
        (
            {"controlPlaneConfiguration": control_plane(IN_PLACE, **CERTIFICATE)},
            {"controlPlaneConfiguration": control_plane(IN_PLACE, certSans=None)},
            "ControlPlaneReady",
            "bootstrap.clusterConfiguration.apiServer.certSANs",
        ),
        (
            {"workerNodeGroupConfigurations": group(IN_PLACE, **TAINTED)},
            {"workerNodeGroupConfigurations": group(IN_PLACE)},
            "WorkersReady",
            "nodeRegistration.taints of worker node group md-0",
        ),
    ],
)
def test_change_past_admission_is_refused_untouched(change: Tree, back: Tree, condition: str, field: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before, written = await identities(env), await generations(env)
        async with past_admission(env.client):
            await env.change(kubernetesVersion="1.35", **change)
        cluster = await env.until(lambda item: field in told(item, condition))
        assert "upgradeRolloutStrategy.fallback" in told(cluster, condition)
        reasons = {condition.type: condition.reason for condition in cluster.status.conditions}
        refused = {type_ for type_, reason in reasons.items() if reason == "InPlaceUpgradeRefused"}
        assert refused == {"ControlPlaneReady", "WorkersReady", "Ready"}, "none of them goes on"
        await asyncio.sleep(600)
        assert await generations(env) == written
        assert await marks(env) == []
        assert (await env.client.list(ControlPlaneUpgrade.resource, SYSTEM_NAMESPACE)).items == []

        await env.change(kubernetesVersion="1.34", **back)
        await env.until_ready()
        assert upgraders.ran == []
        assert await identities(env) == before
        assert await generations(env) == written
        assert OLD not in await env.versions()
        await env.change(kubernetesVersion="1.35")
        await env.until_ready()
        assert await env.versions() == [OLD] * 3, "what can be done in place is done"
        assert await identities(env) == before

    journey(story, kubernetesVersion="1.34")


@pytest.mark.demand("U26")
@pytest.mark.soak
def test_refused_change_is_made_when_fallback_is_set() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        async with past_admission(env.client):
            await env.change(kubernetesVersion="1.36", workerNodeGroupConfigurations=group(IN_PLACE, **TAINTED))
        await env.until(lambda item: "can't be changed in place" in told(item, "WorkersReady"))
        assert upgraders.ran == [], "the control plane is not begun with either"
        await env.change(workerNodeGroupConfigurations=group(FALLS_BACK, **TAINTED))
        await env.until_ready()
        assert await env.versions() == [NEW] * 3
        remaining = before.keys() & (await identities(env)).keys()
        assert not [name for name in remaining if "md-0" in name], "workers were replaced, as the fallback says"
        assert len(remaining) == 2, "the control plane was upgraded in place, Machine and node"
        assert await marks(env) == []

    journey(story)


@pytest.mark.soak
def test_a_change_that_falls_back_is_never_paused() -> None:
    """A pause would only delay what Cluster API is to do."""

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        seen: list[str] = []
        cache = env.capi_objects.of(MachineDeployment.resource)
        stop = cache.subscribe(lambda _old, new, _first: seen.extend(new.metadata.annotations) if new else None)
        await env.change(workerNodeGroupConfigurations=group(FALLS_BACK, **TAINTED))
        await env.until_ready()
        stop()
        assert not {item for item in seen if item.endswith(("paused", "in-place-upgrade-needed"))}
        assert upgraders.ran == []

    journey(story)


@pytest.mark.demand("U26", "U53", "U71")
def test_fallback_replaces_machines_for_such_a_change() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = {machine.name for machine in await machines(env)}
        changed = control_plane(FALLS_BACK, labels={"tier": "front"})
        await env.change(
            kubernetesVersion="1.36", controlPlaneConfiguration=changed, workerNodeGroupConfigurations=group(FALLS_BACK)
        )
        await env.until_ready()
        assert await env.versions() == [NEW] * 3
        replaced = before - {machine.name for machine in await machines(env)}
        assert len(replaced) == 1
        assert {node for node, _ in upgraders.ran} == {
            machine.name for machine in await machines(env, control_plane=False)
        }
        assert await marks(env) == []

    journey(story)


@pytest.mark.demand("U27")
def test_later_replacement_has_the_new_version() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        worker = (await machines(env, control_plane=False))[0]
        await env.client.delete(Machine.resource, worker.name, SYSTEM_NAMESPACE)

        def is_replaced(value: list[Machine]) -> bool:
            running = {item.metadata.name for item in value if item.status.phase == "Running"}
            return len(running) == len(value) == 3 and worker.name not in running

        await until_machines(env, is_replaced)
        assert await env.versions() == [NEW] * 3

    journey(story)


@pytest.mark.soak
def test_worker_replaced_meanwhile_is_upgraded() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        first, second = await machines(env, control_plane=False)
        upgraders.hanging.add((first.name, "kubeadm-upgrader"))
        await env.change(kubernetesVersion="1.36")
        name = f"{first.name}-node-upgrader"
        await until_so(
            env, NodeUpgrade.resource, name, lambda node_upgrade: ready(node_upgrade)["reason"] == "UpgradingKubeadm"
        )
        await env.client.delete(Machine.resource, first.name, SYSTEM_NAMESPACE)
        await env.until_ready()
        assert await env.versions() == [NEW] * 3
        left = {machine.name for machine in await machines(env, control_plane=False)}
        assert first.name not in left
        assert second.name in left
        assert await marks(env) == []

    journey(story)


@pytest.mark.soak
def test_cluster_is_deleted_in_middle_of_upgrade() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        upgraders.failing["garden", "kubeadm-upgrader"] = "no"
        await env.change(kubernetesVersion="1.36")
        await until_so(
            env,
            ControlPlaneUpgrade.resource,
            "garden-cp-upgrade",
            lambda control_plane_upgrade: "failed" in ready(control_plane_upgrade)["message"],
        )
        await env.client.delete(Cluster.resource, GARDEN.name, NAMESPACE)
        await env.until_gone()
        left: tuple[Resource, ...] = (ControlPlaneUpgrade.resource, NodeUpgrade.resource, Machine.resource)
        for resource in left:
            assert (await env.client.list(resource, SYSTEM_NAMESPACE)).items == []

    journey(story)


@pytest.mark.soak
def test_somebody_may_pause_between_two_nodes() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        first, second = await machines(env, control_plane=False)
        await env.change(kubernetesVersion="1.36")
        resource, name = MachineDeploymentUpgrade.resource, "garden-md-0-md-upgrade"
        await until_so(env, resource, name, lambda item: ready(item)["reason"] == "UpgradingNodes")
        pause: Tree = {"metadata": {"annotations": {PAUSED_ANNOTATION: "true"}}}
        await env.client.patch(resource, name, SYSTEM_NAMESPACE, patch=pause, type=PatchType.MERGE)
        seen = await until_so(env, resource, name, lambda item: ready(item)["reason"] == "Paused")
        assert "paused after 1 of 2 nodes" in ready(seen)["message"]
        assert second.name not in {node for node, _ in upgraders.ran}
        on: Tree = {"metadata": {"annotations": {PAUSED_ANNOTATION: None}}}
        await env.client.patch(resource, name, SYSTEM_NAMESPACE, patch=on, type=PatchType.MERGE)
        await env.until_ready()
        assert {first.name, second.name} <= {node for node, _ in upgraders.ran}

    journey(story)


@pytest.mark.demand(U41="left out where nothing can move")
@pytest.mark.soak
def test_pods_that_block_a_drain_are_named() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0].name
        upgraders.hanging.add((worker, "drainer"))
        await env.change(kubernetesVersion="1.36")
        name = f"{worker}-node-upgrader"
        await until_so(
            env, NodeUpgrade.resource, name, lambda node_upgrade: ready(node_upgrade)["reason"] == "DrainingNode"
        )

        await hold_drain(env, worker, "default/web-1: the disruption budget web needs 1 healthy pods\x1b[2J")

        told = "waiting for pods: default/web-1: the disruption budget web needs 1 healthy pods\\x1b[2J"
        await until_so(env, NodeUpgrade.resource, name, lambda node_upgrade: told in ready(node_upgrade)["message"])
        await hold_drain(env, worker, None)
        await until_so(
            env,
            NodeUpgrade.resource,
            name,
            lambda node_upgrade: "waiting for pods" not in ready(node_upgrade)["message"],
        )

    journey(story)


async def hold_drain(env: ManagedEnvironment, node: str, note: str | None) -> None:
    patch: Tree = {"metadata": {"annotations": {DRAIN_BLOCKED: note}}}
    await reach(env).client.patch(NODE, node, patch=patch, type=PatchType.MERGE)


@pytest.mark.soak
def test_paused_cluster_is_paused_before_its_next_node() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        planes = [machine.name for machine in await machines(env, control_plane=True)]
        upgraders.hanging.add((planes[0], "kubeadm-upgrader"))
        await env.change(kubernetesVersion="1.36")
        resource, name = ControlPlaneUpgrade.resource, "garden-cp-upgrade"
        await until_so(env, resource, name, lambda item: ready(item)["reason"] == "UpgradingNodes")

        await pause_cluster(env, "")
        upgraders.hanging.clear()
        seen = await until_so(env, resource, name, lambda item: ready(item)["reason"] == "Paused")

        told = f"paused after 1 of 3 nodes; Cluster {GARDEN} is paused, remove annotation {PAUSED_ANNOTATION} from it"
        assert told in ready(seen)["message"]
        assert {node for node, _ in upgraders.ran} == {planes[0]}
        await pause_cluster(env, None)
        await env.until_ready()
        assert set(await env.versions()) == {NEW}

    journey(story, control_planes=3, workers=1)


async def pause_cluster(env: ManagedEnvironment, value: str | None) -> None:
    patch: Tree = {"metadata": {"annotations": {PAUSED_ANNOTATION: value}}}
    await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=patch, type=PatchType.MERGE)


@pytest.mark.demand("U7")
def test_external_etcd_excludes_upgrades_by_hand() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0]
        etcd = {"endpoints": ["https://10.0.0.9:2379"], "caFile": "/a", "certFile": "/b", "keyFile": "/c"}
        change: Tree = {
            "metadata": {"annotations": {PAUSED_ANNOTATION: "true"}},
            "spec": {"kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {"external": etcd}}}},
        }
        resource = KubeadmControlPlane.resource
        await env.client.patch(resource, "garden", SYSTEM_NAMESPACE, patch=change, type=PatchType.MERGE)
        body = {
            "metadata": {"name": "by-hand", "namespace": SYSTEM_NAMESPACE},
            "spec": {
                "controlPlane": {"name": "garden"},
                "machinesRequireUpgrade": [{"name": plane.name}],
                "kubernetesVersion": NEW,
                "controlPlaneSpecData": "e30=",
            },
        }
        await env.client.create(ControlPlaneUpgrade.resource, body)
        seen = await until_so(
            env,
            ControlPlaneUpgrade.resource,
            "by-hand",
            lambda control_plane_upgrade: ready(control_plane_upgrade)["reason"] == "ExternalEtcd",
        )
        assert "such control planes can't be upgraded in place" in ready(seen)["message"]
        assert upgraders.ran == []

    journey(story)


@pytest.mark.demand("U12", "U14")
def test_unfit_control_plane_upgrade_touches_nothing() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        worker = (await machines(env, control_plane=False))[0]
        plane = (await machines(env, control_plane=True))[0]
        live = await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)
        data = "e30="  # {}
        cases: dict[str, tuple[str, str, str]] = {
            "nobody": (plane.name, NEW, "OwnerMissing"),
            "garden": (worker.name, OLD, "MachineOfAnotherOwner"),
        }
        for owner, (machine, version, reason) in cases.items():
            body = {
                "metadata": {"name": f"by-hand-{owner}", "namespace": SYSTEM_NAMESPACE},
                "spec": {
                    "controlPlane": {"name": owner},
                    "machinesRequireUpgrade": [{"name": machine}],
                    "kubernetesVersion": version,
                    "controlPlaneSpecData": data,
                },
            }
            await env.client.create(ControlPlaneUpgrade.resource, body)
            await until_so(
                env,
                ControlPlaneUpgrade.resource,
                f"by-hand-{owner}",
                lambda control_plane_upgrade, reason=reason: ready(control_plane_upgrade)["reason"] == reason,  # type: ignore[misc]
            )
        unpaused = {
            "metadata": {"name": "by-hand-unpaused", "namespace": SYSTEM_NAMESPACE},
            "spec": {
                "controlPlane": {"name": "garden"},
                "machinesRequireUpgrade": [{"name": plane.name}],
                "kubernetesVersion": live.tree["spec"]["version"],
                "controlPlaneSpecData": data,
            },
        }
        await env.client.create(ControlPlaneUpgrade.resource, unpaused)
        seen = await until_so(
            env,
            ControlPlaneUpgrade.resource,
            "by-hand-unpaused",
            lambda control_plane_upgrade: ready(control_plane_upgrade)["reason"] == "OwnerNotPaused",
        )
        assert "neither paused nor annotated" in ready(seen)["message"]
        assert upgraders.ran == []
        assert (await env.client.list(NodeUpgrade.resource, SYSTEM_NAMESPACE)).items == []

    journey(story)


@pytest.mark.soak
@pytest.mark.parametrize("seconds", sampled([0.0, 5.0, 60.0, 300.0], 0))
def test_unpaused_group_goes_on_when_reverted(seconds: float) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await unpaused_by_hand(env)
        await asyncio.sleep(seconds)
        await bootstrap_of(env, before)
        await env.until_ready()
        assert len(await machines(env, control_plane=False)) == 2
        assert await marks(env) == []

    journey(story)


@pytest.mark.soak
def test_group_rolled_out_while_held_says_what_helps() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        await unpaused_by_hand(env)
        cluster = await env.until(lambda item: "is being rolled out" in told(item, "WorkersReady"))
        assert "revert the change" in told(cluster, "WorkersReady")
        assert "upgradeRolloutStrategy.fallback: RollingUpdate" in told(cluster, "WorkersReady")
        await env.change(workerNodeGroupConfigurations=group(FALLS_BACK))
        await env.until_ready()
        assert await marks(env) == []

    journey(story)


async def unpaused_by_hand(env: ManagedEnvironment) -> str:
    """A change of the workers by hand was refused, and somebody took the annotation away that pauses them.

    Name of the bootstrap template before.
    """
    live = await env.client.get(MachineDeployment.resource, "garden-md-0", SYSTEM_NAMESPACE)
    before: str = live.tree["spec"]["template"]["spec"]["bootstrap"]["configRef"]["name"]
    template = (await env.client.get(KubeadmConfigTemplate.resource, before, SYSTEM_NAMESPACE)).tree
    template["spec"]["template"]["spec"]["preKubeadmCommands"] = ["true"]
    metadata = {"name": "by-hand", "namespace": SYSTEM_NAMESPACE, "labels": template["metadata"]["labels"]}
    await env.client.create(KubeadmConfigTemplate.resource, template | {"metadata": metadata})
    held = {"machinedeployment.clusters.x-k8s.io/in-place-upgrade-needed": "true", CAPI_PAUSED: "in-place-upgrade"}
    await bootstrap_of(env, "by-hand", held)
    await env.until(lambda item: "can't be changed in place" in told(item, "WorkersReady"))
    await unpause(env, MachineDeployment.resource, "garden-md-0")
    return before


async def bootstrap_of(env: ManagedEnvironment, name: str, annotations: Tree | None = None) -> None:
    """Have the workers be made by this bootstrap template."""
    spec = {"template": {"spec": {"bootstrap": {"configRef": {"name": name}}}}}
    patch: Tree = {"metadata": {"annotations": annotations or {}}, "spec": spec}
    resource = MachineDeployment.resource
    await env.client.patch(resource, "garden-md-0", SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)


async def unpause(env: ManagedEnvironment, resource: Resource, name: str) -> None:
    gone: Tree = {"metadata": {"annotations": {CAPI_PAUSED: None}}}
    await env.client.patch(resource, name, SYSTEM_NAMESPACE, patch=gone, type=PatchType.MERGE)


@pytest.mark.soak
def test_control_plane_without_pause_goes_on_replaced() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0].name
        upgraders.failing[plane, "components-copier"] = "no space left on device"
        await env.change(kubernetesVersion="1.36")
        await env.until(lambda item: "no space left" in told(item, "ControlPlaneReady"))
        await unpause(env, KubeadmControlPlane.resource, "garden")
        await asyncio.sleep(60)
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}
        await env.change(controlPlaneConfiguration={"count": 1, "upgradeRolloutStrategy": rolling})
        await env.until_ready()
        assert len(await machines(env, control_plane=True)) == 1
        assert await env.versions() == [NEW] * 3
        assert await marks(env) == []

    journey(story)
