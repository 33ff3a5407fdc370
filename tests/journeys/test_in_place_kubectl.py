"""An upgrade in place as kubectl shows it, and whoever runs the controllers is killed in the middle of it."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest
import yaml

from tests.support.environments.management import Environment, Management
from tests.support.histories import kubectl_story as story
from tests.support.servers.kubectl import Kubectl

UPGRADES = "controlplaneupgrades,machinedeploymentupgrades,nodeupgrades"
IN_PLACE = {"type": "InPlace"}


def manifest() -> str:
    documents = list(yaml.safe_load_all(story.EXAMPLE.read_text()))
    spec = documents[0]["spec"]
    spec["controlPlaneConfiguration"]["upgradeRolloutStrategy"] = IN_PLACE
    spec["workerNodeGroupConfigurations"][0] |= {"count": 1, "upgradeRolloutStrategy": IN_PLACE}
    return str(yaml.safe_dump_all(documents))


async def machines(management: Management) -> dict[str, str]:
    """Uid by name."""
    result = (await management.kubectl.tree("machines.cluster.x-k8s.io", "-n", "eksa-system"))["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in result}


async def identities(workload: Kubectl) -> str:
    """Uids of nodes."""
    return await workload("get", "nodes", "-o", "jsonpath={.items[*].metadata.uid}")


async def delete_once_failed(management: Management, pod: str) -> None:
    """Delete the pod once it has failed, as the conditions advise."""
    workload = await story.workload_kubectl(management)
    failed = "--for=jsonpath={.status.phase}=Failed"
    code, _, _ = await workload.finish("wait", "-n", "eksa-system", failed, pod, "--timeout=60s")
    if code == 0:
        await workload("delete", "-n", "eksa-system", pod)


@pytest.mark.demand("U8", "U10", "U64", "U65")
@pytest.mark.soak
async def test_upgrade_goes_on_after_its_manager_was_killed(
    starting: AbstractAsyncContextManager[Management],
) -> None:
    async with starting as management:
        kubectl = management.kubectl
        await kubectl("apply", "-f", "-", stdin=manifest())
        await story.ready(management)
        before = await machines(management)
        [plane] = [name for name in before if "-md-" not in name]
        workload = await story.workload_kubectl(management)
        nodes = await identities(workload)

        await story.begin_upgrade(management)
        upgrade = f"nodeupgrades/{plane}-node-upgrader"
        await kubectl("wait", "-n", "eksa-system", "--for=create", upgrade, "--timeout=60s")
        await kubectl("wait", "-n", "eksa-system", "--for=condition=ContainerdUpgraded", upgrade, "--timeout=60s")
        told = await kubectl("get", "cpu,nu", "-A")
        assert plane in told
        assert "Upgrading" in told
        await management.crash()
        await management.restart()
        helping: asyncio.Task[None] | None = None
        if isinstance(management, Environment):  # the nodes died with it, and the step that was being done, if one was
            helping = asyncio.create_task(delete_once_failed(management, f"pods/{plane}-node-upgrader"))
        try:
            await story.ready(management)
        finally:
            if helping is not None:
                helping.cancel()
                await asyncio.gather(helping, return_exceptions=True)

        assert await story.nodes(management) == [story.VERSIONS["1.36"]] * 2
        assert await machines(management) == before
        assert await identities(await story.workload_kubectl(management)) == nodes
        assert await kubectl("get", UPGRADES, "-A", "--no-headers") == ""
        await story.delete(management)
