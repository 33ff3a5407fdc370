"""Machines that lose their controller are adopted in the simulated Cluster API, as in the real one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from espalier.api.capi.machine import Machine
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.clusterapi import names
from espalier.kube.client import PatchType
from espalier.runtime import virtual
from espalier.runtime.virtual import Simulation
from tests.support.environments.simulated_environment import EPOCH, Environment, environment, machines
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

CALM = 60.0
SELECTING = {"KubeadmControlPlane": names.CONTROL_PLANE, "MachineSet": names.TEMPLATE_HASH}
"""The label by which each kind of controller selects its machines."""
Story = Callable[[Environment], Awaitable[None]]


def live(story: Story) -> None:
    async def main(simulation: Simulation) -> None:
        async with environment(simulation.clock) as env:
            await env.create("garden")
            await asyncio.sleep(CALM)
            await story(env)

    virtual.run(main, epoch=EPOCH, seed=1)


def controllers(env: Environment) -> dict[str, str]:
    """Uid of the controller of each machine; empty without one."""
    return {
        machine.metadata.name: next(
            (reference.uid for reference in machine.metadata.owner_references if reference.controller), ""
        )
        for machine in machines(env, "garden")
    }


def of_kind(env: Environment, kind: str) -> Machine:
    result = machines(env, "garden")
    return next(item for item in result if any(owner.kind == kind for owner in item.metadata.owner_references))


async def patch(env: Environment, name: str, **metadata: object) -> None:
    body: Tree = {"metadata": metadata}
    await env.client.patch(Machine.resource, name, SYSTEM_NAMESPACE, patch=body, type=PatchType.MERGE)


@pytest.mark.soak
@pytest.mark.parametrize("kind", sampled(SELECTING, 0))
def test_machine_without_owners_is_adopted(kind: str) -> None:
    async def story(env: Environment) -> None:
        before = controllers(env)
        await patch(env, of_kind(env, kind).metadata.name, ownerReferences=None)
        await asyncio.sleep(CALM)
        assert controllers(env) == before

    live(story)


@pytest.mark.parametrize("kind", sampled(SELECTING, 0))
def test_unselected_machine_is_adopted_once_selected(kind: str) -> None:
    async def story(env: Environment) -> None:
        before, machine = controllers(env), of_kind(env, kind)
        name, label = machine.metadata.name, SELECTING[kind]
        await patch(env, name, ownerReferences=None, labels={label: None})
        await asyncio.sleep(CALM)
        assert controllers(env)[name] == ""
        assert len(controllers(env)) == len(before) + 1, "another one is made in its place"
        await patch(env, name, labels={label: machine.metadata.labels[label]})
        await asyncio.sleep(CALM)
        after = controllers(env)
        assert sorted(after.values()) == sorted(before.values()), "adopted, and then one is too many"

    live(story)


@pytest.mark.soak
@pytest.mark.parametrize("kind", SELECTING)
def test_machine_that_is_being_deleted_is_not_adopted(kind: str) -> None:
    async def story(env: Environment) -> None:
        name = of_kind(env, kind).metadata.name
        await patch(env, name, finalizers=["example.com/held"], ownerReferences=None)
        await env.client.delete(Machine.resource, name, SYSTEM_NAMESPACE)
        await patch(env, name, ownerReferences=None)
        await asyncio.sleep(CALM)
        value = env.cache(Machine.resource).get(Key(SYSTEM_NAMESPACE, name))
        assert value is not None
        assert value.metadata.deletion_timestamp is not None
        assert controllers(env)[name] == ""

    live(story)
