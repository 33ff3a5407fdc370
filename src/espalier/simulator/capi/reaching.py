"""The access of Cluster API's controllers to workload clusters (its ClusterCache)."""

from __future__ import annotations

from typing import Protocol

from espalier.api import conditions
from espalier.api.resource import Key, Resource
from espalier.clusterapi.contract import CONTROL_PLANE_BROKEN
from espalier.clusterapi.infrastructures.infrastructure import InfrastructureCluster
from espalier.kube.client import Client
from espalier.kube.objects import Object


class Reachable(Protocol):
    """A reachable workload cluster."""

    @property
    def client(self) -> Client:
        """An administrator's client."""

    def object(self, resource: Resource, key: Key) -> Object | None:
        """A node, pod, DaemonSet, Deployment or ReplicaSet, from a cache."""

    def node(self, provider_id: str) -> Object | None:
        """The node with this provider ID, from a cache."""

    def pods(self, node: str) -> list[Object]:
        """The pods of a node, from a cache."""


class WorkloadClusters(Protocol):
    """The workload clusters of a management cluster."""

    def reach(self, cluster: Key) -> Reachable | None:
        """A workload cluster, None while it is unreachable. Never blocks."""


CLOSED = "ControlPlaneClosed"
"""Reason of an infrastructure cluster whose API server can't run at present."""


def obstacle(infrastructure: Object | None) -> str:
    """Why the API server of a cluster can't run, from the infrastructure's condition; empty if it can."""
    if infrastructure is None:
        return ""
    ready = conditions.get(infrastructure.decode(InfrastructureCluster).status.conditions, "Ready")
    return ready.message if ready is not None and ready.reason in (CLOSED, CONTROL_PLANE_BROKEN) else ""
