from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from espalier.api.core import CONFIG_MAP, SECRET
from espalier.api.resource import Key
from espalier.kube.errors import Forbidden, NotFound, ServerFailure
from espalier.kube.transports.wire import Request
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, fault_of
from espalier.runtime.leadership.election import Election
from espalier.runtime.leadership.fencing import Fence, Fenced
from espalier.runtime.manager import CachesNotFilled, Ending, Manager
from espalier.runtime.options import Options
from espalier.runtime.servers.certificates import ServingCertificate
from espalier.runtime.servers.webhooks import Webhooks
from espalier.runtime.virtual import Simulation
from tests.support.environments.simulated_loop import simulate
from tests.support.servers.small_server import SmallServer, client_of, config_map

LEASE_PATH = "/apis/coordination.k8s.io/v1/namespaces/eksa-system/leases/manager"


def play(story: Callable[[SmallServer, Simulation], Awaitable[Any]]) -> Any:
    async def main(simulation: Simulation) -> Any:
        return await story(SmallServer(), simulation)

    return simulate(main)


def manager_of(server: SmallServer, simulation: Simulation, *, identity: str = "", **options: Any) -> Manager:
    election = None
    if identity:
        election = Election(
            client_of(server),
            namespace="eksa-system",
            name="manager",
            identity=identity,
            fence=Fence(simulation.clock.monotonic),
            clock=simulation.clock,
            rng=simulation.random,
        )
    return Manager(client_of(server), clock=simulation.clock, rng=simulation.random, election=election, **options)


def copier(manager: Manager, done: list[str], *, seconds: float = 0.0) -> Controller:
    """A controller that gives each ConfigMap of namespace `a` a copy in namespace `b`, slowly."""
    cache = manager.caches.of(CONFIG_MAP)

    async def reconcile(key: Key) -> Outcome:
        if key.namespace == "a" and cache.get(Key("b", key.name)) is None:
            await asyncio.sleep(seconds)
            cache.wrote(await manager.client.create(CONFIG_MAP, config_map(key.name, "b")))
            done.append(key.name)
        return Done()

    controller = Controller("copier", reconcile)
    controller.watch(cache)
    return controller


def test_leader_prepares_before_controllers_begin() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        done: list[str] = []
        manager = manager_of(server, simulation, identity="a")
        manager.add(copier(manager, done))

        class Preparing:
            prepared = asyncio.Event()

            async def run(self) -> None:
                await asyncio.sleep(5)
                await manager.client.create(CONFIG_MAP, config_map("first", "b"))  # refused to who does not lead
                done.append("prepared")
                self.prepared.set()
                await asyncio.sleep(5)
                done.append("ran on")

        manager.prepare(Preparing())
        other = manager_of(server, simulation, identity="b")
        other.prepare(Preparing())
        server.put(config_map("x", "a"))
        running = [asyncio.create_task(manager.run())]
        await asyncio.sleep(1)
        running.append(asyncio.create_task(other.run()))
        await asyncio.sleep(20)
        assert done == ["prepared", "x", "ran on"]
        assert [check() for check in other.checks.values()] == ["", ""], "who waits for its turn is ready"
        for each in (other, manager):
            each.stop()
        await asyncio.gather(*running)

    play(story)


def test_manager_stops_after_its_reconciles() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        done: list[str] = []
        manager = manager_of(server, simulation)
        manager.add(copier(manager, done, seconds=10.0))
        server.put(config_map("x", "a"))
        running = asyncio.create_task(manager.run())
        await asyncio.sleep(3)
        manager.stop()
        assert await running is Ending.STOPPED
        assert done == ["x"]
        assert server.watches == []
        assert asyncio.all_tasks() == {asyncio.current_task()}

    play(story)


def test_late_reconcile_is_cancelled() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        done: list[str] = []
        manager = manager_of(server, simulation, grace=30.0)
        manager.add(copier(manager, done, seconds=3600.0))
        server.put(config_map("x", "a"))
        running = asyncio.create_task(manager.run())
        await asyncio.sleep(3)
        manager.stop()
        assert await running is Ending.STOPPED
        assert simulation.clock.monotonic() == pytest.approx(33.0)
        assert done == []

    play(story)


