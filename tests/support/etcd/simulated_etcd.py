"""Stories of a simulated etcd, on virtual time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from espalier.etcd.client import Client
from espalier.runtime import virtual
from espalier.simulator.etcd.member import Member
from espalier.simulator.etcd.memory import MemoryTransport
from espalier.simulator.etcd.storage import MemoryStorage

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
Story = Callable[[Member, Client], Awaitable[object]]


def told(story: Story) -> object:
    """Tell a story of an etcd on virtual time."""

    async def main(simulation: virtual.Simulation) -> object:
        member = Member(MemoryStorage(), simulation.clock, simulation.random)
        await member.start()
        async with Client(MemoryTransport(member), rng=simulation.random) as client:
            result = await story(member, client)
        await member.close()
        return result

    return virtual.run(main, epoch=EPOCH, seed=1)
