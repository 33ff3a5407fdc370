"""The configuration of GitOps: a cluster can get one later, it is the management cluster's, and is counted."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
import yaml

from espalier.api.core import NAMESPACE
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.gitops import FluxConfig
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.manifests.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text.violations import ManifestError
from espalier.cli.clusters.manifests import preflight
from espalier.cli.management.bootstraps import GivenBootstrap
from espalier.clusters.design import names
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Forbidden
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.management import handed_over
from espalier.management import record as records
from espalier.management.steps import Refused
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.providers.registry import PROVIDERS
from tests.support.environments.cluster_lives import journey
from tests.support.environments.managed_environment import CALM, GARDEN, ManagedEnvironment
from tests.support.histories.isolation_stories import ANNOTATION, STATUS, machines, made_for
from tests.support.objects.observed_clusters import example
from tests.support.objects.unguarded_clusters import condition_of, invalid, without_webhooks
from tests.support.providers import git_repositories

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
REFERENCE = {"kind": "FluxConfig", "name": "fleet"}


async def flux(env: ManagedEnvironment, name: str = "fleet", branch: str = "", manager: str | None = None) -> None:
    spec = {"branch": branch, "git": {"repositoryUrl": "ssh://git@git.example.com/fleet"}}
    body: Tree = {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    await env.client.apply(FluxConfig.resource, body, field_manager=manager)


async def of_the_management_cluster(env: ManagedEnvironment, name: str = "fleet") -> None:
    patch = {"spec": {"gitOpsRef": REFERENCE | {"name": name}}}
    await env.client.patch(Cluster.resource, "laptop", "default", patch=patch, type=PatchType.MERGE)
    await asyncio.sleep(1)


async def generations(env: ManagedEnvironment) -> int:
    results = [
        await env.client.get(FluxConfig.resource, "fleet", "default"),
        await env.client.get(DockerDatacenterConfig.resource, "garden", "default"),
    ]
    return sum(item.metadata.generation for item in results)


@pytest.mark.demand(
    L43="that a cluster can be put under GitOps later, and no machine changes", I12="with the GitOps configuration"
)
def test_cluster_is_put_under_gitops_later_unchanged() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(CALM)
        before, made, written = await machines(env.client), await made_for(env, GARDEN), env.written()
        with pytest.raises(
            Forbidden, match="a workload cluster shares the GitOps configuration of its management cluster"
        ):
            await env.change(gitOpsRef=REFERENCE)
        await flux(env)
        await of_the_management_cluster(env)
        await env.change(gitOpsRef=REFERENCE)
        result = await env.until_ready()
        assert result.status.children_observed_generation == await generations(env)
        await flux(env, branch="main")  # the default
        expected = await generations(env)
        await env.until(lambda cluster: cluster.status.children_observed_generation == expected)
        await asyncio.sleep(CALM)
        assert await machines(env.client) == before
        assert await made_for(env, GARDEN) == made
        assert (env.written() - written).keys() <= {STATUS, ANNOTATION}
        assert (await env.client.get(FluxConfig.resource, "fleet", "default")).metadata.owner_references == []
        with pytest.raises(Forbidden, match="it can't be changed in an existing cluster"):
            await env.change(gitOpsRef=None)

    journey(tell)


@pytest.mark.demand(L32="false when what is linked is missing")
def test_missing_git_ops_config_blocks_new_cluster() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await of_the_management_cluster(env)
        await env.apply(gitOpsRef=REFERENCE)
        result = await env.until(lambda cluster: cluster.status.failure_reason == Reason.MISSING_DEPENDENT_OBJECTS)
        sentence = "spec.gitOpsRef: waiting for FluxConfig fleet in namespace default, which does not exist"
        assert sentence in invalid(result)
        await asyncio.sleep(CALM)
        assert await made_for(env, GARDEN) == {}
        await flux(env)
        await env.until_ready()
        await asyncio.sleep(CALM)
        before = await made_for(env, GARDEN)
        await env.client.delete(FluxConfig.resource, "fleet", "default")
        result = await env.until(lambda cluster: cluster.status.spec_valid is False)
        assert sentence in invalid(result)
        assert result.status.ready
        assert condition_of(result, names.SYNCED).status == "True"
        await flux(env)
        await env.until(lambda cluster: bool(cluster.status.spec_valid))
        await asyncio.sleep(CALM)
        assert await made_for(env, GARDEN) == before

    journey(tell)


@pytest.mark.demand(L45="whoever came first, and without webhooks")
def test_gitops_of_its_own_is_found_whoever_came_first() -> None:
    """The record gets its configuration after the cluster, and nobody asks a webhook."""

    async def tell(env: ManagedEnvironment) -> None:
        await without_webhooks(env)
        await flux(env)
        await flux(env, "other", branch="next")
        await env.apply(gitOpsRef=REFERENCE)
        failed = await env.until(lambda cluster: cluster.status.failure_reason == Reason.CLUSTER_INVALID)
        assert "a workload cluster shares the GitOps configuration of its management cluster" in invalid(failed)
        assert await made_for(env, GARDEN) == {}
        await of_the_management_cluster(env)
        await env.until_ready()
        await asyncio.sleep(CALM)
        before = await made_for(env, GARDEN)
        await of_the_management_cluster(env, "other")
        result = await env.until(lambda cluster: cluster.status.spec_valid is False)
        assert "found FluxConfig fleet; allowed: FluxConfig other" in invalid(result)
        assert "FluxConfig fleet has other content in spec.branch" in invalid(result)
        assert result.status.ready
        assert await made_for(env, GARDEN) == before

    journey(tell)


def test_gitops_of_its_own_with_same_content_is_taken() -> None:
    """As EKS Anywhere's command makes it. A recreated one may have other content: that is said, and nothing else."""

    async def tell(env: ManagedEnvironment) -> None:
        await flux(env)
        await of_the_management_cluster(env)
        await env.apply(gitOpsRef=REFERENCE | {"name": "garden"})
        result = await env.until(lambda cluster: cluster.status.failure_reason == Reason.MISSING_DEPENDENT_OBJECTS)
        assert "spec.gitOpsRef: waiting for FluxConfig garden in namespace default" in invalid(result)
        await flux(env, "garden")
        await env.until_ready()
        await asyncio.sleep(CALM)
        before = await made_for(env, GARDEN)
        sentence = "FluxConfig garden has other content in spec.branch"
        await env.client.delete(FluxConfig.resource, "garden", "default")
        await flux(env, "garden", branch="next")
        result = await env.until(lambda cluster: sentence in str(cluster.status.conditions))
        assert result.status.spec_valid is False
        assert result.status.ready
        await env.client.delete(FluxConfig.resource, "fleet", "default")
        await flux(env, "fleet", branch="next")
        await env.until(lambda cluster: bool(cluster.status.spec_valid))
        await asyncio.sleep(CALM)
        assert await made_for(env, GARDEN) == before

    journey(tell)


