"""Whoever may write statuses of Cluster API objects in `eksa-system` writes whatever their schemas let through.

The manager and the simulated Cluster API read them: no reconcile panics, for any provider, and once controllers have
put the statuses right, the cluster is ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from espalier.api.capi.machine import Machine
from espalier.api.eksa.group import SYSTEM_NAMESPACE
from espalier.api.resource import Resource
from espalier.clusterapi import contract
from espalier.clusters.observe import written
from espalier.clusters.provider import infrastructures
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Invalid, NotFound
from espalier.kube.objects import Object
from espalier.providers.registry import PROVIDERS
from espalier.runtime.virtual import Simulation, run
from tests.journeys.every_provider import key_of, settled
from tests.journeys.managed import CALM, managed_environment
from tests.journeys.tenant_stories import ALICE, BOB
from tests.support.every_provider import KINDS
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

VALUES: Mapping[str, Any] = {
    "null": None,
    "nothing": {},
    "long": "\u202e\x07x" * 10_000,
    "text": "-1",
    "negative": -1,
    "large": 2**63 - 1,
    "fraction": 1.5,
    "false": False,
    "list": [[], 1],
    "item": [{}],
    "deep": {"a": {"b": [1]}},
    "date": "2026-99-99",
}


def changed(status: Any, value: Any) -> Iterator[Any]:
    """The status with this value in one place, for each place in it."""
    if isinstance(status, dict):
        for name, part in status.items():
            yield {**status, name: value}
            yield from ({**status, name: one} for one in changed(part, value))
    elif isinstance(status, list) and status:
        yield [*status, value]
        yield from ([one, *status[1:]] for one in changed(status[0], value))


async def parts(client: Client, name: str) -> list[tuple[Resource, Object]]:
    """What a cluster consists of, as far as it has a status."""
    kinds = {*written(PROVIDERS), Machine.resource, *(one.machine for one in infrastructures(PROVIDERS).all)}
    found = []
    for resource in sorted(kinds, key=str):
        for one in (await client.list(resource, SYSTEM_NAMESPACE if resource.namespaced else None)).items:
            if one.metadata.labels.get(contract.CLUSTER_NAME_LABEL) == name and "status" in one.tree:
                found.append((resource, one))
    return found


@pytest.mark.parametrize("value", sampled(VALUES, 0))
@pytest.mark.parametrize("kind", KINDS)
def test_no_status_of_a_cluster_s_objects_makes_a_reconcile_panic(kind: str, value: str) -> None:
    key, taken = key_of(kind), 0
    made = settled(kind)
    store, stores = made.opened()

    async def main(simulation: Simulation) -> None:
        nonlocal taken
        async with managed_environment(simulation.clock, store=store, stores=stores, copies_to=(ALICE, BOB)) as env:
            await env.until_ready(key)
            for resource, one in await parts(env.client, key.name):
                for status in changed(one.tree["status"], VALUES[value]):
                    patch = [{"op": "replace", "path": "/status", "value": status}]
                    try:
                        await env.client.patch(
                            resource, one.name, one.namespace, patch=patch, type=PatchType.JSON, subresource="status"
                        )
                    except (Invalid, NotFound):
                        continue
                    taken += 1
                    await asyncio.sleep(1)
            await asyncio.sleep(CALM)
            await env.until_ready(key)

    with capture_logs([structlog.processors.format_exc_info]) as logged:
        run(main, epoch=made.at, seed=2)
    assert [one["exception"] for one in logged if "exception" in one] == []
    assert taken > 10
