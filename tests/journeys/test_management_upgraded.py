"""Upgrades of management clusters by commands: themselves, and nothing of the clusters that they manage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import pytest
import yaml

from espalier.api.core import DEPLOYMENT, NODE, SECRET, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import MANAGEMENT_UPGRADING, PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.api.manifests.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text.violations import ManifestError
from espalier.cli.clusters import chosen_release
from espalier.cli.clusters.plans.planning import PlanRequest
from espalier.cli.kit import flags
from espalier.cli.kit.failures import Failure
from espalier.cli.management import access, changing, own_infrastructure
from espalier.cli.management.changing import check_leaves_none_behind
from espalier.cli.management.own_infrastructure import Given
from espalier.clusterapi import names
from espalier.clusterapi.installed import CORE, PROVIDER_LABEL
from espalier.clusterapi.installed import NAMESPACE as CAPI_NAMESPACE
from espalier.clusters.design.drift.gate import Isolation
from espalier.clusters.observe.rules import messages
from espalier.clusters.preview.previews import Preview
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import Unreachable
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.management import lost_record
from espalier.management import record as records
from espalier.providers.kinds import CLUSTER_API_KINDS
from espalier.providers.registry import PROVIDERS
from espalier.providers.simulated import SIMULATED
from espalier.runtime.virtual import Simulation, run
from tests.support.environments import component_folders
from tests.support.environments.bootstraps import (
    MANAGEMENT,
    RELEASE,
    Bootstrap,
    applied,
    bootstrap,
    machines,
    manifest,
    put_under_git,
    upgrade,
)
from tests.support.environments.cluster_lives import EPOCH
from tests.support.environments.managed_environment import CALM
from tests.support.servers.dying import Dying

pytestmark = pytest.mark.embedded

WORKLOAD = Key("default", "garden")

Story = Callable[[Bootstrap, Client], Awaitable[None]]


def managing(story: Story) -> None:
    """A created management cluster, with a settled workload cluster."""

    async def main(simulation: Simulation) -> None:
        async with created(simulation) as (env, cluster):
            await applied(cluster, manifest(WORKLOAD, managed_by=MANAGEMENT.name))
            await asyncio.sleep(CALM)
            await story(env, cluster)

    run(main, epoch=EPOCH, seed=1)


@asynccontextmanager
async def created(simulation: Simulation) -> AsyncIterator[tuple[Bootstrap, Client]]:
    async with machines(simulation.clock) as hosts:
        async with bootstrap(hosts) as env:
            await env.create()
        yield env, env.connect(env.written[-1])


def wished(**spec: object) -> list[Tree]:
    """The manifest of the management cluster with other fields."""
    trees = manifest(MANAGEMENT, managed_by=MANAGEMENT.name)
    trees[-1]["spec"] |= spec
    return trees


async def lose_record(cluster: Client, *, remains: bool) -> None:
    """Delete the record while no webhook refuses that; without `remains`, its finalizers go, too."""
    for configuration in (await cluster.list(VALIDATING_WEBHOOK_CONFIGURATION)).items:
        await cluster.delete(VALIDATING_WEBHOOK_CONFIGURATION, configuration.name)
    name, namespace = MANAGEMENT.name, MANAGEMENT.namespace
    await cluster.delete(Cluster.resource, name, namespace)
    if not remains:
        patch: Tree = {"metadata": {"finalizers": None}}
        await cluster.patch(Cluster.resource, name, namespace, patch=patch, type=PatchType.MERGE)


async def kubelets(cluster: Client) -> list[str]:
    nodes = (await cluster.list(NODE)).items
    return sorted(str(node.tree["status"]["nodeInfo"]["kubeletVersion"])[:5] for node in nodes)


async def versions(cluster: Client) -> dict[str, str]:
    """The resource version of each object of the workload cluster."""
    results = {}
    for resource in (*(kind.resource for kind in CLUSTER_API_KINDS), SECRET):
        for stored in (await cluster.list(resource, SYSTEM_NAMESPACE, labels=f"{names.CLUSTER}={WORKLOAD.name}")).items:
            results[f"{resource.kind} {stored.name}"] = stored.resource_version
    stored = await cluster.get(Cluster.resource, WORKLOAD.name, WORKLOAD.namespace)
    return results | {"Cluster": stored.resource_version}


def test_an_upgrade_changes_no_workload_cluster() -> None:
    async def story(_env: Bootstrap, cluster: Client) -> None:
        before = await versions(cluster)
        groups = [{"name": "md-0", "count": 3}]
        await upgrade(cluster, wished(kubernetesVersion="1.36", workerNodeGroupConfigurations=groups))
        assert await kubelets(cluster) == ["v1.36"] * 4
        await asyncio.sleep(CALM)
        assert await versions(cluster) == before
        assert await records.managed(cluster) == (MANAGEMENT, records.RUNNING)
        assert await records.read(cluster, MANAGEMENT) is None

    managing(story)


def test_after_an_upgrade_the_api_changes_it_no_more() -> None:
    async def story(_env: Bootstrap, cluster: Client) -> None:
        await upgrade(cluster, wished(workerNodeGroupConfigurations=[{"name": "md-0", "count": 1}]))
        assert len(await kubelets(cluster)) == 2
        patch = {"spec": {"workerNodeGroupConfigurations": [{"name": "md-0", "count": 3}]}}
        await cluster.patch(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace, patch=patch, type=PatchType.MERGE)
        await asyncio.sleep(CALM)
        assert len(await kubelets(cluster)) == 2

    managing(story)


def test_components_are_upgraded_alone() -> None:
    async def story(_env: Bootstrap, cluster: Client) -> None:
        before = {item.name: item.metadata.uid for item in (await cluster.list(NODE)).items}
        await upgrade(cluster, None)
        assert {node.name: node.metadata.uid for node in (await cluster.list(NODE)).items} == before

    managing(story)


@pytest.mark.parametrize("more", [31, pytest.param(3, marks=pytest.mark.soak)])
def test_an_upgrade_killed_at_any_write_goes_on(more: int) -> None:
    async def story(env: Bootstrap, cluster: Client) -> None:
        before = await versions(cluster)
        for deaths in range(200):
            mortal = env.connect(env.written[-1])
            dying = Dying(1 + more * deaths)
            mortal.transport = dying(mortal.transport)
            try:
                await upgrade(mortal.without_repeats(), wished(kubernetesVersion="1.36"))
            except Unreachable:
                assert dying.is_dead
                await asyncio.sleep(1)
            else:
                break
        assert deaths > 1
        await asyncio.sleep(CALM)
        assert await kubelets(cluster) == ["v1.36"] * 3
        assert await versions(cluster) == before
        assert await records.managed(cluster) == (MANAGEMENT, records.RUNNING)

    managing(story)


def given_to_commands(monkeypatch: pytest.MonkeyPatch, env: Bootstrap) -> None:
    """Commands reach the management cluster, which has no kubeconfig on this machine."""

    async def reached(_key: Key, _flag: flags.Connection) -> tuple[Client, Kubeconfig]:
        return env.connect(env.written[-1]), Kubeconfig.parse(env.written[-1])

    monkeypatch.setattr(access, "of_management_cluster", reached)


@pytest.mark.parametrize("acts", [False, True], ids=["not yet", "manager acts"])
@pytest.mark.parametrize("dry_run", [False, True])
def test_components_wait_for_an_upgrade_to_end(monkeypatch: pytest.MonkeyPatch, *, dry_run: bool, acts: bool) -> None:
    """They would replace its record, and the manager would act on the Cluster for good."""

    async def main(simulation: Simulation) -> None:
        async with created(simulation) as (env, cluster):
            given_to_commands(monkeypatch, env)
            begun = records.Record("upgrade", *MANAGEMENT, RELEASE, "espalier", "{}")
            await records.write(cluster, begun)
            if acts:
                await records.mark(cluster, MANAGEMENT_UPGRADING)
            with pytest.raises(Failure, match="did not end: go on with `espalier upgrade cluster -f FILE`"):
                await changing.upgrade_components(MANAGEMENT.name, flags.Connection(), timeout=600, dry_run=dry_run)
            assert await records.read(cluster, MANAGEMENT) == begun

    run(main, epoch=EPOCH, seed=1)


def newer(tree: Tree) -> None:
    """A later patch of the simulated controllers."""
    if tree["kind"] == DEPLOYMENT.kind:
        (container,) = tree["spec"]["template"]["spec"]["containers"]
        container["image"] = container["image"].replace(f":{component_folders.version()}", ":v1.13.9")


@pytest.mark.parametrize("only_components", [False, True])
def test_components_of_a_folder_are_upgraded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, only_components: bool
) -> None:
    """Those that are older than what runs are refused, and a killed upgrade begins again with other ones."""

    async def main(simulation: Simulation) -> None:
        async with created(simulation) as (env, cluster):
            given_to_commands(monkeypatch, env)
            parsed = [*read_manifests(yaml.safe_dump_all(wished()).encode(), source="manifest")]

            async def upgraded(folder: Path, *, dry_run: bool = False) -> None:
                given, flag = Given(folder), flags.Connection()
                if only_components:
                    name = MANAGEMENT.name
                    await changing.upgrade_components(name, flag, timeout=600, dry_run=dry_run, given=given)
                else:
                    await changing.upgrade(parsed, [], flag, timeout=600, dry_run=dry_run, given=given)

            before = await nodes(cluster)
            parts = component_folders.providers(newer)
            folder = component_folders.written(tmp_path / "newer", parts, "v1.13.9")
            operation = records.UPGRADE_COMPONENTS if only_components else records.UPGRADE
            await upgraded(folder, dry_run=True)
            assert await image(cluster) != "v1.13.9"
            # Killed in the middle, with components of another folder.
            begun = records.Record(operation, *MANAGEMENT, RELEASE, "espalier", components="other")
            await records.write(cluster, begun)
            await upgraded(folder)
            assert (await image(cluster), await nodes(cluster)) == ("v1.13.9", before)
            assert await records.read(cluster, MANAGEMENT) is None
            with pytest.raises(Failure, match=r"allowed is v1\.13\.9-eks-a-1, which runs now"):
                await upgraded(component_folders.written(tmp_path / "older"))
            assert await image(cluster) == "v1.13.9"

    run(main, epoch=EPOCH, seed=1)


async def image(cluster: Client) -> str:
    """The tag of the image of Cluster API's manager."""
    manager = await cluster.get(DEPLOYMENT, "capi-controller-manager", CAPI_NAMESPACE)
    return str(manager.tree["spec"]["template"]["spec"]["containers"][0]["image"]).rpartition(":")[2].partition("-")[0]


