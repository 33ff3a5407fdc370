"""The columns of `kubectl get pods`: readiness, status and restarts.

The status is not a field of the object: kube-apiserver derives it from phase, container states and reasons.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from espalier.api import conditions as condition_list
from espalier.api.meta import Tree
from espalier.apiserver.wire.durations import age

FINISHED = ("Succeeded", "Failed")


class PodSummary(NamedTuple):
    """The cells `READY`, `STATUS` and `RESTARTS`."""

    ready: str
    status: str
    restarts: str


def summary(pod: Tree, now: datetime) -> PodSummary:
    """The three cells of a pod."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    sidecars = {
        container.get("name")
        for container in spec.get("initContainers") or ()
        if container.get("restartPolicy") == "Always"
    }
    init = status.get("initContainerStatuses") or []
    started, waiting_for = _initialization(init, sidecars, len(spec.get("initContainers") or ()))
    reason = _gated(status) or status.get("reason") or status.get("phase") or "Unknown"
    containers = status.get("containerStatuses") or []
    ready = sum(1 for container in init[:started] if container.get("name") in sidecars and container.get("ready"))
    restarted = init[: started + 1]
    if waiting_for:
        reason = waiting_for
    if not waiting_for or condition_list.is_true_in(status, "Initialized"):
        running = [
            container for container in containers if container.get("ready") and "running" in container.get("state", {})
        ]
        ready += len(running)
        restarted = [container for container in restarted if container.get("name") in sidecars] + containers
        reason = _containers_reason(containers, bool(running), condition_list.is_true_in(status, "Ready")) or reason
    if pod.get("metadata", {}).get("deletionTimestamp"):
        if status.get("reason") == "NodeLost":
            reason = "Unknown"
        elif status.get("phase") not in FINISHED:
            reason = "Terminating"
    total = len(spec.get("containers") or ()) + len(sidecars)
    return PodSummary(f"{ready}/{total}", reason, _restarts(restarted, now))


def _initialization(statuses: list[Tree], sidecars: set[str], total: int) -> tuple[int, str]:
    """The number of finished init containers, and the reason of the next one (empty: none is pending)."""
    for index, status in enumerate(statuses):
        state = status.get("state", {})
        terminated, waiting = state.get("terminated"), state.get("waiting", {})
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if status.get("name") in sidecars and status.get("started"):
            continue
        if terminated is not None:
            return index, f"Init:{_end(terminated)}"
        if waiting.get("reason") and waiting["reason"] != "PodInitializing":
            return index, f"Init:{waiting['reason']}"
        return index, f"Init:{index}/{total}"
    return len(statuses), ""


def _containers_reason(containers: list[Tree], some_run: bool, pod_ready: bool) -> str:
    """The reason of the first container that has one; empty when all are running."""
    reasons = list(_reasons(containers))
    if not reasons:
        return ""
    reason = reasons[0][0]
    if reason != "Completed":
        return reason
    if some_run and pod_ready:
        return "Running"
    failed = next((failure for failure, code in reasons if code), "")
    return failed or ("NotReady" if some_run else reason)


def _reasons(containers: list[Tree]) -> Iterator[tuple[str, int]]:
    for container in containers:
        state = container.get("state", {})
        terminated = state.get("terminated")
        if reason := state.get("waiting", {}).get("reason"):
            yield reason, 0
        elif terminated is not None:
            yield _end(terminated), terminated.get("exitCode", 0)


def _end(terminated: Tree) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _restarts(statuses: list[Tree], now: datetime) -> str:
    count = sum(status.get("restartCount", 0) for status in statuses)
    ends = [status.get("lastState", {}).get("terminated", {}).get("finishedAt") or "" for status in statuses]
    last = max(ends, default="")
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)


def _gated(status: Tree) -> str:
    gated = any(
        condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated"
        for condition in status.get("conditions") or ()
    )
    return "SchedulingGated" if gated else ""


def readiness_gates(pod: Tree) -> str:
    """The number of a pod's readiness gates that are True."""
    gates = pod.get("spec", {}).get("readinessGates") or []
    opened = sum(condition_list.is_true_in(pod.get("status"), gate["conditionType"]) for gate in gates)
    return f"{opened}/{len(gates)}" if gates else "<none>"


def qos_class(pod: Tree) -> str:
    """The quality of service that follows from requests and limits of all containers: `Guaranteed` for example."""
    spec = pod.get("spec") or {}
    resources = [
        container.get("resources") or {}
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    ]
    amounts = [
        (part.get("requests") or {}).get(name) or (part.get("limits") or {}).get(name)
        for part in resources
        for name in ("cpu", "memory")
    ]
    if not any(amounts):
        return "BestEffort"
    limits = [(part.get("limits") or {}).get(name) for part in resources for name in ("cpu", "memory")]
    return "Guaranteed" if all(limits) and limits == amounts else "Burstable"
