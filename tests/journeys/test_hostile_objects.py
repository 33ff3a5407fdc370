"""Whoever may write Cluster API objects in `eksa-system` writes whatever their schemas let through.

The manager and the simulated Cluster API read it: no reconcile panics, for any provider. Once controllers have put
statuses right, and whoever edited specs has, the cluster is ready.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from espalier.api.capi.machine import Machine
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Resource
from espalier.clusterapi import contract
from espalier.clusters.design.provider import infrastructures
from espalier.clusters.observe.observe import written
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Forbidden, Invalid, NotFound
from espalier.kube.objects import Object
from espalier.providers.registry import PROVIDERS
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, managed_environment
from tests.support.environments.tenants_of_every_provider import key_of, settled
from tests.support.histories.tenant_stories import ALICE, BOB
from tests.support.providers.every_provider import KINDS
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
            yield from ({**status, name: item} for item in changed(part, value))
    elif isinstance(status, list) and status:
        yield [*status, value]
        yield from ([item, *status[1:]] for item in changed(status[0], value))


async def parts(client: Client, name: str) -> list[tuple[Resource, Object]]:
    """The objects of a cluster that have a status."""
    kinds = {*written(PROVIDERS), Machine.resource, *(item.machine for item in infrastructures(PROVIDERS).all)}
    results = []
    for resource in sorted(kinds, key=str):
        for element in (await client.list(resource, SYSTEM_NAMESPACE if resource.namespaced else None)).items:
            if element.metadata.labels.get(contract.CLUSTER_NAME_LABEL) == name and "status" in element.tree:
                results.append((resource, element))
    return results


CASES = [(kind, field, value) for field in ("status", "spec") for value in VALUES for kind in KINDS]
OFTEN = CASES.index((KINDS[1], "status", "null"))


@pytest.mark.parametrize(("kind", "field", "value"), sampled(CASES, OFTEN))
def test_object_of_a_cluster_makes_no_reconcile_panic(kind: str, field: str, value: str) -> None:
    key, taken = key_of(kind), 0
    made = settled(kind)
    store, stores = made.opened()

    async def main(simulation: Simulation) -> None:
        nonlocal taken
        async with managed_environment(simulation.clock, store=store, stores=stores, copies_to=(ALICE, BOB)) as env:

            async def write(resource: Resource, stored: Object, content: Any) -> bool:
                patch = [{"op": "replace", "path": f"/{field}", "value": content}]
                subresource = "status" if field == "status" else None
                try:
                    await env.client.patch(
                        resource,
                        stored.name,
                        stored.namespace,
                        patch=patch,
                        type=PatchType.JSON,
                        subresource=subresource,
                    )
                except (Invalid, Forbidden, NotFound):
                    return False
                return True

            await env.until_ready(key)
            for resource, stored in await parts(env.client, key.name):
                for content in changed(stored.tree[field], VALUES[value]):
                    if await write(resource, stored, content):
                        taken += 1
                        await asyncio.sleep(1)
                        if field == "spec":
                            await write(resource, stored, stored.tree[field])
            await asyncio.sleep(CALM)
            await env.until_ready(key)

    with capture_logs([structlog.processors.format_exc_info]) as logged:
        run(main, epoch=made.at, seed=2)
    assert [item["exception"] for item in logged if "exception" in item] == []
    assert taken > 10
