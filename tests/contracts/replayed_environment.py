"""A small environment on simulated time: two replicas of a manager, an API server, faults. Prints all that was asked.

Run as a program with seeds, so that a test can compare processes whose hashes differ.
"""

from __future__ import annotations

import asyncio
import sys
from datetime import UTC, datetime
from typing import Any

import structlog

from espalier.api.core import CONFIG_MAP
from espalier.api.resource import Key
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import Client
from espalier.kube.errors import Unreachable
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Request, Response, Stream, Transport
from espalier.runtime import virtual
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait
from espalier.runtime.leadership.election import Election
from espalier.runtime.leadership.fencing import Fence
from espalier.runtime.manager import Manager
from espalier.runtime.virtual import Simulation
from tests.support.objects.indexes import by_label


class Unreliable:
    """A transport that loses a request, or its answer, now and then; and notes each."""

    def __init__(self, transport: Transport, who: str, simulation: Simulation, trace: list[str]) -> None:
        self._transport = transport
        self._who = who
        self._simulation = simulation
        self._trace = trace

    def _note(self, request: Request, end: object) -> None:
        when = self._simulation.clock.monotonic()
        self._trace.append(f"{when:.6f} {self._who} {request.method} {request.path} {request.body!r} {end}")

    async def request(self, request: Request) -> Response:
        chance = self._simulation.random.random()
        await asyncio.sleep(self._simulation.random.random() / 50)
        if chance < 0.05:
            self._note(request, "lost")
            raise Unreachable("lost", sent=False)
        response = await self._transport.request(request)
        if chance > 0.95:
            self._note(request, "answer lost")
            raise Unreachable("answer lost")
        self._note(request, response.body)
        return response

    async def stream(self, request: Request) -> Stream | Response:
        self._note(request, "watch")
        return await self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()


def config_map(name: str, **data: str) -> dict[str, Any]:
    labels = {"original": name.removesuffix("-copy"), "team": "red"}
    return {"metadata": {"name": name, "namespace": "default", "labels": labels}, "data": data}


def manager_of(who: str, server: Server, simulation: Simulation, trace: list[str]) -> Manager:
    """A replica that gives each original a copy of the same content."""
    client = Client(
        Unreliable(InProcessTransport(server), who, simulation, trace), field_manager=who, rng=simulation.random
    )
    election = Election(
        client,
        namespace="default",
        name="manager",
        identity=who,
        fence=Fence(simulation.clock.monotonic),
        clock=simulation.clock,
        rng=simulation.random,
    )
    manager = Manager(client, clock=simulation.clock, rng=simulation.random, election=election)
    cache = manager.caches.of(CONFIG_MAP, "default", indexes={"original": by_label("original")})

    async def reconcile(key: Key) -> Outcome:
        original, copy = cache.get(key), cache.get(Key(key.namespace, f"{key.name}-copy"))
        if original is None:
            return Done() if copy is None else Fault("Orphan", "the original is gone", terminal=True)
        wanted = original.tree["data"]
        if copy is None or copy.tree["data"] != wanted:
            cache.wrote(await manager.client.apply(CONFIG_MAP, config_map(f"{key.name}-copy", **wanted)))
            manager.recorder.event(original, "Normal", "Copied", "made a copy")
            return Wait("LookAgain", "waiting for a while", after=simulation.random.random())
        return Done()

    controller = Controller("copier", reconcile, workers=3, rng=simulation.random)
    controller.watch(cache, lambda value: [Key("default", value.metadata.labels.get("original", "none"))])
    manager.add(controller)
    return manager


async def live(simulation: Simulation) -> list[str]:
    """Some minutes of it."""
    trace: list[str] = []
    server = Server(MemoryStore(), now=simulation.clock.now, random=simulation.random)
    await server.start()
    people = Client(InProcessTransport(server), field_manager="people", rng=simulation.random)
    managers = {who: manager_of(who, server, simulation, trace) for who in ("one", "two")}
    tasks = {who: asyncio.create_task(manager.run()) for who, manager in managers.items()}
    for number in range(60):
        name = f"a{simulation.random.randrange(12)}"
        await people.apply(CONFIG_MAP, config_map(name, number=str(number)))
        await asyncio.sleep(simulation.random.random())
    leader = next(who for who, manager in managers.items() if manager.leading.is_set())
    managers[leader].stop()
    trace.append(f"{leader} {await tasks.pop(leader)!r}")
    await people.apply(CONFIG_MAP, config_map("late", number="61"))
    await asyncio.sleep(60)
    for who, task in tasks.items():
        managers[who].stop()
        trace.append(f"{who} {await task!r}")
    data = {item.name: item.tree["data"] for item in (await people.list(CONFIG_MAP, "default")).items}
    assert all(data[f"{name}-copy"] == data[name] for name in data if not name.endswith("-copy"))
    assert "late-copy" in data
    await server.close()
    return trace


def play(seed: int) -> list[str]:
    """The trace of one life."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    return virtual.run(live, epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=seed)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        print("\n".join(play(int(argument))))
