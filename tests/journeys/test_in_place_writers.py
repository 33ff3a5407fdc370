"""Several writers at once, and upgrades of what was not meant: one node of a control plane at a time."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.core import POD, SECRET
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import NODE_IN_WORK
from espalier.api.meta import Tree
from espalier.clusterapi.contract import PAUSED_ANNOTATION
from espalier.kube.client import PatchType
from espalier.kube.errors import Invalid
from espalier.upgrades import expected
from espalier.upgrades.group.control_plane import ControlPlaneGroup
from espalier.upgrades.names import upgrader
from tests.support.environments.in_place_environment import NEW, OLD, journey, machines, reach, ready, until_so
from tests.support.environments.in_place_watcher import say_ready
from tests.support.environments.managed_environment import NAMESPACE, ManagedEnvironment
from tests.support.environments.upgraders import Moment, Upgraders

pytestmark = pytest.mark.embedded


def node_upgrade(machine: str, **reference: str) -> Tree:
    return {
        "metadata": {"name": f"hand-{machine}", "namespace": SYSTEM_NAMESPACE},
        "spec": {
            "machine": {"name": machine, **reference},
            "kubernetesVersion": NEW,
            "nodeType": "ControlPlane",
        },
    }


async def told(env: ManagedEnvironment, name: str, reason: str) -> str:
    stored = await until_so(env, NodeUpgrade.resource, name, lambda item: ready(item)["reason"] == reason)
    return str(ready(stored)["message"])


async def completed(env: ManagedEnvironment, name: str) -> None:
    await until_so(
        env, NodeUpgrade.resource, name, lambda item: bool(item.get("status", {}).get("completed")), seconds=3600
    )


@pytest.mark.demand("U15")
@pytest.mark.soak
def test_three_node_upgrades_by_hand_run_in_sequence() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        planes = [machine.name for machine in await machines(env, control_plane=True)]
        await asyncio.gather(*(env.client.create(NodeUpgrade.resource, node_upgrade(name)) for name in planes))
        why = "one node of a control plane is upgraded at a time"
        await until_so(env, NodeUpgrade.resource, f"hand-{planes[2]}", lambda item: why in ready(item)["message"])
        for name in planes:
            await completed(env, f"hand-{name}")
        assert upgraders.at_once == 1
        order = dict.fromkeys(node for node, _ in upgraders.ran)
        roles = [upgraders.commands[node, "kubeadm-upgrader"][3] for node in order]
        assert roles == ["first-control-plane", "control-plane", "control-plane"]

    journey(story, control_planes=3)


async def held(env: ManagedEnvironment) -> Tree:
    """The spec of the control plane once somebody has paused it and asked it for the new version."""
    asked: Tree = {"metadata": {"annotations": {PAUSED_ANNOTATION: "by hand"}}, "spec": {"version": NEW}}
    control_plane = await env.client.patch(
        KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE, patch=asked, type=PatchType.MERGE
    )
    return ControlPlaneGroup().asked_for(control_plane)


def upgrade(name: str, planes: list[Tree], data: Tree) -> Tree:
    return {
        "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE},
        "spec": {
            "controlPlane": {"name": "garden"},
            "machinesRequireUpgrade": planes,
            "kubernetesVersion": NEW,
            "controlPlaneSpecData": expected.encoded(data),
        },
    }


async def says(env: ManagedEnvironment, name: str, reason: str) -> str:
    stored = await until_so(
        env,
        ControlPlaneUpgrade.resource,
        name,
        lambda control_plane_upgrade: ready(control_plane_upgrade)["reason"] == reason,
    )
    return str(ready(stored)["message"])


@pytest.mark.demand("U10")
@pytest.mark.soak
def test_three_upgrades_touch_nodes_one_by_one() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        planes = [machine.name for machine in await machines(env, control_plane=True)]
        data = await held(env)
        bodies = [upgrade(f"hand-{name}", [{"name": name}], data) for name in planes]
        await asyncio.gather(*(env.client.create(ControlPlaneUpgrade.resource, body) for body in bodies))
        for name in planes:
            await until_so(
                env,
                ControlPlaneUpgrade.resource,
                f"hand-{name}",
                lambda control_plane_upgrade: control_plane_upgrade.get("status", {}).get("ready", False),
                seconds=3600,
            )
        assert upgraders.at_once == 1
        assert [machine.tree["spec"]["version"] for machine in await machines(env, control_plane=True)] == [NEW] * 3

    journey(story, control_planes=3)


@pytest.mark.demand("U15")
@pytest.mark.soak
def test_node_upgrade_by_hand_waits_for_other_members() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        planes = [machine.name for machine in await machines(env, control_plane=True)]
        await say_ready(env, reach(env), planes[2], "False")
        await env.client.create(NodeUpgrade.resource, node_upgrade(planes[0]))
        assert f"{planes[2]} is not ready" in await told(env, f"hand-{planes[0]}", "ControlPlaneUnhealthy")
        assert upgraders.ran == []
        await say_ready(env, reach(env), planes[2], "True")
        await completed(env, f"hand-{planes[0]}")

    journey(story, control_planes=3)


@pytest.mark.soak
def test_deleted_holder_of_a_claim_makes_way() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        planes = [machine.name for machine in await machines(env, control_plane=True)]
        upgraders.failing[planes[0], "components-copier"] = "the disk is full"
        await env.client.create(NodeUpgrade.resource, node_upgrade(planes[0]))
        await told(env, f"hand-{planes[0]}", "CopyingComponentsFailed")
        await env.client.create(NodeUpgrade.resource, node_upgrade(planes[1]))
        assert f"hand-{planes[0]} (node {planes[0]})" in await told(env, f"hand-{planes[1]}", "ControlPlaneTaken")
        await env.client.delete(NodeUpgrade.resource, f"hand-{planes[0]}", SYSTEM_NAMESPACE)
        await completed(env, f"hand-{planes[1]}")
        left = {pod.name for pod in (await reach(env).client.list(POD)).items}
        assert upgrader(planes[0]) not in left, "who goes leaves no failed pod on its node"

    journey(story, control_planes=3)


def test_node_upgrade_of_another_machine_does_nothing() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0].name
        await env.client.create(NodeUpgrade.resource, node_upgrade(plane, uid="0"))
        told_ = await told(env, f"hand-{plane}", "MachineMissing")
        assert "spec.machine.uid: found 0, but Machine" in told_
        assert upgraders.ran == []

    journey(story)


WRONG = [
    ({"kind": "Banana"}, "spec.machine.kind", "found Banana; allowed: Machine"),
    ({"namespace": "elsewhere"}, "spec.machine.namespace", "found elsewhere; allowed: eksa-system"),
    ({"apiVersion": "v1"}, "spec.machine.apiVersion", "found v1; allowed: cluster.x-k8s.io/v1beta2"),
]


@pytest.mark.demand("U14")
@pytest.mark.soak
def test_upgrade_without_an_executor_is_refused() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0].name
        for reference, field, message in WRONG:
            with pytest.raises(Invalid) as refused:
                await env.client.create(NodeUpgrade.resource, node_upgrade(plane, **reference))
            assert f"{field}: it must refer to a Machine; {message}" in str(refused.value)
        data = await held(env)
        for resource, body in (
            (NodeUpgrade.resource, node_upgrade(plane)),
            (ControlPlaneUpgrade.resource, upgrade("elsewhere", [{"name": plane}], data)),
        ):
            body["metadata"]["namespace"] = NAMESPACE
            with pytest.raises(Invalid, match=r"metadata\.namespace: upgrades in other .* allowed: eksa-system"):
                await env.client.create(resource, body)
        assert upgraders.ran == []

    journey(story)


@pytest.mark.soak
def test_forged_completion_of_a_node_is_not_believed() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0].name
        upgraders.failing[plane, "components-copier"] = "the disk is full"
        await env.change(kubernetesVersion="1.36")
        name = f"{plane}-node-upgrader"
        await told(env, name, "CopyingComponentsFailed")

        done: Tree = {"status": {"completed": True}}
        await env.client.patch(
            NodeUpgrade.resource, name, SYSTEM_NAMESPACE, patch=done, type=PatchType.MERGE, subresource="status"
        )
        await until_so(env, NodeUpgrade.resource, name, lambda item: not item["status"].get("completed"))
        assert "the disk is full" in await told(env, name, "CopyingComponentsFailed")

        so = {"type": "Ready", "status": "True", "reason": "Done", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        forged: Tree = {"status": {"completed": True, "conditions": [so]}}
        await env.client.patch(
            NodeUpgrade.resource, name, SYSTEM_NAMESPACE, patch=forged, type=PatchType.MERGE, subresource="status"
        )
        await until_so(env, NodeUpgrade.resource, name, lambda item: not item["status"].get("completed"))
        assert "the disk is full" in await told(env, name, "CopyingComponentsFailed")
        assert (await machines(env, control_plane=True))[0].tree["spec"]["version"] == OLD
        upgraders.failing.clear()
        await env.client.delete(NodeUpgrade.resource, name, SYSTEM_NAMESPACE)
        await env.until_ready()
        assert set(await env.versions()) == {NEW}

    journey(story)


@pytest.mark.parametrize("when", ["control plane", "worker"])
def test_an_upgrade_that_somebody_calls_ready_goes_on(when: str) -> None:
    """Its running NodeUpgrade is neither deleted nor started again, and status.ready is corrected."""
    is_control_plane = when == "control plane"
    resource = ControlPlaneUpgrade.resource if is_control_plane else MachineDeploymentUpgrade.resource

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        machine = (await machines(env, control_plane=is_control_plane))[0].name
        edited: list[str] = []

        async def call_it_ready(_cluster: object, node: str, container: str, moment: Moment) -> None:
            if (node, moment, edited) != (machine, Moment.RUNS, []) or "kube" not in container:
                return
            (upgrade,) = (await env.client.list(resource, SYSTEM_NAMESPACE)).items
            edited.append(upgrade.name)
            done: Tree = {"status": {"ready": True}}
            await env.client.patch(
                resource, upgrade.name, SYSTEM_NAMESPACE, patch=done, type=PatchType.MERGE, subresource="status"
            )
            await until_so(env, resource, upgrade.name, lambda tree: not tree["status"].get("ready"))

        upgraders.happening = call_it_ready
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        assert edited
        assert set(await env.versions()) == {NEW}
        started = [container for node, container in upgraders.ran if node == machine]
        assert len(started) == len(set(started)), started

    journey(story)


@pytest.mark.demand("U14")
@pytest.mark.soak
def test_untrue_control_plane_upgrade_touches_nothing() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0]
        data = await held(env)
        cases: list[tuple[Tree, Tree, str, str]] = [
            ({"name": "nobody"}, data, "MachineMissing", "Machine nobody does not exist"),
            ({"name": plane.name, "uid": "0"}, data, "MachineMissing", f"Machine {plane.name} was replaced"),
            ({"name": plane.name}, {}, "SpecDataDiffers", "differs from that of KubeadmControlPlane"),
        ]
        for number, (reference, asked, reason, message) in enumerate(cases):
            name = f"hand-{number}"
            await env.client.create(ControlPlaneUpgrade.resource, upgrade(name, [reference], asked))
            assert message in await says(env, name, reason)
            await env.client.delete(ControlPlaneUpgrade.resource, name, SYSTEM_NAMESPACE)
        assert upgraders.ran == []
        right = {"name": plane.name, "uid": plane.metadata.uid, "kind": "Machine"}
        await env.client.create(ControlPlaneUpgrade.resource, upgrade("right", [right], data))
        await until_so(
            env,
            ControlPlaneUpgrade.resource,
            "right",
            lambda control_plane_upgrade: control_plane_upgrade.get("status", {}).get("ready", False),
        )

    journey(story)


@pytest.mark.soak
def test_deleted_node_upgrade_makes_way_at_once() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0].name
        body = node_upgrade(plane)
        body["metadata"]["name"] = f"{plane}-node-upgrader"
        body["spec"]["kubernetesVersion"] = OLD
        await env.client.create(NodeUpgrade.resource, body)
        await env.change(kubernetesVersion="1.36")
        assert "delete it" in await says(env, "garden-cp-upgrade", "NodeUpgradeTaken")
        await env.client.delete(NodeUpgrade.resource, f"{plane}-node-upgrader", SYSTEM_NAMESPACE)
        await env.until_ready()
        assert set(await env.versions()) == {NEW}

    journey(story)


@pytest.mark.soak
def test_upgrade_under_the_managers_name_is_named() -> None:
    """It asks for something else, so nothing comes of it; deleted, the manager makes its own."""

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0]
        taken = upgrade("garden-cp-upgrade", [{"name": plane.name}], {})
        await env.client.create(ControlPlaneUpgrade.resource, taken)
        await env.change(kubernetesVersion="1.36")
        name = f"ControlPlaneUpgrade {SYSTEM_NAMESPACE}/garden-cp-upgrade"
        await env.until(
            lambda item: any(
                name in condition.message and "delete ControlPlaneUpgrade garden-cp-upgrade" in condition.message
                for condition in item.status.conditions
            )
        )
        await env.client.delete(ControlPlaneUpgrade.resource, "garden-cp-upgrade", SYSTEM_NAMESPACE)
        await env.until_ready()
        assert set(await env.versions()) == {NEW}

    journey(story)


@pytest.mark.soak
def test_seized_and_deleted_upgrade_is_made_anew() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0].name
        upgraders.failing[plane, "components-copier"] = "the disk is full"
        await env.change(kubernetesVersion="1.36")
        await told(env, f"{plane}-node-upgrader", "CopyingComponentsFailed")
        owners: Tree = {"metadata": {"ownerReferences": None}}
        await env.client.patch(
            ControlPlaneUpgrade.resource, "garden-cp-upgrade", SYSTEM_NAMESPACE, patch=owners, type=PatchType.MERGE
        )
        await asyncio.sleep(600)
        upgraders.failing.clear()
        await env.client.delete(ControlPlaneUpgrade.resource, "garden-cp-upgrade", SYSTEM_NAMESPACE)
        await env.until_ready()
        assert set(await env.versions()) == {NEW}

    journey(story)


@pytest.mark.soak
def test_removed_claim_upgrades_no_second_node() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        planes = [machine.name for machine in await machines(env, control_plane=True)]
        upgraders.hanging.add((planes[0], "kubeadm-upgrader"))
        await env.change(kubernetesVersion="1.36")
        await told(env, f"{planes[0]}-node-upgrader", "UpgradingKubeadm")
        await env.client.create(NodeUpgrade.resource, node_upgrade(planes[2]))
        await told(env, f"hand-{planes[2]}", "ControlPlaneTaken")
        gone: Tree = {"metadata": {"annotations": {NODE_IN_WORK: None}}}
        await env.client.patch(
            KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE, patch=gone, type=PatchType.MERGE
        )
        await asyncio.sleep(120)
        assert {node for node, _ in upgraders.ran} == {planes[0]}
        upgraders.hanging.clear()
        await reach(env).client.delete(POD, f"{planes[0]}-node-upgrader", SYSTEM_NAMESPACE)
        await completed(env, f"hand-{planes[2]}")
        await env.until_ready(seconds=7200)

    journey(story, control_planes=3)


async def edit_claim(env: ManagedEnvironment, claim: str) -> None:
    patch: Tree = {"metadata": {"annotations": {NODE_IN_WORK: claim}}}
    await env.client.patch(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)


async def until_claimed(env: ManagedEnvironment, claim: str | None) -> None:
    def is_so(plane: Tree) -> bool:
        node_in_work: str | None = plane["metadata"].get("annotations", {}).get(NODE_IN_WORK)
        return node_in_work == claim

    await until_so(env, KubeadmControlPlane.resource, "garden", is_so)


@pytest.mark.soak
def test_edited_claim_is_written_again() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0].name
        upgraders.hanging.add((plane, "kubeadm-upgrader"))
        await env.change(kubernetesVersion="1.36")
        await told(env, f"{plane}-node-upgrader", "UpgradingKubeadm")
        claimant = await env.client.get(ControlPlaneUpgrade.resource, "garden-cp-upgrade", SYSTEM_NAMESPACE)
        await edit_claim(env, "somebody 1")
        await until_claimed(env, f"{claimant.name} {claimant.metadata.uid}")
        upgraders.hanging.clear()
        await reach(env).client.delete(POD, f"{plane}-node-upgrader", SYSTEM_NAMESPACE)
        await env.until_ready(seconds=7200)
        await until_claimed(env, None)
        await edit_claim(env, f"{claimant.name} {claimant.metadata.uid}")
        await until_claimed(env, None)

    journey(story)


@pytest.mark.soak
def test_claim_of_node_upgrade_by_hand_goes_with_it() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0].name
        await env.client.create(NodeUpgrade.resource, node_upgrade(plane))
        await completed(env, f"hand-{plane}")
        await env.client.delete(NodeUpgrade.resource, f"hand-{plane}", SYSTEM_NAMESPACE)
        await until_claimed(env, None)

    journey(story)


@pytest.mark.soak
def test_a_pause_of_a_persons_own_stays() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0].name
        upgraders.hanging.add((plane, "kubeadm-upgrader"))
        await env.change(kubernetesVersion="1.36")
        await told(env, f"{plane}-node-upgrader", "UpgradingKubeadm")
        mine: Tree = {"metadata": {"annotations": {PAUSED_ANNOTATION: "mine"}}}
        await env.client.patch(
            KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE, patch=mine, type=PatchType.MERGE
        )
        upgraders.hanging.clear()
        await until_so(
            env,
            KubeadmControlPlane.resource,
            "garden",
            lambda kubeadm_control_plane: (
                not any("needed" in name for name in kubeadm_control_plane["metadata"]["annotations"])
            ),
        )
        control_plane = await env.client.get(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)
        assert control_plane.metadata.annotations[PAUSED_ANNOTATION] == "mine"

    journey(story)


@pytest.mark.soak
def test_a_lost_kubeconfig_says_how_to_have_it_back() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0].name
        upgraders.hanging.add((plane, "kubeadm-upgrader"))
        await env.change(kubernetesVersion="1.36")
        await told(env, f"{plane}-node-upgrader", "UpgradingKubeadm")
        secret = await env.client.get(SECRET, "garden-kubeconfig", SYSTEM_NAMESPACE)
        await env.client.delete(SECRET, "garden-kubeconfig", SYSTEM_NAMESPACE)
        sentence = await told(env, f"{plane}-node-upgrader", "KubeconfigMissing")
        assert "restore it with label cluster.x-k8s.io/cluster-name=garden." in sentence
        name = f"{plane}-node-upgrader"
        await env.client.delete(NodeUpgrade.resource, name, SYSTEM_NAMESPACE)
        await asyncio.sleep(60)
        node_upgrade = await env.client.get(NodeUpgrade.resource, name, SYSTEM_NAMESPACE)
        assert node_upgrade.metadata.finalizers, "its pod goes on, with rights on the node"
        metadata = {"name": secret.name, "namespace": SYSTEM_NAMESPACE, "labels": dict(secret.metadata.labels)}
        body: Tree = {name: secret.tree[name] for name in ("data", "type") if name in secret.tree}
        await env.client.create(SECRET, {**body, "metadata": metadata})
        upgraders.hanging.clear()
        assert f"delete Pod {SYSTEM_NAMESPACE}/{upgrader(plane)}" in await told(env, name, "UpgraderPodRunning")
        await reach(env).client.delete(POD, upgrader(plane), SYSTEM_NAMESPACE)
        await env.until_ready(seconds=7200)
        assert set(await env.versions()) == {NEW}

    journey(story)
