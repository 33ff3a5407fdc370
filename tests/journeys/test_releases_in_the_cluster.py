"""Releases are stored in the management cluster: neither another manager nor an edit changes an existing cluster."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

import espalier.releases
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.core import CUSTOM_RESOURCE_DEFINITION, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.distro import DistroRelease
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.vocabulary import metadata_keys, sentences
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition, Tree
from espalier.api.resource import Key
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.clusters.plans.planning import PlanRequest
from espalier.cli.programs.installation import PATIENCE, InstallReleases
from espalier.clusters import Isolation, rbac
from espalier.clusters.design import names
from espalier.clusters.preview.previews import Preview
from espalier.kube.client import PatchType
from espalier.kube.errors import Forbidden, Invalid
from espalier.providers.registry import PROVIDERS
from espalier.releases import Releases, release_name
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.managed_environment import CALM, GARDEN, ManagedEnvironment, managed_environment
from tests.support.environments.managing import unasked
from tests.support.histories.isolation_stories import STATUS, machines
from tests.support.objects.release_fields import odd_bundles
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
DATA = Path(espalier.releases.__file__).parent / "data"
RELEASES = Releases.load()
DISTRO = "kubernetes-1-35-eks-2"
FILE = f"eks-distro/{DISTRO}.yaml"
DEBUG = "v0.26.0+debug.1"
RESYNC = 300.0
OTHER = Key(GARDEN.namespace, "other")


def folder(path: Path, *changes: tuple[str, str, str]) -> Path:
    """The releases of this build, with these texts in these files replaced."""
    made = Path(shutil.copytree(DATA, path))
    for file, old, new in changes:
        text = (made / file).read_text()
        assert old in text
        (made / file).write_text(text.replace(old, new))
    return made


def story(tell: Callable[[ManagedEnvironment], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, resync=RESYNC) as env:
            await tell(env)

    run(main, epoch=EPOCH, seed=1)


def condition_of(cluster: Cluster, type_: str) -> Condition:
    return next(condition for condition in cluster.status.conditions if condition.type == type_)


async def garden(env: ManagedEnvironment) -> Cluster:
    return (await env.client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)).decode(Cluster)


async def manager_upgrade(env: ManagedEnvironment, releases: Path | None) -> Preview:
    """The preview of `espalier plan --manager` for the garden."""
    (planned,) = await PlanRequest(PROVIDERS, [], "", Isolation.LAYERS, releases).of_manager(
        env.client, GARDEN.namespace
    )
    assert planned.later is not None
    return planned.later


async def etcd(env: ManagedEnvironment) -> str | None:
    kubeadm_control_plane = await env.client.get(KubeadmControlPlane.resource, GARDEN.name, SYSTEM_NAMESPACE)
    tag: str | None = kubeadm_control_plane.tree["spec"]["kubeadmConfigSpec"]["clusterConfiguration"]["etcd"]["local"][
        "imageTag"
    ]
    return tag


def debug_bundles(distro: str = DISTRO, **parts: Tree) -> Tree:
    """Bundles of one's own, with this EKS Distro Release and these components for Kubernetes 1.35."""
    bundles: Tree = msgspec.to_builtins(RELEASES.newest().bundles)
    bundles["metadata"] = {"name": "bundles-debug", "namespace": SYSTEM_NAMESPACE}
    for entry in bundles["spec"]["versionsBundles"]:
        if entry["kubeVersion"] == "1.35":
            entry["eksD"]["name"] = distro
            entry.update(parts)
    return bundles


async def bring(env: ManagedEnvironment, bundles: Tree, *more: Tree) -> None:
    """A release of one's own with these Bundles."""
    newest = RELEASES.newest()
    release = msgspec.to_builtins(newest.eksa_release)
    release["metadata"] = {"name": release_name(DEBUG)}
    release["spec"] |= {"version": DEBUG, "bundlesRef": release["spec"]["bundlesRef"] | {"name": "bundles-debug"}}
    for tree in more:
        await env.client.create(DistroRelease.resource, tree)
    await env.client.create(Bundles.resource, bundles)
    await env.client.create(EKSARelease.resource, release)
    await asyncio.sleep(1)


