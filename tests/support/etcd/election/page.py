"""`make election` explores all orders of events anew: tables into docs/etcd-election.md, ways to each hole to stdout.

`python -m tests.support.etcd.election.page PART..` does so for some of the tables.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.etcd.election import leases, sets
from tests.support.etcd.election.closures import Closure
from tests.support.etcd.election.explorations import EXPLORED, Bounds
from tests.support.etcd.election.explorer import Exploration, Violation
from tests.support.etcd.election.holes import CLOSURES, OF_THE_PROPOSAL, Hole
from tests.support.etcd.election.machines import TICK, TIMER
from tests.support.etcd.election.packed import explored
from tests.support.etcd.election.scenario import Scenario
from tests.support.etcd.election.world import World

PAGE = Path(__file__).parents[4] / "docs" / "etcd-election.md"


def row(bounds: Bounds, value: Exploration[World]) -> str:
    """The row of an exploration: what may happen, how many states and transitions it has, and which tests run it."""
    return f"| {bounds.name} | {value.states:,} | {value.transitions:,} | {'soak' if bounds.large else 'test'} |"


def hole_row(hole: Hole, violation: Violation[World]) -> str:
    """The row of a hole: which invariant breaks, after how many steps."""
    return f"| {_title(hole)} | {violation.invariant.split()[0]} | {len(list(_steps(violation)))} |"


def story(hole: Hole, violation: Violation[World]) -> str:
    """A hole, and the shortest way into it."""
    steps = "\n".join(f"{at}. {event}" for at, event in enumerate(_steps(violation), 1))
    head = f"## {_title(hole)}\n\nBounds: {_bounds(hole.scenario)}."
    return f"{head}\n\n{steps}\n\nThis breaks *{violation.invariant}*.\n"


def lease_row(name: str, bounds: leases.Leases) -> str:
    """The row of leases with some rule or time changed."""
    result = leases.explored(bounds)
    return f"| {name} | {result.states:,} | {'yes' if result.violation is None else 'no'} |"


LEASES: dict[str, leases.Leases] = {
    "all rules": leases.Leases(),
    "the destination waits a tick less than validity + longest reconcile + skew": leases.Leases(wait=5),
    "a reconcile may go on for ever": leases.Leases(watched=False),
    "extensions do not read the lease": leases.Leases(checked=False),
    "a renewal counts from when it is written": leases.Leases(from_start=False),
}


def _steps(violation: Violation[World]) -> Iterator[str]:
    ticks = 0
    for event, _ in violation.trace:
        if event == TICK:
            ticks += 1
            continue
        if event and not event.endswith(TIMER):
            if ticks:
                yield _ticks(ticks)
                ticks = 0
            yield event
    if ticks:
        yield _ticks(ticks)


def _ticks(ticks: int) -> str:
    return "*a tick passes*" if ticks == 1 else f"*{ticks} ticks pass*"


def _bounds(scenario: Scenario) -> str:
    default = Scenario()
    told = []
    for field in Scenario.__dataclass_fields__:
        value = getattr(scenario, field)
        if field == "closures" or value == getattr(default, field):
            continue
        told.append(field.replace("_", " ") if value is True else f"{field.replace('_', ' ')} {value:g}")
    return ", ".join(told) or "defaults"


def _title(hole: Hole) -> str:
    return hole.name[0].upper() + hole.name[1:] + (f" ({hole.gap})" if hole.gap else "")


def _explored() -> Iterator[str]:
    yield "| what may happen | states | transitions | in |"
    yield "|---|---|---|---|"
    for bounds in EXPLORED:
        yield row(bounds, explored(bounds.scenario, most=5_000_000))


def _holes(head: str, holes: tuple[Hole, ...]) -> Iterator[str]:
    yield f"| {head} | breaks | after steps |"
    yield "|---|---|---|"
    for hole in holes:
        result = explored(hole.scenario, only=hole.breaks, ends=False)
        assert result.violation is not None, hole.name
        print(story(hole, result.violation))
        yield hole_row(hole, result.violation)


def _sets() -> Iterator[str]:
    yield "| what may happen | states | transitions | in |"
    yield "|---|---|---|---|"
    yield from (sets.row(of, sets.explored(of.bounds, most=sets.MOST)) for of in sets.EXPLORED)
    yield ""
    yield "| rule | breaks | after steps |"
    yield "|---|---|---|"
    yield from (sets.rule_row(rule, sets.without(rule)) for rule in sets.RULES)


def _leases() -> Iterator[str]:
    yield "| rules and times | states | extensions kept apart |"
    yield "|---|---|---|"
    yield from (lease_row(name, bounds) for name, bounds in LEASES.items())


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "explored": _explored,
    "sets": _sets,
    "leases": _leases,
    "proposal": lambda: _holes("hole of the proposal", OF_THE_PROPOSAL),
    "closures": lambda: _holes("rule", tuple(CLOSURES[closure] for closure in Closure)),
}


def write(*parts: str) -> None:
    """Put these tables between their marks; `explored` and `sets` take ten minutes each."""
    for name in parts:
        begin, end = f"<!-- begin {name}: generated -->", f"<!-- end {name} -->"
        before, found_begin, rest = PAGE.read_text().partition(begin)
        _, found_end, after = rest.partition(end)
        assert found_begin, name
        assert found_end, name
        PAGE.write_text("\n".join((f"{before}{begin}", *PARTS[name](), f"{end}{after}")))


if __name__ == "__main__":
    write(*(sys.argv[1:] or PARTS))
