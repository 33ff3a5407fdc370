"""Every step of versions that the releases have is made in place; and what is no such step is refused."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
import pytest

from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.distro import DistroRelease
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.eksa.release import Bundles, EKSARelease
from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.meta import Tree
from espalier.kube.errors import ApiError
from espalier.releases import Releases, release_name
from espalier.runtime.virtual import Simulation, run
from tests.journeys.in_place import EPOCH, IN_PLACE, identities, marks, spec
from tests.journeys.managed import ManagedLaptop, managed_laptop
from tests.support.upgraders import Upgraders

pytestmark = pytest.mark.embedded

RELEASES = Releases.load()
NEWEST = RELEASES.newest()
OWN = "v0.26.1"
"""A release of one's own, with the next patch of every Kubernetes version."""


def channels(eksa_version: str) -> list[str]:
    """Minors of Kubernetes that a release has, oldest first."""
    return sorted(bundle.kube_version for bundle in RELEASES.release(eksa_version).bundles.spec.versions_bundles)


def version(eksa_version: str, channel: str) -> str:
    """What machines of a release have: v1.35.4-eks-1-35-1."""
    bundles = RELEASES.release(eksa_version).bundles.spec.versions_bundles
    return next(RELEASES.distro(bundle).version for bundle in bundles if bundle.kube_version == channel)


MINORS = [
    (release, before, after)
    for release in RELEASES.versions
    for before, after in zip(channels(release), channels(release)[1:], strict=False)
]


def journey(story: Callable[[ManagedLaptop, Upgraders], Awaitable[None]], **asked: object) -> None:
    """A cluster of one control plane node and one worker, asked for with these fields."""

    async def main(simulation: Simulation) -> None:
        async with managed_laptop(simulation.clock) as world:
            await world.apply(**(spec(1, 1) | asked))
            await world.until_ready()
            await story(world, Upgraders(world.workloads))

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize(("release", "before", "after"), MINORS)
def test_each_minor_becomes_the_next_in_place(release: str, before: str, after: str) -> None:
    async def story(world: ManagedLaptop, upgraders: Upgraders) -> None:
        assert await world.versions() == [version(release, before)] * 2
        found = await identities(world)
        await world.change(kubernetesVersion=after)
        await world.until_ready()
        assert await world.versions() == [version(release, after)] * 2
        assert await identities(world) == found
        assert await marks(world) == []

    journey(story, eksaVersion=release, kubernetesVersion=before)


@pytest.mark.parametrize("channel", channels(str(NEWEST.version)))
def test_each_patch_becomes_the_next_in_place(channel: str) -> None:
    async def story(world: ManagedLaptop, upgraders: Upgraders) -> None:
        present = version(str(NEWEST.version), channel)
        found = await identities(world)
        wanted = await bring_patch(world, channel)
        await world.change(eksaVersion=OWN)
        await world.until_ready()
        assert await world.versions() == [wanted] * 2
        assert wanted != present
        assert await identities(world) == found
        images = (await world.client.get(CONFIG_MAP, "in-place-upgrade", SYSTEM_NAMESPACE)).tree["data"]
        assert {present, wanted} <= images.keys()

    journey(story, kubernetesVersion=channel)


