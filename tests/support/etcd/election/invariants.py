"""Invariants of the explored system, I1 to I5 and I8 by their numbers in the reference; I6, I7 are those of leases."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from espalier.api.etcd.ownership import Status
from tests.support.etcd.election.machines import ENDING
from tests.support.etcd.election.system import System
from tests.support.etcd.election.world import Site, World


def invariants(system: System) -> Mapping[str, Callable[[World], bool]]:
    """The invariants of every state of a system, by a sentence."""

    def one_owner(world: World) -> bool:
        return sum(site.cache > 0 for site in world.sites) <= 1

    def closed_when_ready(world: World) -> bool:
        for at, store in enumerate(world.stores):
            operation = system.operation(store.operation)
            ready = operation is not None and operation.status is not Status.INITIAL
            if ready and operation is not None and operation.epoch == at + 1 and world.sites[at].cache:
                return False
        return True

    def nothing_lost(world: World) -> bool:
        if world.disturbed:
            return True
        return all(site.restored == world.sites[source].acked for site, source in _started(world))

    def lossless_is_true(world: World) -> bool:
        for at, site in enumerate(world.sites):
            marker = system.marker(world.stores[at].marker)
            claimed = at and site.begun and marker is not None and marker.lossless
            if claimed and site.restored != world.sites[world.moves[at].predecessor - 1].acked:
                return False
        return True

    def stored_is_kept(world: World) -> bool:
        return all(site.restored >= world.stores[source].uploaded for site, source in _started(world))

    def starts_from_its_copy(world: World) -> bool:
        for at, site in enumerate(world.sites):
            marker = system.marker(world.stores[at].marker)
            if at and site.begun and (marker is None or marker.snapshots != (f"revision {site.restored}",)):
                return False
        return True

    def ends_by_a_move(world: World) -> bool:
        site = world.sites[world.garden - 1]
        return not site.agent or system.parties.agent(site.agent).phase not in ENDING

    named = {
        "I1 at no time do two epochs answer clients, from etcd or from a cache": one_owner,
        "I3 once a CopyOperation is Ready, its epoch answers nothing": closed_when_ready,
        "I4 where nothing fails, every acknowledged write is at the destination": nothing_lost,
        "I4 a copy is called lossless only if it has every acknowledged write": lossless_is_true,
        "I5 all that was stored while the source served is at the destination": stored_is_kept,
        "I8 an epoch starts only from what its marker names": starts_from_its_copy,
        "I9 nothing is deleted of a list that is being copied": lambda world: not world.broken_copy,
        "I10 an epoch ends only when the garden has counted past it": ends_by_a_move,
    }
    if system.scenario.conditional:
        named["I2 a CopyOperation's status never goes back"] = lambda world: not world.went_back
    return named


def _started(world: World) -> Iterator[tuple[Site, int]]:
    """Epochs that took over, each with the index of the one from which."""
    for at, site in enumerate(world.sites):
        if at and site.begun:
            yield site, world.moves[at].predecessor - 1
