"""Kubelets of virtual machines: each is a node of its cluster for as long as its machine runs.

A kubelet finds its API server by a DNS name. Without a response it keeps running and retries, and resolves the name
again once the record's time to live is over. So it follows a control plane that moves.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeAlias

import structlog

from espalier.api import conditions as condition_list
from espalier.api.cloud import AnyItem, Record, VirtualMachine
from espalier.api.conditions import timestamp
from espalier.api.core import LEASE, NODE
from espalier.api.gardener.extensions.leases import micro_time
from espalier.api.version_matrix import DEFAULT_ROW, KUBERNETES
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists, KubeError, NotFound
from espalier.kube.objects import Object
from espalier.runtime.clock import Clock
from espalier.simulator import nodes
from espalier.simulator.cloud.service import Cloud
from espalier.simulator.cloud.user_data import Bootstrap, bootstrap_of

RENEWAL = 10.0
"""Seconds between two renewals of the node's Lease, as in the kubelet."""
LEASE_DURATION = 40
"""Seconds, as in the kubelet."""
RETRY = (1.0, 7.0)
"""Least and most seconds before a failed renewal is retried."""
NODE_LEASES = "kube-node-lease"

Connect: TypeAlias = Callable[[str, Bootstrap], Client]
"""Makes a client of the API server at an address, with the bootstrap settings of the machine."""

_log = structlog.get_logger("espalier.simulator.kubelet")


class NotResolved(KubeError):
    """DNS has no address for the name."""


@dataclass
class Kubelet:
    """The state of a running kubelet, which never restarts: `since` and `node_uid` show whether a node stayed."""

    machine: VirtualMachine
    since: datetime
    node_uid: str = ""
    renewed: datetime | None = None
    server: str = ""
    """Address of the API server of its last renewal."""
    last_error: str = ""
    """The reason why the last renewal failed, or why the machine does not become a node; empty after a success."""
    longest_gap: float = 0.0
    """The longest time between two renewals, in seconds."""


@dataclass
class _Resolved:
    addresses: list[str] = field(default_factory=list)
    until: float = 0.0


class Kubelets:
    """The kubelets of all virtual machines of a cloud. `run` runs them until it is cancelled."""

    joins_by_token = False

    def __init__(
        self,
        cloud: Cloud,
        connect: Connect,
        clock: Clock,
        rng: random.Random,
        *,
        version: str = f"v{KUBERNETES[DEFAULT_ROW].patch}",
    ) -> None:
        self._cloud = cloud
        self._connect = connect
        self._clock = clock
        self._rng = rng
        self._version = version
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._machines: dict[str, VirtualMachine] = {}
        self._running = False
        self.kubelets: dict[str, Kubelet] = {}
        """By the id of the virtual machine, once it has booted."""
        cloud.observe(self._changed)

    async def run(self) -> None:
        """Run until cancelled."""
        self._running = True
        for machine in self._machines.values():
            self._start(machine)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            self._running = False
            tasks = list(self._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _changed(self, item: AnyItem, exists: bool) -> None:
        if not isinstance(item, VirtualMachine):
            return
        if exists:
            self._machines[item.id] = item
            if self._running:
                self._start(item)
            return
        self._machines.pop(item.id, None)
        self.kubelets.pop(item.id, None)
        task = self._tasks.pop(item.id, None)
        if task is not None:
            task.cancel()

    def _start(self, machine: VirtualMachine) -> None:
        if machine.id not in self._tasks:
            self._tasks[machine.id] = asyncio.ensure_future(self._run_kubelet(machine))

    async def _run_kubelet(self, machine: VirtualMachine) -> None:
        boots = self._cloud.inventory.boots_at(machine.id) - self._clock.now().timestamp()
        await asyncio.sleep(max(0.0, boots))
        kubelet = self.kubelets[machine.id] = Kubelet(machine, self._clock.now())
        bootstrap = bootstrap_of(machine.user_data)
        if bootstrap is None:
            kubelet.last_error = "the user data has no kubeconfig: the machine runs, but does not become a node"
            return
        resolved = _Resolved()
        while True:
            try:
                await self._renew(kubelet, bootstrap, resolved)
            except KubeError as error:
                if str(error) != kubelet.last_error:
                    _log.debug("no API server", machine=machine.name, error=str(error))
                kubelet.last_error = str(error)
                await asyncio.sleep(self._rng.uniform(*RETRY))
            else:
                await asyncio.sleep(RENEWAL)

    async def _renew(self, kubelet: Kubelet, bootstrap: Bootstrap, resolved: _Resolved) -> None:
        address = self._resolve(bootstrap.host, resolved)
        client = self._connect(address, bootstrap)
        try:
            node = await self._register(client, kubelet)
            await _renew_lease(client, node, self._clock.now())
        finally:
            with suppress(KubeError):
                await client.close()
        now = self._clock.now()
        if kubelet.renewed is not None:
            gap = (now - kubelet.renewed).total_seconds()
            kubelet.longest_gap = max(kubelet.longest_gap, gap)
        kubelet.renewed, kubelet.server, kubelet.last_error = now, address, ""

    def _resolve(self, host: str, resolved: _Resolved) -> str:
        now = self._clock.monotonic()
        if now >= resolved.until:
            record = self._cloud.inventory.resolve(host)
            resolved.addresses = list(record.values) if isinstance(record, Record) else []
            resolved.until = now + (record.ttl if isinstance(record, Record) else 0)
        if not resolved.addresses:
            raise NotResolved(f"DNS has no address for {host}")
        return self._rng.choice(resolved.addresses)

    async def _register(self, client: Client, kubelet: Kubelet) -> Object:
        """The Node of this machine, created if it does not exist; its condition Ready is set if it is not True."""
        machine = kubelet.machine
        try:
            node = await client.get(NODE, machine.name)
        except NotFound:
            try:
                node = await client.create(NODE, _node(machine, self._version, timestamp(self._clock.now())))
            except AlreadyExists:
                node = await client.get(NODE, machine.name)
        kubelet.node_uid = node.metadata.uid
        if not _is_ready(node.tree):
            ready = {"status": {"conditions": nodes.ready_conditions(timestamp(self._clock.now()))}}
            node = await client.patch(NODE, node.name, patch=ready, type=PatchType.MERGE, subresource="status")
        return node


def _node(machine: VirtualMachine, version: str, now: str) -> dict[str, Any]:
    return {
        "metadata": {"name": machine.name, "labels": {"kubernetes.io/hostname": machine.name}},
        "spec": {"providerID": f"cloud://{machine.id}"},
        "status": {
            "capacity": nodes.CAPACITY,
            "allocatable": nodes.CAPACITY,
            "addresses": [{"type": "InternalIP", "address": machine.address}],
            "conditions": nodes.ready_conditions(now),
            "nodeInfo": nodes.node_info(version, "2"),
        },
    }


def _is_ready(node: dict[str, Any]) -> bool:
    return condition_list.is_true_in(node.get("status"), "Ready")


async def _renew_lease(client: Client, node: Object, now: datetime) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.metadata.uid}
    spec = {"holderIdentity": node.name, "leaseDurationSeconds": LEASE_DURATION, "renewTime": micro_time(now)}
    try:
        await client.patch(LEASE, node.name, NODE_LEASES, patch={"spec": spec}, type=PatchType.MERGE)
    except NotFound:
        metadata = {"name": node.name, "namespace": NODE_LEASES, "ownerReferences": [owner]}
        with suppress(AlreadyExists):
            await client.create(LEASE, {"metadata": metadata, "spec": spec})
