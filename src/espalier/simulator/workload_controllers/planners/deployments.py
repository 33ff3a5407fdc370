"""The Deployment controller: a ReplicaSet for each pod template, and a rollout from the old ones to the new one."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.core import DEPLOYMENT, REPLICA_SET
from espalier.api.meta import Tree
from espalier.clusterapi.machines.intstr import share
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import Workload
from espalier.simulator.workload_controllers.writes import Change, Create, Write, controller_reference

HASH = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"


def plan(snapshot: Snapshot) -> Iterator[Write]:
    """The missing writes for Deployments."""
    owned: dict[str, list[Workload]] = {}
    for replica_set in snapshot.replica_sets:
        if not replica_set.deleting:
            owned.setdefault(replica_set.owner, []).append(replica_set)
    for deployment in snapshot.deployments:
        if not deployment.deleting:
            yield from _plan(snapshot, deployment, owned.get(deployment.metadata.uid, []))


def _plan(snapshot: Snapshot, deployment: Workload, replica_sets: list[Workload]) -> Iterator[Write]:
    hash_ = deployment.template_hash
    new = next((owned for owned in replica_sets if owned.metadata.labels.get(HASH) == hash_), None)
    old = [owned for owned in replica_sets if owned is not new]
    if new is None:
        yield Create(REPLICA_SET, _replica_set(deployment, hash_, old))
    else:
        for replica_set, replicas in _scale(deployment, new, old):
            if replica_set.spec.replicas != replicas:
                key = replica_set.key
                yield Change(REPLICA_SET, key, {"spec": {"replicas": replicas}})
    status = _status(snapshot, deployment, new, replica_sets)
    if status != deployment.status:
        removed = {name: None for name in deployment.status if name not in status}
        key = deployment.key
        yield Change(DEPLOYMENT, key, {"status": status | removed}, "status")


def _scale(deployment: Workload, new: Workload, old: list[Workload]) -> Iterator[tuple[Workload, int]]:
    """Replicas of each set: the new one scales up within maxSurge, old ones scale down as pods become available."""
    replicas = deployment.spec.replicas
    if deployment.spec.strategy.type == "Recreate":
        yield from ((replica_set, 0) for replica_set in old)
        yield new, 0 if any(_count(replica_set, "replicas") for replica_set in old) else replicas
        return
    limits = deployment.spec.strategy.rolling_update
    surge = share(limits.max_surge, replicas, default="25%", round_up=True)
    max_unavailable = share(limits.max_unavailable, replicas, default="25%")
    old_total = sum(replica_set.spec.replicas for replica_set in old)
    scaled_up = min(replicas, max(new.spec.replicas, replicas + max(surge, 0 if max_unavailable else 1) - old_total))
    yield new, scaled_up
    removable = max(0, sum(map(_available, (*old, new))) - (replicas - max_unavailable))
    for replica_set in old:
        unavailable = replica_set.spec.replicas - _available(replica_set)
        scaled_down = min(replica_set.spec.replicas, unavailable + removable)
        removable -= max(0, scaled_down - unavailable)
        yield replica_set, replica_set.spec.replicas - scaled_down


def _replica_set(deployment: Workload, hash_: str, old: list[Workload]) -> Tree:
    template = deployment.template
    metadata = template.setdefault("metadata", {})
    metadata["labels"] = {**(metadata.get("labels") or {}), HASH: hash_}
    revisions = [int(owned.metadata.annotations.get(REVISION, "0")) for owned in old]
    match = deployment.spec.selector.get("matchLabels", {})
    return {
        "apiVersion": REPLICA_SET.api_version,
        "kind": REPLICA_SET.kind,
        "metadata": {
            "name": f"{deployment.metadata.name}-{hash_}",
            "namespace": deployment.metadata.namespace,
            "labels": metadata["labels"],
            "annotations": {REVISION: str(max(revisions, default=0) + 1)},
            "ownerReferences": [controller_reference(deployment)],
        },
        "spec": {
            "replicas": 0 if old else deployment.spec.replicas,
            "selector": {**deployment.spec.selector, "matchLabels": {**match, HASH: hash_}},
            "template": template,
        },
    }


def _status(snapshot: Snapshot, deployment: Workload, new: Workload | None, all_: list[Workload]) -> Tree:
    replicas = sum(_count(replica_set, "replicas") for replica_set in all_)
    available = sum(_count(replica_set, "availableReplicas") for replica_set in all_)
    updated = _count(new, "replicas") if new else 0
    wanted = deployment.spec.replicas
    max_unavailable = share(deployment.spec.strategy.rolling_update.max_unavailable, wanted, default="25%")
    minimum_available = available >= wanted - max_unavailable
    complete = updated == replicas == wanted and available >= wanted
    conditions = [
        {
            "type": "Available",
            "status": "True" if minimum_available else "False",
            "reason": "MinimumReplicasAvailable" if minimum_available else "MinimumReplicasUnavailable",
            "message": f"Deployment has{'' if minimum_available else ' not'} minimum availability.",
        },
        {
            "type": "Progressing",
            "status": "True",
            "reason": "NewReplicaSetAvailable" if complete else "ReplicaSetUpdated",
            "message": f"{updated} of {wanted} pods have the newest template, {available} pods are available.",
        },
    ]
    return {
        "observedGeneration": deployment.metadata.generation,
        "replicas": replicas,
        "updatedReplicas": updated,
        "readyReplicas": sum(_count(replica_set, "readyReplicas") for replica_set in all_),
        "availableReplicas": available,
        **({"unavailableReplicas": wanted - available} if wanted > available else {}),
        "conditions": snapshot.with_transition_times(deployment.status.get("conditions", []), conditions),
    }


def _available(replica_set: Workload) -> int:
    """The available pods of a ReplicaSet, at most its replicas: its status may count pods that it will delete."""
    return min(replica_set.spec.replicas, _count(replica_set, "availableReplicas"))


def _count(replica_set: Workload, field: str) -> int:
    return int(replica_set.status.get(field, 0))
