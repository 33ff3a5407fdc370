"""Free capacity for the pods of a node on the other nodes, by their requests.

First fit, the largest pod first, by CPU, memory and the number of pods. Selectors, affinity and volumes are ignored: a
pod that the scheduler can't place because of them waits until its own node is uncordoned.
"""

from __future__ import annotations

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping
from decimal import Decimal, DecimalException

import msgspec

from espalier.api.core import POD
from espalier.api.meta import ObjectMeta, Observed
from espalier.api.text.quantities import amount
from espalier.kube.client import Client
from espalier.upgrades.observed.views import Node

RESOURCES = ("cpu", "memory", "pods")
MOST_PODS = 20_000
"""The most pods that are read; a cluster with more is assumed to have room."""

MIRROR = "kubernetes.io/config.mirror"
ENDED = ("Succeeded", "Failed")

Amounts = Mapping[str, Decimal]


class _Requests(Observed, frozen=True):
    requests: dict[str, str | int | float] = {}


class _Container(Observed, frozen=True):
    resources: _Requests = _Requests()
    restart_policy: str = ""

    @property
    def is_sidecar(self) -> bool:
        return self.restart_policy == "Always"


class _Spec(Observed, frozen=True):
    node_name: str = ""
    containers: list[_Container] = []
    init_containers: list[_Container] = []
    overhead: dict[str, str | int | float] = {}


class _Status(Observed, frozen=True):
    phase: str = ""


class PodRequest(Observed, frozen=True):
    """A pod, reduced to the fields that decide about its requests and its eviction."""

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = msgspec.field(default_factory=_Status)

    @property
    def is_evicted(self) -> bool:
        """True if a drain evicts it: a controller other than a DaemonSet recreates it elsewhere."""
        controllers = [owner.kind for owner in self.metadata.owner_references if owner.controller]
        return bool(controllers) and controllers != ["DaemonSet"] and MIRROR not in self.metadata.annotations

    @property
    def requests(self) -> Amounts:
        """The requests that the scheduler counts: init containers run in sequence, sidecars beside all."""
        long_running = [
            *self.spec.containers,
            *(container for container in self.spec.init_containers if container.is_sidecar),
        ]
        amounts = {}
        for resource in ("cpu", "memory"):
            concurrent = sum((_of(container.resources.requests, resource) for container in long_running), Decimal())
            alone = max(
                (_of(container.resources.requests, resource) for container in self.spec.init_containers),
                default=Decimal(),
            )
            amounts[resource] = max(concurrent, alone) + _of(self.spec.overhead, resource)
        return {**amounts, "pods": Decimal(1)}


async def has_room(client: Client, nodes: Iterable[Node], leaving: str) -> bool:
    """True if the pods that a drain of node `leaving` evicts fit on the other nodes, or if that is unknown."""
    pods = []
    try:
        async for pod in _pods(client):
            pods.append(pod)
            if len(pods) > MOST_PODS:
                return True
        return fits(pods, nodes, leaving)
    except (DecimalException, msgspec.ValidationError):  # an invalid quantity or pod
        return True


def fits(pods: Iterable[PodRequest], nodes: Iterable[Node], leaving: str) -> bool:
    """True if the pods that a drain of node `leaving` evicts fit on the other nodes that take pods. Pure.

    A node is assumed to have enough of a resource that is missing from its allocatable.
    """
    room = {
        node.metadata.name: {
            name: _of(allocatable, name) for name in RESOURCES if name in (allocatable := node.status.allocatable)
        }
        for node in nodes
        if node.takes_pods and node.metadata.name != leaving
    }
    moving: list[Amounts] = []
    used: dict[str, dict[str, Decimal]] = defaultdict(lambda: dict.fromkeys(RESOURCES, Decimal()))
    for pod in pods:
        if pod.status.phase in ENDED:
            continue
        if pod.spec.node_name == leaving:
            moving += [pod.requests] if pod.is_evicted else []
        else:
            for resource, needed in pod.requests.items():
                used[pod.spec.node_name][resource] += needed
    free = {
        name: {resource: allocatable - used[name][resource] for resource, allocatable in of_node.items()}
        for name, of_node in room.items()
    }
    for requests in sorted(moving, key=lambda amounts: (amounts["memory"], amounts["cpu"]), reverse=True):
        node_free = next(
            (
                amounts_of_node
                for amounts_of_node in free.values()
                if all(requests[name] <= amount_ for name, amount_ in amounts_of_node.items())
            ),
            None,
        )
        if node_free is None:
            return False
        for name in node_free:
            node_free[name] -= requests[name]
    return True


async def _pods(client: Client) -> AsyncIterator[PodRequest]:
    async for page in client.pages(POD):
        for pod in page.items:
            yield pod.decode(PodRequest)


def _of(amounts: Mapping[str, str | int | float], resource: str) -> Decimal:
    return amount(str(amounts.get(resource, "0")))
