"""Load balancers of the cloud: an address on the nodes' bridge for each target of its DNS records."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from ipaddress import IPv4Address

import msgspec
import structlog

from espalier.api.cloud import AnyItem, Record
from espalier.cli.local.environment.real_machines.name_server import Resolved
from espalier.cli.local.environment.seed_processes.network import Forwarder, Target
from espalier.realnodes.nspawn.system.addresses import RangeFull
from espalier.realnodes.nspawn.system.commands import CommandFailed
from espalier.realnodes.nspawn.system.network import Bridge
from espalier.realnodes.nspawn.system.state import EndpointRecord, State
from espalier.simulator.cloud.service import Cloud

PORT = 443

_log = structlog.get_logger("espalier.load_balancers")


class LoadBalancers:
    """Each is one seed's route to one API server: when that moves, the record points to another one."""

    def __init__(self, cloud: Cloud, state: State, bridge: Bridge, find: Callable[[str], Target]) -> None:
        """`find` returns the current backend of a target. Raises `OSError` if there is none."""
        self._cloud = cloud
        self._state = state
        self._bridge = bridge
        self._find = find
        self._forwarders: dict[str, Forwarder] = {}
        self._changed = asyncio.Event()
        cloud.observe(self._observed)

    async def run(self) -> None:
        """Keep one for each target, until cancelled."""
        try:
            while True:
                await self._changed.wait()
                self._changed.clear()
                try:
                    await self._follow()
                except (CommandFailed, RangeFull, OSError) as error:
                    _log.error("no load balancer", error=str(error))
        finally:
            for forwarder in self._forwarders.values():
                forwarder.close()

    def resolve(self, name: str) -> Resolved | None:
        """The current address of a name (`Resolve`)."""
        record = self._cloud.inventory.resolve(name)
        if record is None:
            return None
        addresses = self._addresses()
        address = next((addresses[value] for value in record.values if value in self._forwarders), None)
        return None if address is None else Resolved(IPv4Address(address), record.ttl)

    def _observed(self, item: AnyItem, _is_there: bool) -> None:
        if isinstance(item, Record):
            self._changed.set()

    async def _follow(self) -> None:
        records = (item for item in self._cloud.inventory.all("Record") if isinstance(item, Record))
        places = {value for record in records for value in record.values}
        for gone in self._forwarders.keys() - places:
            self._forwarders.pop(gone).close()
        network = await self._bridge.claim()
        endpoints = [endpoint for endpoint in network.endpoints if endpoint.cluster in places]
        taken = [*self._state.taken()]
        for place in sorted(places - {endpoint.cluster for endpoint in endpoints}):
            free = self._bridge.range.free(taken)
            taken.append(free)
            endpoints.append(EndpointRecord(place, place, str(free), PORT))
        self._state.write_network(msgspec.structs.replace(network, endpoints=tuple(endpoints)))
        await self._bridge.ensure()
        for place, address in self._addresses().items():
            if place not in self._forwarders:
                forwarder = Forwarder(f"connection to {place}", partial(self._find, place))
                await forwarder.listen(address, PORT)
                self._forwarders[place] = forwarder

    def _addresses(self) -> dict[str, str]:
        network = self._state.network()
        return {endpoint.cluster: endpoint.address for endpoint in network.endpoints} if network is not None else {}
