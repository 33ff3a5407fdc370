"""Stories of releases: upgraded one by one, shared Bundles, one's own, old clusters without any, and ways back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from espalier.api.capi.machine import Machine
from espalier.api.core import (
    CUSTOM_RESOURCE_DEFINITION,
    DAEMON_SET,
    SECRET,
    Secret,
)
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.releases.release import Bundles, EKSARelease
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.manifests.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.clusters import chosen_release
from espalier.cli.clusters.manifests import documents
from espalier.kube.client import PatchType
from espalier.kube.errors import ApiError
from espalier.providers.kinds import CATALOG
from espalier.releases import Releases, release_name
from tests.support.environments.cluster_lives import KUBERNETES, groups, journey
from tests.support.environments.managed_environment import EXAMPLES, GARDEN, NAMESPACE, ManagedEnvironment
from tests.support.environments.managing import unasked

pytestmark = pytest.mark.embedded

LOCAL_CLUSTER = Key("default", "laptop")
BUNDLES_1 = {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1", "name": "bundles-1", "namespace": SYSTEM_NAMESPACE}


async def refusal(env: ManagedEnvironment, key: Key = GARDEN, **spec: object) -> str:
    with pytest.raises(ApiError) as error:
        await env.change(key, **spec)
    return str(error.value)


async def spec_of(env: ManagedEnvironment, key: Key = GARDEN) -> Tree:
    spec: Tree = (await env.client.get(Cluster.resource, key.name, key.namespace)).tree["spec"]
    return spec


def machines(env: ManagedEnvironment) -> set[str]:
    return {machine.metadata.uid for machine in env.capi_objects.of(Machine.resource).list()}


async def pod_network_image(env: ManagedEnvironment, cluster: str = "garden") -> str:
    secret = await env.client.get(SECRET, f"{cluster}-kubeconfig", NAMESPACE)
    workload = env.workloads.connect(secret.decode(Secret).data["value"])
    daemon_set = await workload.get(DAEMON_SET, "kindnet", "kube-system")
    image: str = daemon_set.tree["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


async def bring(env: ManagedEnvironment, version: str, bundles: Tree | None = None) -> None:
    """Create a release of one's own; with Bundles of one's own, or those of the newest release."""
    newest = Releases.load().newest()
    tree = msgspec.to_builtins(newest.eksa_release)
    tree["metadata"] = {"name": release_name(version)}
    tree["spec"]["version"] = version
    if bundles is not None:
        await env.client.create(Bundles.resource, bundles)
        tree["spec"]["bundlesRef"]["name"] = bundles["metadata"]["name"]
    await env.client.create(EKSARelease.resource, tree)
    await asyncio.sleep(1)


async def born_before_releases(env: ManagedEnvironment) -> None:
    """A cluster of the time when Bundles were named."""
    async with nobody_judges(env):
        await env.apply(bundlesRef=BUNDLES_1)
    await env.until_ready()


@asynccontextmanager
async def nobody_judges(env: ManagedEnvironment) -> AsyncIterator[None]:
    """Neither the webhooks nor the rules of the definition."""
    definition = (await env.client.get(CUSTOM_RESOURCE_DEFINITION, Cluster.resource.group_resource)).tree
    async with unasked(env.client):
        await _define(env, without_rules(definition["spec"]))
        yield
        await _define(env, definition["spec"])


async def _define(env: ManagedEnvironment, spec: Tree) -> None:
    """Give the definition of Clusters this spec."""
    definition = (await env.client.get(CUSTOM_RESOURCE_DEFINITION, Cluster.resource.group_resource)).tree
    await env.client.replace(CUSTOM_RESOURCE_DEFINITION, definition | {"spec": spec})


def without_rules(value: Any) -> Any:
    """A definition that lets all pass that has the right types."""
    if isinstance(value, dict):
        return {key: without_rules(inner) for key, inner in value.items() if key != "x-kubernetes-validations"}
    return [without_rules(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.demand("L16", "V2", "V3", "V11")
def test_cluster_is_upgraded_apart_from_its_manager() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply(eksaVersion="v0.24.2")
        await env.until_ready()
        assert (await pod_network_image(env)).endswith(":v0.29.0-eks-a-1")
        assert "upgrade to a release of v0.25 first" in await refusal(env, eksaVersion="v0.26.0")

        for version, network in (("v0.25.0", "v0.30.0-eks-a-1"), ("v0.26.0", "v0.31.0-eks-a-1")):
            await env.change(eksaVersion=version)
            await env.until_ready()
            assert (await pod_network_image(env)).endswith(network)
        assert "can't be downgraded from v0.26.0" in await refusal(env, eksaVersion="v0.25.1")
        assert (await spec_of(env, LOCAL_CLUSTER))["eksaVersion"] == "v0.26.0"

    journey(story)


@pytest.mark.demand("V30")
@pytest.mark.soak
def test_clusters_have_components_of_their_own_release() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply(eksaVersion="v0.25.1")
        other = [document.tree for document in read_manifests((EXAMPLES / "docker.yaml").read_bytes(), source="other")]
        for tree in other:
            tree["metadata"] = {"name": "orchard", "namespace": NAMESPACE}
        cluster = next(tree for tree in other if tree["kind"] == "Cluster")
        cluster["spec"] |= {"datacenterRef": {"kind": "DockerDatacenterConfig", "name": "orchard"}}
        for tree in other:
            await env.client.apply(CATALOG.resource_of(tree["apiVersion"], tree["kind"]), tree, field_manager="kubectl")
        await env.until_ready()
        await env.until_ready(Key(NAMESPACE, "orchard"))
        assert (await pod_network_image(env)).endswith(":v0.30.0-eks-a-1")
        assert (await pod_network_image(env, "orchard")).endswith(":v0.31.0-eks-a-1")

    journey(story)


@pytest.mark.demand("V29")
def test_releases_with_shared_bundles_equal_machines() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply(eksaVersion="v0.25.0")
        await env.until_ready()
        before = machines(env)
        await env.change(eksaVersion="v0.25.1")
        await env.until_ready()
        assert machines(env) == before

    journey(story)


@pytest.mark.demand("V28")
def test_a_release_of_ones_own_brings_its_own_bundles() -> None:
    async def story(env: ManagedEnvironment) -> None:
        bundles = msgspec.to_builtins(Releases.load().newest().bundles)
        bundles["metadata"] = {"name": "bundles-debug", "namespace": SYSTEM_NAMESPACE}
        for entry in bundles["spec"]["versionsBundles"]:
            entry["kindnetd"]["image"]["uri"] = "registry.example.com/kindnetd:debug"
        assert "has no EKSARelease of this version" in await _creation_refused(env, eksaVersion="v0.26.0+debug.1")
        await bring(env, "v0.26.0+debug.1", bundles)
        await env.apply(eksaVersion="v0.26.0+debug.1")
        await env.until_ready()
        assert await pod_network_image(env) == "registry.example.com/kindnetd:debug"

    journey(story)


async def _creation_refused(env: ManagedEnvironment, **spec: Any) -> str:
    with pytest.raises(ApiError) as error:
        await env.apply(**spec)
    return str(error.value)


@pytest.mark.demand("V6", "V16")
def test_cluster_moves_from_bundles_to_release_at_once() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await born_before_releases(env)
        await env.change(workerNodeGroupConfigurations=groups(3))
        await env.until_ready()
        await bring(env, "v0.26.1")
        await env.change(LOCAL_CLUSTER, eksaVersion="v0.26.1")
        await asyncio.sleep(60)
        assert "eksaVersion" not in await spec_of(env)

        before = machines(env)
        assert "already selects the Bundles" in await refusal(env, eksaVersion="v0.26.0")
        assert "same update" in await refusal(env, bundlesRef=None)
        assert "can't be changed" in await refusal(env, bundlesRef={**BUNDLES_1, "name": "bundles-2"})
        await env.change(bundlesRef=None, eksaVersion="v0.26.0")
        await env.until_ready()
        assert machines(env) == before

    journey(story)


@pytest.mark.demand("V7")
def test_command_replaces_bundles_by_its_release() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await born_before_releases(env)
        before = await env.client.get(Cluster.resource, "garden", NAMESPACE)
        documents_ = documents.read([str(EXAMPLES / "docker.yaml")])
        cluster = documents.cluster_of(documents_).tree
        cluster["spec"] |= {"bundlesRef": BUNDLES_1, "workerNodeGroupConfigurations": groups(4)}
        prepared = documents.in_namespace(documents_, NAMESPACE)

        assert chosen_release.choose(cluster, before, "v0.26.0")
        *_, after = await documents.apply_all(env.client, prepared, dry_run=False)
        assert after.metadata.generation == before.metadata.generation + 1
        assert "bundlesRef" not in after.tree["spec"]
        assert after.tree["spec"]["eksaVersion"] == "v0.26.0"
        await env.until_ready()
        assert len(await env.nodes()) == 5

    journey(story)


@pytest.mark.demand("V5")
def test_a_new_cluster_can_not_name_bundles() -> None:
    async def story(env: ManagedEnvironment) -> None:
        assert "a new cluster uses the Bundles of its release" in await _creation_refused(env, bundlesRef=BUNDLES_1)

    journey(story)


@pytest.mark.demand("V14", I23="to another release")
@pytest.mark.soak
def test_manager_is_not_upgraded_past_its_clusters() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await bring(env, "v0.27.0")
        await env.apply(eksaVersion="v0.24.2")
        await env.until_ready()
        assert "behind: 1; upgrade them first" in await refusal(env, LOCAL_CLUSTER, eksaVersion="v0.27.0")
        await env.change(eksaVersion="v0.25.1")
        await env.until_ready()
        before = machines(env)
        await env.change(LOCAL_CLUSTER, eksaVersion="v0.27.0")
        assert "upgrade to a release of v0.26 first" in await refusal(env, eksaVersion="v0.27.0")

        # Those that are near enough stay what they are, and can be scaled.
        await env.change(workerNodeGroupConfigurations=groups(3))
        await env.until_ready()
        assert len(await env.nodes()) == 4
        assert before < machines(env)
        assert (await spec_of(env))["eksaVersion"] == "v0.25.1"
        assert (await pod_network_image(env)).endswith(":v0.30.0-eks-a-1")

    journey(story)


@pytest.mark.demand("V17", L41="GitOps that omits the release gets a refusal with advice")
def test_gitops_without_release_is_refused_with_advice() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply(eksaVersion="v0.26.0")
        with pytest.raises(ApiError, match="set it in the manifest in Git"):
            await env.apply()
        await env.apply("docker.yaml", eksaVersion="v0.26.0")
        assert (await spec_of(env))["eksaVersion"] == "v0.26.0"

    journey(story)


@pytest.mark.soak
def test_upgrade_is_reverted_before_a_machine_has_it() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        before = machines(env)
        await _pause(env, "true")
        await env.change(kubernetesVersion="1.36")
        await asyncio.sleep(60)
        await env.change(kubernetesVersion="1.35")
        await _pause(env, None)
        await env.until_ready()
        assert machines(env) == before
        assert await env.versions() == [KUBERNETES["1.35"]] * 3

        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        assert "can't be downgraded from 1.36" in await refusal(env, kubernetesVersion="1.35")

    journey(story)


@pytest.mark.demand(V32="each step from a finished one, machines included")
@pytest.mark.soak
def test_hasty_operator_waits_for_machines_and_release() -> None:
    """Three upgrades in a row, while machines take their time: each begins where the one before it ended."""

    async def story(env: ManagedEnvironment) -> None:
        await env.apply(kubernetesVersion="1.34", eksaVersion="v0.24.2")
        await env.until_ready()
        await env.change(kubernetesVersion="1.35")
        assert "v0.24.2, is still in progress" in await refusal(env, eksaVersion="v0.25.1")
        await asyncio.sleep(1)
        assert "v0.24.2, is still in progress" in await refusal(env, eksaVersion="v0.25.1", kubernetesVersion="1.36")
        await env.change(workerNodeGroupConfigurations=groups(3))  # all else goes on
        await env.until_ready()

        await env.change(eksaVersion="v0.25.1")
        await env.until_ready()
        await env.change(eksaVersion="v0.26.0")
        await env.until_ready()
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        assert await env.versions() == [KUBERNETES["1.36"]] * 4

    journey(story)


@pytest.mark.demand(V32="each step from a finished one, machines included")
@pytest.mark.soak
def test_kubernetes_goes_on_when_all_machines_have_it() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply(kubernetesVersion="1.34")
        await env.until_ready()
        await env.change(kubernetesVersion="1.35")
        for _ in range(100):
            cluster = (await env.client.get(Cluster.resource, "garden", NAMESPACE)).decode(Cluster)
            if cluster.status.observed_generation == cluster.metadata.generation:
                break
            assert "Kubernetes 1.34; wait until all" in await refusal(env, kubernetesVersion="1.36")
            await asyncio.sleep(5)
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        assert await env.versions() == [KUBERNETES["1.36"]] * 3

    journey(story)


@pytest.mark.demand(V32="each step from a finished one, machines included")
def test_unrefused_version_too_far_is_not_rendered() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply(kubernetesVersion="1.34")
        await env.until_ready()
        before = machines(env)
        async with nobody_judges(env):
            await env.change(kubernetesVersion="1.36")
        await asyncio.sleep(60)
        assert machines(env) == before
        result = await env.until(lambda cluster: cluster.status.failure_reason == "ClusterInvalid")
        assert "the control plane still has machines with Kubernetes 1.34" in (result.status.failure_message or "")

        await env.change(kubernetesVersion="1.35")
        await env.until_ready()
        assert await env.versions() == [KUBERNETES["1.35"]] * 3

    journey(story)


async def _pause(env: ManagedEnvironment, value: str | None) -> None:
    patch: Tree = {"metadata": {"annotations": {PAUSED_ANNOTATION: value}}}
    await env.client.patch(Cluster.resource, "garden", NAMESPACE, patch=patch, type=PatchType.MERGE)
