"""Shared parts of a cluster: an address for the control plane, and routes between the pods of nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from espalier.api.capi.cluster import Cluster, Endpoint
from espalier.api.moves import DELETE_FOR_MOVE
from espalier.api.resource import Key
from espalier.clusterapi import names
from espalier.clusterapi.conditions import condition, stated
from espalier.clusterapi.infrastructures.infrastructure import (
    InfrastructureCluster,
    InfrastructureClusterStatus,
    Initialization,
)
from espalier.clusterapi.objects import is_cluster_paused, is_paused
from espalier.kube.objects import Object
from espalier.realnodes.nspawn import container, inside, owners
from espalier.realnodes.nspawn.system import network
from espalier.realnodes.nspawn.system.addresses import RangeFull
from espalier.realnodes.nspawn.system.commands import CommandFailed
from espalier.realnodes.nspawn.system.helper_processes import ControlPlaneEndpoint
from espalier.realnodes.nspawn.system.network import RangeInUse
from espalier.realnodes.nspawn.system.state import EndpointRecord, NetworkRecord, NodeRecord
from espalier.realnodes.nspawn.tools import NodeTools
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait

PORT = 6443
CARRIED = "PodNetworkCarried"
"""The condition about the pod network in use."""

CARRIED_HERE = (
    "CNI plugins ptp and host-local on each node and routes between nodes are the pod network; "
    "the image of kindnetd is replaced by a program that only waits"
)
CILIUM_MISSING = (
    "the manifest asks for Cilium, whose images are not available on this machine: its pods do not start and network "
    "policies are not enforced, while plugins ptp and host-local and routes between nodes carry the pods' packets; "
    "a new cluster of a provider that has kindnetd may ask for that in spec.clusterNetwork.cniConfig"
)


class InfrastructureClusters:
    """Reconciles the cluster kind."""

    def __init__(self, tools: NodeTools) -> None:
        self._tools = tools

    async def reconcile(self, key: Key) -> Outcome:
        """Reconcile one cluster: address, balancer, and routes between pods."""
        async with self._tools.host.alone:
            return await self._reconcile(key)

    async def _reconcile(self, key: Key) -> Outcome:
        tools = self._tools
        infra_cluster = tools.infrastructure_clusters.get(key)
        resource = tools.kinds.cluster
        if infra_cluster is None or self._is_paused(infra_cluster):
            return Done()
        if infra_cluster.metadata.deletion_timestamp is not None:
            nodes = [record.name for record in self._nodes(infra_cluster)]
            if nodes:
                return Wait("WaitingForNodes", f"waiting for nodes {', '.join(nodes)} to be deleted")
            await self._release(infra_cluster)
            await tools.writer.remove_finalizer(resource, infra_cluster, tools.finalizer(resource))
            return Done()
        owner = tools.owner_of(infra_cluster, Cluster.resource.kind, tools.clusters)
        if owner is None:
            return Wait("WaitingForOwner", "waiting for the Cluster to own this infrastructure")
        infra_cluster = await tools.writer.add_finalizer(resource, infra_cluster, tools.finalizer(resource))
        try:
            endpoint = self._reserve(infra_cluster, owner.decode(Cluster), await tools.host.bridge.claim())
            await tools.host.bridge.ensure()
            await tools.host.registry.offer(
                await asyncio.to_thread(tools.served_images), str(tools.host.bridge.range.bridge)
            )
            await self._balance()
            await self._connect(infra_cluster)
        except (RangeFull, RangeInUse) as error:
            await self._report(infra_cluster, "AddressesMissing", str(error))
            return Wait("AddressesMissing", str(error), after=30.0)
        except (CommandFailed, OSError) as error:
            await self._report(infra_cluster, "NetworkFailed", str(error))
            return Fault("NetworkFailed", str(error))
        address = {"controlPlaneEndpoint": msgspec.to_builtins(Endpoint(endpoint.address, endpoint.port))}
        infra_cluster = await tools.writer.merge(resource, infra_cluster, {"spec": address})
        await self._report(infra_cluster, "", "")
        return Done()

    def _is_paused(self, infra_cluster: Object) -> bool:
        cluster = self._tools.clusters.get(_cluster_key(infra_cluster))
        return (
            is_paused(infra_cluster)
            or DELETE_FOR_MOVE in infra_cluster.metadata.annotations
            or (cluster is not None and is_cluster_paused(cluster))
        )

    def _nodes(self, infra_cluster: Object) -> list[NodeRecord]:
        """The nodes of a cluster: those behind its control plane's address."""
        recorded = self._tools.state.network()
        uid = infra_cluster.metadata.uid
        own = [endpoint for endpoint in (recorded.endpoints if recorded else ()) if endpoint.uid == uid]
        return [
            record
            for record in self._tools.state.nodes()
            if any(owners.is_behind(record, endpoint) for endpoint in own)
        ]

    def _reserve(self, infra_cluster: Object, cluster: Cluster, recorded: NetworkRecord) -> EndpointRecord:
        """The address of the control plane: from the spec, else allocated and recorded."""
        state, bridge = self._tools.state, self._tools.host.bridge
        uid = infra_cluster.metadata.uid
        name = f"{infra_cluster.namespace}/{cluster.metadata.name}"
        before = infra_cluster.decode(InfrastructureCluster).spec.control_plane_endpoint
        authority = self._tools.authority_of(Key(infra_cluster.namespace, cluster.metadata.name))
        others = []
        reserved: EndpointRecord | None = None
        for endpoint in recorded.endpoints:
            if endpoint.uid == uid:
                return endpoint
            is_asked_for = endpoint.cluster == name and before is not None and endpoint.address == before.host
            if is_asked_for and owners.may_have(endpoint, state.nodes(), authority):
                reserved = msgspec.structs.replace(endpoint, uid=uid)  # of a cluster that was moved here
            else:
                others.append(endpoint)
        if reserved is None:
            reserved = EndpointRecord(name, uid, str(bridge.range.free(state.taken())), PORT)
        state.write_network(msgspec.structs.replace(recorded, endpoints=(*others, reserved)))
        return reserved

    async def _release(self, infra_cluster: Object) -> None:
        state = self._tools.state
        recorded = state.network()
        if recorded is None:
            return
        left = tuple(endpoint for endpoint in recorded.endpoints if endpoint.uid != infra_cluster.metadata.uid)
        state.write_network(msgspec.structs.replace(recorded, endpoints=left))
        await self._balance()
        if left:
            await self._tools.host.bridge.ensure()
        elif not state.nodes():
            await self._tools.host.registry.end()
            await self._tools.host.bridge.remove()
            state.forget_network()

    async def _balance(self) -> None:
        recorded = self._tools.state.network()
        endpoints: list[ControlPlaneEndpoint] = []
        for endpoint in recorded.endpoints if recorded else ():
            behind = [
                record.address
                for record in self._tools.state.nodes()
                if record.control_plane and owners.is_behind(record, endpoint)
            ]
            endpoints.append({"address": endpoint.address, "port": endpoint.port, "backends": behind})
        await self._tools.host.balancer.serve(endpoints)

    async def _connect(self, infra_cluster: Object) -> None:
        """Set the routes to pods of other nodes, on every node."""
        folders = {record: self._tools.state.folder(record.id) for record in self._nodes(infra_cluster)}
        ranges = {record: range_ for record, folder in folders.items() if (range_ := inside.pod_range(folder))}
        for record, routes in pod_routes(ranges).items():
            running = container.find(folders[record])
            if running is not None:
                await network.set_routes(running.init.pid, routes)

    async def _report(self, infra_cluster: Object, reason: str, problem: str) -> None:
        typed = infra_cluster.decode(InfrastructureCluster)
        ready = condition("Ready", not problem, reason or "Ready", problem)
        carried = condition(CARRIED, True, "CarriedByProvider", CARRIED_HERE)
        if self._tools.asks_for_cilium(infra_cluster):
            carried = condition(CARRIED, False, "CiliumMissing", CILIUM_MISSING)
        conditions = stated(
            typed.status.conditions,
            [ready, carried],
            now=self._tools.clock.now(),
            generation=typed.metadata.generation,
        )
        status = InfrastructureClusterStatus(
            initialization=Initialization(provisioned=typed.status.initialization.provisioned or not problem),
            failure_domains=typed.spec.failure_domains,
            conditions=conditions,
        )
        await self._tools.writer.status(self._tools.kinds.cluster, infra_cluster, status)


def _cluster_key(infra_cluster: Object) -> Key:
    return Key(infra_cluster.namespace, infra_cluster.metadata.labels.get(names.CLUSTER, infra_cluster.name))


def pod_routes(ranges: Mapping[NodeRecord, str]) -> dict[NodeRecord, list[tuple[str, str]]]:
    """The routes to pods of other nodes, as range and gateway, for each node with a pod CIDR.

    A booting node without a pod CIDR has no network to set routes in.
    """
    return {
        record: [(range_, other.address) for other, range_ in ranges.items() if other != record] for record in ranges
    }
