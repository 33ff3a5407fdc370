"""How controllers of the management cluster see the nodes of workload clusters."""

from __future__ import annotations

from typing import Protocol

from espalier.api import conditions
from espalier.api.resource import Key, Resource
from espalier.clusterapi.contract import CONTROL_PLANE_BROKEN
from espalier.clusterapi.infrastructure import InfrastructureCluster
from espalier.kube.client import Client
from espalier.kube.objects import Object


class Reachable(Protocol):
    """A workload cluster whose API server answers."""

    @property
    def client(self) -> Client:
        """Speaks to its API server as an administrator."""

    def object(self, resource: Resource, key: Key) -> Object | None:
        """A node, pod, DaemonSet, Deployment or ReplicaSet, from a cache."""

    def node(self, provider_id: str) -> Object | None:
        """The node of the machine that its infrastructure calls `provider_id`, from a cache."""


class WorkloadClusters(Protocol):
    """All workload clusters."""

    def reach(self, cluster: Key) -> Reachable | None:
        """A workload cluster, None while it cannot be reached. Never waits."""


CLOSED = "ControlPlaneClosed"
"""Reason of a cluster's infrastructure whose API server can't be run at present."""


def hindrance(infrastructure: Object | None) -> str:
    """Why the API server of a cluster can't be run, as its infrastructure says it; empty if nothing hinders it."""
    if infrastructure is None:
        return ""
    ready = conditions.get(infrastructure.decode(InfrastructureCluster).status.conditions, "Ready")
    return ready.message if ready is not None and ready.reason in (CLOSED, CONTROL_PLANE_BROKEN) else ""
