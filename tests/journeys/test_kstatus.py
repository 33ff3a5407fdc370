"""A cluster in its life as Flux and others that follow kstatus see it, whenever they look."""

from __future__ import annotations

import asyncio

import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION, SYSTEM_NAMESPACE
from espalier.kube.client import PatchType
from espalier.kube.objects import Object
from tests.support.environments.cluster_lives import journey
from tests.support.environments.managed_environment import CALM, GARDEN, NAMESPACE, ManagedEnvironment
from tests.support.objects.kstatus import CURRENT, FAILED, IN_PROGRESS, TERMINATING, verdict

pytestmark = pytest.mark.embedded


def watched(env: ManagedEnvironment) -> list[str]:
    """The verdicts about the cluster from now on, each until it changes."""
    results: list[str] = []

    def look(_old: Object | None, new: Object | None, _first: bool) -> None:
        if new is not None and new.key == GARDEN and results[-1:] != [verdict(new.tree)]:
            results.append(verdict(new.tree))

    env.clusters.subscribe(look)
    return results


def test_an_upgrade_is_in_progress_until_it_is_done() -> None:
    async def story(env: ManagedEnvironment) -> None:
        verdicts = watched(env)
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(CALM)
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        await asyncio.sleep(CALM)
        await env.client.delete(Cluster.resource, "garden", NAMESPACE)
        await env.until_gone()
        assert verdicts == [IN_PROGRESS, CURRENT, IN_PROGRESS, CURRENT, TERMINATING]

    journey(story)


def test_a_lost_control_plane_is_a_failure() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(CALM)
        verdicts = watched(env)
        await env.client.delete(KubeadmControlPlane.resource, "garden", SYSTEM_NAMESPACE)
        await asyncio.sleep(CALM)
        assert (verdicts[0], verdicts[-1]) == (CURRENT, FAILED)

    journey(story)


def test_pause_holds_change_in_progress_and_no_other() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.apply()
        await env.until_ready()
        await asyncio.sleep(CALM)
        verdicts = watched(env)
        pause = {"metadata": {"annotations": {PAUSED_ANNOTATION: "true"}}}
        await env.client.patch(Cluster.resource, "garden", NAMESPACE, patch=pause, type=PatchType.MERGE)
        await asyncio.sleep(CALM)
        assert verdicts == [CURRENT]
        await env.change(kubernetesVersion="1.36")
        await asyncio.sleep(CALM)
        assert verdicts == [CURRENT, IN_PROGRESS]
        cluster = (await env.client.get(Cluster.resource, "garden", NAMESPACE)).decode(Cluster)
        assert [condition.reason for condition in cluster.status.conditions if condition.type == "Stalled"] == [
            "Paused"
        ]

    journey(story)


def test_the_record_of_a_management_cluster_is_current() -> None:
    async def story(env: ManagedEnvironment) -> None:
        await asyncio.sleep(CALM)
        assert verdict((await env.client.get(Cluster.resource, "laptop", "default")).tree) == CURRENT

    journey(story)
