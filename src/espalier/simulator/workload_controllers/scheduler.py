"""The scheduler: binds each pending pod to the least occupied matching node."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.core import POD
from espalier.api.resource import Key
from espalier.simulator.workload_controllers.placing import fits
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import Pod
from espalier.simulator.workload_controllers.writes import Change, Write


def plan(world: Snapshot) -> Iterator[Write]:
    """The missing bindings; a pod that fits no node gets the condition once."""
    occupied = {name: len(pods) for name, pods in world.pods_by_node.items()}
    siblings = {(pod.owner, pod.spec.node_name) for pod in world.pods if pod.owner and pod.spec.node_name}
    for pod in world.pods:
        if pod.spec.node_name or pod.deleting:
            continue
        candidates = [node.metadata.name for node in world.nodes if fits(pod.spec, node)]
        if not candidates:
            yield from _unschedulable(world, pod)
            continue
        owner = pod.owner
        chosen = min(candidates, key=lambda name: ((owner, name) in siblings, occupied.get(name, 0), name))
        occupied[chosen] = occupied.get(chosen, 0) + 1
        siblings.add((owner, chosen))
        yield Change(POD, Key(pod.metadata.namespace, pod.metadata.name), {"spec": {"nodeName": chosen}})


def _unschedulable(world: Snapshot, pod: Pod) -> Iterator[Write]:
    if any(condition.type == "PodScheduled" for condition in pod.status.conditions):
        return
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": f"0/{len(world.nodes)} nodes are available: no node fits the pod's node selector and tolerations.",
        "lastTransitionTime": world.timestamp,
    }
    patch = {"status": {"phase": "Pending", "conditions": [condition]}}
    yield Change(POD, Key(pod.metadata.namespace, pod.metadata.name), patch, "status")
