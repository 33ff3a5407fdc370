"""A snapshot of a workload cluster, indexed for the planners."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property

from espalier.api import conditions as condition_list
from espalier.api.meta import SUFFIX_LETTERS, Tree
from espalier.api.resource import Key
from espalier.kube.connection.pki import Authority
from espalier.simulator.workload_controllers.views import (
    Budget,
    CertificateRequest,
    Claim,
    EndpointSlice,
    Node,
    Pod,
    Service,
    Volume,
    Workload,
)


@dataclass(frozen=True)
class Snapshot:
    """The observed objects of a workload cluster. `now` is the time of the writes; `random` generates names of pods."""

    now: datetime
    random: random.Random = field(repr=False, compare=False)
    pod_range: str
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    daemon_sets: tuple[Workload, ...] = ()
    deployments: tuple[Workload, ...] = ()
    replica_sets: tuple[Workload, ...] = ()
    stateful_sets: tuple[Workload, ...] = ()
    claims: tuple[Claim, ...] = ()
    volumes: tuple[Volume, ...] = ()
    services: tuple[Service, ...] = ()
    endpoint_slices: tuple[EndpointSlice, ...] = ()
    budgets: tuple[Budget, ...] = ()
    certificate_requests: tuple[CertificateRequest, ...] = ()
    authority: Authority | None = field(default=None, repr=False, compare=False)
    """Signs approved requests of clients of the API server."""
    deleted_mirrors: tuple[Tree, ...] = ()
    """Deleted mirror pods, to be recreated."""
    runs: Callable[[Pod], bool] = field(default=lambda _pod: False, repr=False, compare=False)
    """True if a pod is run by `simulator/pods`, so that the planners must not write its status."""

    @cached_property
    def pods_by_owner(self) -> dict[str, list[Pod]]:
        """Pods by the uid of their controlling owner."""
        return _grouped((pod.owner, pod) for pod in self.pods)

    @cached_property
    def pods_by_node(self) -> dict[str, list[Pod]]:
        """Pods by the name of their node."""
        return _grouped((pod.spec.node_name, pod) for pod in self.pods if pod.spec.node_name)

    @cached_property
    def pods_by_namespace(self) -> dict[str, list[Pod]]:
        """Pods by namespace."""
        return _grouped((pod.metadata.namespace, pod) for pod in self.pods)

    @cached_property
    def claim_by_key(self) -> dict[Key, Claim]:
        """PersistentVolumeClaims by namespace and name."""
        return {claim.key: claim for claim in self.claims}

    @cached_property
    def node_by_name(self) -> dict[str, Node]:
        """Nodes by name."""
        return {node.metadata.name: node for node in self.nodes}

    @property
    def timestamp(self) -> str:
        """`now` as a timestamp in objects."""
        return condition_list.timestamp(self.now)

    def suffix(self) -> str:
        """Five random characters for a new name, as Kubernetes chooses them."""
        return "".join(self.random.choices(SUFFIX_LETTERS, k=5))

    def with_transition_times(self, current: list[Tree], wanted: list[Tree]) -> list[Tree]:
        """The wanted conditions, each with its `lastTransitionTime`: `now` where the status changes."""
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
