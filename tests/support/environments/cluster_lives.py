"""Clusters in a simulated environment: where journeys begin, and what is seen of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime

import pytest

from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.providers.kinds import CLUSTER_API_KINDS
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import ManagedEnvironment, managed_environment

pytestmark = pytest.mark.embedded


EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


KUBERNETES = {"1.34": "v1.34.4-eks-1-34-1", "1.35": "v1.35.4-eks-1-35-1", "1.36": "v1.36.3-eks-1-36-1"}


def journey(story: Callable[[ManagedEnvironment], Awaitable[None]], *, seed: int = 1) -> None:
    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, seed=seed) as env:
            await story(env)

    run(main, epoch=EPOCH, seed=seed)


def groups(count: int) -> list[dict[str, object]]:
    return [{"name": "md-0", "count": count}]


def conditions(cluster: Cluster) -> Mapping[str, str]:
    return {condition.type: condition.status for condition in cluster.status.conditions}


async def left(env: ManagedEnvironment) -> list[str]:
    """Everything in the system's namespace that is a cluster's."""
    results = []
    for kind in CLUSTER_API_KINDS:
        listed = await env.client.list(kind.resource, SYSTEM_NAMESPACE)
        results += [f"{kind.resource.kind} {object_.name}" for object_ in listed.items]
    return results


def message_of(cluster: Cluster, type_: str) -> str:
    return next((condition.message for condition in cluster.status.conditions if condition.type == type_), "")