def test_command_sends_no_cluster_with_other_gitops() -> None:
    """Its configuration would be written first, and the Cluster refused then."""

    async def tell(env: ManagedEnvironment) -> None:
        await flux(env)
        await of_the_management_cluster(env)
        own = {"kind": "FluxConfig", "name": "garden"}
        trees = [example(gitOpsRef=own)[0], git_repositories.flux("garden", "default", branch="next")]
        trees[0]["metadata"]["namespace"] = "default"
        del trees[1]["metadata"]["resourceVersion"]
        manifests = read_manifests(yaml.safe_dump_all(trees), source="a.yaml")
        with pytest.raises(ManifestError, match=r"a\.yaml:\d+: .*FluxConfig garden has other content in spec\.branch"):
            await preflight.judge(PROVIDERS, env.client, manifests)

    journey(tell)


async def named_by_the_record(env: ManagedEnvironment) -> object:
    record = await env.client.get(Cluster.resource, "laptop", "default")
    return record.tree["spec"].get("gitOpsRef")


async def names_it(env: ManagedEnvironment, namespace: str = "default") -> None:
    """A creation of a management cluster has the bootstrap name its configuration, and applies its manifest."""
    spec = {"git": {"repositoryUrl": "ssh://git@git.example.com/fleet"}}
    await handed_over.let_name(env.client, REFERENCE, FluxConfig.resource, spec, namespace=namespace)
    manifest = {"metadata": {"name": "fleet", "namespace": namespace}, "spec": spec}
    await env.client.apply(FluxConfig.resource, manifest, field_manager=records.FIELD_MANAGER)
    assert await named_by_the_record(env) == REFERENCE


def given(env: ManagedEnvironment) -> GivenBootstrap:
    """The environment as one of `--bootstrap-kubeconfig`."""

    async def connect() -> Client:
        return Client(InProcessTransport(env.server))

    bootstrap = GivenBootstrap.__new__(GivenBootstrap)
    bootstrap.connect = connect  # type: ignore[method-assign]
    return bootstrap


@pytest.mark.parametrize("namespace", ["default", "team"])
def test_a_bootstrap_loses_the_git_ops_it_was_given(namespace: str) -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.client.apply(NAMESPACE, {"metadata": {"name": namespace}})
        for _ in range(2):
            await names_it(env, namespace)
            await names_it(env, namespace)
            for _ in range(2):
                await given(env).remove(Key(namespace, "management"))
                assert await named_by_the_record(env) is None
                assert (await env.client.list(FluxConfig.resource)).items == []

    journey(tell)


@pytest.mark.parametrize("owner", ["record", "configuration", "cluster"])
def test_a_bootstrap_keeps_the_git_ops_of_others(owner: str) -> None:
    async def tell(env: ManagedEnvironment) -> None:
        if owner != "cluster":
            await flux(env, manager=records.FIELD_MANAGER)
        if owner == "record":
            await of_the_management_cluster(env)
        await names_it(env)
        if owner == "cluster":
            await env.apply(gitOpsRef=REFERENCE)
        await handed_over.take_back_name(env.client)
        assert await named_by_the_record(env) == (None if owner == "configuration" else REFERENCE)
        assert [config.name for config in (await env.client.list(FluxConfig.resource)).items] == ["fleet"]

    journey(tell)


@pytest.mark.parametrize("is_named", [True, False])
def test_a_bootstrap_keeps_its_own_repository(is_named: bool) -> None:
    """A new cluster has a configuration of the same name, of another repository: nothing is written."""

    async def tell(env: ManagedEnvironment) -> None:
        await flux(env)
        if is_named:
            await of_the_management_cluster(env)
        before = (await env.client.get(FluxConfig.resource, "fleet", "default")).metadata.resource_version
        spec = {"git": {"repositoryUrl": "ssh://git@git.example.com/other"}}
        with pytest.raises(Refused, match=r"FluxConfig default/fleet of the bootstrap has another spec\.git"):
            await handed_over.let_name(env.client, REFERENCE, FluxConfig.resource, spec)
        after = await env.client.get(FluxConfig.resource, "fleet", "default")
        assert (after.metadata.resource_version, await named_by_the_record(env)) == (
            before,
            REFERENCE if is_named else None,
        )

    journey(tell)
