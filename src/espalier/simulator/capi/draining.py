"""Draining the node of a machine that is being deleted, as Cluster API does before it deletes anything of the machine.

All pods are evicted but those of DaemonSets, static pods, and pods with label `cluster.x-k8s.io/drain: skip`. An
eviction that a PodDisruptionBudget forbids is tried again until `nodeDrainTimeoutSeconds` are over.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from espalier.api import conditions as condition_list
from espalier.api.capi.machine import Machine
from espalier.api.core import NODE
from espalier.clusterapi.objects import controller_of
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import ApiError, NotFound
from espalier.kube.objects import Object
from espalier.simulator.hosts.static_pods import MIRROR

EXCLUDED = "machine.cluster.x-k8s.io/exclude-node-draining"
"""Annotation of a Machine whose node is not drained."""

_DRAIN_LABEL = "cluster.x-k8s.io/drain"

SOON, LATER = 1.0, 10.0
"""Seconds until the next attempt: while pods end, and while evictions are refused. Cluster API waits for 20 s."""

_MOST_PODS, _MOST_REASONS = 3, 5
"""Pods and reasons that a message names, as Cluster API's."""


@dataclass
class Drain:
    """The pods that are left on a node after an attempt; their names with namespaces."""

    ending: list[str] = field(default_factory=list)
    """Pods that were evicted or deleted, and have not ended yet."""
    refused: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Pods by the reason why their eviction was refused."""

    @property
    def is_complete(self) -> bool:
        """True if no pod is left."""
        return not self.ending and not self.refused

    @property
    def again(self) -> float:
        """Seconds until the next attempt."""
        return LATER if self.refused else SOON

    def message(self, started: str) -> str:
        """The message of condition Deleting, in the words of Cluster API."""
        lines = [f"Drain not completed yet (started at {started}):"]
        if self.ending:
            lines.append(f"* Pods with deletionTimestamp that still exist: {_listed(self.ending)}")
        if self.refused:
            lines.append("* Pods with eviction failed:")
        for reason in sorted(self.refused)[:_MOST_REASONS]:
            lines.append(f"  * {reason}: {_listed(self.refused[reason])}")
        if more := len(self.refused) - _MOST_REASONS:
            lines += [f"  * ... ({more} more errors)"] if more > 0 else []
        return "\n".join(lines)


def is_allowed(machine: Machine, now: datetime) -> bool:
    """True if a machine's node is to be drained: nobody excluded it, and the time for it is not over."""
    if EXCLUDED in machine.metadata.annotations:
        return False
    timeout = machine.spec.deletion.node_drain_timeout_seconds if machine.spec.deletion else None
    began = started(machine)
    return not (timeout and began) or now < _moment(began, now) + timedelta(seconds=timeout)


def started(machine: Machine) -> str:
    """The time at which the drain began; empty before."""
    return machine.status.deletion.node_drain_start_time if machine.status.deletion else ""


def remaining(machine: Machine, now: datetime) -> float | None:
    """Seconds until a drain is given up; None without a limit."""
    timeout = machine.spec.deletion.node_drain_timeout_seconds if machine.spec.deletion else None
    began = started(machine)
    return max(0.0, (_moment(began, now) + timedelta(seconds=timeout) - now).total_seconds()) if timeout else None


def to_evict(pods: Iterable[Object]) -> list[Object]:
    """The pods of a node that have to go, by name."""
    return sorted((pod for pod in pods if _is_to_go(pod)), key=lambda pod: pod.key)


def _is_to_go(pod: Object) -> bool:
    metadata = pod.metadata
    if MIRROR in metadata.annotations or metadata.labels.get(_DRAIN_LABEL, "").casefold() == "skip":
        return False
    owner = controller_of(metadata)
    has_ended = (pod.tree.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return has_ended or owner is None or owner.kind != "DaemonSet"


async def drain(client: Client, node: Object, pods: Iterable[Object]) -> Drain:
    """Cordon a node and evict these pods of it. Raises `KubeError` if the API server does not answer."""
    if not (node.tree.get("spec") or {}).get("unschedulable"):
        await client.patch(NODE, node.name, patch={"spec": {"unschedulable": True}}, type=PatchType.MERGE)
    result = Drain()
    for pod in pods:
        name = f"{pod.namespace}/{pod.name}"
        if pod.metadata.deletion_timestamp is not None:
            result.ending.append(name)
            continue
        try:
            await client.evict(pod)
        except NotFound:
            continue
        except ApiError as error:
            result.refused[_reason(error)].append(name)
            continue
        result.ending.append(name)
    return result


def _reason(error: ApiError) -> str:
    """The message of a refusal, with its causes: they name the PodDisruptionBudget."""
    causes = error.status.details.causes if error.status.details is not None else []
    return " ".join(filter(None, (error.status.message, ",".join(cause.message for cause in causes))))


def _listed(pods: list[str]) -> str:
    more = f", ... ({len(pods) - _MOST_PODS} more)" if len(pods) > _MOST_PODS else ""
    return f"{', '.join(pods[:_MOST_PODS])}{more}"


def _moment(timestamp: str, now: datetime) -> datetime:
    """A time that others may have written; now for what is no time."""
    return condition_list.parse_timestamp(timestamp) or now