def distro(name: str, *, etcd: str) -> Tree:
    """That of Kubernetes 1.35, under another name and with another etcd."""
    first = next(object_ for object_ in RELEASES.objects() if object_.metadata.name == DISTRO)
    text = msgspec.json.encode(first).replace(b"v3.6.6-eks-1-35-1", etcd.encode())
    tree: Tree = msgspec.json.decode(text)
    tree["metadata"]["name"] = name
    return tree


@pytest.mark.demand(V22="nor do its Bundles and their EKS Distro")
@pytest.mark.soak
def test_files_of_equal_names_move_no_cluster(tmp_path: Path) -> None:
    other = folder(tmp_path / "other", (FILE, "etcd:v3.6.6-eks-1-35-1", "etcd:v3.6.7-eks-1-35-1"))
    store, stores = MemoryStore(), MemoryStores()

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, store=store, stores=stores, resync=RESYNC) as env:
            await env.apply()
            await env.until_ready()
            await asyncio.sleep(CALM)
            before = await machines(env.client)
        async with managed_environment(
            simulation.clock, store=store, stores=stores, resync=RESYNC, releases=Releases.load(other)
        ) as env:
            await InstallReleases(env.client, env.manager.caches, Releases.load(other)).run()
            await asyncio.sleep(3 * RESYNC)
            assert condition_of(await garden(env), names.SYNCED).status == "True"
            assert env.written().keys() <= {STATUS}
            assert (await manager_upgrade(env, other)).is_empty
            assert (await manager_upgrade(env, None)).is_empty
            await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
            await env.until_ready()
            await asyncio.sleep(CALM)
            after = await machines(env.client)
            assert before.keys() <= after.keys(), "nothing is replaced"
            assert len(after) == len(before) + 1
            assert await etcd(env) == "v3.6.6-eks-1-35-1"

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_manager_installs_what_only_an_earlier_had() -> None:
    store, stores = MemoryStore(), MemoryStores()

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, store=store, stores=stores, resync=RESYNC) as env:
            await env.apply()
            await env.until_ready()
            await asyncio.sleep(CALM)
            # As an earlier manager left it: its definitions have no such kind.
            async with unasked(env.client):
                await env.client.delete(CUSTOM_RESOURCE_DEFINITION, DistroRelease.resource.group_resource)
                await asyncio.sleep(1)
            preview = await manager_upgrade(env, None)
            assert (preview.is_empty, preview.drift, preview.stops) == (True, (), "")
            (planned,) = await PlanRequest(PROVIDERS, [], "v0.26.0", Isolation.LAYERS, None).of_release(
                env.client, GARDEN.namespace
            )
            assert planned.now.is_empty
        async with managed_environment(simulation.clock, store=store, stores=stores, resync=RESYNC) as env:
            await asyncio.sleep(3 * RESYNC)
            assert env.written().keys() <= {STATUS}
            assert len((await env.client.list(DistroRelease.resource, SYSTEM_NAMESPACE)).items) == 5

    run(main, epoch=EPOCH, seed=1)


def test_releases_are_known_before_controllers_begin() -> None:
    """A reconcile that doesn't find what its cluster is made of says so; of a steady cluster that would be a lie."""
    seen: list[int] = []

    async def tell(env: ManagedEnvironment) -> None:
        async with unasked(env.client):
            for release in (await env.client.list(DistroRelease.resource, SYSTEM_NAMESPACE)).items:
                await env.client.delete(DistroRelease.resource, release.name, SYSTEM_NAMESPACE)
        cache = env.manager.caches.of(DistroRelease.resource, SYSTEM_NAMESPACE)
        await asyncio.sleep(1)
        seen.append(len(cache))
        await InstallReleases(env.client, env.manager.caches, RELEASES).run()
        seen.append(len(cache))  # without a turn of the loop in which a watch could bring it

    story(tell)
    assert seen == [0, 5]


