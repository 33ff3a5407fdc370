"""`copyop/initiate`, `copyop/status` and probes, asked of an agent and of a copy that run."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from espalier.api.etcd.calls import CopyOperationStatus
from espalier.api.etcd.ownership import copy_operation_key
from espalier.etcd.client import Client
from espalier.etcdbackup.agent.http import PROBE_HOLD, application
from espalier.etcdbackup.election import agent, copier
from espalier.etcdbackup.running.agent import AgentRun
from espalier.etcdbackup.running.copier import CopierRun, CopyParts
from espalier.etcdbackup.running.data.memory import MemoryData
from espalier.etcdbackup.running.http import add_copy_operations, copier_application
from espalier.etcdbackup.running.parts import Parts
from espalier.etcdbackup.snapshotter.measures import Measures
from espalier.etcdbackup.stores.memory import MemoryStore
from espalier.runtime.clock import SystemClock
from espalier.runtime.servers.serving import HttpServer
from espalier.simulator.etcd.guarded import MemoryGuard
from tests.support.etcd.owners import CLUSTER, QUICK
from tests.support.waiting import eventually

PATIENCE = 30.0


class Asked:
    """An agent that answers, and its parts."""

    def __init__(self, run: AgentRun, guard: MemoryGuard, store: MemoryStore, port: int) -> None:
        self.run, self.guard, self.store = run, guard, store
        self._port = port

    async def ask(self, method: str, path: str, **options: Any) -> tuple[int, Any]:
        return await asked(self._port, method, path, **options)


async def asked(port: int, method: str, path: str, **options: Any) -> tuple[int, Any]:
    url = f"http://127.0.0.1:{port}{path}"
    async with aiohttp.ClientSession() as session, session.request(method, url, **options) as answer:
        is_json = answer.content_type == "application/json"
        return answer.status, await answer.json() if is_json else await answer.text()


@asynccontextmanager
async def answering() -> AsyncIterator[Asked]:
    clock, rng = SystemClock(), random.Random(1)
    guard, store = MemoryGuard(clock, rng), MemoryStore(clock)
    parts = Parts(store, guard, MemoryData(guard), Client(guard.inside()))
    run = AgentRun(agent.Settings(3, CLUSTER, QUICK, founding=True), parts, clock, rng)
    answers = application(run.backups, store, Measures(), lambda: run.trouble, timeout=10, hold=PROBE_HOLD)
    add_copy_operations(answers, run)
    server = HttpServer(answers, "127.0.0.1", 0)
    await server.start()
    running = asyncio.create_task(run.run())
    try:
        yield Asked(run, guard, store, server.port)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        guard.kill()
        await server.stop()


@pytest.mark.demand("G68", "G69", "G70")
async def test_initiate_creates_once_and_status_reports() -> None:
    async with answering() as agent_:
        await eventually(lambda: agent_.run.ready)
        assert (await agent_.ask("GET", "/healthz"))[0] == 200
        assert await agent_.ask("GET", "/copyop/status") == (200, {"epoch": 3, "initiated": False})
        assert (await agent_.ask("POST", "/copyop/initiate", json={"epoch": 3}))[0] == 200
        await eventually(lambda: not agent_.run.ready and agent_.run.phase == "HandedOver")
        status, answer = await agent_.ask("GET", "/copyop/status")
        assert (status, answer["copyOperation"]["status"], answer["copyOperation"]["writtenBy"]) == (
            200,
            "Ready",
            "Source",
        )
        stored = agent_.store.objects[copy_operation_key(3)]
        assert (await agent_.ask("POST", "/copyop/initiate", json={"epoch": 3}))[1]["initiated"]
        assert agent_.store.objects[copy_operation_key(3)] == stored, "a second call changes nothing"
        assert (await agent_.ask("GET", "/healthz"))[0] == 503
        assert not agent_.guard.runs, "and all of that is answered without etcd"


@pytest.mark.demand(G68="the answer may be held back")
async def test_initiate_may_wait_for_the_hand_over() -> None:
    async with answering() as agent_:
        await eventually(lambda: agent_.run.ready)
        asked_for = {"epoch": 3, "apiServersEnded": True, "waitSeconds": 10}
        _, answer = await agent_.ask("POST", "/copyop/initiate", json=asked_for)
        assert answer["copyOperation"]["status"] == "Ready"


async def test_backup_status_reports_what_would_be_lost() -> None:
    async with answering() as agent_:
        await eventually(lambda: agent_.run.ready and bool(agent_.run.backups.latest))
        for method in ("GET", "POST"):
            status, answer = await agent_.ask(method, "/backup/status")
            assert (status, answer["epoch"], answer["serves"], answer["deltaPeriod"]) == (200, 3, True, 20)
            assert answer["latestFull"]
            assert "unstoredSince" not in answer


@pytest.mark.demand("G68")
async def test_foreign_calls_change_nothing() -> None:
    async with answering() as agent_:
        await eventually(lambda: agent_.run.ready)
        for options, status in (
            ({"json": {"epoch": 2}}, 409),
            ({"json": {"epoch": 0}}, 400),
            ({"json": {}}, 400),
            ({"json": {"epoch": 3, "waitSeconds": 11}}, 400),
            ({"data": b"no json"}, 400),
            ({"data": b"[" * 10_000}, 400),
            ({"data": b'{"epoch": 3, "x": "' + b"x" * (1 << 17) + b'"}'}, 413),
        ):
            assert (await agent_.ask("POST", "/copyop/initiate", **options))[0] == status
        for method in ("GET", "PUT", "DELETE"):
            assert (await agent_.ask(method, "/copyop/initiate", json={"epoch": 3}))[0] == 405
        assert (await agent_.ask("PUT", "/copyop/status"))[0] == 405
        assert copy_operation_key(3) not in agent_.store.objects
        assert agent_.run.ready


@pytest.mark.soak
async def test_the_probe_says_no_while_the_guard_is_frozen() -> None:
    async with answering() as agent_:
        await eventually(lambda: agent_.run.ready)
        agent_.guard.freeze()
        await eventually(lambda: not agent_.run.ready)
        agent_.guard.thaw()
        await eventually(lambda: agent_.run.ready)


@pytest.mark.demand("G58")
async def test_a_copy_is_ready_when_its_epoch_may_start() -> None:
    async with answering() as source:
        await eventually(lambda: source.run.ready)
        target, clock = MemoryStore(SystemClock()), SystemClock()
        settings = copier.Settings(4, 3, CLUSTER, QUICK)
        run = CopierRun(settings, CopyParts(source.store, target), clock, random.Random(1))
        server = HttpServer(copier_application(run), "127.0.0.1", 0)
        await server.start()
        try:
            status, answer = await asked(server.port, "GET", "/healthz")
            assert (status, answer["health"]) == (503, False)
            for method in ("GET", "POST"):
                status, answer = await asked(server.port, method, "/copyop/status")
                assert (status, answer["message"]) == (200, "it is Checking")
            running = asyncio.create_task(run.run())
            await eventually(lambda: run.ready)
            assert (await asked(server.port, "GET", "/healthz"))[0] == 200
            await eventually(lambda: run.status().copy_operation is not None and run.phase == "Finished")
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
        finally:
            await server.stop()


class Starting:
    """Something that is not ready before a moment."""

    trouble = "it starts"

    def __init__(self, seconds: float) -> None:
        self._at = time.monotonic() + seconds

    @property
    def ready(self) -> bool:
        return time.monotonic() > self._at

    def status(self) -> CopyOperationStatus:
        raise NotImplementedError


@pytest.mark.parametrize(("seconds", "status"), [(0.3, 200), (PATIENCE, 503)])
async def test_a_probe_of_a_copy_waits_for_it_a_moment(seconds: float, status: int) -> None:
    server = HttpServer(copier_application(Starting(seconds)), "127.0.0.1", 0)
    await server.start()
    try:
        assert (await asked(server.port, "GET", "/healthz"))[0] == status
    finally:
        await server.stop()


async def test_a_probe_of_an_agent_waits_for_it_a_moment() -> None:
    async with answering() as agent_:
        assert not agent_.run.ready
        assert (await agent_.ask("GET", "/healthz"))[0] == 200
