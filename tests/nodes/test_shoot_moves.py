"""A shoot with real nodes (T3) moves between seeds: kubelets find it again, and what runs on the nodes runs on."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from espalier.api.meta import Tree
from espalier.assets.recipes import KUBERNETES
from espalier.cli.local.environment.garden.garden_objects import PODS
from espalier.cli.local.environment.garden.migration_scenario import DELTA_PERIOD, Move
from espalier.cli.local.environment.real import BuiltBases
from espalier.cli.local.environment.real_machines.machines import BRIDGE, RealMachines, newest_base
from espalier.shoots.secrets.names import PERSISTED
from tests.support.environments.footprint import footprint
from tests.support.environments.real_environment import why_not
from tests.support.gardens.real_shoots import QUICK, RealShoot, real_shoot
from tests.support.servers.kubectl import Kubectl
from tests.support.waiting import eventually

NODES = 2
WITNESSED = 20
"""Answers after which it counts that a seed gave none."""
SILENCE = 3.0
"""Seconds between two lines that no pod may have more of, on a machine that does other things too."""
BASE = newest_base(BuiltBases().all(), KUBERNETES.version)
MISSING = why_not(BASE.version if BASE is not None else KUBERNETES.version, bridge=BRIDGE)

pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


@pytest.mark.demand(G3="restart counts, a pod that writes every second, and leases, on real kubelets")
async def test_nodes_run_on_while_control_plane_moves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert BASE is not None
    async with (
        RealMachines.on_this_machine(tmp_path / "nodes", BASE, PODS) as machines,
        real_shoot(tmp_path, machines=machines, nodes=NODES) as shoot,
    ):
        kubectl = await shoot.kubectl("east")
        await run(kubectl)
        await certified(kubectl)
        seen = await identities(kubectl)

        good = await moved(shoot, "east", "west")
        assert await shoot.scenario.writer.changed() == [], (
            "each write is there as it was acknowledged, with its revision"
        )
        assert (good.lost, good.left) == (0, ())
        await goes_on(shoot, "west", seen)

        bad = await moved(shoot, "west", "east", without_source=True)
        assert bad.lost <= (DELTA_PERIOD + QUICK.store_timeout) / shoot.scenario.writer.period + 1
        await goes_on(shoot, "east", seen)
        assert await shoot.scenario.returned("west") == 0, "it cleans up, and calls no infrastructure"

        for move in (good, bad):
            assert (move.nodes_kept, move.pods_kept, move.secrets_kept) == (NODES, NODES, len(PERSISTED))
            assert (move.creates, move.deletes) == (0, 0)
        silent = machines.silences()
        assert len(silent) == NODES
        assert max(silent.values()) < SILENCE, silent
        with capsys.disabled():
            print(told(good, bad, silent))
    assert BRIDGE not in footprint(tmp_path).links
    assert not (tmp_path / "nodes").exists()


async def moved(shoot: RealShoot, source: str, destination: str, *, without_source: bool = False) -> Move:
    """Move it; nodes and users were never served by both seeds."""
    since = time.monotonic()
    move = await shoot.scenario.move(destination, "", destroy_source=without_source, give_up_source=without_source)

    async def is_witnessed() -> bool:
        return shoot.witnesses.count(destination, since) > WITNESSED

    await eventually(is_witnessed)
    shoot.witnesses.check(source, destination, since)
    return move


async def run(kubectl: Kubectl) -> None:
    """Nodes and pods are ready."""
    await kubectl("wait", "--for=condition=Ready", "nodes", "--all", "--timeout=120s")
    await kubectl("wait", "--for=condition=Ready", "pods", "--all", "--timeout=120s")


async def certified(kubectl: Kubectl) -> None:
    """Every kubelet has the certificate by which the API server knows it. People approve it: they know its machine."""

    async def is_done() -> bool:
        result = (await kubectl.tree("certificatesigningrequests"))["items"]
        serving = [item for item in result if item["spec"]["signerName"] == "kubernetes.io/kubelet-serving"]
        for element in serving:
            if "conditions" not in element["status"]:
                await kubectl("certificate", "approve", element["metadata"]["name"])
        issued = {item["spec"]["username"] for item in serving if item["status"].get("certificate")}
        return len(issued) == NODES

    await eventually(is_done)


async def goes_on(shoot: RealShoot, seed: str, seen: dict[str, Tree]) -> None:
    """Nodes and pods are those that there were, their kubelets ask this seed, and are asked by it."""
    kubectl = await shoot.kubectl(seed)
    await run(kubectl)
    assert await identities(kubectl) == seen
    name = next(iter(await pods(kubectl)))
    assert await kubectl("exec", name, "-c", "web", "--", "/probe", "get", "http://localhost:8080") == f"{name}\n"
    await kubectl("logs", name, "-c", "writer", "--tail=1")
    renewed = await renewals(kubectl)

    async def have_renewed() -> bool:
        result = await renewals(kubectl)
        return all(result[node] > before for node, before in renewed.items())

    await eventually(have_renewed)


async def identities(kubectl: Kubectl) -> dict[str, Tree]:
    """Identities that must not change: UIDs of nodes and pods, the container of each pod, its number of restarts."""
    nodes = (await kubectl.tree("nodes"))["items"]
    containers = {
        name: {"uid": pod["metadata"]["uid"]}
        | {
            status["name"]: (status["containerID"], status["restartCount"])
            for status in pod["status"]["containerStatuses"]
        }
        for name, pod in (await pods(kubectl)).items()
    }
    return {"nodes": {node["metadata"]["name"]: node["metadata"]["uid"] for node in nodes}, "pods": containers}


async def pods(kubectl: Kubectl) -> dict[str, Tree]:
    return {item["metadata"]["name"]: item for item in (await kubectl.tree("pods"))["items"]}


async def renewals(kubectl: Kubectl) -> dict[str, str]:
    """When each node has renewed its lease at last."""
    result = await kubectl("get", "leases", "-n", "kube-node-lease", "-o", "json")
    return {item["metadata"]["name"]: item["spec"]["renewTime"] for item in json.loads(result)["items"]}


def told(good: Move, bad: Move, silent: dict[str, float]) -> str:
    gaps = f"API gap {good.gap:.1f} s with the source, {bad.gap:.1f} s without it"
    return f"\n{gaps}; pods that write every second were silent for up to {max(silent.values()):.2f} s"
