"""This machine, as all managers in a process that have nodes on it share it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from espalier.realnodes.nspawn.system.addresses import AddressRange
from espalier.realnodes.nspawn.system.helper_processes import BalancerProcess, RegistryProcess
from espalier.realnodes.nspawn.system.network import Bridge
from espalier.realnodes.nspawn.system.state import State


@dataclass(frozen=True)
class NodeHost:
    """The records of a local environment's nodes, their bridge, and the processes that they need."""

    state: State
    bridge: Bridge
    balancer: BalancerProcess
    registry: RegistryProcess
    alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the records of control planes, the bridge and the processes change together."""

    @classmethod
    def of(cls, state: State, addresses: AddressRange, bridge: str = "") -> NodeHost:
        """The machine with the records in a folder; without a `bridge`, that has a free name."""
        return cls(state, Bridge(state, addresses, bridge), BalancerProcess(state), RegistryProcess(state))
