"""An upgrade in place is reverted, before and after kubeadm ran on a node."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.core import CONFIG_MAP, CORE_EVENT
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import NODE_IN_WORK
from espalier.api.meta import Tree
from espalier.kube.client import PatchType
from espalier.kube.errors import Forbidden
from espalier.upgrades.names import node_upgrade
from tests.support.environments.in_place_environment import (
    IN_PLACE,
    NEW,
    OLD,
    identities,
    journey,
    machines,
    marks,
    past_admission,
    reach,
    ready,
    until_so,
)
from tests.support.environments.in_place_watcher import say_ready
from tests.support.environments.managed_environment import ManagedEnvironment
from tests.support.environments.upgraders import Upgraders
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded


async def is_told(env: ManagedEnvironment, text: str) -> None:
    await until_so(
        env,
        ControlPlaneUpgrade.resource,
        "garden-cp-upgrade",
        lambda control_plane_upgrade: text in ready(control_plane_upgrade)["message"],
        seconds=7200,
    )


async def goes_back(env: ManagedEnvironment, before: dict[str, str]) -> None:
    await env.change(kubernetesVersion="1.35")
    await env.until_ready(seconds=7200)
    assert await identities(env) == before
    assert set(await env.versions()) == {OLD}
    assert await marks(env) == []


def test_upgrade_without_upgrader_image_is_reverted() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        none = {"data": {NEW: None}}
        name = "in-place-upgrade"
        await env.client.patch(CONFIG_MAP, name, SYSTEM_NAMESPACE, patch=none, type=PatchType.MERGE)
        bundles = {"data": {NEW: ""}}
        await env.client.patch(CONFIG_MAP, name, SYSTEM_NAMESPACE, patch=bundles, type=PatchType.MERGE)
        await env.change(kubernetesVersion="1.36")
        await is_told(env, "has no upgrader image for")
        assert upgraders.ran == []
        await goes_back(env, before)

    journey(story)


@pytest.mark.parametrize("step", sampled(["components-copier", "cni-plugins-upgrader"], 0))
def test_upgrade_failed_before_kubeadm_is_reverted(step: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        plane = (await machines(env, control_plane=True))[0].name
        upgraders.failing[plane, step] = "the disk is full"
        await env.change(kubernetesVersion="1.36")
        await is_told(env, "the disk is full")
        await goes_back(env, before)

    journey(story)


@pytest.mark.soak
@pytest.mark.parametrize(("kubernetes", "claim"), sampled([("1.35", ""), ("1.36", ""), ("1.35", "somebody 1")], 0, 2))
def test_joining_machines_get_the_earlier_config(kubernetes: str, claim: str) -> None:
    """Whatever somebody writes into the claim."""

    async def configuration(env: ManagedEnvironment) -> Any:
        config_map = await reach(env).client.get(CONFIG_MAP, "kubeadm-config", "kube-system")
        return yaml.safe_load(config_map.tree["data"]["ClusterConfiguration"])

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await configuration(env)
        plane = (await machines(env, control_plane=True))[0].name
        upgraders.failing[plane, "cni-plugins-upgrader"] = "the disk is full"
        how = {"count": 1, "upgradeRolloutStrategy": IN_PLACE}
        louder = how | {"apiServerExtraArgs": {"v": "5"}}
        await env.change(kubernetesVersion=kubernetes, controlPlaneConfiguration=louder)
        await is_told(env, "the disk is full")
        assert {"name": "v", "value": "5"} in (await configuration(env))["apiServer"]["extraArgs"]
        if claim:
            patch = {"metadata": {"annotations": {NODE_IN_WORK: claim}}}
            await env.client.patch(
                KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE
            )
        await env.change(kubernetesVersion="1.35", controlPlaneConfiguration=how | {"apiServerExtraArgs": None})
        await env.until_ready(seconds=7200)
        assert await marks(env) == []
        assert await configuration(env) == before

    journey(story)


POLICY = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: None\n"
ASKED = {"apiServerExtraArgs": {"v": "5"}, "kubeletConfiguration": {"maxPods": 50}, "auditPolicyContent": POLICY}
"""A change of flags, and of files that static pods and the kubelet read."""


async def breaks_off(env: ManagedEnvironment, upgraders: Upgraders, step: str, asked: Tree) -> tuple[str, Tree]:
    """The node whose upgrade has come to a step that failed, and what it was brought; the next one does not fail."""
    plane = (await machines(env, control_plane=True))[0].name
    upgraders.failing[plane, step] = "it stands still"
    await env.change(controlPlaneConfiguration={"count": 1, "upgradeRolloutStrategy": IN_PLACE, **asked})
    await is_told(env, "it stands still")
    upgraders.failing.clear()
    return plane, upgraders.changes.pop(plane)


def paths(changes: Tree) -> set[str]:
    return {file["path"] for file in changes.get("files", ())} | set(changes.get("removedFiles", ()))


@pytest.mark.soak
@pytest.mark.parametrize("is_deleted", sampled([False, True], 1))
@pytest.mark.parametrize("step", sampled(["drainer", "kubelet-kubectl-upgrader", "done"], 2))
def test_reverted_flags_and_files_leave_the_node(step: str, *, is_deleted: bool) -> None:
    """Also when its NodeUpgrade is deleted by hand just before."""

    async def configuration(env: ManagedEnvironment) -> Any:
        config_map = await reach(env).client.get(CONFIG_MAP, "kubeadm-config", "kube-system")
        return yaml.safe_load(config_map.tree["data"]["ClusterConfiguration"])

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before, was = await configuration(env), await identities(env)
        plane, brought = await breaks_off(env, upgraders, step, ASKED)
        if is_deleted:
            await env.client.delete(NodeUpgrade.resource, node_upgrade(plane), SYSTEM_NAMESPACE)
        how = {"count": 1, "upgradeRolloutStrategy": IN_PLACE}
        await env.change(controlPlaneConfiguration=how | dict.fromkeys(ASKED))
        await env.until_ready(seconds=7200)
        assert await marks(env) == []
        assert await configuration(env) == before
        assert await identities(env) == was
        assert "--v=5" not in upgraders.static_pods[plane]["kube-apiserver"].flags
        assert paths(upgraders.changes[plane]) == paths(brought)
        events = [item.tree for item in (await env.client.list(CORE_EVENT, SYSTEM_NAMESPACE)).items]
        (message,) = [event["message"] for event in events if event["reason"] == "UpgradeBrokenOff"]
        assert message.endswith("delete the Machine to have it replaced")

    journey(story)


@pytest.mark.parametrize("kind", sampled([ControlPlaneUpgrade, NodeUpgrade], 0))
def test_aborted_upgrade_repeats_when_deleted(
    kind: type[ControlPlaneUpgrade | NodeUpgrade],
) -> None:
    """The file is there, but the kubelet has not read it."""
    asked: Tree = {"kubeletConfiguration": {"maxPods": 50}}

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane, brought = await breaks_off(env, upgraders, "kubelet-kubectl-upgrader", asked)
        begun = len(upgraders.ran)
        name = node_upgrade(plane) if kind is NodeUpgrade else "garden-cp-upgrade"
        await env.client.delete(kind.resource, name, SYSTEM_NAMESPACE)
        await env.until_ready(seconds=7200)
        assert (plane, "kubelet-kubectl-upgrader") in upgraders.ran[begun:]
        assert upgraders.changes[plane] == brought
        assert await marks(env) == []

    journey(story)


@pytest.mark.soak
def test_aborted_upgrade_repeats_on_a_further_request() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        asked: Tree = {"kubeletConfiguration": {"maxPods": 50}}
        plane, brought = await breaks_off(env, upgraders, "kubelet-kubectl-upgrader", asked)
        more = {**asked, "apiServerExtraArgs": {"v": "5"}}
        await env.change(controlPlaneConfiguration={"count": 1, "upgradeRolloutStrategy": IN_PLACE, **more})
        await env.until_ready(seconds=7200)
        assert paths(brought) <= paths(upgraders.changes[plane])
        assert "--v=5" in upgraders.static_pods[plane]["kube-apiserver"].flags

    journey(story)


def test_partly_installed_version_is_requested_again() -> None:
    """Its NodeUpgrade was deleted by hand, so that nobody refused to take the change back."""

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        plane = (await machines(env, control_plane=True))[0].name
        upgraders.failing[plane, "drainer"] = "it stands still"
        await env.change(kubernetesVersion="1.36")
        await is_told(env, "it stands still")
        async with past_admission(env.client):
            await env.change(kubernetesVersion="1.35")
        await env.client.delete(NodeUpgrade.resource, node_upgrade(plane), SYSTEM_NAMESPACE)
        upgraders.failing.clear()
        await is_told(env, f"kubeadm does not downgrade; set {NEW} again, or a later version")
        await env.change(kubernetesVersion="1.36")
        await env.until_ready(seconds=7200)
        assert await identities(env) == before
        assert set(await env.versions()) == {NEW}
        assert await marks(env) == []

    journey(story)


def test_upgrade_can_not_be_reverted_once_kubeadm_ran() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0].name
        upgraders.failing[plane, "kubeadm-upgrader"] = "etcd is not well"
        await env.change(kubernetesVersion="1.36")
        await is_told(env, "etcd is not well")
        with pytest.raises(Forbidden, match="reverted"):
            await env.change(kubernetesVersion="1.35")

    journey(story)


@pytest.mark.soak
def test_upgrade_is_reverted_while_first_node_starts() -> None:
    """The node goes on, and what is asked for is older than what it has. Asked for again, the upgrade ends."""

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        planes = [machine.name for machine in await machines(env, control_plane=True)]
        await say_ready(env, reach(env), planes[2], "Unknown")
        await env.change(kubernetesVersion="1.36")
        await is_told(env, f"{planes[2]} is not ready")
        await say_ready(env, reach(env), planes[2], "True")
        await env.change(kubernetesVersion="1.35")  # the first NodeUpgrade is being made
        await is_told(env, f"kubeadm does not downgrade; set {NEW} again, or a later version")
        await env.change(kubernetesVersion="1.36")
        await env.until_ready(seconds=7200)
        assert await identities(env) == before
        assert set(await env.versions()) == {NEW}
        assert await marks(env) == []

    journey(story, control_planes=3, workers=1)


@pytest.mark.soak
def test_upgrade_waiting_for_a_node_is_reverted() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        planes = [machine.name for machine in await machines(env, control_plane=True)]
        await say_ready(env, reach(env), planes[2], "Unknown")
        await env.change(kubernetesVersion="1.36")
        await is_told(env, f"{planes[2]} is not ready")
        await env.change(kubernetesVersion="1.35")
        await env.until(
            lambda cluster: not any("in place" in condition.message for condition in cluster.status.conditions)
        )
        await say_ready(env, reach(env), planes[2], "True")
        await goes_back(env, before)
        assert upgraders.ran == []

    journey(story, control_planes=3, workers=1)