def test_releases_wait_for_callable_webhooks() -> None:
    resource, nowhere = VALIDATING_WEBHOOK_CONFIGURATION, rbac.VALIDATING_WEBHOOKS

    async def tell(env: ManagedEnvironment) -> None:
        async with unasked(env.client):
            for release in (await env.client.list(DistroRelease.resource, SYSTEM_NAMESPACE)).items:
                await env.client.delete(DistroRelease.resource, release.name, SYSTEM_NAMESPACE)
        before = await env.client.get(resource, nowhere)
        url = {"url": "https://127.0.0.1:1/nobody"}
        unanswered = [webhook | {"clientConfig": url} for webhook in before.tree["webhooks"]]
        await env.client.patch(resource, nowhere, patch={"webhooks": unanswered}, type=PatchType.MERGE)
        install = InstallReleases(env.client, env.manager.caches, RELEASES)
        installing = asyncio.create_task(install.run())
        await asyncio.sleep(PATIENCE / 2)
        assert not install.prepared.is_set(), "of a steady cluster it would be a lie that its release is missing"
        assert not installing.done()
        patch = {"webhooks": before.tree["webhooks"]}
        await env.client.patch(resource, nowhere, patch=patch, type=PatchType.MERGE)
        await installing
        assert len((await env.client.list(DistroRelease.resource, SYSTEM_NAMESPACE)).items) == 5

    story(tell)


@pytest.mark.demand(V28="its own EKS Distro as well")
def test_own_release_may_have_its_own_eks_distro() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await bring(
            env,
            debug_bundles("kubernetes-1-35-eks-2-debug"),
            distro("kubernetes-1-35-eks-2-debug", etcd="v3.6.6-debug"),
        )
        await env.apply(eksaVersion=DEBUG)
        result = await env.until_ready()
        assert await etcd(env) == "v3.6.6-debug"
        assert result.status.eksd_release_ref is not None
        assert result.status.eksd_release_ref.name == "kubernetes-1-35-eks-2-debug"

    story(tell)


@pytest.mark.demand(V30="what can't be made of them is said")
def test_bundles_without_their_release_create_nothing() -> None:
    name = "kubernetes-1-35-eks-7"

    async def tell(env: ManagedEnvironment) -> None:
        await bring(env, debug_bundles(name))
        await env.apply(eksaVersion=DEBUG)
        failed = await env.until(lambda cluster: cluster.status.failure_reason == Reason.EKSD_RELEASE_INVALID)
        assert failed.status.failure_message == (
            "Bundles bundles-debug, Kubernetes 1.35: the EKS Distro Release eksa-system/kubernetes-1-35-eks-7 that "
            f"they reference does not exist; {sentences.BRING_DISTRO}"
        )
        assert condition_of(failed, names.READY).reason == Reason.EKSD_RELEASE_INVALID
        await asyncio.sleep(CALM)
        assert (await env.client.list(KubeadmControlPlane.resource, SYSTEM_NAMESPACE)).items == []
        (planned,) = await PlanRequest(PROVIDERS, [], DEBUG, Isolation.LAYERS, None).of_release(
            env.client, GARDEN.namespace
        )
        assert planned.now.stops == f"{Reason.EKSD_RELEASE_INVALID}: {failed.status.failure_message}"
        await env.client.create(DistroRelease.resource, distro(name, etcd="v3.6.6-eks-1-35-7"))
        await env.until_ready()
        assert await etcd(env) == "v3.6.6-eks-1-35-7"

    story(tell)


@pytest.mark.soak
def test_release_is_named_until_its_bundles_exist() -> None:
    """With every field that nothing is made of odd: that keeps nobody from anything, and moves nobody."""
    bundles = odd_bundles()
    bundles["metadata"]["name"] = "bundles-debug"

    async def tell(env: ManagedEnvironment) -> None:
        await env.apply(name=OTHER.name)
        await env.until_ready(OTHER)
        before = await machines(env.client)
        await bring(env, bundles)
        async with unasked(env.client):
            await env.client.delete(Bundles.resource, "bundles-debug", SYSTEM_NAMESPACE)
        await env.apply(eksaVersion=DEBUG)
        failed = await env.until(lambda cluster: cluster.status.failure_reason == Reason.BUNDLE_NOT_FOUND_FOR_CLUSTER)
        assert failed.status.failure_message == (
            f"spec.eksaVersion: spec.bundlesRef of EKSARelease {release_name(DEBUG)}: the Bundles do not exist; found "
            "eksa-system/bundles-debug; import them (`espalier releases import`), or choose another release"
        )
        await asyncio.sleep(CALM)
        await env.client.create(Bundles.resource, bundles)
        await env.until_ready()
        await asyncio.sleep(CALM)
        assert before.items() <= (await machines(env.client)).items(), "nothing of the other cluster is replaced"

    story(tell)


