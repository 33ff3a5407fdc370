"""An upgrade whose first new control plane machine never comes up is taken back, by the real Cluster API."""

from __future__ import annotations

import asyncio

from espalier.api.resource import Key
from tests.support.environments.cluster_api import RealClusterApi
from tests.support.environments.managed_clusters import NAMESPACE
from tests.support.histories.machine_stories import KUBERNETES, can_not_go_back, hangs_and_goes_back


async def made(env: RealClusterApi, name: str, count: int) -> Key:
    """A cluster of 1.35 that is ready."""
    await env.provide_etcd(name)
    await env.head_start(name, KUBERNETES["1.35"])
    await env.apply(name=name, kubernetesVersion="1.35", controlPlaneConfiguration={"count": count})
    key = Key(NAMESPACE, name)
    await env.until_ready(key)
    await env.without_pods_to_drain(name)
    return key


async def lives(env: RealClusterApi, name: str, count: int) -> None:
    key = await made(env, name, count)
    await hangs_and_goes_back(env, env.images, key, count=count)
    await can_not_go_back(env, key)


async def both_go_back(env: RealClusterApi) -> None:
    """Of a control plane of one machine and of three."""
    async with asyncio.TaskGroup() as tasks:
        for name, count in (("willow", 1), ("poplar", 3)):
            tasks.create_task(lives(env, name, count))
