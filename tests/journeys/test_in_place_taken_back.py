"""An upgrade in place is taken back before kubeadm ran on a control plane node: no node has to be changed back."""

from __future__ import annotations

import pytest

from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.upgrades import ControlPlaneUpgrade
from espalier.kube.client import PatchType
from espalier.kube.errors import Invalid
from tests.journeys.in_place import NEW, OLD, identities, journey, machines, marks, reach, ready, until_so
from tests.journeys.in_place_watch import say_ready
from tests.journeys.managed import ManagedLaptop
from tests.support.upgraders import Upgraders

pytestmark = pytest.mark.embedded


async def is_told(world: ManagedLaptop, text: str) -> None:
    await until_so(
        world,
        ControlPlaneUpgrade.resource,
        "garden-cp-upgrade",
        lambda one: text in ready(one)["message"],
        seconds=7200,
    )


async def goes_back(world: ManagedLaptop, before: dict[str, str]) -> None:
    await world.change(kubernetesVersion="1.35")
    await world.until_ready(seconds=7200)
    assert await identities(world) == before
    assert set(await world.versions()) == {OLD}
    assert await marks(world) == []


def test_its_image_is_missing() -> None:
    async def story(world: ManagedLaptop, upgraders: Upgraders) -> None:
        before = await identities(world)
        none = {"data": {NEW: None}}
        name = "in-place-upgrade"
        await world.client.patch(CONFIG_MAP, name, SYSTEM_NAMESPACE, patch=none, type=PatchType.MERGE)
        bundles = {"data": {NEW: ""}}
        await world.client.patch(CONFIG_MAP, name, SYSTEM_NAMESPACE, patch=bundles, type=PatchType.MERGE)
        await world.change(kubernetesVersion="1.36")
        await is_told(world, "has no upgrader image for")
        assert upgraders.ran == []
        await goes_back(world, before)

    journey(story)


@pytest.mark.parametrize("step", ["components-copier", "cni-plugins-upgrader"])
def test_a_step_before_kubeadm_fails(step: str) -> None:
    async def story(world: ManagedLaptop, upgraders: Upgraders) -> None:
        before = await identities(world)
        plane = (await machines(world, control_plane=True))[0].name
        upgraders.failing[plane, step] = "the disk is full"
        await world.change(kubernetesVersion="1.36")
        await is_told(world, "the disk is full")
        await goes_back(world, before)

    journey(story)


def test_once_kubeadm_ran_there_is_no_way_back() -> None:
    async def story(world: ManagedLaptop, upgraders: Upgraders) -> None:
        plane = (await machines(world, control_plane=True))[0].name
        upgraders.failing[plane, "kubeadm-upgrader"] = "etcd is not well"
        await world.change(kubernetesVersion="1.36")
        await is_told(world, "etcd is not well")
        with pytest.raises(Invalid, match="taken back"):
            await world.change(kubernetesVersion="1.35")

    journey(story)


def test_it_is_taken_back_at_the_moment_at_which_a_node_begins() -> None:
    """The node goes on, and what is asked for is older than what it has. Asked for again, the upgrade ends."""

    async def story(world: ManagedLaptop, upgraders: Upgraders) -> None:
        before = await identities(world)
        planes = [one.name for one in await machines(world, control_plane=True)]
        await say_ready(world, reach(world), planes[2], "Unknown")
        await world.change(kubernetesVersion="1.36")
        await is_told(world, f"{planes[2]} is not ready")
        await say_ready(world, reach(world), planes[2], "True")
        await world.change(kubernetesVersion="1.35")  # the first NodeUpgrade is being made
        await is_told(world, f"kubeadm does not downgrade; ask for {NEW} again, or for a later one")
        await world.change(kubernetesVersion="1.36")
        await world.until_ready(seconds=7200)
        assert await identities(world) == before
        assert set(await world.versions()) == {NEW}
        assert await marks(world) == []

    journey(story, control_planes=3, workers=1)


def test_a_node_was_ill_before() -> None:
    async def story(world: ManagedLaptop, upgraders: Upgraders) -> None:
        before = await identities(world)
        planes = [one.name for one in await machines(world, control_plane=True)]
        await say_ready(world, reach(world), planes[2], "Unknown")
        await world.change(kubernetesVersion="1.36")
        await is_told(world, f"{planes[2]} is not ready")
        await world.change(kubernetesVersion="1.35")
        await world.until(lambda cluster: not any("in place" in one.message for one in cluster.status.conditions))
        await say_ready(world, reach(world), planes[2], "True")
        await goes_back(world, before)
        assert upgraders.ran == []

    journey(story, control_planes=3, workers=1)
