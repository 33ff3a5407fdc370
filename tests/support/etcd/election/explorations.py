"""Explorations of the protocol as built: bounds by what may happen."""

from __future__ import annotations

from dataclasses import dataclass

from tests.support.etcd.election.scenario import Scenario


@dataclass(frozen=True)
class Bounds:
    """A scenario by a name; the large ones are explored by `make soak` alone."""

    name: str
    scenario: Scenario
    large: bool = False


EXPLORED: tuple[Bounds, ...] = (
    Bounds("nothing fails", Scenario(patience=6)),
    Bounds("nothing fails; conditional puts, copyop/initiate", Scenario(patience=6, conditional=True, initiates=True)),
    Bounds("agents, pods and copies crash at any time", Scenario(writes=0, crashes=True)),
    Bounds("every party is slow or frozen at any time", Scenario(writes=0, slow=True)),
    Bounds(
        "requests fail, puts come late or twice, reads go astray",
        Scenario(writes=0, store_fails=True, astray=True, late_puts=1),
    ),
    Bounds(
        "the same with conditional puts",
        Scenario(writes=0, store_fails=True, astray=True, late_puts=1, conditional=True),
    ),
    Bounds(
        "a third epoch, with the agent and late puts of the first still about",
        Scenario(writes=0, epochs=3, agents=2, moved_once=True, validity=1, grace=0),
    ),
    Bounds("API servers lose their connection, end, are started again", Scenario(writes=0, api_servers=True)),
    Bounds(
        "the same, and copyop/initiate says when they have ended",
        Scenario(writes=0, api_servers=True, initiates=True),
        large=True,
    ),
    Bounds(
        "the same with crashes, so with guards that start",
        Scenario(writes=0, api_servers=True, crashes=True),
        large=True,
    ),
    Bounds("a final snapshot of seven ticks, with progress", Scenario(patience=6, snapshot=7, progress=6), large=True),
    Bounds("crashes and lost data directories", Scenario(crashes=True, disks=True), large=True),
    Bounds("slow parties, and writes that must not be lost", Scenario(slow=True), large=True),
    Bounds(
        "slow parties, stale reads, clocks that drift",
        Scenario(writes=0, slow=True, staleness=1, drift=1, validity=1, grace=0),
        large=True,
    ),
    Bounds(
        "slow parties, crashes, stale reads",
        Scenario(writes=0, slow=True, crashes=True, staleness=1, validity=1, grace=0),
        large=True,
    ),
    Bounds(
        "slow parties, crashes, failing requests, late puts",
        Scenario(writes=0, slow=True, crashes=True, store_fails=True, late_puts=1, validity=1, grace=0),
        large=True,
    ),
    Bounds(
        "slow parties, crashes, failing requests, reads astray, copyop/initiate",
        Scenario(writes=0, slow=True, crashes=True, store_fails=True, astray=True, initiates=True),
        large=True,
    ),
    Bounds(
        "a third epoch with crashes",
        Scenario(writes=0, epochs=3, agents=2, moved_once=True, validity=1, grace=0, crashes=True),
        large=True,
    ),
    Bounds(
        "a third epoch with failing requests and late puts",
        Scenario(writes=0, epochs=3, agents=2, moved_once=True, validity=1, grace=0, store_fails=True, late_puts=1),
        large=True,
    ),
    Bounds(
        "three epochs from the beginning, one of which may be passed over",
        Scenario(writes=0, epochs=3, agents=2, passed_over=True, validity=1, grace=0),
        large=True,
    ),
)