def test_second_replica_takes_over_after_orderly_stop() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        deeds: dict[str, list[str]] = {"one": [], "two": []}
        managers = {}
        tasks = {}
        for name, done in deeds.items():
            managers[name] = manager_of(server, simulation, identity=name)
            managers[name].add(copier(managers[name], done))
            tasks[name] = asyncio.create_task(managers[name].run())
        server.put(config_map("x", "a"))
        await asyncio.sleep(60)
        leader, other = ("one", "two") if managers["one"].leading.is_set() else ("two", "one")
        assert (deeds[leader], deeds[other]) == (["x"], [])
        managers[leader].stop()
        assert await tasks[leader] is Ending.STOPPED
        server.put(config_map("y", "a"))
        await asyncio.sleep(4)
        assert (deeds[leader], deeds[other]) == (["x"], ["y"])
        managers[other].stop()
        await tasks[other]

    play(story)


def test_leader_without_its_lease_ends_with_a_code() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        faults: list[Fault] = []
        manager = manager_of(server, simulation, identity="one")

        async def write(key: Key) -> Outcome:
            try:
                await asyncio.sleep(1)
                await manager.client.create(CONFIG_MAP, config_map(f"at-{simulation.clock.monotonic():g}"))
            except Fenced as error:
                faults.append(fault_of(error))
            manager_writer.enqueue(key)
            return Done()

        manager_writer = Controller("writer", write)
        manager.add(manager_writer)
        running = asyncio.create_task(manager.run())
        await asyncio.sleep(1)
        manager_writer.enqueue(Key("", "again and again"))
        await asyncio.sleep(10)

        def refuse_lease(request: Request) -> None:
            if "leases" in request.path:
                raise ServerFailure.of("not now")

        server.before = refuse_lease
        cut = simulation.clock.monotonic()
        ending = await running
        assert ending is Ending.LEADERSHIP_LOST
        assert int(ending) != 0
        writes = [float(path.rsplit("at-", 1)[1]) for path in server.objects if "at-" in path]
        assert cut - 2 <= max(writes) <= cut + 10
        with pytest.raises(Fenced):
            await manager.client.create(CONFIG_MAP, config_map("after"))

    play(story)


def test_unlistable_kind_ends_the_start_with_its_name() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        def refuse(request: Request) -> None:
            raise ServerFailure.of("not now")

        server.before = refuse
        manager = manager_of(server, simulation)
        manager.caches.of(CONFIG_MAP)
        assert manager.checks["caches"]() == "not listed yet: configmaps"
        with pytest.raises(CachesNotFilled, match="configmaps"):
            await manager.run()
        assert simulation.clock.monotonic() == pytest.approx(120.0)

    play(story)


def test_unserved_kinds_are_named_together_once() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        def refuse(request: Request) -> None:
            raise NotFound.of("404 page not found")

        server.before = refuse
        manager = manager_of(server, simulation, fill_within=None, hint=lambda resource, error: "install it")
        manager.caches.of(CONFIG_MAP)
        manager.caches.of(SECRET)
        running = asyncio.create_task(manager.run())
        await asyncio.sleep(60)
        message = "not listed yet: configmaps, secrets (not served by the API server in v1; install it)"
        assert manager.checks["caches"]() == message
        manager.stop()
        with suppress(CachesNotFilled):
            await running

    play(story)


@pytest.mark.soak
def test_long_start_says_why_once() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        right = 'configmaps is forbidden: User "manager" cannot list resource "configmaps"'

        def refuse(request: Request) -> None:
            raise Forbidden.of(right)

        server.before = refuse
        manager = manager_of(server, simulation, fill_within=None, hint=lambda resource, error: "give it the right")
        done: list[str] = []
        manager.add(copier(manager, done))
        server.put(config_map("x", "a"))
        with capture_logs() as logs:
            running = asyncio.create_task(manager.run())
            await asyncio.sleep(86400)
            message = f"not listed yet: configmaps ({right}; give it the right)"
            assert manager.checks["caches"]() == message
            assert not running.done()
            server.before = lambda request: None
            await asyncio.sleep(60)
        assert done == ["x"]
        warnings = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
        assert warnings == ["watch interrupted", "not ready"]
        manager.stop()
        await running

    play(story)


def test_replica_without_election_is_not_ready() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        managers = [manager_of(server, simulation, identity=name) for name in ("one", "two")]
        tasks = [asyncio.create_task(manager.run()) for manager in managers]
        await asyncio.sleep(60)
        assert sorted(manager.leading.is_set() for manager in managers) == [False, True]
        assert [check() for manager in managers for check in manager.checks.values()] == [""] * 4

        def refuse(request: Request) -> None:
            if "leases" in request.path:
                raise Forbidden.of('User "manager" cannot get resource "leases"')

        server.before = refuse
        third = manager_of(server, simulation, identity="three")
        with capture_logs() as logs:
            tasks.append(asyncio.create_task(third.run()))
            await asyncio.sleep(7)
        refused = [entry for entry in logs if entry["event"] == "could not read or write the lease"]
        assert len(refused) == 3, "each of them says it once"
        assert third.checks["leadership"]() == 'User "manager" cannot get resource "leases"'
        server.before = lambda request: None
        await asyncio.sleep(5)
        assert third.checks["leadership"]() == ""
        for manager in (*managers, third):
            manager.stop()
        await asyncio.gather(*tasks)

    play(story)


