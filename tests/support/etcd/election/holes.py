"""Holes: each closure left out alone, and the proposal without all of them, with the scenario in which it is found."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.support.etcd.election.closures import ALL, Closure
from tests.support.etcd.election.scenario import Scenario

PROPOSAL = frozenset({Closure.PROXY_ANSWER, Closure.MEMORY, Closure.NO_DELETION, Closure.NO_COLLECTION})
"""Closures that the proposal states or can be read to state. All others are ours."""


@dataclass(frozen=True)
class Hole:
    """A system that lacks something, and what it breaks."""

    name: str
    breaks: str
    """How the name of the invariant begins."""
    scenario: Scenario
    gap: str = ""
    """Its number in section 3.4 of the reference on Gardener."""

    @property
    def closed(self) -> Scenario:
        """The same scenario with all closures; each epoch that may be asked to end has an agent to do it."""
        agents = max(self.scenario.agents, self.scenario.epochs - 1)
        return replace(self.scenario, closures=ALL, agents=agents)


def _without(closure: Closure, breaks: str, gap: str = "", **bounds: object) -> Hole:
    scenario = replace(Scenario(writes=0), closures=ALL - {closure}, **bounds)  # type: ignore[arg-type]
    return Hole(closure.value, breaks, scenario, gap)


def _proposal(name: str, breaks: str, gap: str = "", **bounds: object) -> Hole:
    scenario = replace(Scenario(writes=0, grace=0, patience=6), closures=PROPOSAL, **bounds)  # type: ignore[arg-type]
    return Hole(name, breaks, scenario, gap)


CLOSURES: dict[Closure, Hole] = {
    Closure.DEADLINE: _without(Closure.DEADLINE, "I1", "G1", crashes=True),
    Closure.FROM_START: _without(Closure.FROM_START, "I1", slow=True),
    Closure.READ_FIRST: _without(Closure.READ_FIRST, "I1", "G4", crashes=True),
    Closure.START_WAIT: _without(Closure.START_WAIT, "I1", crashes=True, staleness=1),
    Closure.MARKER: _without(Closure.MARKER, "I1", astray=True),
    Closure.UNREADABLE: _without(Closure.UNREADABLE, "I1", astray=True),
    Closure.MEMORY: _without(Closure.MEMORY, "I1", staleness=1),
    Closure.READ_BACK: _without(Closure.READ_BACK, "I1", "G3", store_fails=True),
    Closure.FENCE: _without(Closure.FENCE, "I1", "G2", slow=True),
    Closure.PROXY_ANSWER: _without(Closure.PROXY_ANSWER, "I4", writes=1, slow=True),
    Closure.GRACE: _without(Closure.GRACE, "I1"),
    Closure.IDLE: _without(Closure.IDLE, "I3", api_servers=True),
    Closure.IDLE_GUARD: _without(Closure.IDLE_GUARD, "I3", api_servers=True, crashes=True),
    Closure.ENDED_SINCE: _without(Closure.ENDED_SINCE, "I3", api_servers=True, initiates=True),
    Closure.COMPLETE: _without(Closure.COMPLETE, "I4", writes=1, disks=True),
    Closure.PROGRESS: _without(Closure.PROGRESS, "I4", "G2", writes=1, patience=6, snapshot=7, progress=6, grace=0),
    Closure.EPOCH_KEYS: _without(
        Closure.EPOCH_KEYS,
        "I1",
        "G7",
        epochs=3,
        agents=2,
        moved_once=True,
        containers=1,
        crashes=True,
        validity=1,
        grace=0,
    ),
    Closure.EPOCH_PREFIX: _without(Closure.EPOCH_PREFIX, "I8", "G6", writes=1, slow=True, containers=1),
    Closure.NO_DELETION: _without(Closure.NO_DELETION, "I1", "G7", crashes=True, writes_done=True),
    Closure.INITIATE_EPOCH: _without(Closure.INITIATE_EPOCH, "I10", initiates=True),
    Closure.GARDEN_CAS: _without(Closure.GARDEN_CAS, "I1", epochs=3, passed_over=True, validity=1, grace=0),
    Closure.NO_COLLECTION: _without(Closure.NO_COLLECTION, "I9", "G6", slow=True),
}
"""The consequence of leaving out one closure, though all others hold."""

OF_THE_PROPOSAL: tuple[Hole, ...] = (
    _proposal(
        "the source's agent dies while etcd lives, or starts and serves before it reads", "I1", "G1, G4", crashes=True
    ),
    _proposal("one side is slow or frozen for a while", "I1", "G2", slow=True),
    _proposal("a put is lost and nobody reads it back", "I1", "G3", store_fails=True),
    _proposal(
        "the final snapshot takes longer than the destination's timeout", "I4", "G2", writes=1, snapshot=7, progress=6
    ),
    _proposal("a read goes to an empty container, or an object is not understood", "I1", astray=True),
    _proposal("the source's API server answers from its cache", "I1", grace=1),
    _proposal("the data directory of the source was lost before the final snapshot", "I4", writes=1, disks=True),
    _proposal(
        "the shoot moves back to a seed in which it was before", "I10", "G7", epochs=3, agents=3, compares_epochs=False
    ),
    _proposal("a destination is given up for another one", "I1", epochs=3, passed_over=True, validity=1),
    _proposal("copyop/initiate of an earlier migration comes late", "I10", initiates=True),
)
"""The proposal as it is written, with one kind of misfortune each."""
