"""The upgrade of a manager that has settled clusters of every provider: it writes nothing but statuses.

The later build makes all machines of its own release of something else, whatever the provider, so that these tests can
fail: what they see without isolation is told last.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

import pytest
import semver
from msgspec.structs import replace

from espalier.api.capi.kubeadm import KubeadmConfigSpec
from espalier.api.eksa.cluster import Cluster
from espalier.api.resource import Key
from espalier.apiserver.storage.store import Change
from espalier.clusters import Isolation
from espalier.clusters.design.layers import LAYERS, Layer
from espalier.clusters.design.layers.pieces import changed
from espalier.clusters.design.rendered import Rendered
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import ManagedEnvironment, managed_environment
from tests.support.environments.manager_upgrades import RESYNC, is_content
from tests.support.environments.tenants_of_every_provider import key_of, settled
from tests.support.histories.isolation_stories import STATUS, is_synced, machines, made_for
from tests.support.histories.tenant_stories import ALICE, BOB
from tests.support.providers.every_provider import KINDS, SAMPLES

pytestmark = pytest.mark.embedded

COMMAND = "touch /etc/made-by-a-later-release"


def _commanded(config: KubeadmConfigSpec) -> KubeadmConfigSpec:
    return changed(config, pre_kubeadm_commands=[*config.pre_kubeadm_commands, COMMAND])


def with_another_command(rendered: Rendered) -> Rendered:
    """A change of the machines of every provider, and of each object that a provider adds."""
    plane = rendered.control_plane
    config = _commanded(plane.spec.kubeadm_config_spec)
    groups = []
    for group in rendered.groups:
        template = group.config_template
        made = changed(template.spec.template, spec=_commanded(template.spec.template.spec))
        groups.append(replace(group, config_template=changed(template, spec=changed(template.spec, template=made))))
    extras = [
        changed(extra, metadata=changed(extra.metadata, labels=extra.metadata.labels | {"later": "yes"}))
        for extra in rendered.extras
    ]
    return replace(
        rendered,
        control_plane=changed(plane, spec=changed(plane.spec, kubeadm_config_spec=config)),
        groups=tuple(groups),
        extras=tuple(extras),
    )


LATER: Sequence[Layer] = (
    *LAYERS,
    Layer("commands", semver.Version(0, 27, 0), "Machines run a command.", functions=(with_another_command,)),
    Layer("quieter", semver.Version(0, 27, 0), "An urgent fix.", is_patch=True),
)


def upgrade(isolation: Isolation) -> None:
    """A later manager finds them, and is there for ten rounds over all clusters; then each cluster is scaled."""

    async def main(simulation: Simulation) -> None:
        store, stores = settled().opened()
        more: list[str] = []
        seen = asyncio.Event()

        def look(change: Change) -> None:
            if is_content(change):
                more.append(f"{change.table} {change.key}")
                seen.set()

        async with managed_environment(
            simulation.clock,
            seed=2,
            store=store,
            stores=stores,
            copies_to=(ALICE, BOB),
            isolation=isolation,
            layers=LATER,
            resync=RESYNC,
        ) as env:
            store.follow(look)
            with suppress(TimeoutError):
                async with asyncio.timeout(10 * 1.1 * RESYNC):
                    await seen.wait()
            assert not more, f"the later manager wrote more than statuses: {more}"
            # Of each, to say that there is a patch, or that nothing is compared.
            assert dict(env.written()) == {STATUS: len(KINDS)}
            assert await machines(env.client) == settled().machines
            if isolation is Isolation.LAYERS:
                await asyncio.gather(*(stays_of_its_release(env, key_of(kind)) for kind in KINDS))

    run(main, epoch=settled().at, seed=1)


async def stays_of_its_release(env: ManagedEnvironment, key: Key) -> None:
    """It is as its own release renders it, and a change brings nothing of the later one."""
    value = env.clusters.get(key)
    assert value is not None
    assert is_synced(value)
    before, machines_before = await made_for(env, key), await env.machine_names(key.name)
    groups = [dict(group) for group in value.tree["spec"]["workerNodeGroupConfigurations"]]
    groups[0]["count"] = 2
    await env.change(key, workerNodeGroupConfigurations=groups)
    await env.until_ready(key)
    after = await made_for(env, key)
    grown = {name for name, generation in after.items() if before.get(name) != generation}
    assert grown
    assert {name.partition(" ")[0] for name in grown} == {"MachineDeployment"}
    machines_after = await env.machine_names(key.name)
    assert all(machines_before[name] <= machines_after[name] for name in machines_before)


@pytest.mark.demand(I28="for every registered provider, with external etcd, failure domains and credentials")
@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_there_is_a_settled_cluster_of_each_provider(kind: str) -> None:
    """None is skipped: who registers a provider adds a sample (`tests/support/providers/every_provider.py`)."""
    assert kind in SAMPLES
    result = settled().store.table(Cluster.resource.group_resource).objects[key_of(kind)]
    assert result.tree["spec"]["datacenterRef"]["kind"] == kind
    assert result.tree["status"]["ready"]


@pytest.mark.demand(I28="for every registered provider, with external etcd, failure domains and credentials")
@pytest.mark.soak
def test_later_manager_writes_statuses_only() -> None:
    upgrade(Isolation.LAYERS)


@pytest.mark.soak
def test_later_manager_with_gate_writes_statuses_only() -> None:
    upgrade(Isolation.GATE)


@pytest.mark.demand(I28="for every registered provider, with external etcd, failure domains and credentials")
@pytest.mark.soak
def test_without_isolation_the_same_fails() -> None:
    """The proof that the tests above can fail, for each provider."""

    async def main(simulation: Simulation) -> None:
        store, stores = settled().opened()
        async with managed_environment(
            simulation.clock, seed=2, store=store, stores=stores, isolation=Isolation.OFF, layers=LATER
        ) as env:
            for kind in KINDS:
                await env.until(lambda cluster: not cluster.status.ready, key_of(kind), seconds=300)

    run(main, epoch=settled().at, seed=1)
