"""The disruption controller: computes for each PodDisruptionBudget how many pods may be evicted now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from espalier.api import conditions as condition_list
from espalier.api.core import POD_DISRUPTION_BUDGET
from espalier.api.meta import Tree
from espalier.clusterapi.machines.intstr import share
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import Budget, Pod
from espalier.simulator.workload_controllers.writes import Change, Write

DELETION_TIMEOUT = timedelta(minutes=2)
"""The time after which a pod with a granted eviction that is not being deleted counts as staying."""


def plan(snapshot: Snapshot) -> Iterator[Write]:
    """The missing writes for PodDisruptionBudgets."""
    for budget in snapshot.budgets:
        if budget.deleting:
            continue
        pods = [pod for pod in snapshot.pods if _covers(budget, pod)]
        status = _status(snapshot, budget, pods)
        if status != budget.status:
            removed = {name: None for name in budget.status if name not in status}
            evicted = {name: None for name in budget.disrupted if name not in status["disruptedPods"]}
            changed = {**status, "disruptedPods": {**evicted, **status["disruptedPods"]}, **removed}
            key = budget.key
            yield Change(POD_DISRUPTION_BUDGET, key, {"status": changed}, "status")


def _covers(budget: Budget, pod: Pod) -> bool:
    selector = budget.spec.selector
    return (
        pod.metadata.namespace == budget.metadata.namespace
        and selector is not None
        and selector.selects(pod.metadata.labels)
    )


def _status(snapshot: Snapshot, budget: Budget, pods: Sequence[Pod]) -> Tree:
    disrupted = _disrupted_pods(snapshot.now, budget, pods)
    healthy = sum(pod.ready and not pod.deleting and pod.metadata.name not in disrupted for pod in pods)
    expected, wanted = _counts(snapshot, budget, pods)
    allowed = max(0, healthy - wanted) if expected > 0 else 0
    condition = {
        "type": "DisruptionAllowed",
        "status": "True" if allowed else "False",
        "reason": "SufficientPods" if allowed else "InsufficientPods",
        "message": "",
        "observedGeneration": budget.metadata.generation,
    }
    return {
        "observedGeneration": budget.metadata.generation,
        "disruptedPods": disrupted,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": wanted,
        "expectedPods": expected,
        "conditions": snapshot.with_transition_times(budget.status.get("conditions", []), [condition]),
    }


def _disrupted_pods(now: datetime, budget: Budget, pods: Sequence[Pod]) -> dict[str, str]:
    """Pods with a granted eviction that are not being deleted yet, and when it was granted; without expired ones."""
    not_deleting = {pod.metadata.name for pod in pods if not pod.deleting}
    return {
        name: since
        for name, since in budget.disrupted.items()
        if name in not_deleting
        and (granted := condition_list.parse_timestamp(since)) is not None
        and now - granted < DELETION_TIMEOUT
    }


def _counts(snapshot: Snapshot, budget: Budget, pods: Sequence[Pod]) -> tuple[int, int]:
    """The expected number of pods, and the required number of healthy ones."""
    min_available, max_unavailable = budget.spec.min_available, budget.spec.max_unavailable
    if max_unavailable is not None:
        expected = _expected(snapshot, pods)
        return expected, max(0, expected - share(max_unavailable, expected, default=0, round_up=True))
    if isinstance(min_available, str):
        expected = _expected(snapshot, pods)
        return expected, share(min_available, expected, default=0, round_up=True)
    return (len(pods), min_available) if min_available is not None else (0, 0)


def _expected(snapshot: Snapshot, pods: Sequence[Pod]) -> int:
    """The sum of the controllers' replicas; pods without a controller don't count."""
    owners = {pod.owner for pod in pods if pod.owner}
    replica_sets = {replica_set.metadata.uid: replica_set for replica_set in snapshot.replica_sets}
    deployments = {deployment.metadata.uid: deployment.spec.replicas for deployment in snapshot.deployments}
    stateful_sets = {owner.metadata.uid: owner.spec.replicas for owner in snapshot.stateful_sets}
    wanted: dict[str, int] = {}
    for uid in owners:
        replica_set = replica_sets.get(uid)
        if uid in stateful_sets:
            wanted[uid] = stateful_sets[uid]
        elif replica_set is None:
            # One pod for each node: the existing pods of a DaemonSet are the expected ones.
            wanted[uid] = sum(pod.owner == uid for pod in pods)
        elif replica_set.owner in deployments:
            wanted[replica_set.owner] = deployments[replica_set.owner]
        else:
            wanted[uid] = replica_set.spec.replicas
    return sum(wanted.values())
