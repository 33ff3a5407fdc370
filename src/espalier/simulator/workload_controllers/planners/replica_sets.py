"""The ReplicaSet controller: keeps a number of pods of one template."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.core import POD, REPLICA_SET
from espalier.api.meta import Tree
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import Pod, Workload
from espalier.simulator.workload_controllers.writes import Change, Create, Delete, Write, controlled_pod


def plan(snapshot: Snapshot) -> Iterator[Write]:
    """The missing writes for ReplicaSets."""
    for replica_set in snapshot.replica_sets:
        if not replica_set.deleting:
            yield from _plan(snapshot, replica_set)


def _plan(snapshot: Snapshot, replica_set: Workload) -> Iterator[Write]:
    pods = [pod for pod in snapshot.pods_by_owner.get(replica_set.metadata.uid, ()) if not pod.deleting]
    missing = replica_set.spec.replicas - len(pods)
    for _ in range(missing):
        name = f"{replica_set.metadata.name}-{snapshot.suffix()}"
        yield Create(POD, controlled_pod(replica_set, replica_set.template, name, {}))
    for pod in sorted(pods, key=_deletion_order)[: max(0, -missing)]:
        key = pod.key
        yield Delete(POD, key, pod.metadata.uid, graceful=snapshot.runs(pod))
    status = _status(replica_set, pods, max(0, missing))
    if status != replica_set.status:
        key = replica_set.key
        yield Change(REPLICA_SET, key, {"status": status}, "status")


def _deletion_order(pod: Pod) -> tuple[bool, bool, str]:
    """A sort key: pods without a node are deleted first, then those that are not ready, then by name."""
    return (bool(pod.spec.node_name), pod.ready, pod.metadata.name)


def _status(replica_set: Workload, pods: list[Pod], created: int) -> Tree:
    """The status, including pods that are being created, to save a second write."""
    ready = sum(1 for pod in pods if pod.ready)
    return {
        "availableReplicas": ready,
        "fullyLabeledReplicas": len(pods) + created,
        "observedGeneration": replica_set.metadata.generation,
        "readyReplicas": ready,
        "replicas": len(pods) + created,
    }