INVALID = {
    "an image without a tag": ("haproxy.image", "public.ecr.aws/x/haproxy", "registry/name:tag"),
    "a digest where only a tag can be named": (
        "haproxy.image",
        f"public.ecr.aws/x/haproxy@sha256:{'0' * 64}",
        "registry/name:tag",
    ),
    "a digest beside a tag where only the tag can be named": (
        "haproxy.image",
        f"public.ecr.aws/x/haproxy:v1@sha256:{'0' * 64}",
        "registry/name:tag",
    ),
    "no registry where one must be named": ("haproxy.image", "haproxy:v1", "registry/name:tag"),
    "an empty image": ("kindnetd.image", "", "registry/name:tag or registry/name@sha256:..."),
    "no image": ("kindnetd.image", None, "registry/name:tag or registry/name@sha256:..."),
    "a text that is no image": ("haproxy.image", "https://a b/c:d", "registry/name:tag"),
}


@pytest.mark.parametrize("what", sampled(INVALID, 0))
def test_invalid_image_concerns_its_clusters_only(what: str) -> None:
    """By the latter where no webhook was asked, until they are corrected."""
    field, uri, allowed = INVALID[what]
    part, name = field.split(".")

    async def tell(env: ManagedEnvironment) -> None:
        invalid = debug_bundles(DISTRO, **{part: {name: {"uri": uri}} if uri is not None else {}})
        if uri:  # another cluster may do without it
            with pytest.raises(Invalid, match=f"{field}.uri: not a valid image; found .*; allowed: {allowed}"):
                await bring(env, invalid)
        async with unasked(env.client):
            await bring(env, invalid)
        await env.apply(name=OTHER.name)
        await env.apply(eksaVersion=DEBUG)
        failed = await env.until(lambda cluster: cluster.status.failure_reason == Reason.BUNDLES_INVALID)
        assert failed.status.failure_message == (
            f"Bundles bundles-debug, Kubernetes 1.35: spec.versionsBundles[1].{field}.uri: not a valid image; "
            f"found {uri or 'nothing'}; allowed: {allowed}; {sentences.BRING_BUNDLES}"
        )
        assert condition_of(failed, names.READY).reason == Reason.BUNDLES_INVALID
        await asyncio.sleep(CALM)
        made = (await env.client.list(KubeadmControlPlane.resource, SYSTEM_NAMESPACE)).items
        assert [item.name for item in made] == [OTHER.name]
        planned = await PlanRequest(PROVIDERS, [], DEBUG, Isolation.LAYERS, None).of_release(
            env.client, GARDEN.namespace
        )
        stop = f"{Reason.BUNDLES_INVALID}: {failed.status.failure_message}"
        assert [item.now.stops for item in planned] == [stop, stop], "the other one would be stopped as well"
        await env.until_ready(OTHER)
        async with unasked(env.client):
            await env.client.delete(Bundles.resource, "bundles-debug", SYSTEM_NAMESPACE)
            await env.client.create(Bundles.resource, debug_bundles())
        await env.until_ready()

    story(tell)


@pytest.mark.soak
def test_deleted_release_is_reported_by_its_clusters() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(CALM)
        before, written = await machines(env.client), env.written()
        async with unasked(env.client):
            await env.client.delete(DistroRelease.resource, DISTRO, SYSTEM_NAMESPACE)
        await asyncio.sleep(3 * RESYNC)
        result = await garden(env)
        synced = condition_of(result, names.SYNCED)
        assert (synced.status, synced.reason) == ("Unknown", "NotComparable")
        assert f"the EKS Distro Release eksa-system/{DISTRO} that they reference does not exist" in synced.message
        assert result.status.ready
        await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
        await env.until(lambda cluster: cluster.status.failure_reason == Reason.EKSD_RELEASE_INVALID)
        await asyncio.sleep(CALM)
        assert await machines(env.client) == before
        assert (env.written() - written).keys() == {STATUS}
        await env.client.create(DistroRelease.resource, distro(DISTRO, etcd="v3.6.6-eks-1-35-1"))
        await env.until_ready()
        assert before.keys() <= (await machines(env.client)).keys()

    story(tell)


