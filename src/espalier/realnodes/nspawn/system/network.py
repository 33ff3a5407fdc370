"""The bridge of a local environment: created for its first cluster, removed with the local environment.

It connects nodes with each other and the host only: packet filters and forwarding of the host are not changed, so pods
can't reach other networks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from ipaddress import IPv4Address, IPv4Network
from typing import Any

import msgspec

from espalier.realnodes.nspawn.system.addresses import AddressRange, Occupied, clash
from espalier.realnodes.nspawn.system.commands import CommandFailed, run
from espalier.realnodes.nspawn.system.state import NetworkRecord, State

BRIDGES = tuple(f"esp{number}" for number in range(10))
"""Names of bridges: a local environment takes the first that no other one has."""


class RangeInUse(Exception):
    """The range or the bridge's name is in use by others."""


async def occupied() -> list[Occupied]:
    """Networks of this machine's addresses and routes."""
    networks = []
    for link in msgspec.json.decode(await run("ip", "-json", "-4", "address", "show")):
        for address in link.get("addr_info", []):
            network = IPv4Network((address["local"], address["prefixlen"]), strict=False)
            networks.append(Occupied(network, link.get("ifname", "")))
    for route in msgspec.json.decode(await run("ip", "-json", "-4", "route", "show", "table", "main")):
        if route["dst"] != "default":
            networks.append(Occupied(IPv4Network(route["dst"], strict=False), route.get("dev", "")))
    return networks


class Bridge:
    """The bridge, and the addresses of the host on it."""

    def __init__(self, state: State, range_: AddressRange, name: str = "") -> None:
        """Without a `name`, it is the first of `BRIDGES` that is free."""
        self._state = state
        self._alone = asyncio.Lock()
        self.range = range_
        self._names = (name,) if name else BRIDGES

    @property
    def name(self) -> str:
        """The name of the bridge, once it is recorded."""
        recorded = self._state.network()
        return recorded.bridge if recorded is not None else ""

    async def check(self) -> None:
        """Raise `RangeInUse` when the range or the name is in use by others. Changes nothing."""
        recorded = self._state.network()
        if recorded is not None and recorded.range != str(self.range.network):
            raise RangeInUse(
                f"the nodes of this local environment use addresses of {recorded.range}, not of {self.range.network}: "
                "omit --node-addresses, or delete the local environment first (`espalier down --delete-data`)"
            )
        own_bridge = recorded.bridge if recorded else ""
        if not own_bridge:
            await self._free_name()
        other = clash(self.range, await occupied(), own_bridge=own_bridge)
        if other is not None:
            raise RangeInUse(
                f"addresses {self.range.network} for nodes: {other.device or 'a route'} already has {other.network}; "
                "choose another range with --node-addresses"
            )

    async def _free_name(self) -> str:
        for name in self._names:
            if await _link(name) is None:
                return name
        last = self._names[-1]
        raise RangeInUse(
            f"interface {last} exists already: another local environment runs real nodes here, so delete that one "
            "first, with its own ESPALIER_HOME (`espalier down --delete-data`), or, if its folder is gone, the "
            f"interface (`ip link delete {last}`)"
        )

    async def claim(self) -> NetworkRecord:
        """Record the network, unless it is recorded. Raises `RangeInUse`."""
        record = self._state.network()
        if record is None:
            await self.check()
            record = NetworkRecord(await self._free_name(), str(self.range.network))
            self._state.write_network(record)
        return record

    async def ensure(self) -> None:
        """Create the bridge with the addresses of control planes. Raises `RangeInUse`."""
        async with self._alone:
            await self._ensure()

    async def _ensure(self) -> None:
        record = await self.claim()
        if await _link(record.bridge) is None:
            await run("ip", "link", "add", record.bridge, "type", "bridge")
        link = await _link(record.bridge) or {}
        hardware_address = self.range.hardware_address
        if link.get("address") != hardware_address:
            # Linux gives a bridge the lowest of its interfaces' until it has one of its own. When a node came or went,
            # the others had the old one in mind, and none reached its API server for up to a minute.
            await run("ip", "link", "set", record.bridge, "address", hardware_address)
        present = {info["local"] for info in link.get("addr_info", [])}
        wanted = {str(self.range.bridge), *(endpoint.address for endpoint in record.endpoints)}
        for address in sorted(wanted - present):
            with_length = self.range.with_length(IPv4Address(address))
            await run("ip", "address", "add", with_length, "dev", record.bridge)
        for address in sorted(present - wanted):
            await run("ip", "address", "del", self.range.with_length(IPv4Address(address)), "dev", record.bridge)
        if "UP" not in link.get("flags", []):
            await run("ip", "link", "set", record.bridge, "up")

    async def remove(self) -> None:
        """Remove the bridge. Nodes must be deleted before."""
        record = self._state.network()
        if record is not None and await _link(record.bridge) is not None:
            await run("ip", "link", "del", record.bridge)


async def remove_link(name: str) -> None:
    """Remove the interface of this name."""
    if await _link(name) is not None:
        try:
            await run("ip", "link", "del", name)
        except CommandFailed:
            if await _link(name) is not None:
                raise


async def set_routes(pid: int, wanted: Iterable[tuple[str, str]]) -> None:
    """Set exactly these routes (network, gateway) to pods of other nodes in a process's network namespace."""
    inside = ("nsenter", "--target", str(pid), "--net", "ip")
    shown = await run(*inside, "-json", "-4", "route", "show", "proto", ROUTE_PROTOCOL)
    routes = msgspec.json.decode(shown or "[]")
    present = {(route["dst"], route["gateway"]) for route in routes if "gateway" in route}
    goal = set(wanted)
    for network, gateway in sorted(present - goal):
        await run(*inside, "route", "del", network, "via", gateway, "proto", ROUTE_PROTOCOL)
    for network, gateway in sorted(goal - present):
        await run(*inside, "route", "replace", network, "via", gateway, "proto", ROUTE_PROTOCOL)


ROUTE_PROTOCOL = "77"
"""The protocol number of our routes (any that no routing daemon uses)."""


async def _link(name: str) -> dict[str, Any] | None:
    links = msgspec.json.decode(await run("ip", "-json", "address", "show"))
    interface: dict[str, Any] | None = next((link for link in links if link.get("ifname") == name), None)
    if interface is not None:
        interface["addr_info"] = [info for info in interface.get("addr_info", []) if info.get("family") == "inet"]
    return interface
