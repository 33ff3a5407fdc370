"""Upgrades in place: what Espalier adds between the steps of nodes, what it asks API servers for, and its image's size.

Simulated nodes, whose upgrader pods run the real program as processes; everything is in one process beside them, so the
times are upper bounds. What a node costs in requests is the difference that one more makes, on a simulated clock; a
node whose steps take less than a moment costs less, for its status skips them.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import structlog

from benchmarks.measure import arguments, report, size, spread
from espalier.api.core import POD
from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.resource import Key
from espalier.assets.base import find_bases
from espalier.cli.local.images import image
from espalier.kube.objects import Object
from espalier.runtime.clock import SystemClock
from espalier.simulator.controller import Timing
from tests.support.environments.in_place_calls import Calls, asked, bill
from tests.support.environments.in_place_environment import spec
from tests.support.environments.managed_environment import MANAGER_AGENT, ManagedEnvironment, managed_environment

CONTROL_PLANES, WORKERS = size(3, 1), size(3, 1)
PROGRAM_AGENT = "espalier-upgrader"
MIB = 2**20


class Moments:
    """When each NodeUpgrade was made, its pod was made, the pod had ended, and the NodeUpgrade was completed."""

    def __init__(self, env: ManagedEnvironment) -> None:
        self.by_node: dict[str, dict[str, float]] = {}
        env.manager.caches.of(NodeUpgrade.resource, SYSTEM_NAMESPACE).subscribe(self._upgrade)
        env.workloads.subscribe(self._pod)

    def handovers(self) -> Iterator[tuple[str, float]]:
        """What Espalier took at each node until the next could go on, by what it did."""
        for seen in self.by_node.values():
            yield "NodeUpgrade made to pod made", seen["pod"] - seen["made"]
            yield "pod ended to NodeUpgrade completed", seen["completed"] - seen["ended"]
        for item, other in pairwise(self.by_node.values()):
            yield "completed to next NodeUpgrade made", other["made"] - item["completed"]

    def _upgrade(self, _old: Object | None, new: Object | None, _first: bool) -> None:
        if new is not None:
            self._see(new.name, "made")
            if (new.tree.get("status") or {}).get("completed"):
                self._see(new.name, "completed")

    def _pod(self, _cluster: Key, object_: Object) -> None:
        if object_.kind == POD.kind and object_.metadata.labels.get("eks-d-upgrader"):
            self._see(object_.name, "pod")
            if (object_.tree.get("status") or {}).get("phase") == "Succeeded":
                self._see(object_.name, "ended")

    def _see(self, name: str, what: str) -> None:
        self.by_node.setdefault(name, {}).setdefault(what, time.monotonic())


async def upgrade(folder: Path) -> tuple[float, Moments, Calls, Calls]:
    """Upgrade a cluster: seconds, moments, requests of the manager and of the program on the nodes."""
    async with managed_environment(SystemClock(), disks=folder, timing=Timing(boot=0.05)) as env:
        await env.apply(**spec(CONTROL_PLANES, WORKERS))
        await env.until_ready()
        moments = Moments(env)
        before = [asked(env, agent) for agent in (MANAGER_AGENT, PROGRAM_AGENT)]
        began = time.monotonic()
        await env.change(kubernetesVersion="1.36")
        await env.until_ready()
        seconds = time.monotonic() - began
        manager, program = (asked(env, agent) for agent in (MANAGER_AGENT, PROGRAM_AGENT))
        return seconds, moments, manager - before[0], program - before[1]


def image_size() -> str:
    """What the upgrader image has beside the components of Kubernetes and its runtime."""
    bases = find_bases()
    if not bases:
        return "not measured: no base for nodes is built; run make real-assets"
    with tempfile.TemporaryDirectory() as folder:
        _, sizes = image.write(bases[-1], f"v{bases[-1].version}", "bench:1", Path(folder) / "image.tar")
    parts = {what: size for what, size in sizes.items() if what != "components"}
    total = sum(parts.values()) / MIB
    return f"{total:.1f} MiB (" + ", ".join(f"{what} {size / MIB:.1f}" for what, size in parts.items()) + ")"


def lines(calls: Calls) -> list[str]:
    """One for each verb and kind, the most frequent first."""
    return [f"{what}: {count}" for what, count in sorted(calls.items(), key=lambda item: (-item[1], item[0]))]


def main() -> None:
    arguments(__doc__).parse_args()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))
    with tempfile.TemporaryDirectory() as folder:
        seconds, moments, manager, program = asyncio.run(upgrade(Path(folder)))
    nodes = CONTROL_PLANES + WORKERS
    took: dict[str, list[float]] = {}
    for what, element in moments.handovers():
        took.setdefault(what, []).append(element)
    report(
        f"{nodes} nodes ({CONTROL_PLANES} of the control plane), in place, to Ready: {seconds:.1f} s",
        *(f"{what}: {spread([1000 * item for item in value], 'ms')}" for what, value in took.items()),
        "aim: <= 500 ms between two steps",
    )
    whose, counted = "requests of the manager", bill()
    for what, calls in (("a control plane node", counted.control_plane_node), ("a worker", counted.worker)):
        report(f"{whose} for {what}: {calls.total()}", *lines(calls), "aim: <= 25")
    report(f"{whose} once for a cluster: {counted.once.total()}", *lines(counted.once))
    report(f"{whose} for those {nodes} nodes: {manager.total()} all in all")
    report(f"requests of the program: {program.total() / nodes:.1f} for each node", *lines(program))
    report("the upgrader image without what it brings to nodes", image_size(), "aim: <= 60 MB")


if __name__ == "__main__":
    main()
