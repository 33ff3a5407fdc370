"""Leases of clusters: who may act for a shoot beside etcd. A gardenlet renews, extensions act, the destination waits.

The proposal's section "Cluster Leases". Times are ticks from now. The lease is a time of day, written by the clock of
the gardenlet and read by that of an extension, which may be behind by the skew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from tests.support.etcd.election.explorer import Exploration, explore

APART = "I6, I7 extensions of the destination act only after those of the source have ended"


@dataclass(frozen=True)
class Leases:
    """Bounds, and the rules that the proposal does not have."""

    validity: int = 3
    reconcile: int = 2
    """How long a reconcile lasts at most."""
    skew: int = 1
    wait: int = 6
    """How long the destination waits, from when the shoot had moved."""
    watched: bool = True
    """A reconcile ends after its longest time; without, it may go on for ever, as a loop of retries does."""
    checked: bool = True
    """An extension reads the lease before it begins."""
    from_start: bool = True
    """A renewal counts from the start of the gardenlet's read of the Shoot, not from when it writes the lease."""


class Seeds(NamedTuple):
    """A state: both seeds of a move."""

    moved: bool = False
    """The garden has given the shoot to the destination."""
    read: int | None = None
    """The lease of the next renewal, where the gardenlet has read the Shoot as its own and not yet written it."""
    lease: int = 0
    """Ticks until the lease ends by the gardenlet's clock. An extension may see as much more as clocks differ."""
    acting: int = -1
    """Ticks for which a reconcile of the source may still go on; -1 without one."""
    waits: int = -1
    """Ticks for which the destination still waits; 0 when its extensions act, -1 before it waits."""


def successors(leases: Leases, seeds: Seeds) -> Iterator[tuple[str, Seeds]]:
    """All that may happen next."""
    if not seeds.moved:
        yield "the garden gives the shoot to the destination", seeds._replace(moved=True)
        if seeds.read is None:
            yield "the gardenlet reads that the shoot is its own", seeds._replace(read=leases.validity)
    elif seeds.waits < 0:
        yield "the destination begins to wait", seeds._replace(waits=leases.wait)
    if seeds.read is not None:
        renewed = seeds._replace(read=None, lease=max(seeds.lease, seeds.read))
        yield "the gardenlet renews the lease", renewed
        yield "the gardenlet can't write the lease", seeds._replace(read=None)
    if seeds.acting >= 0:
        yield "the extension of the source ends its reconcile", seeds._replace(acting=-1)
    elif seeds.lease > -leases.skew or not leases.checked:
        yield "an extension of the source begins a reconcile", seeds._replace(acting=leases.reconcile)
    if seeds.acting != 0 or not leases.watched:
        yield "a tick passes", _later(leases, seeds)


def _later(leases: Leases, seeds: Seeds) -> Seeds:
    ages = leases.from_start and seeds.read is not None
    return Seeds(
        moved=seeds.moved,
        read=max(seeds.read - 1, -leases.skew) if ages and seeds.read is not None else seeds.read,
        lease=max(seeds.lease - 1, -leases.skew),
        acting=max(seeds.acting - 1, 0) if seeds.acting >= 0 else -1,
        waits=max(seeds.waits - 1, 0) if seeds.waits >= 0 else -1,
    )


def explored(leases: Leases) -> Exploration[Seeds]:
    """Explore, up to the first time that both seeds act."""
    judged = {APART: lambda seeds: not (seeds.waits == 0 and seeds.acting >= 0)}
    return explore(
        Seeds(),
        lambda seeds: successors(leases, seeds),
        judged,
        most=100_000,
        goal=lambda seeds: seeds.waits == 0,
    )