async def bring_patch(world: ManagedLaptop, channel: str) -> str:
    """Create a release whose EKS Distro is one number further; returns the version that machines get by it."""
    bundle = next(one for one in NEWEST.bundles.spec.versions_bundles if one.kube_version == channel)
    dashed = channel.replace(".", "-")
    present = bundle.eks_d.kube_version
    numbers, _, patch = present.rpartition(".")
    following = f"{numbers}.{int(patch) + 1}"

    def renewed(tree: Tree) -> Tree:
        text = msgspec.json.encode(tree).decode().replace(present, following)
        for old, new in ((f"eks-{dashed}-1", f"eks-{dashed}-2"), (f"{dashed}-eks-1", f"{dashed}-eks-2")):
            text = text.replace(old, new)
        text = text.replace(f"upgrader:v{dashed}-1", f"upgrader:v{dashed}-2")
        made: Tree = msgspec.json.decode(text)
        return made

    distro = await world.client.get(DistroRelease.resource, bundle.eks_d.name, SYSTEM_NAMESPACE)
    made = renewed({key: value for key, value in distro.tree.items() if key != "metadata"})
    name = renewed({"name": bundle.eks_d.name})["name"]
    await world.client.create(
        DistroRelease.resource, made | {"metadata": {"name": name, "namespace": SYSTEM_NAMESPACE}}
    )
    bundles = renewed(msgspec.to_builtins(NEWEST.bundles))
    bundles["metadata"] = {"name": "bundles-own", "namespace": SYSTEM_NAMESPACE}
    bundles["spec"]["number"] += 1
    await world.client.create(Bundles.resource, bundles)
    release = msgspec.to_builtins(NEWEST.eksa_release)
    release["metadata"] = {"name": release_name(OWN)}
    release["spec"]["version"] = OWN
    release["spec"]["bundlesRef"]["name"] = "bundles-own"
    await world.client.create(EKSARelease.resource, release)
    return f"{following}-eks-{dashed}-2"


def test_a_release_alone_touches_no_node_and_a_release_with_a_version_upgrades_them() -> None:
    async def story(world: ManagedLaptop, upgraders: Upgraders) -> None:
        found = await identities(world)
        await world.change(eksaVersion="v0.25.1")
        await world.until_ready()
        assert upgraders.ran == []
        assert await world.versions() == [version("v0.25.1", "1.35")] * 2
        await world.change(eksaVersion="v0.26.0", kubernetesVersion="1.36")
        await world.until_ready()
        assert await world.versions() == [version("v0.26.0", "1.36")] * 2
        assert await identities(world) == found
        assert await marks(world) == []

    journey(story, eksaVersion="v0.24.2")


@pytest.mark.parametrize(
    ("at_first", "then", "said"),
    [
        ("1.34", "1.36", "go to 1.35 first"),
        ("1.36", "1.35", "can't be downgraded"),
    ],
)
def test_other_steps_are_refused_before_anything_is_touched(at_first: str, then: str, said: str) -> None:
    async def story(world: ManagedLaptop, upgraders: Upgraders) -> None:
        with pytest.raises(ApiError, match=said) as refused:
            await world.change(kubernetesVersion=then)
        assert "spec.kubernetesVersion" in str(refused.value)
        assert upgraders.ran == []
        assert (await world.client.list(NodeUpgrade.resource, SYSTEM_NAMESPACE)).items == []

    journey(story, kubernetesVersion=at_first)


def test_etcd_on_machines_of_its_own_is_refused() -> None:
    async def story(world: ManagedLaptop, upgraders: Upgraders) -> None:
        with pytest.raises(ApiError) as refused:
            await world.apply(**spec(1, 1), name="orchard", externalEtcdConfiguration={"count": 3})
        assert "spec.controlPlaneConfiguration.upgradeRolloutStrategy.type" in str(refused.value)
        assert "etcd on machines of its own is not upgraded in place" in str(refused.value)

    journey(story)


def test_groups_may_be_upgraded_in_other_ways_than_the_control_plane() -> None:
    async def story(world: ManagedLaptop, upgraders: Upgraders) -> None:
        before = await identities(world)
        await world.change(kubernetesVersion="1.36")
        await world.until_ready()
        after = await identities(world)
        kept = {name for name in before if after.get(name) == before[name]}
        assert kept == {name for name in before if "md-rolled" not in name}
        assert {node.rpartition("-")[0].rpartition("-")[0] for node, _ in upgraders.ran} >= {"garden-md-0"}
        assert await marks(world) == []

    groups = [
        {"name": "md-0", "count": 1, "upgradeRolloutStrategy": IN_PLACE},
        {"name": "md-rolled", "count": 1},
    ]
    journey(story, workerNodeGroupConfigurations=groups)
