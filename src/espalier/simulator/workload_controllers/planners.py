"""All planners, in the order in which one reconcile asks them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from espalier.simulator.workload_controllers import budgets, daemon_sets, deployments, kubelet, replica_sets, scheduler
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.writes import Write

Planner = Callable[[Snapshot], Iterator[Write]]

PLANNERS: tuple[Planner, ...] = (
    deployments.plan,
    replica_sets.plan,
    daemon_sets.plan,
    scheduler.plan,
    kubelet.plan,
    budgets.plan,
)
