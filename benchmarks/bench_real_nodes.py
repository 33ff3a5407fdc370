"""Time, memory and our own cost of real clusters: 1+1 and 3+3, a worker more, a rolling upgrade, all of it gone again.

    python -m benchmarks.bench_real_nodes [--runs 1]

As root, with what `make real-assets REAL=nodes` builds; elsewhere it says what is missing and measures nothing.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from benchmarks.measure import arguments, cpu_seconds, peak_memory, report, size, spread
from espalier.cli.local import lock
from espalier.realnodes.management.processes import read_states
from espalier.realnodes.nspawn import container
from espalier.realnodes.nspawn.system import cgroups
from espalier.realnodes.nspawn.system.commands import run
from espalier.realnodes.nspawn.system.helper_processes import BalancerProcess, RegistryProcess
from espalier.realnodes.nspawn.system.limits import allowed_watchers
from espalier.realnodes.nspawn.system.state import NodeRecord, State
from tests.support.environments.real_environment import RealEnvironment, real_environment, why_not
from tests.support.providers.node_manifests import CLUSTER, manifest

MIB = 1024 * 1024
OURS = 'apiserver_flowcontrol_dispatched_requests_total{flow_schema="exempt"'
"""Requests of administrators: our process, and some of kubectl. Other programs have names of their own."""
MANY_WATCHERS = 256
"""Inotify instances that six nodes take, with some to spare."""


class Costs:
    """What things took, by what they are, over all runs."""

    def __init__(self, env: RealEnvironment, results: dict[str, list[float]]) -> None:
        self._environment = env
        self.results = results

    @asynccontextmanager
    async def of(self, what: str) -> AsyncIterator[None]:
        """Seconds of a block, CPU seconds and API calls of our process in it."""
        calls, cpu, began = await self._calls(), cpu_seconds(self.pid), time.monotonic()
        yield
        self.say(f"{what}: s", time.monotonic() - began)
        self.say(f"{what}: CPU of our process, s", cpu_seconds(self.pid) - cpu)
        self.say(f"{what}: API calls of our process", await self._calls() - calls)

    def say(self, what: str, value: float) -> None:
        """Keep a figure, and print it: a run takes minutes."""
        self.results.setdefault(what, []).append(value)
        print(f"  ... {what}: {value:.1f}", flush=True)

    @property
    def pid(self) -> int:
        """Our process."""
        running = lock.holder(self._environment.home.lock)
        assert running is not None
        return running.pid

    async def _calls(self) -> float:
        metrics = await self._environment.management("get", "--raw", "/metrics")
        return sum(float(line.rsplit(" ", 1)[1]) for line in metrics.splitlines() if line.startswith(OURS))


async def measure(value: dict[str, list[float]]) -> None:
    """One run of everything."""
    upgrades = size(1, 0) and not why_not("1.36.3")
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        async with real_environment(Path(folder)) as env:
            costs = Costs(env, value)
            costs.say("until the management cluster serves: s", time.monotonic() - began)
            async with costs.of("1+1, apply to Ready"):
                await become(env, manifest(1))
            await of_nodes(env, costs)
            async with costs.of("one worker more"):
                await become(env, manifest(2))
            async with costs.of("one worker less"):
                await become(env, manifest(1))
            if upgrades:
                async with costs.of("rolling upgrade of 1+1"):
                    await become(env, manifest(1, kubernetes="1.36"))
            async with costs.of("deletion of 1+1"):
                await env.management("delete", CLUSTER, "--wait")
            if size(1, 0) and allowed_watchers() >= MANY_WATCHERS:
                async with costs.of("3+3, apply to Ready"):
                    await become(env, manifest(3, 3))
                costs.say("balancer and registry of 3+3: MiB", companions(env))
                async with costs.of("deletion of 3+3"):
                    await env.management("delete", CLUSTER, "--wait")
            costs.say("our process, at most: MiB", peak_memory(costs.pid))
            programs = [state.pid for state in read_states(env.home.management) if state.pid]
            costs.say("etcd, API server, controllers, Cluster API: MiB", memory(programs) / MIB)


async def become(env: RealEnvironment, text: str) -> None:
    await env.apply(text)
    await env.ready("garden")


async def of_nodes(env: RealEnvironment, costs: Costs) -> None:
    """Memory of each node, how long it took to boot, and how long its bootstrap data ran."""
    state = State(env.home.nodes)
    for node in state.nodes():
        role = "control plane" if node.control_plane else "worker"
        costs.say(f"memory of a {role} node: MiB", memory(cgroups.members(node.id)) / MIB)
        booted, bootstrapped = await times(state, node)
        costs.say("a node, first process to bootstrap data: s", booted)
        costs.say(f"bootstrap data of a {role} node: s", bootstrapped)


async def times(state: State, node: NodeRecord) -> tuple[float, float]:
    """Seconds until the bootstrap data began, and which they took, as the node's systemd tells."""
    running = container.find(state.folder(node.id))
    assert running is not None
    show = container.inside(running, "systemctl", "show", "--value", "--timestamp=us+utc")
    began = await run(*show, "-p", "UserspaceTimestampMonotonic")
    final = await run(*show, "-p", "InactiveExitTimestampMonotonic", "-p", "ActiveEnterTimestampMonotonic", FINAL)
    first, second = sorted(int(value) for value in final.split())
    return (first - int(began)) / 1e6, (second - first) / 1e6


FINAL = "cloud-final.service"
"""Runs the commands of the bootstrap data."""


def companions(env: RealEnvironment) -> float:
    """Memory of our processes beside the one that is measured as such."""
    state = State(env.home.nodes)
    results = (BalancerProcess(state).process, RegistryProcess(state).process)
    return memory([process.pid for process in results if process]) / MIB


def memory(pids: Iterable[int]) -> int:
    """Bytes that belong to these processes alone, and their parts of what they share (PSS)."""
    result = 0
    for pid in pids:
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        result += sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    return result


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--runs", type=int, default=1)
    chosen = parser.parse_args()
    if missing := why_not("1.35.4"):
        report("real nodes", f"not measured here: {missing}")
        return
    results: dict[str, list[float]] = {}
    for _ in range(chosen.runs):
        asyncio.run(measure(results))
    report("real nodes", *(f"{what} {spread(values, '')}" for what, values in results.items()))
    ready = statistics.median(results["1+1, apply to Ready: s"])
    report(
        "aims",
        f"1+1 Ready {ready:.0f} s of 45",
        f"a worker {statistics.median(results['one worker more: s']):.0f} s of 12",
    )


if __name__ == "__main__":
    main()
