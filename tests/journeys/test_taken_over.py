"""Environments that a version before was killed in, in the middle of its work: this one takes them over and ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from espalier.api.capi.machine import Machine
from espalier.api.core import NODE
from espalier.api.eksa.upgrades import ControlPlaneUpgrade, MachineDeploymentUpgrade, NodeUpgrade
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.apiserver.storage.store import Change
from espalier.kube.objects import Object, encode_json
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.in_place_environment import NEW, OLD, marks
from tests.support.environments.managed_environment import CALM, NAMESPACE, ManagedEnvironment, managed_environment
from tests.support.environments.stored import ARCHIVES, Stored, unpack
from tests.support.environments.upgraders import GARDEN as WORKLOAD
from tests.support.environments.upgraders import Upgraders

pytestmark = pytest.mark.embedded

GARDEN, ROLLING, SETTLED = (Key(NAMESPACE, name) for name in ("garden", "rolling", "settled"))
MACHINES, NODES, NODE_UPGRADES = (item.group_resource for item in (Machine.resource, NODE, NodeUpgrade.resource))
Story = Callable[[ManagedEnvironment], Awaitable[None]]


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.partition(".")[0])
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Stored:
    return unpack(request.param, tmp_path)


def go_on(stored: Stored, story: Story) -> None:
    """Start this version where the other one was killed and when: no certificate of it has run out then."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock, store=stored.management, stores=stored.workloads) as env:
            Upgraders(env.workloads)
            await story(env)

    run(main, epoch=stored.at, seed=1)


def machines(stored: Stored, cluster: Key) -> dict[str, str]:
    """Uids of the machines of a cluster, by name."""
    result = stored.management.table(MACHINES).objects.values()
    return {item.name: item.metadata.uid for item in result if item.tree["spec"]["clusterName"] == cluster.name}


def test_the_copy_was_taken_in_the_middle(stored: Stored) -> None:
    """Else it would show nothing: nodes of one group are done, under way and not begun, and a machine is replaced."""
    versions = [
        object_.tree["spec"]["version"]
        for object_ in stored.management.table(MACHINES).objects.values()
        if object_.name in machines(stored, GARDEN)
    ]
    assert set(versions) == {OLD, NEW}
    upgrades = [object_.decode(NodeUpgrade) for object_ in stored.management.table(NODE_UPGRADES).objects.values()]
    assert {upgrade.status.completed for upgrade in upgrades} == {True, False}
    assert len(upgrades) < len(machines(stored, GARDEN)) - 1
    assert len(machines(stored, ROLLING)) == 4


@pytest.mark.soak
def test_upgrade_in_place_is_ended_with_same_machines(stored: Stored) -> None:
    before, nodes = machines(stored, GARDEN), _nodes(stored)

    async def story(env: ManagedEnvironment) -> None:
        changes: list[Change] = []
        stored.management.follow(changes.append)
        await env.until_ready(GARDEN)
        await asyncio.sleep(CALM)
        assert machines(stored, GARDEN) == before
        assert _nodes(stored) == nodes
        assert _versions(stored, GARDEN) == {NEW}
        assert [mark for mark in await marks(env) if mark.startswith("garden")] == []
        assert not stored.management.table(NODE_UPGRADES).objects
        made = [change.key.name for change in changes if change.table == MACHINES and change.before is None]
        assert [name for name in made if name.startswith("garden")] == []

    go_on(stored, story)


@pytest.mark.soak
def test_the_same_holds_for_reports_with_other_reasons(stored: Stored) -> None:
    """No reason in a status is state: they are renamed between versions."""
    for resource in (ControlPlaneUpgrade.resource, MachineDeploymentUpgrade.resource, NodeUpgrade.resource):
        table = stored.management.table(resource.group_resource)
        for key, value in list(table.objects.items()):
            tree = value.tree
            for condition in tree["status"]["conditions"]:
                condition["reason"] = "OfAnotherVersion"
            tree["metadata"]["resourceVersion"] = str(stored.management.revision + 1)
            stored.management.put(resource.group_resource, key, Object(encode_json(tree)))
    before = machines(stored, GARDEN)

    async def story(env: ManagedEnvironment) -> None:
        await env.until_ready(GARDEN)
        assert machines(stored, GARDEN) == before
        assert _versions(stored, GARDEN) == {NEW}

    go_on(stored, story)


@pytest.mark.soak
def test_a_rollout_is_ended(stored: Stored) -> None:
    async def story(env: ManagedEnvironment) -> None:
        await env.until_ready(ROLLING)
        await asyncio.sleep(CALM)
        assert _versions(stored, ROLLING) == {NEW}
        assert len(machines(stored, ROLLING)) == 3

    go_on(stored, story)


@pytest.mark.soak
def test_unchanged_cluster_gets_status_writes_only(stored: Stored) -> None:
    before = machines(stored, SETTLED)

    async def story(env: ManagedEnvironment) -> None:
        await env.until_ready(GARDEN)
        await env.until_ready(SETTLED)
        await asyncio.sleep(CALM)

    written: list[str] = []
    stored.management.follow(lambda change: written.extend(_beyond_status(change)))
    go_on(stored, story)
    assert machines(stored, SETTLED) == before
    assert written == []


def _beyond_status(change: Change) -> list[str]:
    labels = change.after.metadata.labels
    is_of_it = change.key.name == SETTLED.name or labels.get("cluster.x-k8s.io/cluster-name") == SETTLED.name
    if change.table == "events" or not (is_of_it or change.key.name.startswith("settled-")):
        return []
    old, new = (_content(item.tree) if item else None for item in (change.before, change.after))
    return [f"{change.after.kind} {change.key}: {old} {new}"] if old != new or change.deleted else []


def _content(tree: Tree) -> Tree:
    metadata = {
        name: value for name, value in tree["metadata"].items() if name not in ("managedFields", "resourceVersion")
    }
    return {**{name: value for name, value in tree.items() if name != "status"}, "metadata": metadata}


def _versions(stored: Stored, cluster: Key) -> set[str]:
    result = stored.management.table(MACHINES).objects.values()
    return {item.tree["spec"]["version"] for item in result if item.tree["spec"]["clusterName"] == cluster.name}


def _nodes(stored: Stored) -> dict[str, str]:
    result = stored.workloads.open(WORKLOAD).table(NODES).objects.values()
    return {item.name: item.metadata.uid for item in result}
