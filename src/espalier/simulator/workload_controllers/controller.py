"""Runs the planners: an event in a workload cluster triggers a reconcile, which executes the missing writes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import TypeVar

from espalier.api.core import (
    CERTIFICATE_SIGNING_REQUEST,
    DAEMON_SET,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    REPLICA_SET,
    SERVICE,
    STATEFUL_SET,
)
from espalier.api.resource import Key, Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from espalier.kube.objects import Object
from espalier.runtime.clock import Clock
from espalier.runtime.concurrency import together
from espalier.runtime.controllers.outcome import Done, Outcome
from espalier.simulator.workload_clusters.workload_cluster import WorkloadCluster
from espalier.simulator.workload_clusters.workloads import Workloads
from espalier.simulator.workload_controllers.planners import (
    budgets,
    certificates,
    claims,
    daemon_sets,
    deployments,
    endpoints,
    kubelet,
    replica_sets,
    scheduler,
    stateful_sets,
)
from espalier.simulator.workload_controllers.snapshot import Snapshot
from espalier.simulator.workload_controllers.views import (
    Budget,
    CertificateRequest,
    Claim,
    EndpointSlice,
    Node,
    Pod,
    Service,
    View,
    Volume,
    Workload,
)
from espalier.simulator.workload_controllers.writes import Change, Create, Delete, Write

V = TypeVar("V", bound=View)

Planner = Callable[[Snapshot], Iterator[Write]]

PLANNERS: tuple[Planner, ...] = (
    deployments.plan,
    replica_sets.plan,
    daemon_sets.plan,
    stateful_sets.plan,
    claims.plan,
    scheduler.plan,
    kubelet.plan,
    budgets.plan,
    endpoints.plan,
    certificates.plan,
)
"""All planners, in the order in which a reconcile runs them."""


class WorkloadControllers:
    """Reconciles whole workload clusters; the key is the Cluster's."""

    def __init__(
        self,
        workloads: Workloads,
        *,
        clock: Clock,
        rng: random.Random,
        runs: Callable[[Pod], bool] = lambda _pod: False,
    ) -> None:
        self._workloads = workloads
        self._clock = clock
        self._rng = rng
        self._runs = runs

    async def reconcile(self, key: Key) -> Outcome:
        """Execute the missing writes in one cluster; their events trigger further reconciles until none is missing."""
        workload = self._workloads.reach(key)
        if workload is None:
            return Done()
        snapshot = self._snapshot(workload)
        writes = [write for planner in PLANNERS for write in planner(snapshot)]
        await together(_execute(workload, write) for write in writes)  # concurrently: committed together
        return Done()

    def _snapshot(self, workload: WorkloadCluster) -> Snapshot:
        def views(resource: Resource, type_: type[V]) -> tuple[V, ...]:
            return tuple(object_.decode(type_) for object_ in workload.cache(resource).list())

        return Snapshot(
            now=self._clock.now(),
            random=self._rng,
            pod_range=workload.network.pods,
            nodes=views(NODE, Node),
            pods=views(POD, Pod),
            daemon_sets=views(DAEMON_SET, Workload),
            deployments=views(DEPLOYMENT, Workload),
            replica_sets=views(REPLICA_SET, Workload),
            stateful_sets=views(STATEFUL_SET, Workload),
            claims=views(PERSISTENT_VOLUME_CLAIM, Claim),
            volumes=views(PERSISTENT_VOLUME, Volume),
            services=views(SERVICE, Service),
            endpoint_slices=views(ENDPOINT_SLICE, EndpointSlice),
            budgets=views(POD_DISRUPTION_BUDGET, Budget),
            certificate_requests=views(CERTIFICATE_SIGNING_REQUEST, CertificateRequest),
            authority=workload.authority,
            deleted_mirrors=tuple(workload.deleted_mirrors.values()),
            runs=self._runs,
        )


async def _execute(workload: WorkloadCluster, write: Write) -> None:
    """Execute one write. Conflicts are ignored: the event of the other write triggers a reconcile.

    Of a refused creation only the end of the namespace is ignored, too. Anything else fails, and is tried again: no
    event tells when it ends, such as the missing ServiceAccount of a new namespace.
    """
    try:
        written = await _send(workload.client, write)
    except (AlreadyExists, Conflict, NotFound):
        return
    except Forbidden as error:
        if not isinstance(write, Create) or not error.has_cause("NamespaceTerminating"):
            raise
        return
    if written is not None:
        workload.cache(write.resource).wrote(written)


async def _send(client: Client, write: Write) -> Object | None:
    match write:
        case Create(resource, body):
            return await client.create(resource, body)
        case Change(resource, key, patch, subresource):
            return await client.patch(
                resource, key.name, key.namespace or None, patch=patch, type=PatchType.MERGE, subresource=subresource
            )
        case Delete(resource, key, uid, graceful):
            grace = None if graceful else 0
            return await client.delete(resource, key.name, key.namespace or None, uid=uid, grace_period_seconds=grace)
