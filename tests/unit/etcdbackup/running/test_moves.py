"""Control planes that move, on virtual time: agents, copies, etcds and proxys as they are put together in earnest.

At each seed two writers, two readers and a watch are witnesses all the time; that never two epochs serve is asserted at
the end of each story.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from datetime import datetime
from typing import Any

import pytest

from espalier.api.etcd.calls import InitiateCopyOperation
from espalier.api.etcd.ownership import CopyOperation, Status, Writer, copy_operation_key, encoded, read_first_start
from espalier.apiserver.builtin.builtin import KINDS
from espalier.apiserver.storage.etcd_keys import Keys
from espalier.apiserver.storage.etcd_store import EtcdStore
from espalier.etcd.client import Client
from espalier.etcd.errors import EtcdError
from espalier.etcdbackup.restore.plan import BUMP
from espalier.etcdbackup.running import agent as running_agent
from espalier.etcdbackup.running.parts import Origin
from espalier.etcdbackup.snapshots.names import Kind, parse_key
from espalier.etcdbackup.snapshots.reading import read_inventory
from espalier.etcdbackup.snapshotter.full import newest_revision, take_full
from espalier.etcdbackup.stores.errors import Unavailable
from tests.support.etcd.moves import CLUSTER, Moves, Seat, moving
from tests.support.sampling import sampled


@pytest.mark.demand("G36", "G37", "G71")
def test_good_case_loses_nothing_acknowledged() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(100)
        await moves.initiated(source)
        destination = moves.seat()
        began = moves.clock.monotonic()
        await moves.taken_over(destination)
        assert moves.clock.monotonic() - began < 30, "Ready was there already: the copy waits for nothing"
        assert moves.witnesses.acknowledged
        assert await moves.missing(destination) == []
        assert await revision(destination) < BUMP, "lossless: clients need not list again"

    moving(story)


@pytest.mark.demand("G37", "G51", "G54")
def test_missing_initiate_loses_nothing() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(50)
        destination = moves.seat()
        await moves.taken_over(destination)
        assert await moves.missing(destination) == []
        finals = [key for key in source.bucket.objects if key.endswith(".final")]
        inventory = (await read_inventory(source.bucket)).snapshots
        assert len(finals) == 1, "exactly one final snapshot"
        assert inventory[-1].key == finals[0], "and no delta after it"

    moving(story)


@pytest.mark.demand("G45", "G54")
def test_the_source_closes_in_order() -> None:
    """G54: the probe turns 503 and the snapshotter stops, then the final snapshot, then `Ready`."""

    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(30)
        run = source.run
        assert run is not None
        order: list[tuple[str, bool, bool, bool]] = []

        def noted(key: str) -> None:
            order.append((key.rpartition(".")[2], run.ready, source.guard.is_open, source.guard.runs))

        source.store.before = {"upload": noted, "replace": noted}
        by_hand = CopyOperation(1, Status.INITIAL, Writer.DESTINATION, nonce="by hand")
        await source.bucket.create(copy_operation_key(1), encoded(by_hand))
        await moves.until(lambda: status(source) is Status.READY)
        assert order == [("final", False, False, True), ("json", False, False, False)]
        assert run.status().copy_operation is not None, "it answers although etcd has ended"

    moving(story)


@pytest.mark.demand("G63", "G65", "G66")
def test_source_without_its_bucket_closes_first() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(100)
        source.cut()
        cut = moves.clock.monotonic()
        destination = moves.seat()
        await moves.taken_over(destination)
        timing = moves.timing
        assert moves.witnesses.last(1) <= cut + timing.validity
        assert await revision(destination) > BUMP, "watchers list again"
        lost = await moves.missing(destination)
        assert lost, "what came last is gone"
        window = moves.schedule.delta_period + timing.validity
        assert len(lost) <= 2 * (window / 0.5) + 4, "no more than a delta period, and what came after the cut"
        source.heal()
        await asyncio.sleep(200)
        assert source.run is not None
        assert not source.run.ready, "it stays inactive"
        assert moves.witnesses.last(1) <= cut + timing.validity

    moving(story)


@pytest.mark.soak
def test_agent_without_its_bucket_counts_down() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(100)
        run, timing = source.run, moves.timing
        assert run is not None
        fine = run.backup_status()
        assert (fine.serves, fine.store_unreadable_since, fine.deactivates_in, fine.message) == (True, "", None, "")
        assert fine.latest_full, "and when deltas were taken"
        assert fine.latest_delta
        source.cut()
        await moves.until(lambda: run.store_unreadable > 0)
        first = run.backup_status()
        assert first.deactivates_in is not None
        assert first.deactivates_in <= timing.validity
        assert "the store can't be read for" in first.message
        await asyncio.sleep(4)
        assert run.backup_status().deactivates_in == pytest.approx(first.deactivates_in - 4, abs=0.11)
        assert run.backup_status().store_unreadable_since == first.store_unreadable_since, "the same all the time"
        await moves.until(lambda: not run.ready)
        await asyncio.sleep(30)
        closed = run.backup_status()
        assert (closed.serves, closed.deactivates_in) == (False, 0)
        source.heal()
        await moves.until(lambda: run.ready)
        assert run.backup_status().store_unreadable_since == ""

    moving(story)


@pytest.mark.demand(G66="the window is told")
def test_gap_since_the_last_snapshot_is_reported() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        run = source.run
        assert run is not None
        await asyncio.sleep(100.3)
        fine = run.backup_status()
        source.store.before = {"upload": lambda key: Unavailable(key, "no route to host")}
        began = moves.clock.now()
        await asyncio.sleep(100)
        late = run.backup_status()
        assert late.serves, "sync objects are read all the time"
        assert late.latest_delta == fine.latest_delta
        since = datetime.fromisoformat(late.unstored_since)
        assert abs((since - began).total_seconds()) <= moves.schedule.delta_period
        assert "snapshots fail" in late.message

    moving(story)


@pytest.mark.demand("G63", G55="an error of the snapshotter alone ends nothing, the loss of its bucket does (G63)")
def test_one_failed_request_closes_nothing() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        source.cut()
        await asyncio.sleep(7)
        source.heal()
        before = len(moves.witnesses.served)
        await asyncio.sleep(20)
        assert source.run is not None
        assert source.run.ready
        assert len(moves.witnesses.served) - before > 100

    moving(story)


@pytest.mark.demand("G64")
def test_a_source_whose_bucket_comes_back_serves_again() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(20)
        source.cut()
        await asyncio.sleep(60)
        run = source.run
        assert run is not None
        assert not run.ready
        assert not await source.guard.is_running(), "etcd was ended"
        source.heal()
        await moves.until(lambda: run.ready, seconds=30)
        await asyncio.sleep(20)
        async with Client(source.guard.inside(), rng=moves.rng) as client:
            gone = [key for key in list(moves.witnesses.acknowledged) if await client.get(key) is None]
        assert gone == []

    moving(story)


@pytest.mark.demand("G55")
def test_api_server_ends_before_the_source_is_ready() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        store = EtcdStore(Client(source.guard.transport(), timeout=2, rng=moves.rng), Keys(KINDS, "/server"))
        await store.start()
        lost: list[float] = []
        store.on_loss(lambda _reason: lost.append(moves.clock.monotonic()))
        await asyncio.sleep(60)
        assert not lost, "the proxy is open all the time"
        run = source.run
        assert run is not None
        await run.initiate(InitiateCopyOperation(epoch=1))
        await moves.until(lambda: bool(lost) or status(source) is Status.READY)
        assert lost, "its watches have ended, and nobody is answered from its memory"
        await store.close()
        await moves.until(lambda: status(source) is Status.READY)

    moving(story)


@pytest.mark.parametrize(("ended", "seconds"), [(True, 1), (False, 11)])
def test_source_without_api_servers_is_ready_at_once(ended: bool, seconds: float) -> None:
    """Otherwise each may answer for `servingGrace` after it was connected last: here until just before."""

    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(60)
        await source.without_clients()
        await asyncio.sleep(0.5)
        run = source.run
        assert run is not None
        began = moves.clock.monotonic()
        answer = await run.initiate(InitiateCopyOperation(epoch=1, api_servers_ended=ended, wait_seconds=seconds))
        assert answer.copy_operation is not None
        assert answer.copy_operation.status is Status.READY
        assert moves.clock.monotonic() - began < seconds, "the answer came when it was so"

    moving(story)


def test_connected_client_is_always_waited_for() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(60)
        run = source.run
        assert run is not None
        began = moves.clock.monotonic()
        while status(source) is not Status.READY:
            await run.initiate(InitiateCopyOperation(epoch=1, api_servers_ended=True, wait_seconds=1))
        assert moves.clock.monotonic() - began > moves.timing.serving_grace - 0.1

    moving(story)


@pytest.mark.demand("G53")
@pytest.mark.parametrize("what", ["agent", "guard", "everything"])
def test_a_source_that_dies_is_left_behind(what: str) -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(60)
        await source.kill_agent()
        if what != "agent":
            source.guard.kill()
        if what == "everything":
            source.data.lose()
        destination = moves.seat()
        await moves.taken_over(destination)
        assert await revision(destination) > BUMP

    moving(story)


@pytest.mark.demand("G53", G65="agent anew")
def test_thawed_seed_serves_nothing() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(60)
        await source.kill_agent()  # it would be frozen as well
        source.guard.freeze()
        destination = moves.seat()
        await moves.taken_over(destination)
        await asyncio.sleep(300)
        source.guard.thaw()
        run = source.start_agent()
        await asyncio.sleep(100)
        assert run.phase == "HandedOver"
        assert moves.witnesses.last(1) < moves.witnesses.first(2)

    moving(story)


@pytest.mark.demand(
    G5="with leftover sync objects and volumes", G48="each epoch's container is the source of the next move"
)
def test_cluster_moves_there_and_back_and_third_time() -> None:
    async def story(moves: Moves) -> None:
        first = await moves.founded()
        await asyncio.sleep(30)
        second = moves.seat()
        await moves.taken_over(second)
        await first.leave()
        await asyncio.sleep(30)
        back = moves.seat(at=first)  # with the volume of the first epoch, whose data are old
        await moves.taken_over(back)
        await second.leave()
        await asyncio.sleep(30)
        third = moves.seat(at=second)
        await moves.taken_over(third)
        await asyncio.sleep(10)
        assert await moves.missing(third) == []
        assert {epoch for *_, epoch, _ in moves.witnesses.served} == {1, 2, 3, 4}

    moving(story)


@pytest.mark.demand(G5="with leftover sync objects and volumes")
def test_abandoned_move_returns_to_its_volume() -> None:
    async def story(moves: Moves) -> None:
        first = await moves.founded()
        await asyncio.sleep(30)
        given_up = moves.seat()
        copy = moves.copy(given_up)
        await moves.until(lambda: copy.ready)
        await moves.end_copies()
        await first.leave()
        back = moves.seat(at=first)
        await moves.taken_over(back)
        origin = await back.data.origin()
        assert origin is not None
        assert origin.epoch == 3, "data of another epoch are not taken for its own"
        assert await revision(back) > BUMP, "epoch 2 never said that its backups are complete"
        assert await moves.missing(back) == []

    moving(story)


def test_dead_agent_is_replaced_almost_unnoticed() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(30)
        await source.kill_agent()
        await asyncio.sleep(1)
        run = source.start_agent()
        served = len(moves.witnesses.served)
        await asyncio.sleep(10)
        assert run.ready
        assert len(moves.witnesses.served) - served > 80, "the proxy stayed open"

    moving(story)


# --- Data ---------------------------------------------------------------------------------------------------------


@pytest.mark.soak
def test_lost_data_are_restored_with_raised_revisions() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(100)
        lost_at = len(moves.witnesses.acknowledged)
        source.guard.kill_etcd()
        source.data.lose()
        run = source.run
        assert run is not None
        await moves.until(lambda: not run.ready)
        await moves.until(lambda: run.ready)
        assert await revision(source) > BUMP
        async with Client(source.guard.inside(), rng=moves.rng) as client:
            early = list(moves.witnesses.acknowledged)[: lost_at - 100]
            assert [key for key in early if await client.get(key) is None] == []
        await asyncio.sleep(30)
        destination = moves.seat()
        await moves.taken_over(destination)
        text = destination.bucket.objects["ownership/00000002-first-start.json"].data
        marker = read_first_start(text, 2, CLUSTER)
        assert not getattr(marker, "lossless", True), "this etcd never had all that was acknowledged"

    moving(story)


def test_unknown_object_is_named_by_agent_and_copy() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        run, copy = source.run, moves.copy(moves.seat())
        assert run is not None
        marker = source.bucket.objects["ownership/00000001-first-start.json"].data
        for key, good, name in (
            ("ownership/00000001-first-start.json", marker, "first-start marker"),
            (copy_operation_key(1), None, "CopyOperation"),
        ):
            await source.bucket.put(key, b"{")
            await asyncio.sleep(60)
            assert f"the {name} of epoch 1 is unreadable: it is no" in run.trouble
            assert f"the {name} of epoch 1 is unreadable: it is no" in copy.trouble
            if good is not None:
                await source.bucket.put(key, good)

    moving(story)


def test_an_etcd_that_had_data_never_starts_empty() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(30)
        for key in [key for key in source.bucket.objects if key.startswith("v2/")]:
            await source.bucket.delete(key)
        source.cut()
        source.guard.kill_etcd()
        source.data.lose()
        source.heal()
        run = source.run
        assert run is not None
        await asyncio.sleep(120)
        assert not run.ready
        assert "has no full snapshot, but clients may have written" in run.trouble
        assert not source.data_is_there()

    moving(story)


def test_lost_backups_never_start_an_empty_etcd() -> None:
    """A source that is gone, and whose bucket was emptied: an empty list of backups is no backup."""

    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(30)
        await moves.initiated(source)
        for key in [key for key in source.bucket.objects if key.startswith("v2/")]:
            await source.bucket.delete(key)
        await source.bucket.put(copy_operation_key(1), encoded(CopyOperation(1, Status.READY, Writer.SOURCE)))
        destination = moves.seat()
        copy = moves.copy(destination)
        await asyncio.sleep(1200)
        assert not copy.ready
        assert "clients have written to this etcd" in copy.trouble
        assert "an etcd that had data never starts empty" in copy.trouble

    moving(story)


def test_unwritten_cluster_moves_as_well() -> None:
    async def story(moves: Moves) -> None:
        source = moves.seat()
        run = source.start_agent()
        await moves.until(lambda: run.ready)
        await moves.initiated(source)
        destination = moves.seat()
        await moves.taken_over(destination)

    moving(story)


def test_etcd_that_never_served_may_start_empty_again() -> None:
    async def story(moves: Moves) -> None:
        seat = moves.seat()
        seat.store.before = {"create": lambda key: Unavailable(key, "away") if "served" in key else None}
        run = seat.start_agent()
        await asyncio.sleep(30)
        assert seat.guard.has_data, "etcd was started"
        assert not run.ready, "and clients were not let in"
        await seat.kill_agent()
        seat.heal()
        seat.guard.kill()
        seat.data.lose()
        run = seat.start_agent()
        await moves.until(lambda: run.ready, seconds=60)

    moving(story)


@pytest.mark.soak
def test_unstartable_data_are_kept_unless_damaged() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(100)
        source.guard.start_fails = "address in use"
        source.guard.kill_etcd()
        await asyncio.sleep(60)
        run = source.run
        assert run is not None
        assert "its data look intact" in run.trouble
        source.data.damaged = "page 7 is torn"
        source.guard.heals_with_other_data = True
        await moves.until(lambda: run.ready, seconds=60)
        assert await revision(source) > BUMP

    moving(story)


@pytest.mark.soak
def test_data_behind_their_backups_are_replaced() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(40)
        old = source.guard.disk()
        await asyncio.sleep(60)
        source.guard.kill_etcd()
        source.guard.put_disk(old)
        run = source.run
        assert run is not None
        await moves.until(lambda: not run.ready)
        await moves.until(lambda: run.ready)
        assert await revision(source) > BUMP

    moving(story)


def test_etcd_that_exited_serves_nobody_until_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """It may start from other data. The store is read meanwhile, so clients would be let in again."""

    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(30)
        guard, run, may_start, opened = source.guard, source.run, asyncio.Event(), list[float]()
        assert run is not None
        open_, start = guard.open, guard.start

        async def noted_open(until: float) -> None:
            opened.append(until)
            await open_(until)

        async def late_start() -> None:
            await may_start.wait()
            await start()

        monkeypatch.setattr(guard, "open", noted_open)
        monkeypatch.setattr(guard, "start", late_start)
        guard.kill_etcd()
        await moves.until(lambda: not run.ready)
        opened.clear()
        await asyncio.sleep(20)
        assert opened == []
        may_start.set()
        await moves.until(lambda: run.ready)
        assert opened

    moving(story)


def test_final_snapshot_waits_for_the_one_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """A later one would be of an epoch that has ended."""

    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(30)
        run, order = source.run, list[str]()
        assert run is not None
        backups = run.backups.run

        async def slow_backups() -> None:
            try:
                await backups()
            finally:  # what is under way ends late
                for _ in range(5):
                    with suppress(asyncio.CancelledError):
                        await asyncio.sleep(1)
                order.append("backups")

        async def noted(*arguments: Any, **options: Any) -> Any:
            order.append("final" if options.get("is_final") else "full")
            return await take_full(*arguments, **options)

        monkeypatch.setattr(run.backups, "run", slow_backups)
        assert run._backup_task is not None
        before = run._backup_task
        before.cancel()
        await moves.until(lambda: run._backup_task is not before)
        await asyncio.sleep(30)
        monkeypatch.setattr(running_agent, "take_full", noted)
        await moves.initiated(source)
        assert order == ["backups", "final"]

    moving(story)


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        (Origin(1, "shoot--other--garden/9a", True), "epoch 1 of shoot--other--garden/9a, not to epoch 1 of"),
        (Origin(2, CLUSTER, True), f"epoch 2 of {CLUSTER}, not to epoch 1 of"),
    ],
    ids=["of another cluster", "of a later epoch"],
)
def test_data_of_others_are_not_touched(origin: Origin, message: str) -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(30)
        source.guard.kill_etcd()
        vars(source.data)["_origin"] = origin
        run = source.run
        assert run is not None
        await asyncio.sleep(60)
        assert not run.ready
        assert message in run.trouble
        assert await source.data.origin() == origin, "nothing was restored in their place"

    moving(story)


def test_epoch_does_not_start_from_less_than_its_list() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(60)
        await moves.initiated(source)
        destination = moves.seat()
        copy = moves.copy(destination)
        await moves.until(lambda: copy.ready)
        for stored in (await read_inventory(destination.bucket)).snapshots:
            await destination.bucket.delete(stored.key)
        run = destination.start_agent()
        await asyncio.sleep(60)
        assert not run.ready
        assert "was copied for epoch 2 but is not in its store: bring it back with" in run.trouble
        assert not destination.data_is_there()

    moving(story)


@pytest.mark.soak
def test_first_restore_of_an_epoch_uses_its_list_only() -> None:
    async def story(moves: Moves) -> None:
        source = await moves.founded()
        await asyncio.sleep(60)
        source.cut()
        await asyncio.sleep(30)
        destination = moves.seat()
        copy = moves.copy(destination)
        await moves.until(lambda: copy.ready)
        newest = (await read_inventory(destination.bucket)).snapshots[-1]
        late = newest.key.replace(f"{newest.snapshot.last:08d}", f"{newest.snapshot.last + 40:08d}", 1)
        assert parse_key(late) is not None
        await destination.bucket.put(late, b"what a source stored too late")
        run = destination.start_agent()
        await moves.until(lambda: run.ready, seconds=60)

    moving(story)


# --- Any moment -----------------------------------------------------------------------------------------------------


@pytest.mark.demand(G44="at any moment")
@pytest.mark.parametrize("seed", sampled(range(200), *range(0, 200, 50)))
def test_failures_in_a_move_never_let_two_serve(seed: int) -> None:
    async def story(moves: Moves) -> None:
        chance = random.Random(seed)
        source = await moves.founded()
        await asyncio.sleep(chance.uniform(25, 60))
        destination = moves.seat()
        copying = {"run": moves.copy(destination)}
        quiet = moves.clock.monotonic() + chance.uniform(20, 120)
        while not copying["run"].ready:
            await asyncio.sleep(chance.expovariate(0.3))
            if moves.clock.monotonic() > quiet:
                continue
            match chance.choice(("agent", "etcd", "guard", "copy", "cut", "freeze", "nothing")):
                case "agent":
                    await source.kill_agent()
                    await asyncio.sleep(chance.uniform(0, 10))
                    source.start_agent()
                case "etcd":
                    source.guard.kill_etcd()
                case "guard":
                    source.guard.kill()
                case "copy":
                    await moves.end_copies()
                    copying["run"] = moves.copy(destination)
                case "cut":
                    source.cut()
                    await asyncio.sleep(chance.uniform(0, 40))
                    source.heal()
                case "freeze":
                    source.guard.freeze()
                    await asyncio.sleep(chance.uniform(0, 60))
                    source.guard.thaw()
        run = destination.start_agent()
        await moves.until(lambda: run.ready)
        destination.witness()
        await asyncio.sleep(60)
        text = destination.bucket.objects["ownership/00000002-first-start.json"].data
        marker = read_first_start(text, 2, CLUSTER)
        if getattr(marker, "lossless", False):
            assert await moves.missing(destination) == []
        inventory = (await read_inventory(destination.bucket)).snapshots
        assert inventory[0].snapshot.kind in (Kind.FULL, Kind.DELTA)

    moving(story, seed=seed)


async def revision(seat: Seat) -> int:
    """etcd's, behind the proxy."""
    async with Client(seat.guard.inside(), rng=random.Random(1)) as client:
        while True:
            with suppress(EtcdError):
                return await newest_revision(client)
            await asyncio.sleep(0.1)


def status(seat: Seat) -> Status | None:
    """As `copyop/status` tells it."""
    assert seat.run is not None
    operation = seat.run.status().copy_operation
    return operation.status if operation is not None else None
