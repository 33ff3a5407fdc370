"""Every step of versions that the releases have is made in place; and what is no such step is refused."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

import espalier.releases
from espalier.api.core import CONFIG_MAP
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.kube.client import PatchType
from espalier.kube.errors import ApiError
from espalier.releases import Releases
from espalier.releases.adding import add
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.in_place_environment import (
    EPOCH,
    IN_PLACE,
    condition_of,
    identities,
    machines,
    marks,
    past_admission,
    ready,
    spec,
    until_so,
)
from tests.support.environments.managed_environment import ManagedEnvironment, managed_environment
from tests.support.environments.upgraders import Upgraders
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

RELEASES = Releases.load()
NEWEST = RELEASES.newest()
OWN = "v0.26.1"
DATA = Path(espalier.releases.__file__).parent / "data"


def channels(eksa_version: str) -> list[str]:
    """Minors of Kubernetes that a release has, oldest first."""
    return sorted(bundle.kube_version for bundle in RELEASES.release(eksa_version).bundles.spec.versions_bundles)


def version(eksa_version: str, channel: str) -> str:
    """The version of a release's machines: v1.35.4-eks-1-35-1."""
    bundles = RELEASES.release(eksa_version).bundles.spec.versions_bundles
    return next(RELEASES.distro(bundle).version for bundle in bundles if bundle.kube_version == channel)


MINORS = [
    (release, before, after)
    for release in RELEASES.versions
    for before, after in zip(channels(release), channels(release)[1:], strict=False)
]


