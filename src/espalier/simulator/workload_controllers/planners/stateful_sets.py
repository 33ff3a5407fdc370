"""The StatefulSet controller: pods with ordinals, each with its own claims, started and replaced in order.

There are no ControllerRevisions: a pod below `partition` that is lost is created from the newest template.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from espalier.api.core import PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import Pod, Workload
from espalier.simulator.workload_controllers.writes import Change, Create, Delete, Write, controlled_pod

REVISION = "controller-revision-hash"
POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"
TERMINAL_PHASES = ("Succeeded", "Failed")


def plan(snapshot: Snapshot) -> Iterator[Write]:
    """The missing writes for StatefulSets."""
    for stateful_set in snapshot.stateful_sets:
        if not stateful_set.deleting:
            yield from _plan(snapshot, stateful_set)


def _plan(snapshot: Snapshot, stateful_set: Workload) -> Iterator[Write]:
    pods = {
        ordinal: pod
        for pod in snapshot.pods_by_owner.get(stateful_set.metadata.uid, ())
        if (ordinal := _ordinal(stateful_set, pod)) is not None
    }
    created: list[int] = []
    for write in _scale(snapshot, stateful_set, pods):
        if isinstance(write, Create) and write.resource == POD:
            created.append(int(write.body["metadata"]["labels"][POD_INDEX]))
        yield write
    status = _status(stateful_set, pods, len(created))
    if status != stateful_set.status:
        yield Change(STATEFUL_SET, stateful_set.key, {"status": status}, "status")


def _scale(snapshot: Snapshot, stateful_set: Workload, pods: dict[int, Pod]) -> Iterator[Write]:
    """Create, then delete, then replace pods; with OrderedReady one at a time, and none after one that is not ready."""
    ordered = stateful_set.spec.pod_management_policy != "Parallel"
    for ordinal in range(stateful_set.spec.replicas):
        pod = pods.get(ordinal)
        if pod is None:
            yield from _new_claims(snapshot, stateful_set, ordinal)
            yield Create(POD, _pod(stateful_set, ordinal))
        elif pod.status.phase in TERMINAL_PHASES and not pod.deleting:
            yield _delete(pod)
        elif pod.status.phase == "Pending":  # its claim may have been deleted before it was scheduled
            yield from _new_claims(snapshot, stateful_set, ordinal)
        elif not ordered or (pod.ready and not pod.deleting):
            continue
        if ordered:
            return
    condemned = sorted((ordinal for ordinal in pods if ordinal >= stateful_set.spec.replicas), reverse=True)
    for ordinal in condemned:
        pod = pods[ordinal]
        if not pod.deleting and not (ordered and _waits_for_lower(pods, ordinal)):
            yield _delete(pod)
        if ordered:
            return
    yield from _replace_outdated(stateful_set, pods)


def _waits_for_lower(pods: dict[int, Pod], ordinal: int) -> bool:
    """True if a pod is ready and one with a lower ordinal is not: then it must not be deleted yet."""
    return pods[ordinal].ready and any(not pod.ready for before, pod in pods.items() if before < ordinal)


def _replace_outdated(stateful_set: Workload, pods: dict[int, Pod]) -> Iterator[Write]:
    """Delete the last pod of an older template, if all after it are ready."""
    if stateful_set.spec.update_strategy.type != "RollingUpdate":
        return
    partition = stateful_set.spec.update_strategy.rolling_update.partition or 0
    for ordinal in range(stateful_set.spec.replicas - 1, partition - 1, -1):
        pod = pods.get(ordinal)
        if pod is None or pod.deleting:
            return
        if pod.metadata.labels.get(REVISION) != _revision(stateful_set):
            yield _delete(pod)
            return
        if not pod.ready:
            return


def _new_claims(snapshot: Snapshot, stateful_set: Workload, ordinal: int) -> Iterator[Write]:
    """The missing claims of a pod. They are retained when it is deleted, at scaling down, and with the StatefulSet."""
    namespace = stateful_set.metadata.namespace
    labels = stateful_set.spec.selector.get("matchLabels") or {}
    for template in stateful_set.spec.volume_claim_templates:
        name = _claim_name(stateful_set, template, ordinal)
        if Key(namespace, name) in snapshot.claim_by_key:
            continue
        metadata = template.get("metadata") or {}
        yield Create(
            PERSISTENT_VOLUME_CLAIM,
            {
                "apiVersion": PERSISTENT_VOLUME_CLAIM.api_version,
                "kind": PERSISTENT_VOLUME_CLAIM.kind,
                "metadata": {
                    "name": name,
                    "namespace": namespace,
                    "labels": {**(metadata.get("labels") or {}), **labels},
                    "annotations": metadata.get("annotations") or {},
                },
                "spec": template["spec"],
            },
        )


def _pod(stateful_set: Workload, ordinal: int) -> Tree:
    name = _pod_name(stateful_set, ordinal)
    labels = {POD_NAME: name, POD_INDEX: str(ordinal), REVISION: _revision(stateful_set)}
    pod = controlled_pod(stateful_set, stateful_set.template, name, labels)
    spec = pod["spec"]
    spec["hostname"] = name
    if stateful_set.spec.service_name:
        spec["subdomain"] = stateful_set.spec.service_name
    claim_volumes = {
        template["metadata"]["name"]: {
            "name": template["metadata"]["name"],
            "persistentVolumeClaim": {"claimName": _claim_name(stateful_set, template, ordinal)},
        }
        for template in stateful_set.spec.volume_claim_templates
    }
    if claim_volumes:
        others = [volume for volume in spec.get("volumes") or () if volume["name"] not in claim_volumes]
        spec["volumes"] = [*others, *claim_volumes.values()]
    return pod


def _status(stateful_set: Workload, pods: dict[int, Pod], created: int) -> Tree:
    """The status, including pods that are being created, to save a second write."""
    revision = _revision(stateful_set)
    before = stateful_set.status
    current = before.get("currentRevision") or revision
    staying = [pod for pod in pods.values() if not pod.deleting]
    ready = sum(pod.ready for pod in staying)
    replicas = len(pods) + created
    updated = _count_revision(staying, revision) + created
    if updated == replicas == ready:
        current = revision
    counts = {
        "currentReplicas": _count_revision(staying, current) + (created if current == revision else 0),
        "readyReplicas": ready,
        "updatedReplicas": updated,
    }
    status: Tree = {
        "observedGeneration": stateful_set.metadata.generation,
        "replicas": replicas,
        "availableReplicas": ready,
        "currentRevision": current,
        "updateRevision": revision,
        "collisionCount": before.get("collisionCount", 0),
        **{name: count for name, count in counts.items() if count},
    }
    return status | {name: None for name in before if name not in status}


def _count_revision(pods: Sequence[Pod], revision: str) -> int:
    return sum(pod.metadata.labels.get(REVISION) == revision for pod in pods)


def _revision(stateful_set: Workload) -> str:
    return f"{stateful_set.metadata.name}-{stateful_set.template_hash}"


def _ordinal(stateful_set: Workload, pod: Pod) -> int | None:
    parent, _, ordinal = pod.metadata.name.rpartition("-")
    return int(ordinal) if parent == stateful_set.metadata.name and ordinal.isdecimal() else None


def _pod_name(stateful_set: Workload, ordinal: int) -> str:
    return f"{stateful_set.metadata.name}-{ordinal}"


def _claim_name(stateful_set: Workload, template: Tree, ordinal: int) -> str:
    return f"{template['metadata']['name']}-{_pod_name(stateful_set, ordinal)}"


def _delete(pod: Pod) -> Delete:
    """Delete gracefully: the next pod of this name must not start before this one's containers have ended."""
    return Delete(POD, pod.key, pod.metadata.uid, graceful=True)