@pytest.mark.demand(V30="what can't be made of them is said")
def test_release_of_another_kubernetes_creates_nothing() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await bring(env, debug_bundles("kubernetes-1-34-eks-2"))
        await env.apply(eksaVersion=DEBUG)
        failed = await env.until(lambda cluster: cluster.status.failure_reason == Reason.EKSD_RELEASE_INVALID)
        assert failed.status.failure_message == (
            "Bundles bundles-debug, Kubernetes 1.35: the EKS Distro Release kubernetes-1-34-eks-2 that it references "
            f"is for Kubernetes v1.34.4-eks-1-34-1; {sentences.BRING_BUNDLES}"
        )
        await asyncio.sleep(CALM)
        assert (await env.client.list(KubeadmControlPlane.resource, SYSTEM_NAMESPACE)).items == []

    story(tell)


@pytest.mark.soak
def test_bundles_in_use_can_not_be_edited() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(CALM)
        before = await machines(env.client)
        drift = {"metadata": {"annotations": {metadata_keys.DRIFT_ANNOTATION: "correct-machines"}}}
        await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=drift, type=PatchType.MERGE)
        tree = (await env.client.get(Bundles.resource, "bundles-1", SYSTEM_NAMESPACE)).tree
        tree["spec"]["versionsBundles"][1]["eksD"]["name"] = "kubernetes-1-34-eks-2"
        with pytest.raises(Invalid, match=sentences.BUNDLES_EDITED.partition(";")[0]):
            await env.client.replace(Bundles.resource, tree)
        await asyncio.sleep(3 * RESYNC)
        assert await machines(env.client) == before
        assert condition_of(await garden(env), names.SYNCED).status == "True"

    story(tell)


