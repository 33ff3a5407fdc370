"""Copies between stores: what is chosen, that it is whole, and that an interrupted copy is finished by the next run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.etcdbackup.copying import copier
from espalier.etcdbackup.copying.copier import Copied, Copier, wait_for_final
from espalier.etcdbackup.copying.plan import LATEST, Choice, plan
from espalier.etcdbackup.snapshots.names import Snapshot
from espalier.etcdbackup.snapshots.reading import read_inventory
from espalier.etcdbackup.snapshots.sets import Inventory
from espalier.etcdbackup.snapshots.verification import verify
from espalier.etcdbackup.stores.errors import Corrupt, Refused, StoreError, Unavailable
from espalier.etcdbackup.stores.memory import MemoryStore
from espalier.etcdbackup.stores.store import Store
from espalier.runtime.virtual import Simulation, run
from tests.support.etcd.backups import EPOCH, content_of, delta, full, put
from tests.support.servers.faulty_stores import FaultyStore

T = TypeVar("T")
OLD = (full(10, 0), delta(11, 20, 60), delta(21, 25, 120))
NEW = (full(25, 3600), delta(26, 40, 3660), delta(41, 50, 3720))
FINAL = full(60, 3800, final=True)


def simulated(story: Callable[[Simulation], Awaitable[T]], after: float = 7200) -> T:
    return run(story, epoch=datetime.fromtimestamp(EPOCH + after, UTC), seed=1)


def stores(simulation: Simulation) -> tuple[MemoryStore, MemoryStore]:
    source, target = (MemoryStore(simulation.clock, where=f"s3://{name}/etcd-main") for name in ("source", "target"))
    return source, target


async def copied(simulation: Simulation, source: Store, target: Store, choice: Choice = LATEST) -> Copied:
    return await Copier(source, target, simulation.clock).run(choice)


@pytest.mark.demand("G58")
def test_the_latest_set_is_copied_byte_by_byte() -> None:
    async def story(simulation: Simulation) -> None:
        source, target = stores(simulation)
        await put(source, *OLD, *NEW)
        done = await copied(simulation, source, target)
        assert sorted(target.objects) == sorted(snapshot.key for snapshot in NEW)
        assert all(target.objects[snapshot.key].data == content_of(snapshot) for snapshot in NEW)
        assert (done.copied[-1], done.present, done.reach, done.is_final) == (str(NEW[0]), (), 50, False)
        assert done.size == sum(len(content_of(snapshot)) for snapshot in NEW)

    simulated(story)


def test_existing_objects_are_not_copied_again() -> None:
    async def story(simulation: Simulation) -> None:
        source, target = stores(simulation)
        await put(source, *OLD, *NEW)
        await copied(simulation, source, target, Choice())
        before = target.copy().objects
        await put(source, delta(51, 55, 3800))
        done = await copied(simulation, source, target, Choice())
        assert (done.copied, len(done.present)) == ((str(delta(51, 55, 3800)),), 6)
        assert {key: target.objects[key] for key in before} == before

    simulated(story)


def test_a_final_snapshot_is_not_final_in_the_target() -> None:
    async def story(simulation: Simulation) -> None:
        source, target = stores(simulation)
        await put(source, *NEW, FINAL)
        for expected in ((str(FINAL.without_final()),), ()):
            done = await copied(simulation, source, target)
            assert (done.copied, done.is_final) == (expected, True)
        assert list(target.objects) == [FINAL.without_final().key]

    simulated(story)


def test_snapshots_of_legacy_layout_get_present_one() -> None:
    async def story(simulation: Simulation) -> None:
        source, target = stores(simulation)
        await source.put(f"v1/Backup-1700000000/{OLD[0]}", content_of(OLD[0]))
        await copied(simulation, source, target)
        assert list(target.objects) == [OLD[0].key]

    simulated(story)


def test_foreign_objects_stay_where_they_are() -> None:
    async def story(simulation: Simulation) -> None:
        source, target = stores(simulation)
        await put(source, *NEW)
        await source.put("copyoperation.json", b"{}")
        await source.put(f"{NEW[0].key}/0000000001", b"part")
        await copied(simulation, source, target, Choice())
        assert sorted(target.objects) == sorted(snapshot.key for snapshot in NEW)

    simulated(story)


def test_an_empty_source_copies_nothing_and_says_so() -> None:
    async def story(simulation: Simulation) -> None:
        source, target = stores(simulation)
        await put(source, NEW[1])
        done = await copied(simulation, source, target)
        assert (done.copied, done.reach, target.objects) == ((), None, {})

    simulated(story)


@pytest.mark.demand("G58")
@pytest.mark.parametrize("at", range(7))
def test_copy_that_ends_anywhere_is_finished_by_next(at: int) -> None:
    async def story(simulation: Simulation) -> None:
        source, target = stores(simulation)
        await put(source, *OLD, *NEW)
        writes = 0

        def dies(_key: str) -> Exception | None:
            nonlocal writes
            writes += 1
            return Refused(target.where, "the process was killed") if writes > at else None

        with pytest.raises(Refused) if at < 6 else nullcontext():
            await copied(simulation, source, FaultyStore(target, {"upload": dies}), Choice())
        for snapshot_set in (await read_inventory(target)).sets:  # a set that is there is whole
            assert not snapshot_set.findings() or snapshot_set.full.snapshot.last == 10
        await copied(simulation, source, target, Choice())
        assert sorted(target.objects) == sorted(snapshot.key for snapshot in (*OLD, *NEW))

    simulated(story)


def test_a_full_snapshot_is_copied_after_its_deltas() -> None:
    async def story(simulation: Simulation) -> None:
        source, target = stores(simulation)
        await put(source, *OLD, *NEW)
        seen = FaultyStore(target)
        await copied(simulation, source, seen, Choice())
        uploads = [key for operation, key in seen.seen if operation == "upload"]
        assert (uploads[2], uploads[5]) == (OLD[0].key, NEW[0].key)

    simulated(story)


def test_a_copy_that_was_torn_before_is_made_again() -> None:
    async def story(simulation: Simulation) -> None:
        source, target = stores(simulation)
        await put(source, *NEW)
        await put(target, *NEW)
        await target.put(NEW[0].key, content_of(NEW[0])[:-1])
        await target.put(NEW[1].key, content_of(NEW[1])[:-1] + b"!")
        done = await copied(simulation, source, target)
        assert (set(done.copied), done.present) == ({str(NEW[0]), str(NEW[1])}, (str(NEW[2]),))
        assert all(target.objects[snapshot.key].data == content_of(snapshot) for snapshot in NEW)

    simulated(story)


@pytest.mark.parametrize("damaged", NEW, ids=str)
def test_damaged_objects_are_named_and_not_copied(damaged: Snapshot) -> None:
    async def story(simulation: Simulation) -> None:
        source, target = stores(simulation)
        await put(source, *NEW)
        key = f"v2/{damaged}"
        content = source.objects[key].data
        await source.put(key, content[: len(content) // 2] + b"!" + content[len(content) // 2 + 1 :])
        with pytest.raises(Corrupt, match=rf"s3://source/etcd-main/{key}: .*not copied"):
            await copied(simulation, source, target)
        assert key not in target.objects
        latest = (await read_inventory(target)).latest
        assert latest is None

    simulated(story)


def test_a_temporary_failure_is_tried_again() -> None:
    async def story(simulation: Simulation) -> None:
        source, target = stores(simulation)
        await put(source, *NEW)
        failures = [Unavailable(source.where, "reset"), Corrupt(target.where, "other bytes"), None, None, None]
        faulty = FaultyStore(target, {"upload": lambda _key: failures.pop(0)})
        await Copier(source, faulty, simulation.clock, parallel=1).run(LATEST)
        assert len(target.objects) == 3

    simulated(story)


def test_a_lasting_failure_is_reported() -> None:
    async def story(simulation: Simulation) -> None:
        source, target = stores(simulation)
        await put(source, *NEW)
        away = FaultyStore(source, {"stream": lambda _key: Unavailable(source.where, "no answer")})
        with pytest.raises(Unavailable, match="no answer"):
            await copied(simulation, away, target)
        refusing = FaultyStore(target, {"upload": lambda _key: Refused(target.where, "read only")})
        with pytest.raises(Refused, match="read only"):
            await copied(simulation, source, refusing)
        assert len([call for call in refusing.seen if call[0] == "upload"]) <= copier.PARALLEL

    simulated(story)


def test_target_that_holds_something_newer_is_refused() -> None:
    async def story(simulation: Simulation) -> None:
        for other in (full(90, 9000), delta(51, 90, 9000), delta(30, 55, 9000)):
            source, target = stores(simulation)
            await put(source, *NEW)
            await put(target, other)
            with pytest.raises(Refused, match=rf"s3://target/etcd-main: it holds {other}, which a restore would use"):
                await copied(simulation, source, target)
            assert list(target.objects) == [other.key]
        source, target = stores(simulation)
        await put(source, *NEW)
        await put(target, *OLD)
        await copied(simulation, source, target)
        latest = (await read_inventory(target)).latest
        assert latest is not None
        assert latest.reach == 50

    simulated(story)


def test_the_final_snapshot_is_waited_for() -> None:
    async def story(simulation: Simulation) -> tuple[bool, float]:
        source, _ = stores(simulation)
        await put(source, *NEW)
        notices: list[str] = []
        failures: list[StoreError | None] = [None, Unavailable(source.where, "no answer"), *[None] * 99]
        faulty = FaultyStore(source, {"list": lambda _key: failures.pop(0)})
        waiting = asyncio.create_task(wait_for_final(faulty, timeout=600, notice=notices.append))
        await asyncio.sleep(100)
        await put(source, FINAL)
        is_final = await waiting
        assert "no answer" in notices[1]
        return is_final, simulation.clock.monotonic()

    assert simulated(story) == (True, 105.0)


def test_a_wait_in_vain_is_reported() -> None:
    async def story(simulation: Simulation) -> tuple[bool, float]:
        source, _ = stores(simulation)
        await put(source, *NEW)
        return await wait_for_final(source, timeout=50, notice=lambda _notice: None), simulation.clock.monotonic()

    assert simulated(story) == (False, 50.0)


async def inventory(simulation: Simulation, *snapshots: Snapshot) -> Inventory:
    store, _ = stores(simulation)
    await put(store, *snapshots)
    return await read_inventory(store)


@pytest.mark.demand("G59")
def test_sets_are_chosen_by_number_and_age() -> None:
    async def story(simulation: Simulation) -> None:
        source = await inventory(simulation, *(full(10 * (6 - number), -number * 86400) for number in range(1, 6)))

        def chosen(choice: Choice) -> list[int]:
            now = datetime.fromtimestamp(EPOCH, UTC)
            return [set_copy.full.target.last for set_copy in plan(source, Inventory(), choice, now).sets]

        assert chosen(Choice()) == [10, 20, 30, 40, 50]
        assert chosen(LATEST) == [50]
        assert chosen(Choice(most=2)) == [40, 50]
        assert chosen(Choice(age=timedelta(days=2, hours=1))) == [40, 50]
        assert chosen(Choice(age=timedelta(hours=1))) == [50]
        assert chosen(Choice(most=3, age=timedelta(days=4, hours=1))) == [30, 40, 50]

    simulated(story)


@pytest.mark.parametrize("wrong", [{"most": 0}, {"age": timedelta()}])
def test_a_choice_of_nothing_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="allowed is"):
        Choice(**wrong)  # type: ignore[arg-type]


RANGES = st.lists(st.tuples(st.booleans(), st.integers(1, 30), st.integers(0, 9), st.booleans()), max_size=8)


@pytest.mark.demand("G59")
@given(RANGES, st.integers(1, 3))
def test_restore_from_copy_leads_as_far_as_from_source(made: list[tuple[bool, int, int, bool]], most: int) -> None:
    async def story(simulation: Simulation) -> None:
        source, target = stores(simulation)
        for at, (is_full, last, length, is_final) in enumerate(made):
            await put(source, full(last, at, final=is_final) if is_full else delta(max(1, last - length), last, at))
        done = await copied(simulation, source, target, Choice(most=most))
        there, origin = (await read_inventory(target)).latest, (await read_inventory(source)).latest
        assert (there is None) == (origin is None)
        if there is not None and origin is not None:
            assert there.reach == origin.reach == done.reach
            assert all(not checked.problem for checked in (await verify(target, there)).checked)
        assert (await copied(simulation, source, target, Choice(most=most))).copied == ()

    simulated(story)