async def nodes(cluster: Client) -> dict[str, str]:
    return {item.name: item.metadata.uid for item in (await cluster.list(NODE)).items}


def test_a_newer_release_needs_its_image(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The image that runs in the cluster is that of the release before."""

    async def main(simulation: Simulation) -> None:
        async with created(simulation) as (_env, cluster):
            record = await cluster.get(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)
            folder = component_folders.written(tmp_path / "components")
            with pytest.raises(Failure, match=r"--image: the cluster has release v0\.25\.0, and gets v0\.26\.0"):
                await own_infrastructure.of_upgrade(cluster, record.tree, PROVIDERS, Given(folder), "v0.25.0")
            given = Given(folder, "registry.example.com/espalier:v0.26.0")
            parts = await own_infrastructure.of_upgrade(cluster, record.tree, PROVIDERS, given, "v0.25.0")
            assert parts.espalier == given.image

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("only_components", [False, True])
@pytest.mark.parametrize("operation", [records.CREATE, records.DELETE])
def test_an_upgrade_keeps_the_records_of_others(
    monkeypatch: pytest.MonkeyPatch, *, only_components: bool, operation: str
) -> None:
    """A management cluster that is upgraded while it is the bootstrap of another one."""

    async def main(simulation: Simulation) -> None:
        async with created(simulation) as (env, cluster):
            given_to_commands(monkeypatch, env)
            other = Key("default", "other")
            begun = records.Record(operation, *other, RELEASE, "create", "{}")
            await records.write(cluster, begun)
            await records.keep_kubeconfig(cluster, other, b"its kubeconfig")
            if only_components:
                await changing.upgrade_components(MANAGEMENT.name, flags.Connection(), timeout=600, dry_run=False)
            else:
                parsed = [*read_manifests(yaml.safe_dump_all(wished()).encode(), source="manifest")]
                await changing.upgrade(parsed, [], flags.Connection(), timeout=600, dry_run=False)
            assert await records.read(cluster, MANAGEMENT) is None
            assert await records.of_bootstrap(cluster, MANAGEMENT) == begun
            assert await records.read_kubeconfig(cluster, other) == b"its kubeconfig"

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize(("suspended", "dry_run"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("only_components", [False, True])
def test_one_that_flux_applies_is_not_upgraded(
    monkeypatch: pytest.MonkeyPatch, *, suspended: bool, dry_run: bool, only_components: bool
) -> None:
    """Not before its Kustomization is suspended: Flux would set the upgrade back."""

    async def main(simulation: Simulation) -> None:
        async with created(simulation) as (env, cluster):
            given_to_commands(monkeypatch, env)
            await put_under_git(cluster, suspended=suspended)
            parsed = [*read_manifests(yaml.safe_dump_all(wished()).encode(), source="manifest")]
            if only_components:
                act = changing.upgrade_components(MANAGEMENT.name, flags.Connection(), timeout=600, dry_run=dry_run)
            else:
                act = changing.upgrade(parsed, [], flags.Connection(), timeout=600, dry_run=dry_run)
            if suspended or dry_run:
                await act
            else:
                with pytest.raises(Failure, match=r"change fleet/eksa-cluster.yaml likewise, but set spec.suspend"):
                    await act
            assert await records.read(cluster, MANAGEMENT) is None

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("remains", [True, False], ids=["being deleted", "gone"])
def test_a_deleted_record_is_made_anew(monkeypatch: pytest.MonkeyPatch, *, remains: bool) -> None:
    """Deleted while no webhook refused it: machines and workload clusters stay as they are, and it is upgraded."""

    async def story(env: Bootstrap, cluster: Client) -> None:
        given_to_commands(monkeypatch, env)
        nodes = {node.name: node.metadata.uid for node in (await cluster.list(NODE)).items}
        before = await versions(cluster)
        for configuration in (await cluster.list(VALIDATING_WEBHOOK_CONFIGURATION)).items:
            await cluster.delete(VALIDATING_WEBHOOK_CONFIGURATION, configuration.name)
        await cluster.delete(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)
        await asyncio.sleep(CALM)
        deleted = await cluster.get(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)
        assert deleted.metadata.deletion_timestamp is not None
        if not remains:
            patch: Tree = {"metadata": {"finalizers": None}}
            await cluster.patch(
                Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace, patch=patch, type=PatchType.MERGE
            )
            await asyncio.sleep(CALM)
        parsed = [*read_manifests(yaml.safe_dump_all(wished()).encode(), source="manifest")]
        await changing.upgrade(parsed, [], flags.Connection(), timeout=600, dry_run=True)
        assert (await lost_record.existing(cluster, MANAGEMENT) is not None) is remains
        parsed = [*read_manifests(yaml.safe_dump_all(wished()).encode(), source="manifest")]
        await changing.upgrade(parsed, [], flags.Connection(), timeout=600, dry_run=False)
        await asyncio.sleep(CALM)
        record = await cluster.get(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)
        assert record.metadata.uid != deleted.metadata.uid
        assert record.metadata.deletion_timestamp is None
        assert record.metadata.annotations[PAUSED_ANNOTATION] == "true"
        assert {node.name: node.metadata.uid for node in (await cluster.list(NODE)).items} == nodes
        assert (await versions(cluster)).keys() == before.keys()
        assert await records.managed(cluster) == (MANAGEMENT, records.RUNNING)
        await upgrade(cluster, wished(workerNodeGroupConfigurations=[{"name": "md-0", "count": 1}]))
        assert len(await kubelets(cluster)) == 2

    managing(story)


class MakingAnew(Dying):
    """The command dies with its first write of a record that it makes anew."""

    async def request(self, transport: Transport, request: Request) -> Response:
        if request.query.get("fieldManager") == lost_record.FIELD_MANAGER:
            self.after = 1
        return await super().request(transport, request)


def test_a_half_made_record_is_made_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the owner of its pause would own all fields, and no manifest could take one away."""

    async def main(simulation: Simulation) -> None:
        async with created(simulation) as (env, cluster):
            given_to_commands(monkeypatch, env)
            for configuration in (await cluster.list(VALIDATING_WEBHOOK_CONFIGURATION)).items:
                await cluster.delete(VALIDATING_WEBHOOK_CONFIGURATION, configuration.name)
            await cluster.delete(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)

            async def mortal(_key: Key, _flag: flags.Connection) -> tuple[Client, Kubeconfig]:
                client = env.connect(env.written[-1])
                client.transport = MakingAnew(10**6)(client.transport)
                return client.without_repeats(), Kubeconfig.parse(env.written[-1])

            for reached in (mortal, access.of_management_cluster):
                monkeypatch.setattr(access, "of_management_cluster", reached)
                parsed = [*read_manifests(yaml.safe_dump_all(wished()).encode(), source="manifest")]
                with pytest.raises(Unreachable) if reached is mortal else nullcontext():
                    await changing.upgrade(parsed, [], flags.Connection(), timeout=600, dry_run=False)
            record = await cluster.get(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)
            managers = {entry["manager"]: entry["fieldsV1"] for entry in record.tree["metadata"]["managedFields"]}
            assert managers[lost_record.FIELD_MANAGER].keys() == {"f:metadata"}
            assert record.metadata.annotations[PAUSED_ANNOTATION] == "true"

    run(main, epoch=EPOCH, seed=1)


def test_a_lost_record_is_made_only_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as somebody knows."""

    async def main(simulation: Simulation) -> None:
        async with created(simulation) as (env, cluster):
            given_to_commands(monkeypatch, env)
            for configuration in (await cluster.list(VALIDATING_WEBHOOK_CONFIGURATION)).items:
                await cluster.delete(VALIDATING_WEBHOOK_CONFIGURATION, configuration.name)
            await cluster.delete(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)
            network = {"pods": {"cidrBlocks": ["10.1.0.0/16"]}, "services": {"cidrBlocks": ["10.2.0.0/16"]}}
            other = wished(clusterNetwork={**network, "cniConfig": {"kindnetd": {}}})
            parsed = [*read_manifests(yaml.safe_dump_all(other).encode(), source="manifest")]
            with pytest.raises(ManifestError, match="clusterNetwork"):
                await changing.upgrade(parsed, [], flags.Connection(), timeout=600, dry_run=False)

    run(main, epoch=EPOCH, seed=1)


def test_an_upgrade_leaves_no_cluster_behind() -> None:
    """V14: a patch release may come, and no minor release that is too many ahead."""

    async def main(simulation: Simulation) -> None:
        async with created(simulation) as (_, cluster):
            trees = manifest(WORKLOAD, managed_by=MANAGEMENT.name)
            trees[-1]["spec"] |= {"eksaVersion": "v0.24.2", "kubernetesVersion": "1.34"}
            await applied(cluster, trees)
            record = await cluster.get(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)
            await check_leaves_none_behind(cluster, record, "v0.26.1")
            with pytest.raises(Failure, match=r"management can't be upgraded: .*default/garden"):
                await check_leaves_none_behind(cluster, record, "v0.27.0")

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("remains", [True, False], ids=["being deleted", "gone"])
def test_no_record_of_git_is_made_anew(monkeypatch: pytest.MonkeyPatch, *, remains: bool) -> None:
    """Flux would set it back; or nobody knows whether it comes from Git."""

    async def main(simulation: Simulation) -> None:
        async with created(simulation) as (env, cluster):
            given_to_commands(monkeypatch, env)
            await put_under_git(cluster)
            await lose_record(cluster, remains=remains)
            parsed = [*read_manifests(yaml.safe_dump_all(wished()).encode(), source="manifest")]
            words = "set spec.suspend" if remains else "give the command without the flag first"
            with pytest.raises(Failure, match=words):
                await changing.upgrade(parsed, [], flags.Connection(), timeout=600, dry_run=False, by_git=not remains)
            record = await lost_record.existing(cluster, MANAGEMENT)
            assert lost_record.is_lost(record)
            assert (record is not None) is remains

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.parametrize("remains", [True, False], ids=["being deleted", "gone"])
def test_a_record_made_anew_leaves_no_cluster_behind(monkeypatch: pytest.MonkeyPatch, *, remains: bool) -> None:
    """Also without the webhooks, which were off when it was deleted."""

    async def main(simulation: Simulation) -> None:
        async with created(simulation) as (env, cluster):
            given_to_commands(monkeypatch, env)
            trees = manifest(WORKLOAD, managed_by=MANAGEMENT.name)
            trees[-1]["spec"] |= {"eksaVersion": "v0.24.2", "kubernetesVersion": "1.34"}
            await applied(cluster, trees)
            await lose_record(cluster, remains=remains)
            monkeypatch.setattr(chosen_release, "own_version", lambda: "v0.27.0")
            parsed = [*read_manifests(yaml.safe_dump_all(wished(eksaVersion="v0.27.0")).encode(), source="manifest")]
            with pytest.raises(Failure, match=r"management can't be upgraded: .*default/garden"):
                await changing.upgrade(parsed, [], flags.Connection(), timeout=600, dry_run=False)
            record = await lost_record.existing(cluster, MANAGEMENT)
            assert lost_record.is_lost(record)
            assert (record is not None) is remains

    run(main, epoch=EPOCH, seed=1)


def test_a_plan_says_what_an_upgrade_would_do() -> None:
    """Its record is paused for everybody else. Nothing is said of an upgrade that would change nothing."""

    async def story(_env: Bootstrap, cluster: Client) -> None:
        counted = await planned(cluster, wished(workerNodeGroupConfigurations=[{"name": "md-0", "count": 3}]))
        assert counted.stops == ""
        assert [change.kind for change in counted.objects] == ["MachineDeployment"]
        rolled = await planned(cluster, wished(kubernetesVersion="1.36"))
        assert len(rolled.groups) == 2
        for preview in (counted, rolled):
            assert messages.CHANGED_BY_UPGRADE in preview.warnings
        same = await planned(cluster, wished())
        assert (same.is_empty, same.stops, same.warnings) == (True, "", ())
        assert await kubelets(cluster) == ["v1.35"] * len(await kubelets(cluster))

    managing(story)


async def planned(cluster: Client, trees: list[Tree]) -> Preview:
    wanted = [*read_manifests(yaml.safe_dump_all(trees).encode(), source="manifest")]
    (plan,) = await PlanRequest(SIMULATED, wanted, "", Isolation.LAYERS, None).of_manifest(cluster, "default")
    return plan.now


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize("only_components", [False, True])
def test_an_unknown_cluster_api_stops_an_upgrade(
    monkeypatch: pytest.MonkeyPatch, *, only_components: bool, dry_run: bool
) -> None:
    """A newer one than those of the matrix would be replaced by an older one."""

    async def main(simulation: Simulation) -> None:
        async with created(simulation) as (env, cluster):
            given_to_commands(monkeypatch, env)
            await installed(cluster, "v1.15.0")
            record = await cluster.get(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)
            parsed = [*read_manifests(yaml.safe_dump_all(wished()).encode(), source="manifest")]
            if only_components:
                act = changing.upgrade_components(MANAGEMENT.name, flags.Connection(), timeout=600, dry_run=dry_run)
            else:
                act = changing.upgrade(parsed, [], flags.Connection(), timeout=600, dry_run=dry_run)
            with pytest.raises(Failure, match=r"found 1\.15\.0, allowed are .* Nothing was changed"):
                await act
            after = await cluster.get(Cluster.resource, MANAGEMENT.name, MANAGEMENT.namespace)
            assert after.resource_version == record.resource_version
            assert await records.read(cluster, MANAGEMENT) is None
            assert await records.managed(cluster) == (MANAGEMENT, records.RUNNING)

    run(main, epoch=EPOCH, seed=1)


def test_an_older_cluster_api_is_upgraded_along(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main(simulation: Simulation) -> None:
        async with created(simulation) as (env, cluster):
            given_to_commands(monkeypatch, env)
            await installed(cluster, "v1.12.3")
            await changing.upgrade_components(MANAGEMENT.name, flags.Connection(), timeout=600, dry_run=True)

    run(main, epoch=EPOCH, seed=1)


async def installed(cluster: Client, version: str) -> None:
    """Somebody has installed this version of Cluster API's own manager with clusterctl."""
    name = "capi-controller-manager"
    deployment = await cluster.get(DEPLOYMENT, name, CAPI_NAMESPACE)
    containers = deployment.tree["spec"]["template"]["spec"]["containers"]
    containers[0]["image"] = f"{containers[0]['image'].rpartition(':')[0]}:{version}"
    template = {"spec": {"containers": containers}}
    patch: Tree = {"metadata": {"labels": {PROVIDER_LABEL: CORE}}, "spec": {"template": template}}
    await cluster.patch(DEPLOYMENT, name, CAPI_NAMESPACE, patch=patch, type=PatchType.MERGE)