@pytest.mark.soak
def test_edited_bundles_change_no_kubernetes_version() -> None:
    """Where nobody refused it: the definition was an earlier one, and no webhook was registered."""

    async def tell(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(CALM)
        before, written = await machines(env.client), env.written()
        name = Bundles.resource.group_resource
        versions = (await env.client.get(CUSTOM_RESOURCE_DEFINITION, name)).tree["spec"]["versions"]
        versions[0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["x-kubernetes-validations"] = []
        earlier = {"spec": {"versions": versions}}
        await env.client.patch(CUSTOM_RESOURCE_DEFINITION, name, patch=earlier, type=PatchType.MERGE)
        await env.client.delete(VALIDATING_WEBHOOK_CONFIGURATION, rbac.VALIDATING_WEBHOOKS)
        await asyncio.sleep(1)
        drift = {"metadata": {"annotations": {metadata_keys.DRIFT_ANNOTATION: "correct-machines"}}}
        await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=drift, type=PatchType.MERGE)
        tree = (await env.client.get(Bundles.resource, "bundles-1", SYSTEM_NAMESPACE)).tree
        tree["spec"]["versionsBundles"][1]["eksD"]["name"] = "kubernetes-1-34-eks-2"
        await env.client.replace(Bundles.resource, tree)
        await asyncio.sleep(3 * RESYNC)
        synced = condition_of(await garden(env), names.SYNCED)
        assert (synced.status, synced.reason) == ("Unknown", "NotComparable")
        assert "Bundles bundles-1, Kubernetes 1.35: the EKS Distro Release kubernetes-1-34-eks-2" in synced.message
        assert (env.written() - written).keys() == {STATUS}
        assert await machines(env.client) == before

    story(tell)


KINDS_OF_RELEASES = {
    "EKSARelease": (EKSARelease.resource, "eksa-v0-26-0", None),
    "Bundles": (Bundles.resource, "bundles-1", SYSTEM_NAMESPACE),
    "EKS Distro Release": (DistroRelease.resource, DISTRO, SYSTEM_NAMESPACE),
}


@pytest.mark.demand(V22="nor deleted in use, nor replaced unnoticed")
@pytest.mark.soak
@pytest.mark.parametrize("what", KINDS_OF_RELEASES)
def test_releases_in_use_can_not_be_deleted(what: str) -> None:
    resource, name, namespace = KINDS_OF_RELEASES[what]

    async def tell(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        with pytest.raises(Forbidden, match="in use by clusters: 2; move them"):
            await env.client.delete(resource, name, namespace)
        await env.client.delete(EKSARelease.resource, "eksa-v0-24-2")

    story(tell)


@pytest.mark.demand(V22="nor deleted in use, nor replaced unnoticed")
@pytest.mark.parametrize("what", sampled(KINDS_OF_RELEASES, 1))
def test_changed_release_is_recognized_and_unused(what: str) -> None:
    """Deleted and created again while nobody asked a webhook, under a cluster whose drift is corrected."""
    resource, name, namespace = KINDS_OF_RELEASES[what]

    async def tell(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(CALM)
        drift = {"metadata": {"annotations": {metadata_keys.DRIFT_ANNOTATION: "correct-machines"}}}
        await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=drift, type=PatchType.MERGE)
        before, written = await machines(env.client), env.written()
        original = await env.client.get(resource, name, namespace)
        tree = original.tree
        tree["metadata"] = {key: tree["metadata"][key] for key in ("name", "namespace") if key in tree["metadata"]}
        other = msgspec.json.decode(msgspec.json.encode(tree).replace(b"v3.6.6-eks-1-35-1", b"v3.6.7-eks-1-35-1"))
        if what == "EKSARelease":
            other["spec"]["bundlesRef"]["name"] = "bundles-2"
        elif what == "Bundles":
            other["spec"]["versionsBundles"] = [
                entry | {"eksD": entry["eksD"] | {"name": DISTRO}} if entry["kubeVersion"] == "1.34" else entry
                for entry in other["spec"]["versionsBundles"]
            ]
        async with unasked(env.client):
            await env.client.delete(resource, name, namespace)
            await env.client.create(resource, other)
        result = await env.until(lambda cluster: cluster.status.spec_valid is False)
        await asyncio.sleep(3 * RESYNC)
        result = await garden(env)
        synced = condition_of(result, names.SYNCED)
        assert (synced.status, synced.reason) == ("Unknown", "NotComparable")
        assert f"{original.kind}/{name}" in synced.message
        assert condition_of(result, names.SPEC_VALID).reason == Reason.RELEASE_REPLACED
        assert result.status.ready
        await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
        await env.until(lambda cluster: cluster.status.failure_reason == Reason.RELEASE_REPLACED)
        await asyncio.sleep(CALM)
        assert await machines(env.client) == before
        assert (env.written() - written).keys() <= {STATUS}
        # The way out that is told: what nobody was made of can be deleted.
        await env.client.delete(resource, name, namespace)
        await env.client.create(resource, tree)
        again = await env.until_ready()
        assert again.status.spec_valid
        await asyncio.sleep(CALM)
        assert condition_of(await garden(env), names.SYNCED).status == "True"
        assert before.keys() <= (await machines(env.client)).keys()

    story(tell)


@pytest.mark.soak
def test_cluster_of_an_earlier_manager_keeps_releases() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(CALM)
        before = (await garden(env)).metadata.annotations[metadata_keys.RELEASE_ANNOTATION]
        patch = {"metadata": {"annotations": {metadata_keys.RELEASE_ANNOTATION: None}}}
        await env.client.patch(Cluster.resource, GARDEN.name, GARDEN.namespace, patch=patch, type=PatchType.MERGE)
        await asyncio.sleep(CALM)
        assert (await garden(env)).metadata.annotations[metadata_keys.RELEASE_ANNOTATION] == before
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        assert "Release/kubernetes-1-36" in (await garden(env)).metadata.annotations[metadata_keys.RELEASE_ANNOTATION]

    story(tell)
