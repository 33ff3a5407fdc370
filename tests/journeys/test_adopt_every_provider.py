"""Clusters of every provider are taken over from EKS Anywhere, with external etcd, failure domains and credentials."""

from __future__ import annotations

import asyncio

import pytest

from espalier.apiserver.storage.store import Change
from espalier.kube.client import Client
from espalier.management.adoption.plan import Outcome, State, plan
from espalier.management.adoption.site import read
from espalier.providers.registry import PROVIDERS
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, managed_environment
from tests.support.environments.manager_upgrades import is_content
from tests.support.environments.of_eks_anywhere import adopter, grows, of_every_provider
from tests.support.environments.stores import CopiedStores, copied
from tests.support.environments.tenants_of_every_provider import key_of, settled
from tests.support.histories.tenant_stories import ALICE, BOB
from tests.support.providers.every_provider import KINDS

pytestmark = [pytest.mark.embedded, pytest.mark.soak]


def test_adopted_clusters_of_all_providers_scale() -> None:
    """Not one object of Cluster API is written before, and no machine is replaced when a group grows."""
    written: list[str] = []

    async def main(simulation: Simulation) -> None:
        store, stores = copied(of_every_provider()), CopiedStores(settled().stores)

        def look(change: Change) -> None:
            if is_content(change) and change.table.endswith("cluster.x-k8s.io"):
                written.append(f"{change.table} {change.key}")

        async def before(client: Client) -> None:
            store.follow(look)
            planned = plan(await read(client, PROVIDERS), [key_of(kind) for kind in KINDS])
            assert {cluster.key: (cluster.state, cluster.blocks) for cluster in planned.clusters} == {
                key_of(kind): (State.READY, ()) for kind in KINDS
            }
            assert any(row.outcome is Outcome.STAYS for cluster in planned.clusters for row in cluster.rows)
            await adopter(client).apply(None)

        async with managed_environment(
            simulation.clock, seed=2, store=store, stores=stores, copies_to=(ALICE, BOB), before_start=before
        ) as env:
            await asyncio.sleep(CALM)
            assert written == []
            await asyncio.gather(*(grows(env, key_of(kind)) for kind in KINDS))

    run(main, epoch=settled().at, seed=1)
