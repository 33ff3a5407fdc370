"""A shoot whose control plane consists of real programs (T1) moves between seeds, with its source and without it."""

from __future__ import annotations

import asyncio
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from espalier.assets.component import Component
from espalier.assets.recipes import ETCD_BEFORE
from espalier.cli.local.environment.garden.migration_scenario import DELTA_PERIOD, NODES, Move
from espalier.cli.local.environment.seed_processes import kubernetes
from espalier.cli.local.environment.seed_processes.process import run_process
from espalier.shoots.secrets.names import PERSISTED
from espalier.simulator.pods.runtimes.in_process import Container
from tests.support.gardens.real_shoots import CUT, QUICK, RealShoot, real_shoot
from tests.support.servers.kubectl import Kubectl
from tests.support.waiting import eventually

pytestmark = pytest.mark.envtest
REPLICAS = 2


@pytest.mark.demand("G1", "G7", "G30", "G43", "G60", "G63", "G66", G6="old tokens are valid")
@pytest.mark.parametrize(
    "etcd", [pytest.param(None, id="etcd"), pytest.param(ETCD_BEFORE, id="etcd-before", marks=pytest.mark.soak)]
)
async def test_real_control_plane_moves_in_both_ways(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, etcd: Component | None
) -> None:
    codes = exit_codes(monkeypatch)
    async with real_shoot(tmp_path, etcd=etcd) as shoot:
        kubectl = await shoot.kubectl("east")
        await deployed(kubectl, "web")
        token = (await kubectl("create", "token", "default", "--duration=1h")).strip()
        pods = await uids(kubectl, "pods")

        kubectl.patience = 300
        async with kubectl.running("get", "nodes", "--watch") as user:
            assert user.stdout is not None
            await user.stdout.readline()
            good = await moved(shoot, "east", "west")
        assert codes["kube-apiserver"] == [0], "it was not held up by who watches, and killed"
        assert await shoot.scenario.writer.changed() == [], (
            "each write is there as it was acknowledged, with its revision"
        )
        assert (good.lost, good.left) == (0, ())
        await keeps(shoot, "west", pods, token)

        bad = await moved(shoot, "west", "east", destroy_source=True, give_up_source=True)
        assert bad.lost <= (DELTA_PERIOD + QUICK.store_timeout) / shoot.scenario.writer.period + 1
        await keeps(shoot, "east", pods, token)

        assert await shoot.scenario.returned("west") == 0, "it cleans up, and calls no infrastructure"
        await deployed(await shoot.kubectl("east"), "web-after-both")
        for move in (good, bad):
            assert (move.nodes_kept, move.secrets_kept) == (NODES, len(PERSISTED))
            assert (move.creates, move.deletes) == (0, 0)
        with capsys.disabled():
            print(f"\nAPI gap {good.gap:.1f} s with the source, {bad.gap:.1f} s without it")


@pytest.mark.soak
async def test_source_without_its_bucket_stops_serving(tmp_path: Path) -> None:
    async with real_shoot(tmp_path, CUT) as shoot:
        await asyncio.sleep(DELTA_PERIOD)
        shoot.seed("east").links.bucket.cut()
        move = await moved(shoot, "east", "west", give_up_source=True)
        assert move.lost <= (DELTA_PERIOD + CUT.validity) / shoot.scenario.writer.period + 1
        shoot.seed("east").links.bucket.restore()
        assert await shoot.scenario.returned("east") == 0


def exit_codes(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[int]]:
    """By the name of its container, with what each program of a control plane has ended."""
    codes = defaultdict[str, list[int]](list)

    async def noted(container: Container, *arguments: Any, **options: Any) -> int:
        code = await run_process(container, *arguments, **options)
        codes[container.arguments[0].rpartition("/")[2]].append(code)
        return code

    monkeypatch.setattr(kubernetes, "run_process", noted)
    return codes


async def moved(
    shoot: RealShoot, source: str, destination: str, *, destroy_source: bool = False, give_up_source: bool = False
) -> Move:
    """Move it; two seeds never served at once."""
    since = time.monotonic()
    move = await shoot.scenario.move(destination, "", destroy_source=destroy_source, give_up_source=give_up_source)
    await eventually(lambda: answers(shoot, destination, since))
    shoot.witnesses.check(source, destination, since)
    return move


async def answers(shoot: RealShoot, seed: str, since: float) -> bool:
    """True if it has answered all that witnesses ask."""
    return shoot.witnesses.count(seed, since) > 20


async def keeps(shoot: RealShoot, seed: str, pods: dict[str, str], token: str) -> None:
    """Pods are those that there were, and tokens are valid that were issued before."""
    kubectl = await shoot.kubectl(seed)
    assert pods.items() <= (await uids(kubectl, "pods")).items()
    by_token = await shoot.kubectl(seed, token=token)
    assert "system:serviceaccount:default:default" in await by_token("auth", "whoami")


async def deployed(kubectl: Kubectl, name: str) -> None:
    """A new Deployment, of which controllers make pods."""

    async def has_pods() -> bool:
        return len((await kubectl("get", "pods", "-l", f"app={name}", "-o", "name")).split()) == REPLICAS

    await kubectl("create", "deployment", name, "--image=web", f"--replicas={REPLICAS}")
    await eventually(has_pods)


async def uids(kubectl: Kubectl, kind: str) -> dict[str, str]:
    """UIDs by name."""
    items = json.loads(await kubectl("get", kind, "-o", "json"))["items"]
    return {item["metadata"]["name"]: item["metadata"]["uid"] for item in items}