def journey(
    story: Callable[[ManagedEnvironment, Upgraders], Awaitable[None]], releases: Releases = RELEASES, **asked: object
) -> None:
    """A cluster of one control plane node and one worker, asked for with these fields."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, releases=releases) as env:
            await env.apply(**(spec(1, 1) | asked))
            await env.until_ready()
            await story(env, Upgraders(env.workloads))

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.demand("U6", "U70")
@pytest.mark.parametrize(("release", "before", "after"), sampled(MINORS, len(MINORS) - 1))
def test_each_minor_becomes_the_next_in_place(release: str, before: str, after: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        assert await env.versions() == [version(release, before)] * 2
        results = await identities(env)
        await env.change(kubernetesVersion=after)
        await env.until_ready()
        assert await env.versions() == [version(release, after)] * 2
        assert await identities(env) == results
        assert await marks(env) == []

    journey(story, eksaVersion=release, kubernetesVersion=before)


@pytest.mark.soak
def test_next_upgrade_waits_for_garbage_collection() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane = (await machines(env, control_plane=True))[0].name
        name, resource = f"{plane}-node-upgrader", NodeUpgrade.resource
        await env.change(kubernetesVersion="1.35")
        result = await until_so(env, resource, name, lambda item: ready(item)["reason"] == "UpgradingKubeadm")
        slow: Tree = {"metadata": {"finalizers": [*result["metadata"]["finalizers"], "example.org/slow"]}}
        await env.client.patch(resource, name, SYSTEM_NAMESPACE, patch=slow, type=PatchType.MERGE)
        await env.until_ready()
        left = await env.client.get(resource, name, SYSTEM_NAMESPACE)
        assert left.metadata.deletion_timestamp is not None, "nothing waits for it"
        assert left.metadata.finalizers == ["example.org/slow"]

        await env.change(kubernetesVersion="1.36")
        group = ControlPlaneUpgrade.resource
        told = await until_so(env, group, "garden-cp-upgrade", lambda item: ready(item)["reason"] == "NodeUpgradeTaken")
        assert name in ready(told)["message"]
        gone: Tree = {"metadata": {"finalizers": None}}
        await env.client.patch(resource, name, SYSTEM_NAMESPACE, patch=gone, type=PatchType.MERGE)
        await env.until_ready()
        assert await env.versions() == [version(NEWEST.version, "1.36")] * 2

    journey(story, kubernetesVersion="1.34")


@pytest.mark.demand("U69")
@pytest.mark.parametrize("channel", sampled(channels(NEWEST.version), 0))
def test_each_patch_becomes_the_next_in_place(channel: str, tmp_path: Path) -> None:
    releases, wanted = with_next_patch(channel, tmp_path)

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        present = version(NEWEST.version, channel)
        results = await identities(env)
        await env.change(eksaVersion=OWN)
        await env.until_ready()
        assert await env.versions() == [wanted] * 2
        assert await identities(env) == results
        assert await marks(env) == []
        images = (await env.client.get(CONFIG_MAP, "in-place-upgrade", SYSTEM_NAMESPACE)).tree["data"]
        assert {present, wanted} <= images.keys()

    journey(story, releases, eksaVersion=NEWEST.version, kubernetesVersion=channel)


def with_next_patch(channel: str, folder: Path) -> tuple[Releases, str]:
    """Releases with one more, whose EKS Distro of a minor is one number further; and the version machines get by it."""
    data = Path(shutil.copytree(DATA, folder / "data"))
    dashed = channel.replace(".", "-")
    present = version(NEWEST.version, channel)
    numbers = present.partition("-")[0]
    following = f"{numbers.rpartition('.')[0]}.{int(numbers.rpartition('.')[2]) + 1}"
    renewals = {
        numbers: following,
        f"eks-{dashed}-1": f"eks-{dashed}-2",
        f"{dashed}-eks-1": f"{dashed}-eks-2",
        f"v{dashed}-1-eks-a": f"v{dashed}-2-eks-a",
        "name: bundles-1": "name: bundles-4",
    }

    def renewed(text: str) -> str:
        for old, new in renewals.items():
            text = text.replace(old, new)
        return text

    distro = data / "eks-distro" / f"kubernetes-{dashed}-eks-1.yaml"
    distro.with_name(renewed(distro.name)).write_text(
        renewed(distro.read_text()).replace("  number: 1\n", "  number: 2\n")
    )
    (data / "bundles-4.yaml").write_text(renewed((data / "bundles-1.yaml").read_text()))
    add(data, OWN, date=EPOCH, commit="c0ffee", bundles="bundles-4.yaml")
    return Releases.load(data), f"{following}-eks-{dashed}-2"


@pytest.mark.demand("U6")
def test_release_without_machine_changes_touches_none() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        results = await identities(env)
        await env.change(eksaVersion="v0.25.1")
        await env.until_ready()
        assert upgraders.ran == []
        assert await identities(env) == results
        assert await env.versions() == [version("v0.25.1", "1.35")] * 2

    journey(story, eksaVersion="v0.25.0")


@pytest.mark.demand("U6")
@pytest.mark.soak
def test_release_and_version_are_changed_in_one_write(tmp_path: Path) -> None:
    releases, _ = with_next_patch("1.34", tmp_path)

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        results = await identities(env)
        await env.change(eksaVersion=OWN, kubernetesVersion="1.36")
        await env.until_ready()
        assert await env.versions() == [version(NEWEST.version, "1.36")] * 2
        assert await identities(env) == results
        assert await marks(env) == []

    journey(story, releases, eksaVersion=NEWEST.version)


@pytest.mark.demand(U6="one that changes more is refused by name, and can be taken back")
@pytest.mark.soak
def test_release_beyond_in_place_is_refused_by_field() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        more = {"certSans": ["garden.example"]}
        with pytest.raises(ApiError, match=r"bootstrap\.clusterConfiguration\.apiServer\.certSANs") as refused:
            await env.change(eksaVersion="v0.26.0", kubernetesVersion="1.36", controlPlaneConfiguration=more)
        assert "spec.eksaVersion, spec.kubernetesVersion" in str(refused.value)
        assert "extraArgs" not in str(refused.value), "flags are applied"
        assert upgraders.ran == []
        assert await env.versions() == [version("v0.25.1", "1.35")] * 2

    journey(story, eksaVersion="v0.25.1")


@pytest.mark.demand(U6="one that changes more is refused by name, and can be taken back")
@pytest.mark.soak
@pytest.mark.parametrize("is_exact", [True, False])
def test_unused_release_can_be_reverted(is_exact: bool) -> None:
    """Taking it back works if the rest is as it was before, and also if something else is requested as well."""

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        results = await identities(env)
        async with past_admission(env.client):
            await env.change(eksaVersion="v0.26.0", controlPlaneConfiguration={"certSans": ["garden.example"]})
        await env.until(lambda item: condition_of(item, "Ready").reason == "InPlaceUpgradeRefused")
        await asyncio.sleep(600)
        group = {"name": "md-0", "count": 1 if is_exact else 2, "upgradeRolloutStrategy": IN_PLACE}
        back: Tree = {"eksaVersion": "v0.25.1", "controlPlaneConfiguration": {"certSans": None}}
        await env.change(**back, workerNodeGroupConfigurations=[group])
        await env.until_ready()
        assert upgraders.ran == []
        assert results.items() <= (await identities(env)).items()

    journey(story, eksaVersion="v0.25.1")


@pytest.mark.soak
def test_used_release_can_not_be_reverted() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        await env.change(eksaVersion="v0.26.0")
        await asyncio.sleep(5)
        with pytest.raises(ApiError, match=r"can't be downgraded from v0\.26\.0"):
            await env.change(eksaVersion="v0.25.1")

    rolling = {"upgradeRolloutStrategy": {"type": "InPlace", "fallback": "RollingUpdate"}}
    journey(
        story,
        eksaVersion="v0.25.1",
        controlPlaneConfiguration={"count": 1} | rolling,
        workerNodeGroupConfigurations=[{"name": "md-0", "count": 1} | rolling],
    )


@pytest.mark.soak
@pytest.mark.parametrize(
    ("at_first", "then", "message"),
    [
        ("1.34", "1.36", "upgrade to the versions in between first"),
        ("1.36", "1.35", "can't be downgraded"),
    ],
)
def test_other_version_steps_are_refused_untouched(at_first: str, then: str, message: str) -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        with pytest.raises(ApiError, match=message) as refused:
            await env.change(kubernetesVersion=then)
        assert "spec.kubernetesVersion" in str(refused.value)
        assert upgraders.ran == []
        assert (await env.client.list(NodeUpgrade.resource, SYSTEM_NAMESPACE)).items == []

    journey(story, kubernetesVersion=at_first)


@pytest.mark.demand("U7")
def test_etcd_on_machines_of_its_own_is_refused() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        with pytest.raises(ApiError) as refused:
            await env.apply(**spec(1, 1), name="orchard", externalEtcdConfiguration={"count": 3})
        assert "spec.controlPlaneConfiguration.upgradeRolloutStrategy.type" in str(refused.value)
        assert "clusters with external etcd are not upgraded in place" in str(refused.value)

    journey(story)


@pytest.mark.demand("U53")
@pytest.mark.soak
def test_groups_may_differ_from_the_control_plane() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await identities(env)
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        after = await identities(env)
        unchanged = {name for name in before if after.get(name) == before[name]}
        assert unchanged == {name for name in before if "md-rolled" not in name}
        assert {node.rpartition("-")[0].rpartition("-")[0] for node, _ in upgraders.ran} >= {"garden-md-0"}
        assert await marks(env) == []

    groups = [
        {"name": "md-0", "count": 1, "upgradeRolloutStrategy": IN_PLACE},
        {"name": "md-rolled", "count": 1},
    ]
    journey(story, workerNodeGroupConfigurations=groups)
