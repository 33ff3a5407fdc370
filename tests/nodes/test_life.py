"""The life of a real cluster, in one go: the manifest of the example is created, used, scaled, upgraded, deleted."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.environments import workload_use as use
from tests.support.environments.footprint import Footprint, footprint
from tests.support.environments.node_port_client import asked_throughout
from tests.support.environments.node_versions import NEW, NEWER
from tests.support.environments.real_environment import RealEnvironment, made, real_environment
from tests.support.environments.real_life import MISSING
from tests.support.providers.node_manifests import manifest

pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(MISSING), reason=MISSING)]


@pytest.mark.demand(
    "L1", "L2", "L3", L4="`patch`", L11="pods on two real nodes reach each other", L61="made by kubectl, on real nodes"
)
async def test_example_becomes_a_real_cluster_with_a_life(home: Path, clean: Footprint) -> None:
    async with real_environment(home) as env:
        await env.apply(manifest(2))
        await env.ready("garden")
        await env.synced("garden")
        workload = await env.workload("garden")
        await use.has_nodes(workload, control_planes=1, workers=2)
        await use.carries_pods(workload)
        await use.answers_by_name_across_nodes(workload)
        await use.can_be_looked_into(workload)
        async with asked_throughout(env):
            for count in (4, 1):
                await env.apply(manifest(count))
                await env.ready("garden")
                await use.has_nodes(workload, control_planes=1, workers=count)
            newer = manifest(1, kubernetes=NEWER)
            announced = await told_to_go(env, newer)
            async with machines_that_go(env) as gone:
                await env.apply(newer)
                await env.ready("garden")
            assert gone == announced
            await use.has_nodes(workload, control_planes=1, workers=1, version=NEW)
            await use.carries_pods(workload)
        await env.management("delete", "-f", "-", "--wait", stdin=manifest(2))
        assert await env.nodes() == []
        assert not (home / "nodes").exists()
    assert made(footprint(home), home) == made(clean, home)


async def told_to_go(env: RealEnvironment, text: str) -> list[str]:
    """The machines that `espalier plan` says this manifest replaces, in its order."""
    code, out, complaint = await env.espalier("plan", "-f", "-", "-o", "json", stdin=text)
    assert code == 1, complaint
    return [machine["name"] for group in json.loads(out)["clusters"][0]["machines"] for machine in group["going"]]


@asynccontextmanager
async def machines_that_go(env: RealEnvironment) -> AsyncIterator[list[str]]:
    """Filled, at the end of the block, with the machines that were deleted in it, in order."""
    results: list[str] = []
    told = "-o=jsonpath={.type} {.object.metadata.name}{'\\n'}"
    watching = ("-n", "eksa-system", "--watch-only", "--output-watch-events", told)
    async with env.management.running("get", "machines.cluster.x-k8s.io", *watching) as process:
        yield results
        process.terminate()
        out, _ = await process.communicate()
    events = [line.split() for line in out.decode().splitlines()]
    results += [name for event, name in events if event == "DELETED"]
