"""`python -m tests.support.etcd.election.page [PART..]` writes the results into docs/etcd-election-exploration.md."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.etcd.election import leases
from tests.support.etcd.election.closures import Closure
from tests.support.etcd.election.explorations import EXPLORED, Bounds
from tests.support.etcd.election.explorer import Exploration, Violation
from tests.support.etcd.election.holes import CLOSURES, OF_THE_PROPOSAL, Hole
from tests.support.etcd.election.machines import TICK, TIMER
from tests.support.etcd.election.packed import explored
from tests.support.etcd.election.scenario import Scenario
from tests.support.etcd.election.world import World

PAGE = Path(__file__).parents[4] / "docs" / "etcd-election-exploration.md"


def row(bounds: Bounds, found: Exploration[World]) -> str:
    """The row of an exploration: its bounds and how many states it has."""
    when = "soak" if bounds.large else "test"
    figures = f"{found.states:,} | {found.transitions:,} | {found.depth}"
    return f"| {bounds.name} | {_bounds(bounds.scenario)} | {figures} | {when} |"


def story(hole: Hole, violation: Violation[World]) -> str:
    """A hole, and the shortest way into it."""
    gap = f" ({hole.gap})" if hole.gap else ""
    where = f"{violation.invariant.split()[0]}, {_bounds(hole.scenario)}"
    head = f"<details><summary>{_capital(hole.name)}{gap}: {where}</summary>"
    steps = "\n".join(f"{at}. {said}" for at, said in enumerate(_steps(violation), 1))
    return f"{head}\n\n{steps}\n\nThis breaks *{violation.invariant}*.\n\n</details>"


def lease_row(name: str, bounds: leases.Leases) -> str:
    """The row of leases with some rule or time changed."""
    found = leases.explored(bounds)
    verdict = "holds" if found.violation is None else "; ".join(said for said, _ in found.violation.trace if said)
    return f"| {name} | {found.states:,} | {verdict} |"


LEASES: dict[str, leases.Leases] = {
    "all rules": leases.Leases(),
    "the destination waits a tick less than validity + longest reconcile + skew": leases.Leases(wait=5),
    "a reconcile may go on for ever": leases.Leases(watched=False),
    "extensions do not read the lease": leases.Leases(checked=False),
    "a renewal counts from when it is written": leases.Leases(from_start=False),
}


def _steps(violation: Violation[World]) -> Iterator[str]:
    ticks = 0
    for said, _ in violation.trace:
        if said == TICK:
            ticks += 1
            continue
        if said and not said.endswith(TIMER):
            if ticks:
                yield _ticks(ticks)
                ticks = 0
            yield said
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


def _capital(text: str) -> str:
    return text[0].upper() + text[1:]


def _explored() -> Iterator[str]:
    yield "| what may happen | bounds | states | transitions | depth | in |"
    yield "|---|---|---|---|---|---|"
    for bounds in EXPLORED:
        yield row(bounds, explored(bounds.scenario, most=5_000_000))


def _stories(holes: tuple[Hole, ...]) -> Iterator[str]:
    for hole in holes:
        found = explored(hole.scenario, only=hole.breaks, ends=False)
        assert found.violation is not None, hole.name
        yield story(hole, found.violation)


def _leases() -> Iterator[str]:
    yield "| leases | states | found |"
    yield "|---|---|---|"
    yield from (lease_row(name, bounds) for name, bounds in LEASES.items())


PARTS: dict[str, Callable[[], Iterator[str]]] = {
    "explored": _explored,
    "leases": _leases,
    "proposal": lambda: _stories(OF_THE_PROPOSAL),
    "closures": lambda: _stories(tuple(CLOSURES[closure] for closure in Closure)),
}


def write(*parts: str) -> None:
    """Put these parts between their marks; `explored` takes ten minutes."""
    for name in parts:
        begin, end = f"<!-- begin {name}: generated -->", f"<!-- end {name} -->"
        before, found_begin, rest = PAGE.read_text().partition(begin)
        _, found_end, after = rest.partition(end)
        assert found_begin, name
        assert found_end, name
        PAGE.write_text("\n".join((f"{before}{begin}", *PARTS[name](), f"{end}{after}")))


if __name__ == "__main__":
    write(*(sys.argv[1:] or PARTS))