def test_why_webhooks_are_not_served_is_said() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        def refuse(request: Request) -> None:
            if request.method == "POST":
                raise Forbidden.of('User "manager" cannot create resource "secrets"')

        server.before = refuse
        manager = manager_of(server, simulation, fill_within=None)
        webhooks = Webhooks()
        webhooks.certificate = ServingCertificate(
            client_of(server), namespace="eksa-system", names=["hooks.svc"], serve=webhooks.use, clock=simulation.clock
        )
        manager.add(webhooks)
        running = asyncio.create_task(manager.run())
        await asyncio.sleep(60)
        assert manager.checks["webhooks"]() == (
            'the webhook server does not serve yet: User "manager" cannot create resource "secrets"'
        )
        manager.stop()
        await running

    play(story)


def test_failing_component_ends_the_manager() -> None:
    class Failing:
        async def run(self) -> None:
            await asyncio.sleep(5)
            raise ZeroDivisionError("a bug")

    async def story(server: SmallServer, simulation: Simulation) -> None:
        manager = manager_of(server, simulation)
        manager.add(Failing())
        with pytest.raises(ZeroDivisionError):
            await manager.run()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    play(story)


def test_controllers_that_are_not_chosen_do_not_run() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        done: list[str] = []
        manager = manager_of(server, simulation, options=Options(controllers=("*", "-copier")))
        manager.add(copier(manager, done))
        server.put(config_map("x", "a"))
        running = asyncio.create_task(manager.run())
        await asyncio.sleep(60)
        manager.stop()
        await running
        assert done == []

    play(story)


def test_steady_environment_sees_no_write_but_renewals() -> None:
    async def story(server: SmallServer, simulation: Simulation) -> None:
        done: list[str] = []
        manager = manager_of(server, simulation, identity="one")
        manager.add(copier(manager, done))
        for number in range(50):
            server.put(config_map(f"x{number}", "a"))
        running = asyncio.create_task(manager.run())
        await asyncio.sleep(10)
        assert len(done) == 50
        del server.requests[:]
        await asyncio.sleep(60)
        writes = [request for request in server.requests if request.method != "GET"]
        assert {request.path for request in writes} == {LEASE_PATH}
        assert len(writes) <= 31
        manager.stop()
        await running

    play(story)


async def test_sigterm_stops_in_order() -> None:
    server = SmallServer()
    server.put(config_map("x", "a"))
    server.slow = 0.01
    manager = Manager(
        client_of(server),
        clock=SystemClock(),
        server_name="api.example.com",
        health_address=("127.0.0.1", 0),
        metrics_address=("127.0.0.1", 0),
    )
    done: list[str] = []
    manager.add(copier(manager, done))
    copied = asyncio.Event()
    manager.caches.of(CONFIG_MAP).subscribe(
        lambda old, new, first: copied.set() if new and new.namespace == "b" else None
    )
    running = asyncio.create_task(manager.run(signals=True))
    async with asyncio.timeout(10):
        await manager.leading.wait()
        await copied.wait()
        health, metrics = (f"http://127.0.0.1:{port}" for port in manager.ports)
        async with aiohttp.ClientSession() as session:
            for path, status, text in (
                ("/healthz", 200, "ok"),
                ("/readyz", 200, "ok"),
                ("/readyz/caches", 200, "ok"),
                ("/readyz?verbose", 200, "[+]ping ok\n[+]caches ok\n[+]kinds ok\nreadyz check passed\n"),
                ("/healthz/nothing", 404, "unknown check nothing; known checks: ping\n"),
            ):
                async with session.get(health + path) as response:
                    assert (response.status, await response.text()) == (status, text)
            manager.checks["etcd"] = lambda: "has no leader"
            async with session.get(metrics + "/metrics") as response:
                text = await response.text()
        assert 'controller_runtime_max_concurrent_reconciles{controller="copier"} 10.0' in text
        assert 'espalier_cache_objects{resource="configmaps"}' in text
        assert 'rest_client_requests_total{code="200",host="api.example.com",method="POST"} 1.0' in text
        os.kill(os.getpid(), signal.SIGTERM)
        assert await running is Ending.STOPPED
