"""The manifest of the example becomes a real cluster: created, used, scaled, upgraded, broken, deleted."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest

from espalier.local.nspawn.state import State
from tests.journeys import kubectl_story as story
from tests.nodes import workload as use
from tests.nodes.manifests import CLUSTER, manifest, workers
from tests.support.footprint import Footprint, footprint
from tests.support.kubectl import Kubectl
from tests.support.real_world import RealLaptop, real_laptop, watched, why_not

UPGRADED = why_not("1.35.4", "1.36.3", watchers=256)
MANY = why_not("1.35.4", watchers=256)

pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(why_not("1.35.4")), reason=why_not("1.35.4"))]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def before(home: Path) -> Footprint:
    return footprint(home)


async def test_the_example_becomes_a_real_cluster_that_works_and_goes(home: Path, before: Footprint) -> None:
    async with real_laptop(home) as laptop:
        await laptop.management("apply", "-f", str(story.EXAMPLE))
        await laptop.ready("garden")
        workload = await laptop.workload("garden")
        await use.has_nodes(workload, control_planes=1, workers=2)
        await use.carries_pods(workload)
        await use.answers_by_name_across_nodes(workload)
        await use.can_be_looked_into(workload)
        await laptop.management("delete", "-f", str(story.EXAMPLE), "--wait")
        assert await laptop.nodes() == []
        assert not (home / "nodes").exists()
    assert made(footprint(home), home) == made(before, home)


async def test_a_killed_world_goes_on_where_it_was(home: Path, before: Footprint) -> None:
    async with real_laptop(home) as laptop:
        await laptop.management("apply", "-f", "-", stdin=manifest(1))
        await watched(
            laptop.management, "-n", "eksa-system", "dockercluster", "garden", until=lambda found: "status" in found
        )
        await laptop.kill()  # before there is a node, or while the first boots
        await laptop.up()
        await until_nodes(laptop, 1)
        await laptop.kill()  # while the first runs its bootstrap data
        nodes = await laptop.nodes()
        await laptop.up()
        await laptop.ready("garden")
        workload = await laptop.workload("garden")
        await use.has_nodes(workload, control_planes=1, workers=1)
        assert {node["name"] for node in nodes} <= {node["name"] for node in await laptop.nodes()}
        await laptop.management("delete", CLUSTER, "--wait")
    assert made(footprint(home), home) == made(before, home)


async def test_workers_come_and_go_while_the_service_answers(home: Path) -> None:
    async with real_laptop(home) as laptop:
        workload = await ready_garden(laptop, count=2)
        async with asked_throughout(laptop) as asking:
            for count in (4, 1):
                await laptop.management("patch", CLUSTER, "--type=merge", "-p", workers(count))
                await laptop.ready("garden")
                await use.has_nodes(workload, control_planes=1, workers=count)
        assert (asking.answered > 0, asking.failed) == (True, [])


@pytest.mark.skipif(bool(UPGRADED), reason=UPGRADED)
async def test_an_upgrade_rolls_through_all_machines_while_the_service_answers(home: Path) -> None:
    async with real_laptop(home) as laptop:
        workload = await ready_garden(laptop, count=2)
        async with asked_throughout(laptop) as asking:
            await laptop.management("patch", CLUSTER, "--type=merge", "-p", '{"spec": {"kubernetesVersion": "1.36"}}')
            await laptop.ready("garden")
            await use.has_nodes(workload, control_planes=1, workers=2, version="v1.36.3")
            await use.carries_pods(workload)
        assert (asking.answered > 0, asking.failed) == (True, [])


@pytest.mark.skipif(bool(MANY), reason=MANY)
async def test_a_control_plane_node_that_breaks_is_replaced_and_the_api_stays(home: Path) -> None:
    async with real_laptop(home) as laptop:
        await laptop.management("apply", "-f", "-", stdin=manifest(1, 3, impatient=True))
        await laptop.ready("garden")
        workload = await laptop.workload("garden")
        await use.has_nodes(workload, control_planes=3, workers=1)
        broken = next(node["name"] for node in await laptop.nodes() if node["role"] == "control-plane")
        code, _, complaint = await laptop.espalier("nodes", "crash", broken)
        assert code == 0, complaint
        await workload("get", "--raw", "/readyz")
        await laptop.management(
            "wait", "-n", "eksa-system", "--for=delete", f"machines.cluster.x-k8s.io/{broken}", "--timeout=600s"
        )
        await laptop.ready("garden")
        await use.has_nodes(workload, control_planes=3, workers=1)
        assert await use.etcd_members(workload) == 3


async def ready_garden(laptop: RealLaptop, *, count: int) -> Kubectl:
    """A cluster in which the Service of `use` answers."""
    await laptop.management("apply", "-f", "-", stdin=manifest(count))
    await laptop.ready("garden")
    workload = await laptop.workload("garden")
    await use.has_nodes(workload, control_planes=1, workers=count)
    await use.carries_pods(workload)
    await use.answers_by_name_across_nodes(workload)
    return workload


async def until_nodes(laptop: RealLaptop, count: int) -> None:
    """Wait until so many DockerMachines are being bootstrapped."""
    for _ in range(count):
        await watched(
            laptop.management,
            *("-n", "eksa-system", "dockermachines"),
            until=lambda found: any(
                condition["reason"] == "Bootstrapping" for condition in found.get("status", {}).get("conditions", [])
            ),
        )


class Asking:
    """Asks the Service at its port of the nodes again and again, as a load balancer's clients would."""

    def __init__(self, laptop: RealLaptop) -> None:
        self._laptop = laptop
        self.answered = 0
        self.failed: list[str] = []

    async def run(self) -> None:
        """Ask ten times a second until cancelled."""
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session:
            while True:
                problems = [await self._ask(session, node["address"]) for node in self._nodes()]
                if "" in problems:
                    self.answered += 1
                else:
                    self.failed.append(f"{datetime.now(UTC):%T} {problems}")
                await asyncio.sleep(0.1)

    def _nodes(self) -> list[dict[str, str]]:
        return [{"address": record.address} for record in State(self._laptop.home.nodes).nodes() if not record.crashed]

    async def _ask(self, session: aiohttp.ClientSession, address: str) -> str:
        """What went wrong; empty when there was an answer."""
        url = f"http://{address}:{use.NODE_PORT}/"
        try:
            async with session.get(url, timeout=aiohttp.ClientTimeout(total=2)) as answer:
                return "" if (await answer.text()).startswith("web-") else f"{address}: {answer.status}"
        except (aiohttp.ClientError, TimeoutError) as error:
            return f"{address}: {error!r}"


@asynccontextmanager
async def asked_throughout(laptop: RealLaptop) -> AsyncIterator[Asking]:
    """Have the Service asked while the block runs."""
    asking = Asking(laptop)
    task = asyncio.create_task(asking.run())
    try:
        yield asking
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def made(found: Footprint, home: Path) -> dict[str, object]:
    """What nodes would leave: not the folder of the test itself."""
    parts = vars(found) | {"files": {path for path in found.files if not path.startswith(str(home))}}
    return {name: part for name, part in parts.items() if name != "processes"} | {
        "processes": {re.sub(r"^\d+ ", "", line) for line in found.processes if "systemd-nspawn" in line}
    }
