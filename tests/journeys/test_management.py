"""Who the management cluster is, what it shares, and what it allows: whoever wrote first, with webhooks and without."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest
from structlog.testing import capture_logs

from espalier.api.core import (
    CONFIG_MAP,
    CORE_EVENT,
    NAMESPACE,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.group import (
    ALLOW_DELETE_WHEN_PAUSED_ANNOTATION,
    CLUSTER_FINALIZER,
    MANAGEMENT_CLUSTER,
    PAUSED_ANNOTATION,
    SYSTEM_NAMESPACE,
)
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.manifests.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.clusters.plans.planning import PlanRequest
from espalier.cli.local.environment.management import make_record
from espalier.clusters import rbac
from espalier.clusters.design import names
from espalier.clusters.design.drift.gate import Isolation
from espalier.kube.client import PatchType
from espalier.kube.errors import Forbidden, Invalid, NotFound
from espalier.kube.objects import to_bytes
from espalier.providers.docker.kinds import DockerDatacenterConfig
from espalier.providers.registry import PROVIDERS
from espalier.releases import Releases
from tests.support.environments.cluster_lives import journey
from tests.support.environments.managed_environment import CALM, GARDEN, ManagedEnvironment
from tests.support.histories.isolation_stories import STATUS, machines, made_for
from tests.support.objects.unguarded_clusters import (
    LOCAL_CLUSTER,
    condition_of,
    invalid,
    lose,
    set_metadata,
    the_cluster,
    without_webhooks,
)

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
HELD = "example.com/held"
TEAM = "team"
MADE = ("clusters", "kubeadmcontrolplanes", "machinedeployments", "dockerclusters")


def record(key: Key = LOCAL_CLUSTER, **spec: Any) -> Tree:
    """A paused Cluster that manages itself."""
    return {
        "apiVersion": Cluster.resource.api_version,
        "kind": "Cluster",
        "metadata": {"name": key.name, "namespace": key.namespace, "annotations": {PAUSED_ANNOTATION: "true"}},
        "spec": {
            "kubernetesVersion": "1.36",
            "eksaVersion": "v0.26.0",
            "controlPlaneConfiguration": {"count": 1},
            "datacenterRef": {"kind": "DockerDatacenterConfig", "name": key.name},
            "clusterNetwork": {
                "pods": {"cidrBlocks": ["192.168.0.0/16"]},
                "services": {"cidrBlocks": ["10.96.0.0/12"]},
                "cniConfig": {"kindnetd": {}},
            },
            "managementCluster": {"name": key.name},
        }
        | spec,
    }


async def create(env: ManagedEnvironment, tree: Tree) -> None:
    await env.client.create(Cluster.resource, tree)


async def pause(env: ManagedEnvironment, key: Key, value: str | None = "true") -> None:
    await set_metadata(env, key, annotations={PAUSED_ANNOTATION: value})


@pytest.mark.demand(L58="a second record of a management cluster, too")
@pytest.mark.soak
@pytest.mark.parametrize("webhooks", [True, False], ids=["webhooks", "no webhooks"])
def test_record_of_a_user_gives_and_changes_nothing(webhooks: bool) -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.client.create(NAMESPACE, {"metadata": {"name": TEAM}})
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(CALM)
        before = await machines(env.client)
        evil = record(Key(TEAM, "laptop"), eksaVersion="v0.24.2")
        if webhooks:
            with pytest.raises(Invalid, match="the management cluster is another Cluster"):
                await create(env, evil)
            with pytest.raises(Invalid, match="the management cluster is another Cluster"):
                await create(env, record(Key(TEAM, "other")))
            return
        await without_webhooks(env)
        await create(env, evil)
        await create(env, record(Key(TEAM, "other")))
        for name in ("laptop", "other"):
            result = await env.until(lambda cluster: bool(invalid(cluster)), Key(TEAM, name))
            assert condition_of(result, names.READY).reason == Reason.MANAGEMENT_CLUSTER_REF_INVALID
            assert "the management cluster is Cluster default/laptop" in (result.status.failure_message or "")
        await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
        await env.until_ready()
        assert before.keys() <= (await machines(env.client)).keys()
        assert invalid(await the_cluster(env)) == ""
        await env.apply(namespace=TEAM, name="meadow", managementCluster={"name": "other"})
        sentence = '"other" is not the management cluster, which is Cluster default/laptop'
        await env.until(lambda cluster: sentence in invalid(cluster), Key(TEAM, "meadow"))
        await asyncio.sleep(CALM)
        assert await made_for(env, Key(TEAM, "meadow")) == {}
        await env.client.delete(Cluster.resource, "laptop", TEAM)
        await env.until_gone(Key(TEAM, "laptop"))

    journey(tell)


@pytest.mark.soak
def test_oldest_record_counts_without_the_configmap() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        notice = env.manager.notices["management"]
        assert notice() == ""
        await env.client.create(NAMESPACE, {"metadata": {"name": TEAM}})
        await env.client.delete(CONFIG_MAP, MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE)
        await asyncio.sleep(1)
        assert "Cluster default/laptop, the oldest record, is used" in notice()
        with pytest.raises(Invalid, match="espalier manifests --management-cluster NAMESPACE/NAME"):
            await create(env, record(Key(TEAM, "laptop")))
        await without_webhooks(env)
        await create(env, record(Key(TEAM, "laptop"), eksaVersion="v0.24.2"))
        await env.apply()
        await env.until_ready()
        await env.until(lambda cluster: bool(invalid(cluster)), Key(TEAM, "laptop"))

    journey(tell)


@pytest.mark.soak
def test_configmap_without_a_cluster_creates_nothing() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(CALM)
        before = await made_for(env, GARDEN)
        await env.client.patch(
            CONFIG_MAP, MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE, patch={"data": {"name": None}}, type=PatchType.MERGE
        )
        result = await env.until(lambda cluster: bool(invalid(cluster)))
        assert result.status.ready
        assert "must have namespace and name" in env.manager.notices["management"]()
        await env.apply(name="meadow")
        await env.until(lambda cluster: bool(cluster.status.failure_reason), Key("default", "meadow"))
        assert await made_for(env, Key("default", "meadow")) == {}
        assert await made_for(env, GARDEN) == before
        await env.client.patch(
            CONFIG_MAP, MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE, patch={"data": {"name": "laptop"}}, type=PatchType.MERGE
        )
        await env.until_ready(Key("default", "meadow"))
        await env.until(lambda cluster: not invalid(cluster))

    journey(tell)


async def events(env: ManagedEnvironment) -> list[str]:
    """The events about the ConfigMap."""
    core_events = (await env.client.list(CORE_EVENT, SYSTEM_NAMESPACE)).items
    return [item.tree["message"] for item in core_events if item.tree["involvedObject"]["kind"] == "ConfigMap"]


@pytest.mark.soak
@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"name": None}, "must have namespace and name of the management cluster's Cluster"),
        ({"name": "nobody"}, "ConfigMap eksa-system/management-cluster names Cluster default/nobody as the"),
        ({"name": "garden"}, "as the management cluster, which is not self-managed"),
    ],
    ids=["nobody", "who is not there", "a workload cluster"],
)
def test_a_wrong_configmap_says_so_itself(wrong: Tree, sentence: str) -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        assert await events(env) == []
        await env.client.patch(
            CONFIG_MAP, MANAGEMENT_CLUSTER, SYSTEM_NAMESPACE, patch={"data": wrong}, type=PatchType.MERGE
        )
        await asyncio.sleep(70 if wrong["name"] == "nobody" else 5)  # a missing record may still come for a minute
        (event,) = await events(env)
        assert sentence in event

    journey(tell)


def test_a_configmap_whose_cluster_goes_says_so_itself() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await without_webhooks(env)
        await lose(env)
        await asyncio.sleep(70)  # the record has a minute from the creation of the ConfigMap
        (event,) = await events(env)
        assert event.endswith("as the management cluster, which does not exist")

    journey(tell)


@pytest.mark.soak
@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"eksaVersion": "v0.24.2"}, "EksaVersionInvalid: spec.eksaVersion: these clusters would be newer than their"),
        ({"datacenterRef": {"kind": "DockerDatacenterConfig", "name": "garden"}}, "ClusterInvalid: spec.datacenterRef"),
    ],
    ids=["release", "what it links"],
)
def test_wrong_record_says_so_itself(wrong: Tree, why: str) -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        before = await the_cluster(env, LOCAL_CLUSTER)
        assert invalid(before) == ""
        await without_webhooks(env)
        spec = (await env.client.get(Cluster.resource, LOCAL_CLUSTER.name, LOCAL_CLUSTER.namespace)).tree["spec"]
        right = {name: spec.get(name) for name in wrong}
        for patch, told in ((wrong, why), (right, "")):
            await env.client.patch(
                Cluster.resource,
                LOCAL_CLUSTER.name,
                LOCAL_CLUSTER.namespace,
                patch={"spec": patch},
                type=PatchType.MERGE,
            )
            await env.until(partial(says, told), LOCAL_CLUSTER, seconds=10)

    journey(tell)


def says(why: str, cluster: Cluster) -> bool:
    return invalid(cluster).startswith(why) if why else not invalid(cluster)


LATE = (
    ("v0.26.0", "v0.25.1", "can't be newer than its management cluster laptop (v0.25.1)"),
    ("v0.24.2", "v0.27.0", "more than 2 minor versions behind the management cluster laptop (v0.27.0)"),
)


@pytest.mark.demand(V13="whoever came first, and without webhooks")
@pytest.mark.parametrize(("version", "managed_by", "sentence"), LATE, ids=["ahead", "behind"])
def test_later_record_is_judged_as_an_earlier_one(version: str, managed_by: str, sentence: str) -> None:
    """The workload cluster first, then its management cluster; nobody asks a webhook."""

    async def tell(env: ManagedEnvironment) -> None:
        await without_webhooks(env)
        await lose(env)
        await env.apply(eksaVersion=version)
        await env.until(lambda cluster: cluster.status.failure_reason == Reason.MANAGEMENT_CLUSTER_REF_INVALID)
        await create(env, record(eksaVersion=managed_by))
        result = await env.until(lambda cluster: cluster.status.failure_reason == Reason.EKSA_VERSION_INVALID)
        assert sentence in invalid(result)
        await asyncio.sleep(CALM)
        assert await made_for(env, GARDEN) == {}
        record_patch = {"spec": {"eksaVersion": "v0.26.0"}}
        await env.client.patch(Cluster.resource, "laptop", "default", patch=record_patch, type=PatchType.MERGE)
        assert invalid(await env.until_ready()) == ""

    journey(tell)


@pytest.mark.demand(V13="whoever came first, and without webhooks")
@pytest.mark.soak
@pytest.mark.parametrize(("version", "managed_by", "sentence"), LATE, ids=["ahead", "behind"])
def test_created_cluster_goes_on_under_an_unfit_record(version: str, managed_by: str, sentence: str) -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply(eksaVersion=version, kubernetesVersion="1.34")
        await env.until_ready()
        await asyncio.sleep(CALM)
        before, written = await made_for(env, GARDEN), env.written()
        await without_webhooks(env)
        await lose(env)
        gone = await env.until(lambda cluster: bool(invalid(cluster)))
        assert "Cluster default/laptop, the record of the management cluster, does not exist" in invalid(gone)
        await create(env, record(eksaVersion=managed_by))
        result = await env.until(lambda cluster: sentence in invalid(cluster))
        assert result.status.ready
        assert result.status.failure_reason is None
        await asyncio.sleep(CALM)
        assert await made_for(env, GARDEN) == before
        assert (env.written() - written).keys() <= {STATUS, ("patch", "clusters", "")}  # the record's finalizer
        await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
        await env.until(lambda cluster: cluster.status.failure_reason == Reason.EKSA_VERSION_INVALID)
        assert await made_for(env, GARDEN) == before

    journey(tell)


@pytest.mark.demand(V14="nor by deleting its record and creating it again")
def test_recreated_record_leaves_no_cluster_behind() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply(eksaVersion="v0.25.1", kubernetesVersion="1.34")
        await env.until_ready()
        await lose_record_only(env)
        for version, sentence in (
            ("v0.24.2", "these clusters would be newer than their management cluster: 1; "),
            ("v0.28.0", "would leave clusters more than 2 minor versions behind: 1; "),
        ):
            with pytest.raises(Invalid, match=sentence):
                await create(env, record(eksaVersion=version))
        await create(env, record(eksaVersion="v0.26.0"))
        await env.until(lambda cluster: not invalid(cluster))

    async def lose_record_only(env: ManagedEnvironment) -> None:
        configuration = await env.client.get(VALIDATING_WEBHOOK_CONFIGURATION, rbac.VALIDATING_WEBHOOKS)
        hooks = [hook for hook in configuration.tree["webhooks"] if not hook["name"].startswith("delete.")]
        await env.client.patch(
            VALIDATING_WEBHOOK_CONFIGURATION,
            rbac.VALIDATING_WEBHOOKS,
            patch={"webhooks": hooks},
            type=PatchType.MERGE,
        )
        await lose(env)
        await asyncio.sleep(1)

    journey(tell)


@pytest.mark.demand(L49="the record is not deleted while it manages clusters")
@pytest.mark.soak
@pytest.mark.parametrize("webhooks", [True, False], ids=["webhooks", "no webhooks"])
def test_record_stays_while_it_manages_clusters(webhooks: bool) -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        if webhooks:
            with pytest.raises(Forbidden, match="manages clusters: 1; delete those first"):
                await env.client.delete(Cluster.resource, "laptop", "default")
        else:
            await without_webhooks(env)
            await env.client.delete(Cluster.resource, "laptop", "default")
            held = await env.until(
                lambda cluster: condition_of(cluster, names.READY).reason == "ManagesClusters", LOCAL_CLUSTER
            )
            assert (
                "which manages clusters: default/garden; delete those first" in condition_of(held, names.READY).message
            )
            await env.change(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}])
            await env.until_ready()
        await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await env.until_gone()
        if webhooks:
            await env.until(lambda cluster: not cluster.metadata.finalizers, LOCAL_CLUSTER)
            await env.client.delete(Cluster.resource, "laptop", "default")
        await env.until_gone(LOCAL_CLUSTER)

    journey(tell)


@pytest.mark.soak
def test_workload_cluster_with_the_finalizer_goes() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        there = (await the_cluster(env)).metadata.finalizers
        await asyncio.sleep(CALM)
        await set_metadata(env, GARDEN, finalizers=[*there, metadata_keys.MANAGEMENT_FINALIZER])
        await env.until(
            lambda cluster: metadata_keys.MANAGEMENT_FINALIZER not in cluster.metadata.finalizers, seconds=10
        )
        await set_metadata(env, GARDEN, finalizers=[*there, metadata_keys.MANAGEMENT_FINALIZER])
        await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await env.until_gone()

    journey(tell)


@pytest.mark.soak
@pytest.mark.parametrize("others", [[], [CLUSTER_FINALIZER]], ids=["alone", "beside that of Clusters"])
def test_removed_finalizer_of_a_record_is_put_back(others: list[str]) -> None:
    """Records of EKS Anywhere have the finalizer of Clusters as well."""

    async def tell(env: ManagedEnvironment) -> None:
        await set_metadata(env, LOCAL_CLUSTER, finalizers=others)
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(CALM)
        await set_metadata(env, LOCAL_CLUSTER, finalizers=others)
        await env.until(
            lambda cluster: metadata_keys.MANAGEMENT_FINALIZER in cluster.metadata.finalizers, LOCAL_CLUSTER, seconds=10
        )

    journey(tell)


@pytest.mark.soak
def test_deleted_cluster_names_foreign_finalizers() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await set_metadata(env, GARDEN, annotations={PAUSED_ANNOTATION: "true"}, finalizers=[CLUSTER_FINALIZER, HELD])
        await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await env.until(lambda cluster: condition_of(cluster, names.READY).reason == "Paused", seconds=10)
        await set_metadata(env, GARDEN, finalizers=[HELD])
        await env.until(lambda cluster: HELD in condition_of(cluster, names.READY).message, seconds=10)

    journey(tell)


@pytest.mark.demand(
    L9="objects of the management cluster are shared with nobody, those of workload clusters within their namespace"
)
@pytest.mark.parametrize("webhooks", [True, False], ids=["webhooks", "no webhooks"])
def test_objects_of_the_record_belong_to_no_other(webhooks: bool) -> None:
    async def tell(env: ManagedEnvironment) -> None:
        lent = {"kind": "DockerDatacenterConfig", "name": "laptop"}
        if webhooks:
            with pytest.raises(Invalid, match="can't be shared with its workload clusters"):
                await env.apply(datacenterRef=lent)
            return
        await without_webhooks(env)
        await env.apply(datacenterRef=lent)
        result = await env.until(lambda cluster: cluster.status.failure_reason == Reason.CLUSTER_INVALID)
        assert "can't be shared with its workload clusters" in invalid(result)
        await asyncio.sleep(CALM)
        assert await made_for(env, GARDEN) == {}
        assert await owners_of(env, "laptop") == []
        await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await env.until_gone()
        await asyncio.sleep(CALM)
        assert await env.client.get(DockerDatacenterConfig.resource, "laptop", "default")

    journey(tell)


@pytest.mark.soak
def test_environment_gives_no_warning_of_its_record() -> None:
    """That a paused self-managed Cluster is only a record is told to people who create one."""

    async def tell(env: ManagedEnvironment) -> None:
        await lose(env)
        with capture_logs() as logged:
            await make_record(env.client, Releases.load())
        assert (await the_cluster(env, LOCAL_CLUSTER)).metadata.name == "laptop"
        assert [entry for entry in logged if entry["log_level"] == "warning"] == []

    journey(tell)


@pytest.mark.soak
def test_accepted_datacenter_is_given_back() -> None:
    async def tell(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await without_webhooks(env)
        await env.client.patch(
            Cluster.resource,
            "laptop",
            "default",
            patch={"spec": {"datacenterRef": {"name": "garden"}}},
            type=PatchType.MERGE,
        )
        result = await env.until(lambda cluster: bool(invalid(cluster)))
        assert result.status.ready
        assert await owners_of(env, "garden") == []
        await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await env.until_gone()
        await asyncio.sleep(CALM)
        assert await env.client.get(DockerDatacenterConfig.resource, "garden", "default")

    journey(tell)


@pytest.mark.demand(
    L9="objects of the management cluster are shared with nobody, those of workload clusters within their namespace"
)
@pytest.mark.soak
@pytest.mark.parametrize("paused", [False, True], ids=["both look after it", "one is paused"])
def test_clusters_share_a_datacenter_until_the_last(paused: bool) -> None:
    async def tell(env: ManagedEnvironment) -> None:
        meadow = Key("default", "meadow")
        await env.apply()
        await env.until_ready()
        shared = {"kind": "DockerDatacenterConfig", "name": "garden"}
        second = record(meadow, managementCluster={"name": "laptop"}, datacenterRef=shared)
        second["spec"]["workerNodeGroupConfigurations"] = [{"name": "md-0", "count": 1}]
        if not paused:
            second["metadata"]["annotations"] = {ALLOW_DELETE_WHEN_PAUSED_ANNOTATION: "true"}
        await create(env, second)
        if not paused:
            await env.until_ready(meadow)
            assert sorted(await owners_of(env, "garden")) == ["garden", "meadow"]
        await env.client.delete(Cluster.resource, GARDEN.name, GARDEN.namespace)
        await env.until_gone()
        await asyncio.sleep(CALM)
        assert await env.client.get(DockerDatacenterConfig.resource, "garden", "default")
        await pause(env, meadow, None)
        await env.until_ready(meadow)
        await env.client.delete(Cluster.resource, meadow.name, meadow.namespace)
        await env.until_gone(meadow)
        await asyncio.sleep(CALM)
        with pytest.raises(NotFound):
            await env.client.get(DockerDatacenterConfig.resource, "garden", "default")

    journey(tell)


async def owners_of(env: ManagedEnvironment, datacenter: str) -> list[str]:
    docker_datacenter_config = await env.client.get(DockerDatacenterConfig.resource, datacenter, "default")
    return [owner.name for owner in docker_datacenter_config.metadata.owner_references]


def test_plan_judges_a_cluster_beside_its_new_record() -> None:
    """A manifest with both: later Clusters see the earlier ones, so the release that the record would have counts."""

    async def tell(env: ManagedEnvironment) -> None:
        await env.apply(eksaVersion="v0.25.0", kubernetesVersion="1.34")
        await env.until_ready()
        await without_webhooks(env)
        patch = {"spec": {"eksaVersion": "v0.25.0"}}
        await env.client.patch(Cluster.resource, "laptop", "default", patch=patch, type=PatchType.MERGE)
        stored = await env.client.get(Cluster.resource, GARDEN.name, GARDEN.namespace)
        garden = {**record(GARDEN), "spec": stored.tree["spec"] | {"eksaVersion": "v0.26.0"}}
        manifest = [*read_manifests(to_bytes(record()), source="a"), *read_manifests(to_bytes(garden), source="b")]
        request = PlanRequest(PROVIDERS, manifest, "", Isolation.LAYERS, None)
        planned = await request.of_manifest(env.client, "default")
        assert [plan.now.refusals for plan in planned] == [(), ()]

    journey(tell)
