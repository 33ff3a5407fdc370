from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from espalier.api.core import CONFIG_MAP, CORE_EVENT
from espalier.kube.errors import ServerFailure
from espalier.kube.objects import Object
from espalier.kube.transports.wire import Request
from espalier.runtime.controllers.events import BURST, Recorder
from espalier.runtime.virtual import Simulation
from tests.support.environments.simulated_loop import simulate
from tests.support.servers.small_server import SmallServer, client_of, config_map


def play(story: Callable[[SmallServer, Recorder], Awaitable[None]]) -> None:
    async def main(simulation: Simulation) -> None:
        server = SmallServer()
        client = client_of(server)
        await story(server, Recorder(client, component="espalier", clock=simulation.clock, rng=simulation.random))

    simulate(main)


def object_of(server: SmallServer, name: str) -> Object:
    return Object(msgspec.json.encode(server.put(config_map(name))))


def events(server: SmallServer) -> list[Any]:
    return [tree for path, tree in server.objects.items() if "/events/" in path]


def test_an_event_says_about_what_it_is() -> None:
    async def story(server: SmallServer, recorder: Recorder) -> None:
        object_ = object_of(server, "a")
        recorder.event(object_, "Normal", "Created", "machines are there")
        assert events(server) == []
        await recorder.flush()
        (event,) = events(server)
        assert event["involvedObject"] == {
            "apiVersion": CONFIG_MAP.api_version,
            "kind": "ConfigMap",
            "namespace": "default",
            "name": "a",
            "uid": object_.metadata.uid,
            "resourceVersion": object_.resource_version,
        }
        assert (event["type"], event["reason"], event["message"]) == ("Normal", "Created", "machines are there")
        assert (event["count"], event["firstTimestamp"]) == (1, "2026-01-01T00:00:00Z")

    play(story)


def test_an_event_that_repeats_raises_a_count() -> None:
    async def story(server: SmallServer, recorder: Recorder) -> None:
        object_ = object_of(server, "a")
        for _ in range(5):
            recorder.event(object_, "Warning", "Waiting", "for rain")
            await recorder.flush()
            await asyncio.sleep(60)
        recorder.event(object_, "Warning", "Waiting", "for snow")
        await recorder.flush()
        assert [(event["message"], event["count"]) for event in events(server)] == [("for rain", 5), ("for snow", 1)]
        assert events(server)[0]["lastTimestamp"] == "2026-01-01T00:04:00Z"
        await asyncio.sleep(3600)
        recorder.event(object_, "Warning", "Waiting", "for rain")
        await recorder.flush()
        assert len(events(server)) == 3

    play(story)


def test_repeated_event_is_written_once() -> None:
    async def story(server: SmallServer, recorder: Recorder) -> None:
        object_ = object_of(server, "a")
        for _ in range(7):
            recorder.event(object_, "Normal", "Again", "and again")
        await recorder.flush()
        assert [event["count"] for event in events(server)] == [7]
        assert server.writes == {"POST": 1}

    play(story)


def test_an_event_that_expired_is_written_anew() -> None:
    async def story(server: SmallServer, recorder: Recorder) -> None:
        object_ = object_of(server, "a")
        recorder.event(object_, "Normal", "Again", "and again")
        await recorder.flush()
        server.remove(events(server)[0]["metadata"]["name"], resource=CORE_EVENT)
        recorder.event(object_, "Normal", "Again", "and again")
        await recorder.flush()
        assert [event["count"] for event in events(server)] == [1]

    play(story)


def test_flood_about_one_object_is_cut_off() -> None:
    async def story(server: SmallServer, recorder: Recorder) -> None:
        noisy, calm = object_of(server, "noisy"), object_of(server, "calm")
        for number in range(1000):
            recorder.event(noisy, "Warning", "Noise", str(number))
        recorder.event(calm, "Normal", "Word", "one")
        await recorder.flush()
        assert len(events(server)) == BURST + 1
        await asyncio.sleep(301)
        recorder.event(noisy, "Warning", "Noise", "later")
        recorder.event(noisy, "Warning", "Noise", "too soon")
        await recorder.flush()
        assert [event["message"] for event in events(server)][-1] == "later"

    play(story)


def test_server_that_takes_no_events_hinders_nobody() -> None:
    async def story(server: SmallServer, recorder: Recorder) -> None:
        object_ = object_of(server, "a")

        def refuse(request: Request) -> None:
            raise ServerFailure.of("not now")

        server.before = refuse
        recorder.event(object_, "Normal", "Lost", "one")
        await recorder.flush()
        server.before = lambda request: None
        recorder.event(object_, "Normal", "Kept", "two")
        await recorder.flush()
        assert [event["reason"] for event in events(server)] == ["Kept"]

    play(story)
