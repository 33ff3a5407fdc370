"""The DaemonSet controller: one pod on every matching node, replaced by rolling update."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from espalier.api.core import DAEMON_SET, POD
from espalier.api.meta import Tree
from espalier.clusterapi.machines.intstr import share
from espalier.simulator.workload_controllers.planners.scheduler import DAEMON_TOLERATIONS, NETWORK_TOLERATION, fits
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import Pod, Workload
from espalier.simulator.workload_controllers.writes import Change, Create, Delete, Write, controlled_pod

REVISION = "controller-revision-hash"


def plan(snapshot: Snapshot) -> Iterator[Write]:
    """The missing writes for DaemonSets."""
    for daemon_set in snapshot.daemon_sets:
        if not daemon_set.deleting:
            yield from _plan(snapshot, daemon_set)


def _plan(snapshot: Snapshot, daemon_set: Workload) -> Iterator[Write]:
    pod_spec = daemon_set.pod_spec
    tolerations = (*DAEMON_TOLERATIONS, NETWORK_TOLERATION) if pod_spec.host_network else DAEMON_TOLERATIONS
    wanted = {node.metadata.name for node in snapshot.nodes if fits(pod_spec, node, tolerations, ignore_readiness=True)}
    revision = daemon_set.template_hash
    on_node: dict[str, Pod] = {}
    for pod in snapshot.pods_by_owner.get(daemon_set.metadata.uid, ()):
        if pod.spec.node_name in wanted and pod.spec.node_name not in on_node:
            on_node[pod.spec.node_name] = pod
        elif not pod.deleting:
            yield _delete(pod)
    missing = sorted(wanted - on_node.keys())
    for node_name in missing:
        template = daemon_set.template
        spec = template.setdefault("spec", {})
        spec["tolerations"] = [*spec.get("tolerations", []), *msgspec.to_builtins(tolerations)]
        name = f"{daemon_set.metadata.name}-{snapshot.suffix()}"
        yield Create(POD, controlled_pod(daemon_set, template, name, {REVISION: revision}, node_name))
    yield from _replace_outdated(daemon_set, revision, len(wanted), on_node)
    status = _status(daemon_set, revision, len(wanted), on_node, len(missing))
    if status != daemon_set.status:
        yield Change(DAEMON_SET, daemon_set.key, {"status": status}, "status")


def _replace_outdated(daemon_set: Workload, revision: str, wanted: int, on_node: dict[str, Pod]) -> Iterator[Write]:
    if daemon_set.spec.update_strategy.type != "RollingUpdate":
        return
    limit = share(daemon_set.spec.update_strategy.rolling_update.max_unavailable, wanted, default=1)
    budget = max(limit, 1) - wanted + sum(1 for pod in on_node.values() if pod.ready)
    for pod in on_node.values():
        if pod.metadata.labels.get(REVISION) == revision or pod.deleting:
            continue
        if not pod.ready:
            yield _delete(pod)
        elif budget > 0:
            budget -= 1
            yield _delete(pod)


def _status(daemon_set: Workload, revision: str, wanted: int, on_node: dict[str, Pod], created: int) -> Tree:
    """The status, including pods that are being created, to save a second write."""
    ready = sum(1 for pod in on_node.values() if pod.ready)
    status: Tree = {
        "currentNumberScheduled": len(on_node) + created,
        "desiredNumberScheduled": wanted,
        "numberAvailable": ready,
        "numberMisscheduled": 0,
        "numberReady": ready,
        "observedGeneration": daemon_set.metadata.generation,
        "updatedNumberScheduled": created
        + sum(1 for pod in on_node.values() if pod.metadata.labels.get(REVISION) == revision),
    }
    if wanted > ready:
        status["numberUnavailable"] = wanted - ready
    elif "numberUnavailable" in daemon_set.status:
        status["numberUnavailable"] = None
    return status


def _delete(pod: Pod) -> Delete:
    return Delete(POD, pod.key, pod.metadata.uid)
