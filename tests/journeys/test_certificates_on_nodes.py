"""Certificates that are renewed on the nodes of a control plane that is upgraded in place: no machine is replaced."""

from __future__ import annotations

import asyncio
import io
from contextlib import suppress
from datetime import datetime, timedelta

import pytest
from rich.console import Console

from espalier.api.capi.kubeadm import KubeadmConfig
from espalier.api.core import CONFIG_MAP, CUSTOM_RESOURCE_DEFINITION, NODE
from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.eksa.vocabulary.upgrade_keys import NODE_IN_WORK, UNFINISHED, UPGRADE_SECONDS
from espalier.api.meta import Tree
from espalier.cli.clusters.rollouts import node_certificates, rollouts
from espalier.cli.clusters.rollouts.rollouts import Target
from espalier.cli.kit.failures import Failure, Overdue
from espalier.cli.kit.printing.progress import Progress
from espalier.clusterapi.names import CERTIFICATES_EXPIRY
from espalier.clusters.report.certificates import expiries
from espalier.kube.client import PatchType
from espalier.kube.errors import Invalid
from espalier.kube.objects import Object
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from tests.support.environments.in_place_environment import journey, machines, reach
from tests.support.environments.managed_environment import GARDEN, ManagedEnvironment
from tests.support.environments.upgraders import Moment, Upgraders
from tests.support.waiting import until

pytestmark = pytest.mark.embedded

RENEWER = "certificates-renewer"
LONG = 3600.0
LATER = timedelta(minutes=10)


async def target(env: ManagedEnvironment) -> Target:
    owner = await rollouts.cluster(env.client, GARDEN)
    (control_plane,) = await rollouts.targets(env.client, owner, [], control_plane=True)
    return control_plane


async def renew(env: ManagedEnvironment, timeout: float = LONG) -> str:
    """The output of the command."""
    out = Console(file=io.StringIO(), width=300)
    control_plane = await target(env)
    await node_certificates.check(env.client, control_plane)
    await node_certificates.renew(env.client, control_plane, timeout=timeout, progress=Progress(out))
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


async def end_midway(env: ManagedEnvironment, upgraders: Upgraders) -> None:
    """A command that is ended while the first node is at work."""
    begun = asyncio.Event()

    async def happening(_workload: WorkloadCluster, _node: str, _container: str, _moment: Moment) -> None:
        begun.set()

    upgraders.happening = happening
    command = asyncio.create_task(renew(env))
    await begun.wait()
    command.cancel()
    with suppress(asyncio.CancelledError):
        await command


async def ends(env: ManagedEnvironment) -> dict[str, datetime]:
    return expiries(await machines(env, control_plane=True))


async def upgrades(env: ManagedEnvironment) -> list[Object]:
    return list((await env.client.list(NodeUpgrade.resource, SYSTEM_NAMESPACE)).items)


async def configuration(env: ManagedEnvironment) -> Tree:
    config_map = await reach(env).client.get(CONFIG_MAP, "kubeadm-config", "kube-system")
    data: Tree = config_map.tree["data"]
    return data


def test_nodes_are_renewed_one_at_a_time() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before, planes = await ends(env), [machine.name for machine in await machines(env, control_plane=True)]
        nodes = {node.name: node.metadata.uid for node in (await reach(env).client.list(NODE)).items}
        configured = await configuration(env)
        assert set(before) == set(planes)
        await asyncio.sleep(LATER.total_seconds())
        printed = await renew(env)
        assert "3 nodes renewed, and in use" in printed
        assert "they are valid until 2027-01-" in printed
        assert sorted(upgraders.ran) == sorted((node, RENEWER) for node in planes)
        assert upgraders.at_once == 1
        assert upgraders.commands[planes[0], RENEWER] == ["upgrader", "certificates"]
        after = await ends(env)
        assert all(after[name] - before[name] >= LATER for name in planes)
        assert {node.name: node.metadata.uid for node in (await reach(env).client.list(NODE)).items} == nodes
        assert await configuration(env) == configured
        assert await upgrades(env) == []
        for machine in await machines(env, control_plane=True):
            assert not {UNFINISHED, UPGRADE_SECONDS} & machine.metadata.annotations.keys()
            assert "cluster.x-k8s.io/skip-remediation" not in machine.metadata.annotations
        assert NODE_IN_WORK not in (await target(env)).object.metadata.annotations

    journey(story, control_planes=3)


def test_ended_command_leaves_the_rest_to_the_manager() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        await end_midway(env, upgraders)
        planes = [machine.name for machine in await machines(env, control_plane=True)]
        cache = env.manager.caches.of(NodeUpgrade.resource, SYSTEM_NAMESPACE)
        for upgrade in await upgrades(env):
            await until(cache, upgrade.key, lambda item: item is not None and item.decode(NodeUpgrade).is_completed)
        assert sorted(upgraders.ran) == sorted((node, RENEWER) for node in planes)
        await renew(env)
        assert len(upgraders.ran) == 6, "those that are done are no answer to a new command"

    journey(story, control_planes=3)


