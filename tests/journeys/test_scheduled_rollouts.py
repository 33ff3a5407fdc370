"""Rollouts of Cluster API that begin at a time to come."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from espalier.api import conditions
from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.kube.client import PatchType
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import CALM, managed_environment

pytestmark = pytest.mark.embedded

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = 3600.0


def test_rollout_begins_at_its_time() -> None:
    """Of control plane and workers, though nothing changes then."""

    async def main(simulation: Simulation) -> None:
        async with managed_environment(simulation.clock) as env:
            await env.apply()
            await env.until_ready()
            await asyncio.sleep(CALM)
            before = await env.machine_names("garden")
            after = conditions.timestamp(simulation.clock.now() + timedelta(seconds=HOUR))
            for resource in (KubeadmControlPlane.resource, MachineDeployment.resource):
                for owner in (await env.client.list(resource, SYSTEM_NAMESPACE)).items:
                    patch = {"spec": {"rollout": {"after": after}}}
                    await env.client.patch(resource, owner.name, owner.namespace, patch=patch, type=PatchType.MERGE)
            await asyncio.sleep(HOUR - 10)
            assert await env.machine_names("garden") == before
            await asyncio.sleep(10 + CALM)
            replaced = await env.machine_names("garden")
            assert replaced.keys() == before.keys()
            for group, names in before.items():
                assert not replaced[group] & names, group
                assert len(replaced[group]) == len(names), group

    run(main, epoch=EPOCH, seed=1)
