"""The work of `espalier etcd-agent`, apart from its flags."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from espalier.api.text.listing import counted, first
from espalier.api.text.spans import span
from espalier.cli.backups import backup_tables as tables
from espalier.cli.kit import flags
from espalier.cli.kit.failures import Damaged, Exit, Failure, NotReachable, Overdue, Usage
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.progress import Progress
from espalier.cli.kit.printing.transfer import Transfer
from espalier.etcdbackup.copying.copier import Copied, Copier, wait_for_final
from espalier.etcdbackup.copying.plan import Choice, plan
from espalier.etcdbackup.snapshots.names import LAYOUT, LEGACY_LAYOUT, parse_key
from espalier.etcdbackup.snapshots.reading import read_inventory
from espalier.etcdbackup.snapshots.sets import Inventory, SnapshotSet
from espalier.etcdbackup.snapshots.verification import Verdict
from espalier.etcdbackup.snapshots.verification import verify as verify_set
from espalier.etcdbackup.stores.errors import Corrupt, StoreError, Unavailable
from espalier.etcdbackup.stores.opening import open_store
from espalier.etcdbackup.stores.retries import Retries
from espalier.etcdbackup.stores.store import Store
from espalier.runtime.clock import SystemClock

_SHOWN = 3
"""The largest number of foreign objects that are named."""
_CLOCKS = 300.0
"""Seconds of clock skew that are ignored."""


@dataclass(frozen=True, slots=True)
class CopyOptions:
    """Source, target and options of a copy."""

    source: str
    target: str
    source_endpoint: str
    endpoint: str
    most: int | None
    """Sets."""
    days: int | None
    parallel: int
    waits: bool
    timeout: str
    """Duration of the wait; 0: for ever."""


class Interrupted(Failure):
    """Interrupted; none of its processes is left."""

    exit = Exit.INTERRUPTED


async def list_(url: str, endpoint: str, output_format: str) -> None:
    """Print the sets of a store."""
    with explained("stopped"):
        store = opened(url, endpoint)
        inventory, now = await read_inventory(store), SystemClock().now()
    if output_format not in ("", "wide"):
        output.write_facts(tables.inventory_facts(store.where, inventory, now), output_format, rows="sets")
        return
    if inventory.sets:
        table = tables.SETS if output_format else tables.SETS.without("Taken", "Full")
        output.write_table(table, [tables.set_row(snapshots, now) for snapshots in inventory.sets])
    else:
        output.say(_no_snapshot(store, inventory), stderr=True)
    _say_the_rest(inventory)


async def show(url: str, name: str | None, endpoint: str, output_format: str) -> None:
    """Print the snapshots of a set."""
    with explained("stopped"):
        store = opened(url, endpoint)
        inventory, now = await read_inventory(store), SystemClock().now()
    chosen = _chosen(store, inventory, name)
    if output_format:
        output.write_facts({"store": store.where, **tables.set_facts(chosen, now)}, output_format)
        return
    output.write_table(tables.SNAPSHOTS, [tables.snapshot_row(stored) for stored in chosen.members])
    for finding in chosen.findings():
        output.say(f"{finding.reason}: {finding.message}", stderr=True)


async def verify(
    url: str, endpoint: str, output_format: str, *, every: bool, max_age: str, revision: int | None
) -> None:
    """Read sets completely, print the results, and fail unless they are intact."""
    seconds = flags.seconds(max_age, "--max-age") if max_age else None
    with explained("stopped; nothing was changed"):
        store = opened(url, endpoint)
        inventory = await read_inventory(store)
        sets = inventory.sets if every else inventory.sets[-1:]
        with Transfer("verifying", sum(snapshots.size for snapshots in sets)) as transfer:
            verdicts = [await verify_set(store, snapshots, transfer.moved) for snapshots in sets]
    now = SystemClock().now()
    problems = [problem for verdict in verdicts for problem in verdict.problems]
    problems += (
        [_no_snapshot(store, inventory)] if not verdicts else _shortcomings(verdicts[-1], now, seconds, revision)
    )
    if output_format:
        facts = [tables.verdict_facts(verdict, now) for verdict in verdicts]
        output.write_facts({"store": store.where, "sets": facts, "problems": problems}, output_format, rows="sets")
    elif verdicts:
        rows = [tables.checked_row(checked) for verdict in verdicts for checked in verdict.checked]
        output.write_table(tables.CHECKED, rows)
        for finding in (finding for snapshots in sets for finding in snapshots.forks):
            output.say(f"{finding.reason}: {finding.message}", stderr=True)
    if problems:
        raise Damaged("\n".join(problems))
    if not output_format:
        output.say(_summary(verdicts[-1], now), stderr=True)


def _shortcomings(verdict: Verdict, now: datetime, seconds: float | None, revision: int | None) -> Iterator[str]:
    """Why the latest set does not meet the requirements."""
    age = now.timestamp() - verdict.snapshots.newest
    if seconds is not None and age > seconds:
        newest = verdict.snapshots.members[-1].name
        yield f"the newest snapshot, {newest}, is {span(age)} old, allowed is {span(seconds)}"
    if seconds is not None and age < -_CLOCKS:
        latest = max(verdict.snapshots.members, key=lambda stored: stored.snapshot.created)
        yield (
            f"{latest.name} was taken {span(-age)} from now, so the age of the newest snapshot is unknown; "
            "compare the clocks, and take a full snapshot"
        )
    if revision is not None and (verdict.reach or 0) < revision:
        yield f"revision {verdict.reach or 0} can be restored, {revision} was asked for"


def _summary(verdict: Verdict, now: datetime) -> str:
    deltas = len(verdict.snapshots.deltas)
    events = sum(checked.events for checked in verdict.checked)
    more = f" and {counted(deltas, 'delta')} with {counted(events, 'event')}" if deltas else ""
    content = f"a full snapshot{more}"
    age = tables.age_of(verdict.snapshots.newest, now)
    return f"revision {verdict.reach} can be restored, from {content}; the newest is {age} old"


async def copy(options: CopyOptions, output_format: str) -> None:
    """Copy snapshots, and print what was copied."""
    timeout = flags.seconds(options.timeout, "--wait-for-final-snapshot-timeout")
    choice = Choice(options.most, timedelta(days=options.days) if options.days is not None else None)
    with explained("stopped; what was copied stays, the same command copies the rest"):
        source = opened(options.source, options.source_endpoint, source=True)
        target = opened(options.target, options.endpoint)
        is_there = True
        if options.waits:
            with Progress() as waiting:
                is_there = await wait_for_final(source, timeout=timeout or None, notice=waiting.wait)
        done = await _copied(source, target, choice, options.parallel)
    if output_format:
        output.write_facts(_copy_facts(source, target, done), output_format)
    if done.reach is None:
        raise Failure(_no_snapshot(source, await read_inventory(source)))
    if not output_format:
        copied = f"copied {counted(len(done.copied), 'snapshot')}, {tables.size_of(done.size)}"
        present = f"{len(done.present)} already there"
        output.say(f"{copied}; {present}; {target.where} can restore revision {done.reach}")
    if not is_there:
        message = f"the source had no final snapshot after {options.timeout}; copied what was there"
        raise Overdue(f"{message}: writes to etcd after revision {done.reach} are not in it")


async def _copied(source: Store, target: Store, choice: Choice, parallel: int) -> Copied:
    clock = SystemClock()
    size = sum(
        planned.source.size for planned in plan(await read_inventory(source), Inventory(), choice, clock.now()).copies
    )
    with Transfer("copying", size) as transfer:
        return await Copier(source, target, clock, parallel=parallel, progress=transfer.moved).run(choice)


def _copy_facts(source: Store, target: Store, done: Copied) -> dict[str, object]:
    return {
        "source": source.where,
        "target": target.where,
        "copied": list(done.copied),
        "present": list(done.present),
        "bytes": done.size,
        "isFinal": done.is_final,
        "restorableRevision": done.reach,
    }


def opened(url: str, endpoint: str, *, source: bool = False, retries: Retries | None = None) -> Store:
    """The store of a URL. Raises `Usage` for an invalid one."""
    try:
        return open_store(url, os.environ, source=source, endpoint=endpoint, retries=retries)
    except ValueError as error:
        raise Usage(str(error)) from None


@contextmanager
def explained(stopped: str) -> Iterator[None]:
    """Map errors of stores to exit codes, and print a message when interrupted."""
    try:
        yield
    except Unavailable as error:
        raise NotReachable(str(error)) from None
    except Corrupt as error:
        raise Damaged(str(error)) from None
    except StoreError as error:
        raise Failure(str(error)) from None
    except asyncio.CancelledError:
        raise Interrupted(stopped) from None


def _chosen(store: Store, inventory: Inventory, name: str | None) -> SnapshotSet:
    if name is None:
        if inventory.latest is None:
            raise Failure(_no_snapshot(store, inventory))
        return inventory.latest
    for snapshots in inventory.sets:
        if any(name in (stored.name, stored.key) for stored in snapshots.members):
            return snapshots
    raise Failure(f"{store.where} has no snapshot {name} in a set; `espalier etcd-agent list {store.where}` lists them")


def _no_snapshot(store: Store, inventory: Inventory) -> str:
    """The message that there is no full snapshot, and where one might be."""
    message = f"no full snapshot found in {store.where}"
    last = store.where.rpartition("/")[2]
    if last in (LAYOUT, LEGACY_LAYOUT):
        return f"{message}; remove {last} from the end of the URL"
    for key in inventory.foreign:
        position = key.find(f"/{LAYOUT}/")
        if position > 0 and parse_key(key[position + 1 :]) is not None:
            return f"{message}; did you mean {store.where}/{key[:position]}?"
    if inventory.stray:
        stray = counted(len(inventory.stray), "delta")
        return f"{message}, and {stray} without one; check whether it was deleted or moved"
    return f"{message}; its key would begin with {LAYOUT}/Full-: check bucket and prefix"


def _say_the_rest(inventory: Inventory) -> None:
    if inventory.sets and inventory.stray:
        output.say(f"{counted(len(inventory.stray), 'delta')} before the first full snapshot", stderr=True)
    if inventory.chunks:
        output.say(f"{counted(len(inventory.chunks), 'chunk')} left over from uploads", stderr=True)
    if inventory.foreign:
        names = first(inventory.foreign, _SHOWN)
        output.say(f"{counted(len(inventory.foreign), 'other object')}: {names}", stderr=True)