def test_next_command_waits_for_an_unfinished_renewal() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        await end_midway(env, upgraders)
        await renew(env)
        assert len(upgraders.ran) == 3

    journey(story, control_planes=3)


def test_former_renewal_that_stays_ends_the_command() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        (machine,) = await machines(env, control_plane=True)
        former = node_certificates._upgrade(machine, f"{machine.name}-certificates")
        former["spec"]["machine"]["uid"] = "of-a-machine-that-is-gone"
        former["metadata"]["finalizers"] = ["example.com/nobody-removes-it"]
        await env.client.create(NodeUpgrade.resource, former)
        with pytest.raises(Overdue, match="renew certificates"):
            await asyncio.wait_for(renew(env, timeout=60), 600)
        assert upgraders.ran == []

    journey(story)


def test_failed_node_stops_the_renewal_until_retried() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        planes = [machine.name for machine in await machines(env, control_plane=True)]
        for node in planes:
            upgraders.failing[node, RENEWER] = "the authority's key is not there"
        with pytest.raises(Failure, match="the authority's key is not there") as failed:
            await renew(env)
        assert "give this command again; to give the renewal up, delete NodeUpgrade" in str(failed.value)
        assert len(upgraders.ran) == 1, "the others are not touched"
        upgraders.failing.clear()
        await renew(env)
        assert {node for node, _ in upgraders.ran} == set(planes)

    journey(story, control_planes=3)


def test_deleted_renewals_leave_nodes_as_they_are() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        node = (await machines(env, control_plane=True))[0].name
        upgraders.failing[node, RENEWER] = "no"
        with pytest.raises(Failure):
            await renew(env)
        configured = await configuration(env)
        for upgrade in await upgrades(env):
            await env.client.delete(NodeUpgrade.resource, upgrade.name, SYSTEM_NAMESPACE)
            await until(
                env.manager.caches.of(NodeUpgrade.resource, SYSTEM_NAMESPACE), upgrade.key, lambda item: item is None
            )
        assert await configuration(env) == configured
        assert UNFINISHED not in (await machines(env, control_plane=True))[0].metadata.annotations
        await env.until_ready()

    journey(story)


def test_earlier_definitions_renew_nothing() -> None:
    """A NodeUpgrade without the field would be an upgrade."""

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec"
        patch: list[Tree] = [{"op": "remove", "path": f"{path}/properties/certificatesOnly"}]
        patch += [{"op": "remove", "path": f"{path}/x-kubernetes-validations"}]
        name = NodeUpgrade.resource.group_resource
        await env.client.patch(CUSTOM_RESOURCE_DEFINITION, name, patch=patch, type=PatchType.JSON)
        with pytest.raises(Failure, match=r"nodeupgrades\S+ of the management cluster is of an earlier release"):
            await renew(env)
        assert await upgrades(env) == []
        assert upgraders.ran == []

    journey(story)


def test_upgrade_in_place_renews_what_is_reported() -> None:
    """kubeadm renews certificates in each upgrade, and Cluster API looks only if nothing is noted."""

    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        before = await ends(env)
        await asyncio.sleep(LATER.total_seconds())
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        (name,) = before
        await asyncio.sleep(60)
        assert (await ends(env))[name] - before[name] >= LATER
        (worker, *_) = await machines(env, control_plane=False)
        config = await env.client.get(KubeadmConfig.resource, worker.name, SYSTEM_NAMESPACE)
        assert CERTIFICATES_EXPIRY not in config.metadata.annotations

    journey(story)


def test_other_version_or_worker_is_refused() -> None:
    async def story(env: ManagedEnvironment, upgraders: Upgraders) -> None:
        plane, worker = (await machines(env, control_plane=True))[0], (await machines(env, control_plane=False))[0]

        async def create(machine: Object, node_type: str, version: str) -> Object:
            reference = {"name": machine.name}
            spec = {"machine": reference, "kubernetesVersion": version, "nodeType": node_type}
            metadata = {"name": "by-hand", "namespace": SYSTEM_NAMESPACE}
            body = {"metadata": metadata, "spec": spec | {"certificatesOnly": True}}
            return await env.client.create(NodeUpgrade.resource, body)

        with pytest.raises(Invalid, match="certificatesOnly is for nodes of type ControlPlane"):
            await create(worker, "Worker", "v1.35.4-eks-1-35-1")
        upgrade = await create(plane, "ControlPlane", "v1.36.3-eks-1-36-1")
        cache = env.manager.caches.of(NodeUpgrade.resource, SYSTEM_NAMESPACE)
        await until(
            cache, upgrade.key, lambda item: item is not None and "certificates are renewed without" in str(item.tree)
        )
        assert upgraders.ran == []

    journey(story)
