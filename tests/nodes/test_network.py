"""The bridge of real nodes, without nodes."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from espalier.realnodes.nspawn.system.addresses import AddressRange
from espalier.realnodes.nspawn.system.commands import run
from espalier.realnodes.nspawn.system.network import Bridge, remove_link
from espalier.realnodes.nspawn.system.state import NetworkRecord, State

BRIDGE, INTERFACE = "esp-test", "esp-test-node"
LOWEST = "02:00:00:00:00:01"

pytestmark = [
    pytest.mark.nodes,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root, and ip (package iproute2)"),
]


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    made = Bridge(State(tmp_path), AddressRange.parse("10.79.0.0/24"), BRIDGE)
    yield made
    await remove_link(INTERFACE)
    await made.remove()


def hardware_address() -> str:
    return Path(f"/sys/class/net/{BRIDGE}/address").read_text().strip()


async def node_comes() -> None:
    """An interface whose hardware address is lower than any other, as a node's may be."""
    await run("ip", "link", "add", INTERFACE, "address", LOWEST, "type", "veth")
    await run("ip", "link", "set", INTERFACE, "master", BRIDGE)


async def test_bridge_keeps_its_hardware_address(bridge: Bridge) -> None:
    """Nodes remember it. With another one they lose the API server, and their Services the endpoints."""
    await bridge.ensure()
    before = hardware_address()
    await node_comes()
    assert hardware_address() == before
    await remove_link(INTERFACE)
    assert hardware_address() == before


async def test_earlier_bridge_gets_a_lasting_address(bridge: Bridge, tmp_path: Path) -> None:
    State(tmp_path).write_network(NetworkRecord(BRIDGE, "10.79.0.0/24"))
    await run("ip", "link", "add", BRIDGE, "type", "bridge")
    await node_comes()
    assert hardware_address() == LOWEST
    await bridge.ensure()
    before = hardware_address()
    await remove_link(INTERFACE)
    assert hardware_address() == before != LOWEST
