"""An upgrade in place is taken back before kubeadm ran on a control plane node: no node has to be changed back."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.upgrades import ControlPlaneUpgrade
from espalier.kube.client import PatchType
from espalier.kube.errors import Invalid
from tests.journeys.in_place import IN_PLACE, NEW, OLD, identities, journey, machines, marks, reach, ready, until_so
from tests.journeys.in_place_watch import say_ready
from tests.journeys.managed import ManagedEnvironment
from tests.support.upgraders import Upgraders

pytestmark = pytest.mark.embedded


async def is_told(env: ManagedEnvironment, text: str) -> None:
    await until_so(
        env,
        ControlPlaneUpgrade.resource,
        "garden-cp-upgrade",
        lambda one: text in ready(one)["message"],
        seconds=7200,
    )


async def goes_back(env: ManagedEnvironment, before: dict[str, str]) -> None:
    await env.change(kubernetesVersion="1.35")
    await env.until_ready(seconds=7200)
    assert await identities(env) == before
    assert set(await env.versions()) == {OLD}
    assert await marks(env) == []


def test_its_image_is_missing() -> None:
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


@pytest.mark.parametrize("step", ["components-copier", "cni-plugins-upgrader"])
def test_a_step_before_kubeadm_fails(step: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        plane = (await machines(env, control_plane=True))[0].name
        upgraders.failing[plane, step] = "the disk is full"
        await env.change(kubernetesVersion="1.36")
        await is_told(env, "the disk is full")
        await goes_back(env, before)

    journey(story)


@pytest.mark.parametrize("kubernetes", ["1.35", "1.36"])
def test_what_kubeadm_config_had_is_there_again_for_machines_that_join(kubernetes: str) -> None:
    async def configuration(env: ManagedEnvironment) -> Any:
        found = await reach(env).client.get(CONFIG_MAP, "kubeadm-config", "kube-system")
        return yaml.safe_load(found.tree["data"]["ClusterConfiguration"])

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await configuration(env)
        plane = (await machines(env, control_plane=True))[0].name
        upgraders.failing[plane, "cni-plugins-upgrader"] = "the disk is full"
        how = {"count": 1, "upgradeRolloutStrategy": IN_PLACE}
        louder = how | {"apiServerExtraArgs": {"v": "5"}}
        await env.change(kubernetesVersion=kubernetes, controlPlaneConfiguration=louder)
        await is_told(env, "the disk is full")
        assert {"name": "v", "value": "5"} in (await configuration(env))["apiServer"]["extraArgs"]
        await env.change(kubernetesVersion="1.35", controlPlaneConfiguration=how | {"apiServerExtraArgs": None})
        await env.until_ready(seconds=7200)
        assert await marks(env) == []
        assert await configuration(env) == before

    journey(story)


@pytest.mark.parametrize("step", ["drainer", "kubelet-kubectl-upgrader", "done"])
def test_flags_and_files_that_kubeadm_brought_are_taken_from_the_node_again(step: str) -> None:
    async def configuration(env: ManagedEnvironment) -> Any:
        found = await reach(env).client.get(CONFIG_MAP, "kubeadm-config", "kube-system")
        return yaml.safe_load(found.tree["data"]["ClusterConfiguration"])

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before, was = await configuration(env), await identities(env)
        plane = (await machines(env, control_plane=True))[0].name
        upgraders.failing[plane, step] = "it stands still"
        how = {"count": 1, "upgradeRolloutStrategy": IN_PLACE}
        policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: None\n"
        louder = how | {"apiServerExtraArgs": {"v": "5"}, "kubeletConfiguration": {"maxPods": 50}}
        await env.change(controlPlaneConfiguration=louder | {"auditPolicyContent": policy})
        await is_told(env, "it stands still")
        brought = upgraders.changes[plane]
        upgraders.failing.clear()
        none = {"apiServerExtraArgs": None, "kubeletConfiguration": None, "auditPolicyContent": None}
        await env.change(controlPlaneConfiguration=how | none)
        await env.until_ready(seconds=7200)
        assert await marks(env) == []
        assert await configuration(env) == before
        assert await identities(env) == was
        back = upgraders.changes[plane]
        paths = {one["path"] for one in back.get("files", ())} | set(back.get("removedFiles", ()))
        assert paths == {one["path"] for one in brought["files"]}

    journey(story)


def test_once_kubeadm_ran_there_is_no_way_back() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0].name
        upgraders.failing[plane, "kubeadm-upgrader"] = "etcd is not well"
        await env.change(kubernetesVersion="1.36")
        await is_told(env, "etcd is not well")
        with pytest.raises(Invalid, match="taken back"):
            await env.change(kubernetesVersion="1.35")

    journey(story)


def test_it_is_taken_back_at_the_moment_at_which_a_node_begins() -> None:
    """The node goes on, and what is asked for is older than what it has. Asked for again, the upgrade ends."""

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        planes = [one.name for one in await machines(env, control_plane=True)]
        await say_ready(env, reach(env), planes[2], "Unknown")
        await env.change(kubernetesVersion="1.36")
        await is_told(env, f"{planes[2]} is not ready")
        await say_ready(env, reach(env), planes[2], "True")
        await env.change(kubernetesVersion="1.35")  # the first NodeUpgrade is being made
        await is_told(env, f"kubeadm does not downgrade; ask for {NEW} again, or for a later one")
        await env.change(kubernetesVersion="1.36")
        await env.until_ready(seconds=7200)
        assert await identities(env) == before
        assert set(await env.versions()) == {NEW}
        assert await marks(env) == []

    journey(story, control_planes=3, workers=1)


def test_a_node_was_ill_before() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        planes = [one.name for one in await machines(env, control_plane=True)]
        await say_ready(env, reach(env), planes[2], "Unknown")
        await env.change(kubernetesVersion="1.36")
        await is_told(env, f"{planes[2]} is not ready")
        await env.change(kubernetesVersion="1.35")
        await env.until(lambda cluster: not any("in place" in one.message for one in cluster.status.conditions))
        await say_ready(env, reach(env), planes[2], "True")
        await goes_back(env, before)
        assert upgraders.ran == []

    journey(story, control_planes=3, workers=1)
