from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
import uvloop
from structlog.testing import capture_logs

from espalier.api.core import CONFIG_MAP
from espalier.api.resource import Key
from espalier.kube.errors import Conflict
from espalier.kube.objects import Object
from espalier.runtime import virtual
from espalier.runtime.caches.cache import Caches
from espalier.runtime.caches.mapping import named_by_label
from espalier.runtime.controllers.controller import Controller, Reconcile
from espalier.runtime.controllers.outcome import Continue, Done, Fault, Outcome, Wait
from espalier.runtime.controllers.predicates import generation_changed
from espalier.runtime.metrics import Metrics
from espalier.runtime.virtual import Simulation
from tests.support.servers.small_server import SmallServer, client_of, config_map
from tests.support.waiting import running

KEY = Key("default", "a")


def simulate(main: Callable[[], Awaitable[Any]], seed: int = 1) -> Any:
    async def start(simulation: Simulation) -> Any:
        return await main()

    return virtual.run(start, epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=seed)


def times_of_passes(outcomes: list[Outcome | Exception], seconds: float) -> list[float]:
    """The times at which reconciles of one key begin, if it was requested once and they end so, then with Done."""

    async def main() -> list[float]:
        times: list[float] = []

        async def reconcile(key: Key) -> Outcome:
            times.append(round(asyncio.get_running_loop().time(), 3))
            outcome = outcomes[len(times) - 1] if len(times) <= len(outcomes) else Done()
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        controller = Controller("test", reconcile)
        async with running(controller):
            controller.enqueue(KEY)
            await asyncio.sleep(seconds)
        return times

    times: list[float] = simulate(main)
    return times


@pytest.mark.parametrize(
    ("outcomes", "times"),
    [
        ([Done()], [0.0]),
        ([Done(after=30.0)] * 2, [0.0, 30.0, 60.0]),
        ([Continue()], [0.0]),
        ([Wait("W", "for an event")], [0.0]),
        ([Wait("W", "for a while", after=30.0)] * 2, [0.0, 30.0, 60.0]),
        ([Fault("F", "once")], [0.0, 0.005]),
        ([Fault("F", "thrice")] * 3, [0.0, 0.005, 0.015, 0.035]),
        ([Fault("F", "for good", terminal=True)], [0.0]),
        ([Conflict.of("changed")], [0.0, 0.005]),
        ([ZeroDivisionError("a bug")], [0.0, 0.005]),
        ([Fault("F", ""), Wait("W", "", after=1.0), Fault("F", "anew")], [0.0, 0.005, 1.005, 1.01]),
    ],
    ids=repr,
)
def test_each_outcome_has_its_consequence(outcomes: list[Outcome | Exception], times: list[float]) -> None:
    assert times_of_passes(outcomes, 3600.0) == pytest.approx(times)


