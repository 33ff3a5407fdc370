"""Linked objects, and a Secret that they name, are part of the request: a provider whose children have content.

Docker's have none, so that its stories in test_isolation.py would hold if nobody observed children.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

import pytest

from espalier.api.core import SECRET
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.apiserver.storage.store import MemoryStore
from espalier.cli.install import manifests
from espalier.clusterapi.infrastructures import infrastructure
from espalier.clusters import Isolation
from espalier.clusters.design import names
from espalier.clusters.design.drift import gate
from espalier.providers.registry import PROVIDERS
from espalier.runtime.virtual import Simulation, run
from espalier.simulator.workload_clusters.stores import MemoryStores
from tests.support.environments.embedded_gardens import EPOCH, Garden
from tests.support.environments.managed_environment import CALM, GARDEN, managed_environment
from tests.support.histories.isolation_stories import ANNOTATION, NEXT, STATUS, machines, made_for, mark
from tests.support.histories.linked_stories import (
    CARRIER,
    CARRIERS,
    CREDENTIALS,
    STORIES,
    back_up,
    credentials,
    edit,
    password,
    plant,
    put,
    seen,
    until_made,
)
from tests.support.providers.orchard import KINDS, ORCHARD
from tests.support.sampling import sampled
from tests.support.servers.audit import grants
from tests.support.servers.faults import Crash

pytestmark = pytest.mark.embedded

gated = partial(managed_environment, providers=ORCHARD, kinds=KINDS, isolation=Isolation.GATE)
"""With the gate alone: what a later manager does is then seen in the machines, once the gate opens."""

garden = Garden(gated, plant, back_up)


@pytest.mark.demand("I3", "I14", "I15", I13="with content in the children")
@pytest.mark.parametrize("name", sampled(STORIES, 3))
def test_linked_changes_without_a_manager_are_seen(name: str) -> None:
    garden.tell(STORIES[name]())


@pytest.mark.soak
def test_layered_secret_change_reaches_carriers_only() -> None:
    garden.tell(STORIES["a secret is changed"](), Isolation.LAYERS)


@pytest.mark.soak
@pytest.mark.parametrize("namespaces", sampled([((),), (("default",),)], 0), ids=["all namespaces", "one namespace"])
def test_provider_with_credentials_uses_its_rights(namespaces: Sequence[str]) -> None:
    """That it needs no others, the environment says at its end. ConfigMaps of the system are read in any case."""

    async def main(simulation: Simulation) -> None:
        async with gated(simulation.clock, namespaces=namespaces) as env:
            await plant(env)
            with_it, without = (set(grants(manifests.installed(each, namespaces))) for each in (ORCHARD, PROVIDERS))
            assert {grant.resource for grant in with_it - without} == {
                *(kind.resource.plural for kind in KINDS),
                "orchardmachineconfigs/status",  # of a controller of the provider's own, which has nothing to do here
            }
            # What is made for clusters is deleted with them, and patched in an upgrade in place: not in this story.
            # Deletion of configs is a right that only plugin OwnerReferencesPermissionEnforcement asks for.
            read = {
                grant
                for grant in with_it - without
                if grant.group != infrastructure.GROUP
                and grant.verb != "delete"
                and not grant.resource.endswith("/status")
            }
            assert read == env.ledger.used(read)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_invalid_gate_key_is_reported_until_deleted() -> None:
    async def main(simulation: Simulation) -> None:
        async with gated(simulation.clock) as env:
            await put(env, SECRET, names.GATE_KEY.name, data={})
            planting = asyncio.create_task(plant(env))
            cluster = await env.until(lambda cluster: "WaitingForGateKey" in reasons(cluster))
            assert reasons(cluster)["WaitingForGateKey"] == (
                "waiting for Secret eksa-system/espalier-gate-key to appear in the cache; if it lacks key, delete it"
            )
            assert await made_for(env, GARDEN) == {}
            await env.client.delete(SECRET, names.GATE_KEY.name, SYSTEM_NAMESPACE)
            await planting

    run(main, epoch=EPOCH, seed=1)


def reasons(cluster: Cluster) -> dict[str, str]:
    return {condition.reason: condition.message for condition in cluster.status.conditions}


@pytest.mark.soak
def test_restore_to_an_empty_server_opens_no_gate() -> None:
    async def main(simulation: Simulation) -> None:
        async with garden.restored(simulation) as (env, backup):
            await backup.is_left_alone(env)

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_manager_without_key_rewrites_credentials_only() -> None:
    """A backup without it, or a move to another management cluster: no machine is replaced for that."""

    async def main(simulation: Simulation) -> None:
        async with garden.restored(simulation, names.GATE_KEY) as (env, backup):
            await asyncio.sleep(CALM)
            content, _, data = (await mark(env) or "").rpartition(":")
            before, _, digest = (backup.mark or "").rpartition(":")
            assert content == before
            assert data not in (digest, gate.OPENED)
            assert (await machines(env.client)).keys() == backup.machines
            written = env.written()
            key, copy, images = ("create", "secrets", ""), ("update", "secrets", ""), ("create", "configmaps", "")
            assert written.keys() <= {*CARRIERS, ANNOTATION, STATUS, key, copy, images}
            assert written[CARRIER] == 1  # who owned which field was lost as well
            assert written[key] == 2  # and the copy of the kubeconfig, as a new Secret until it is found there

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
@pytest.mark.parametrize("writes", sampled([1, 2, 3], 1))
def test_half_written_credentials_are_finished_alone(writes: int) -> None:
    """The manager died after so many writes, and the next one would make machines of something else."""

    async def main(simulation: Simulation) -> None:
        store, stores, crash = MemoryStore(), MemoryStores(), Crash(writes)
        async with gated(simulation.clock, store=store, stores=stores) as env:
            await plant(env)
            made, uids = await made_for(env, GARDEN), await machines(env.client)
        async with gated(
            simulation.clock,
            seed=2,
            store=store,
            stores=stores,
            wrap=crash,
        ) as env:
            await edit(env, SECRET, CREDENTIALS, data=password("lily"))
            await crash.died.wait()
            assert await mark(env) != gate.OPENED
        async with gated(simulation.clock, seed=3, store=store, stores=stores, layers=NEXT) as env:
            await asyncio.sleep(CALM)
            assert await credentials(env) == seen("lily")
            assert not (await mark(env) or "").endswith(gate.OPENED)
            assert await made_for(env, GARDEN) == made
            assert await machines(env.client) == uids

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.demand(I3="Secrets too")
@pytest.mark.soak
def test_credentials_with_a_change_are_a_change() -> None:
    async def main(simulation: Simulation) -> None:
        async with gated(simulation.clock) as env:
            await plant(env)
            await edit(env, SECRET, CREDENTIALS, data=password("lily"))
            await edit(env, KINDS[1].resource, "garden-workers", spec={"users": ["eve"]})
            await until_made(env, workers="eve")
            assert await credentials(env) == seen("lily")

    run(main, epoch=EPOCH, seed=1)


@pytest.mark.soak
def test_plan_tells_that_secret_changes_carriers_only() -> None:
    async def main(simulation: Simulation) -> None:
        async with gated(simulation.clock) as env:
            await plant(env)
            env.manager.stop()
            await asyncio.sleep(CALM)
            await edit(env, SECRET, CREDENTIALS, data=password("lily"))
            preview = await env.preview(GARDEN, [], isolation=Isolation.GATE, layers=NEXT)
            assert [(object_.kind, object_.name) for object_ in preview.objects] == [
                ("Secret", "orchard-garden"),
                ("OrchardCluster", "garden"),
            ]
            assert {field.new for field in preview.objects[0].fields} == {"(hidden)"}
            assert preview.settled
            assert preview.groups == ()

    run(main, epoch=EPOCH, seed=1)
