"""Requests of upgrades in place to API servers, counted on a simulated clock: the same figures each time."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import NamedTuple, TypeAlias

from espalier.runtime.virtual import Simulation, run
from tests.support.environments.in_place_environment import EPOCH, reach, spec
from tests.support.environments.managed_environment import MANAGER_AGENT, ManagedEnvironment, managed_environment
from tests.support.environments.upgraders import Upgraders

Calls: TypeAlias = Counter[str]
"""How many, by verb, kind and subresource: `patch nodeupgrades/status`."""

SETTLING = 30.0
"""Simulated seconds after a cluster is Ready in which events are still written, and leftovers deleted."""


class Bill(NamedTuple):
    """The manager's requests on both sides: the management cluster and the workload cluster."""

    control_plane_node: Calls
    """For each one more."""
    worker: Calls
    """For each one more."""
    once: Calls
    """For a cluster, however many nodes it has."""


COMPARED = {("get", plural) for plural in ("serviceaccounts", "clusterroles", "clusterrolebindings", "daemonsets")}
"""The CNI is compared while nodes are waited for, by the time that takes and not by their number."""


def asked(env: ManagedEnvironment, agent: str = MANAGER_AGENT) -> Calls:
    """All calls so far of who calls himself so."""
    result: Calls = Counter()
    for server in (env.server, reach(env).server):
        for (verb, plural, subresource, by), count in server.requests.items():
            if by == agent and (verb, plural) not in COMPARED:
                result[f"{verb} {plural}/{subresource}" if subresource else f"{verb} {plural}"] += count
    return result


def bill() -> Bill:
    """By the difference that two more nodes make. All of them are drained."""
    least, more_planes, more_workers = _of_an_upgrade(1, 2), _of_an_upgrade(3, 2), _of_an_upgrade(1, 4)
    plane, worker = _each(more_planes, least), _each(more_workers, least)
    once = {what: least[what] - plane[what] - 2 * worker[what] for what in least}
    return Bill(plane, worker, Counter({what: count for what, count in once.items() if count}))


def _each(more: Calls, least: Calls) -> Calls:
    """The cost of each of two nodes."""
    both = {what: more[what] - least[what] for what in more | least}
    assert not any(count % 2 for count in both.values()), f"not the same for both nodes: {both}"
    return Counter({what: count // 2 for what, count in both.items() if count})


def _of_an_upgrade(control_planes: int, workers: int) -> Calls:
    async def main(simulation: Simulation) -> Calls:
        async with managed_environment(simulation.clock) as env:
            await env.apply(**spec(control_planes, workers))
            await env.until_ready()
            await asyncio.sleep(SETTLING)
            Upgraders(env.workloads)
            before = asked(env)
            await env.change(kubernetesVersion="1.36")
            await env.until_ready()
            await asyncio.sleep(SETTLING)
            return asked(env) - before

    return run(main, epoch=EPOCH, seed=1)