@pytest.mark.parametrize(
    ("failure", "longest"),
    [
        (Fault("F", "a server that is away"), 60.0),
        (Conflict.of("changed"), 60.0),
        (ZeroDivisionError("a bug"), 1000.0),
    ],
    ids=repr,
)
def test_pauses_after_faults_and_bugs_grow(failure: Outcome | Exception, longest: float) -> None:
    with capture_logs():
        times = times_of_passes([failure] * 1000, 4 * 3600.0)
    pauses = [round(later - sooner, 2) for sooner, later in pairwise(times)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == longest


@pytest.mark.parametrize(
    ("failure", "times", "alarms"),
    [(Conflict.of("changed"), 8, 0), (Conflict.of("changed"), 9, 1), (Fault("F", "once"), 1, 1)],
    ids=["conflicts", "conflicts again and again", "a fault"],
)
def test_conflict_alarms_only_when_it_repeats(failure: Outcome | Exception, times: int, alarms: int) -> None:
    """Pauses double from 5 ms, so the ninth one is the first of more than a second."""
    with capture_logs() as logs:
        times_of_passes([failure] * times, 60.0)
    assert [line["log_level"] for line in logs].count("warning") == alarms


def test_key_is_never_reconciled_twice_at_once() -> None:
    async def main() -> tuple[int, int]:
        active = most = passes = 0

        async def reconcile(key: Key) -> Outcome:
            nonlocal active, most, passes
            active, passes = active + 1, passes + 1
            most = max(most, active)
            await asyncio.sleep(10)
            active -= 1
            return Done()

        controller = Controller("test", reconcile)
        async with running(controller):
            for after in (0, 1, 2, 3):
                asyncio.get_running_loop().call_later(after, controller.enqueue, KEY)
            await asyncio.sleep(100)
        return most, passes

    assert simulate(main) == (1, 2)


class HastyLoop(virtual.VirtualLoop):
    """Rings a moment early, within its resolution, as real loops do."""

    def select(self, timeout: float | None) -> list[Any]:
        return super().select(timeout - 5e-7 if timeout and timeout > 1e-6 else timeout)


@pytest.mark.parametrize("loop_class", [virtual.VirtualLoop, HastyLoop])
def test_delayed_keys_are_reconciled_in_time(loop_class: type[virtual.VirtualLoop]) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        late: list[float] = []

        async def reconcile(key: Key) -> Outcome:
            late.append(loop.time() - due[key])
            return Done()

        controller = Controller("test", reconcile)
        due: dict[Key, float] = {}
        async with running(controller):
            await asyncio.sleep(1 / 3)
            for number in range(2000):
                key = Key("", str(number))
                after = number / 7 + 0.1 * number
                due[key] = loop.time() + after
                controller.enqueue(key, after=after)
            await asyncio.sleep(2000)
        assert len(late) == 2000
        assert max(map(abs, late)) < 1e-5

    with asyncio.Runner(loop_factory=loop_class) as runner:
        runner.run(main())


def test_no_more_than_so_many_reconciles_run_at_once() -> None:
    async def main() -> int:
        active = most = 0

        async def reconcile(key: Key) -> Outcome:
            nonlocal active, most
            active += 1
            most = max(most, active)
            await asyncio.sleep(1)
            active -= 1
            return Done()

        controller = Controller("test", reconcile, workers=3)
        async with running(controller):
            for number in range(10):
                controller.enqueue(Key("", str(number)))
            await asyncio.sleep(4.5)
            assert not controller.busy
        return most

    assert simulate(main) == 3


def test_reconciles_begin_with_complete_caches() -> None:
    async def main() -> list[str]:
        server = SmallServer()
        caches = Caches(client_of(server), rng=random.Random(1))
        cache = caches.of(CONFIG_MAP)
        story: list[str] = []

        async def reconcile(key: Key) -> Outcome:
            object_ = cache.get(key)
            story.append(f"{key.name} {len(cache)} {object_.tree['data'] if object_ else 'gone'}")
            return Done()

        controller = Controller("test", reconcile)
        controller.watch(cache)
        server.put(config_map("a"))
        server.put(config_map("b"))
        server.slow = 5.0
        async with running(caches, controller):
            await asyncio.sleep(10)
            server.put(config_map("a", x="1"))
            await asyncio.sleep(1)
            server.remove("b")
            await asyncio.sleep(1)
        return story

    assert simulate(main) == ["a 2 {}", "b 2 {}", "a 2 {'x': '1'}", "b 1 gone"]


def test_event_of_a_part_reaches_both_owners() -> None:
    async def main() -> list[str]:
        server = SmallServer()
        caches = Caches(client_of(server), rng=random.Random(1))
        keys: list[str] = []
        controller = Controller("test", recorder_of(keys))
        controller.watch(caches.of(CONFIG_MAP), named_by_label("whole"))
        async with running(caches, controller):
            await asyncio.sleep(1)
            server.put(config_map("part", labels={"whole": "one"}))
            await asyncio.sleep(1)
            server.put(config_map("part", labels={"whole": "two"}))
            await asyncio.sleep(1)
            server.put(config_map("unrelated"))
            await asyncio.sleep(1)
        return keys

    assert simulate(main) == ["one", "one", "two"]


def recorder_of(keys: list[str]) -> Reconcile:
    async def reconcile(key: Key) -> Outcome:
        keys.append(key.name)
        return Done()

    return reconcile


def test_predicates_keep_out_what_does_not_matter() -> None:
    async def main() -> list[str]:
        server = SmallServer()
        caches = Caches(client_of(server), rng=random.Random(1))
        keys: list[str] = []
        controller = Controller("test", recorder_of(keys))
        cache = caches.of(CONFIG_MAP)
        controller.watch(cache, predicate=generation_changed)
        async with running(caches, controller):
            await asyncio.sleep(1)
            tree = config_map("a")
            for generation in (1, 1, 2, 2):
                tree["metadata"] |= {"generation": generation}
                server.put(tree)
                await asyncio.sleep(1)
        return keys

    assert simulate(main) == ["a", "a"]


def test_unmappable_object_does_not_end_the_watch() -> None:
    def to_keys(object_: Any) -> list[Key]:
        return [Key("", object_.tree["data"]["whole"])]

    async def main() -> list[str]:
        server = SmallServer()
        caches = Caches(client_of(server), rng=random.Random(1))
        keys: list[str] = []
        controller = Controller("test", recorder_of(keys))
        controller.watch(caches.of(CONFIG_MAP), to_keys)
        async with running(caches, controller):
            await asyncio.sleep(1)
            server.put(config_map("bad"))
            server.put(config_map("good", whole="x"))
            await asyncio.sleep(1)
        return keys

    assert simulate(main) == ["x"]


def test_a_watch_may_be_added_while_running() -> None:
    async def main() -> list[str]:
        server = SmallServer()
        server.put(config_map("a"))
        caches = Caches(client_of(server), rng=random.Random(1))
        keys: list[str] = []
        controller = Controller("test", recorder_of(keys))
        async with running(caches, controller):
            await asyncio.sleep(1)
            cache = caches.of(CONFIG_MAP)
            controller.watch(cache)
            await cache.wait_synced()
            await asyncio.sleep(1)
        return keys

    assert simulate(main) == ["a"]


def test_everything_is_reconciled_again_after_hours() -> None:
    async def main() -> None:
        server = SmallServer()
        for number in range(5):
            server.put(config_map(f"a{number}"))
        caches = Caches(client_of(server), rng=random.Random(1))
        keys: list[str] = []
        controller = Controller("test", recorder_of(keys), workers=1, resync=3600.0, rng=random.Random(1))
        controller.watch(caches.of(CONFIG_MAP))
        async with running(caches, controller):
            await asyncio.sleep(1)
            assert len(keys) == 5
            await asyncio.sleep(3590 * 1.1)
            assert len(keys) == 10

    simulate(main)


def test_other_work_goes_on_between_caches_of_a_resync() -> None:
    async def main() -> None:
        server = SmallServer()
        server.put(config_map("a"))
        caches, told = Caches(client_of(server), rng=random.Random(1)), list[str]()

        def first(_object: Object) -> list[Key]:
            asyncio.get_running_loop().call_soon(told.append, "other work")
            return []

        def second(_object: Object) -> list[Key]:
            told.append("second cache")
            return []

        controller = Controller("test", recorder_of([]), resync=3600.0, rng=random.Random(1))
        for to_keys in (first, second):
            controller.watch(caches.of(CONFIG_MAP), to_keys)
        async with running(caches, controller):
            await asyncio.sleep(1)
            told.clear()
            await asyncio.sleep(3600 * 1.1)
            assert told == ["other work", "second cache"]

    simulate(main)


def test_a_stop_lets_reconciles_end_and_begins_none() -> None:
    async def main() -> list[str]:
        story: list[str] = []

        async def reconcile(key: Key) -> Outcome:
            story.append(f"begin {key.name}")
            await asyncio.sleep(5)
            story.append(f"end {key.name}")
            return Done()

        controller = Controller("test", reconcile, workers=1)
        async with running(controller):
            controller.enqueue(Key("", "a"))
            controller.enqueue(Key("", "b"))
            await asyncio.sleep(1)
            await controller.drain()
        return story

    assert simulate(main) == ["begin a", "end a"]


def test_an_idle_controller_has_no_task_but_its_own() -> None:
    async def main() -> int:
        controller = Controller("test", recorder_of([]), workers=100)
        async with running(controller):
            controller.enqueue(KEY)
            await asyncio.sleep(1)
            return len(asyncio.all_tasks())

    assert simulate(main) == 2  # this test, and run()


def test_dashboards_of_controller_runtime_work() -> None:
    async def main() -> str:
        endings: list[Outcome | Exception] = [
            Fault("F", ""),
            ValueError("bug"),
            Wait("W", "", after=1.0),
            Fault("F", "", terminal=True),
        ]
        outcomes = iter(endings)

        async def reconcile(key: Key) -> Outcome:
            outcome = next(outcomes, Done())
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        metrics = Metrics()
        controller = Controller("cluster", reconcile)
        controller.measured_by(metrics)
        async with running(controller):
            controller.enqueue(KEY)
            await asyncio.sleep(10)
            controller.enqueue(KEY)
            controller.enqueue(Key("default", "later"), after=1000.0)
            await asyncio.sleep(1)
            return metrics.exposition().decode()

    text = simulate(main)
    for line in (
        'controller_runtime_reconcile_total{controller="cluster",result="error"} 3.0',
        'controller_runtime_reconcile_total{controller="cluster",result="requeue_after"} 1.0',
        'controller_runtime_reconcile_total{controller="cluster",result="success"} 1.0',
        'controller_runtime_reconcile_errors_total{controller="cluster"} 3.0',
        'controller_runtime_terminal_reconcile_errors_total{controller="cluster"} 1.0',
        'controller_runtime_reconcile_panics_total{controller="cluster"} 1.0',
        'controller_runtime_reconcile_time_seconds_count{controller="cluster"} 5.0',
        'controller_runtime_max_concurrent_reconciles{controller="cluster"} 10.0',
        'controller_runtime_active_workers{controller="cluster"} 0.0',
        'workqueue_retries_total{controller="cluster",name="cluster"} 2.0',
        'workqueue_depth{controller="cluster",name="cluster",priority="0"} 0.0',
        'workqueue_unfinished_work_seconds{controller="cluster",name="cluster"} 0.0',
    ):
        assert line in text


def test_the_same_seed_gives_the_same_trace() -> None:
    def play(seed: int) -> list[str]:
        async def main(simulation: Simulation) -> list[str]:
            trace: list[str] = []
            server = SmallServer()
            caches = Caches(client_of(server), rng=simulation.random)
            cache = caches.of(CONFIG_MAP)

            async def reconcile(key: Key) -> Outcome:
                trace.append(f"{simulation.clock.now().isoformat()} {key}")
                await asyncio.sleep(simulation.random.random())
                return Fault("F", "bad luck") if simulation.random.random() < 0.3 else Done()

            controllers = [Controller(name, reconcile, workers=2, rng=simulation.random) for name in "xy"]
            for controller in controllers:
                controller.watch(cache)
            async with running(caches, *controllers):
                for number in range(50):
                    server.put(config_map(f"a{simulation.random.randrange(9)}", number=str(number)))
                    if number % 10 == 9:
                        server.break_watches()
                    await asyncio.sleep(simulation.random.random())
                await asyncio.sleep(30)
            return trace

        return virtual.run(main, epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=seed)

    assert play(5) == play(5)
    assert play(5) != play(6)


def test_delays_that_end_at_once_keep_the_alarm() -> None:
    async def main() -> None:
        errors: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        keys = {Key("default", str(number)) for number in range(300)}
        left, done = set(keys), asyncio.Event()

        async def reconcile(key: Key) -> Outcome:
            left.discard(key)
            if not left:
                done.set()
            return Done()

        controller = Controller("test", reconcile)
        async with running(controller), asyncio.timeout(10):
            for place, key in enumerate(sorted(keys)):
                controller.enqueue(key, after=place * 0.00005)
                await asyncio.sleep(0)
            await done.wait()
        assert errors == []

    uvloop.run(main())
