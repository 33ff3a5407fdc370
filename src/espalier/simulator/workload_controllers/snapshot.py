"""One look at a workload cluster, indexed by what the planners ask for."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from espalier.api.meta import Tree
from espalier.simulator.workload_controllers.views import Budget, Node, Pod, Workload

SUFFIX_LETTERS = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True)
class Snapshot:
    """The observed objects. `now` dates what is written; `random` makes names of new pods."""

    now: datetime
    random: random.Random = field(repr=False, compare=False)
    pod_range: str
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    daemon_sets: tuple[Workload, ...] = ()
    deployments: tuple[Workload, ...] = ()
    replica_sets: tuple[Workload, ...] = ()
    budgets: tuple[Budget, ...] = ()
    runs: Callable[[Pod], bool] = field(default=lambda _pod: False, repr=False, compare=False)
    """Whether a pod runs as processes, so that what becomes of it is not for the planners to say."""

    @cached_property
    def pods_by_owner(self) -> dict[str, list[Pod]]:
        """Pods by the uid of their controlling owner."""
        return _grouped((pod.owner, pod) for pod in self.pods)

    @cached_property
    def pods_by_node(self) -> dict[str, list[Pod]]:
        """Pods by the name of their node."""
        return _grouped((pod.spec.node_name, pod) for pod in self.pods if pod.spec.node_name)

    @cached_property
    def node_by_name(self) -> dict[str, Node]:
        """Nodes by name."""
        return {node.metadata.name: node for node in self.nodes}

    @property
    def timestamp(self) -> str:
        """`now` as objects write it."""
        return self.now.strftime("%Y-%m-%dT%H:%M:%SZ")

    def suffix(self) -> str:
        """Five letters for a new name, of those that spell no words."""
        return "".join(self.random.choices(SUFFIX_LETTERS, k=5))

    def dated(self, current: list[Tree], wanted: list[Tree]) -> list[Tree]:
        """Conditions as they are wanted, each with the time when its status last changed."""
        before = {condition["type"]: condition for condition in current}
        return [
            {
                **condition,
                "lastTransitionTime": before[condition["type"]]["lastTransitionTime"]
                if before.get(condition["type"], {}).get("status") == condition["status"]
                and "lastTransitionTime" in before[condition["type"]]
                else self.timestamp,
            }
            for condition in wanted
        ]


def _grouped(pairs: Iterable[tuple[str, Pod]]) -> dict[str, list[Pod]]:
    groups: dict[str, list[Pod]] = defaultdict(list)
    for name, pod in pairs:
        groups[name].append(pod)
    return groups
