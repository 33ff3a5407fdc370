"""All that may happen in a state of the explored system: parties act, stores answer or fail, time passes.

A party need not act when it could: that is how one is slow, frozen with SIGSTOP, or cut off. A request may fail at any
time, so there is no partition that would have to be remembered.
"""

from __future__ import annotations

from tests.support.etcd.election.closures import Closure
from tests.support.etcd.election.destinations import Destinations
from tests.support.etcd.election.machines import ENDING, TICK, Next
from tests.support.etcd.election.sources import Sources
from tests.support.etcd.election.world import Move, Read, Site, Snapshot, Store, World, disturbed


class System(Sources, Destinations):
    """The system of a scenario, with its time."""

    def successors(self, world: World) -> Next:
        """All that may happen next."""
        for at in range(self.scenario.epochs):
            yield from self.of_site(world, at)
            yield from self.of_move(world, at)
        yield from self.of_puts(world)
        yield from self.of_time(world)

    def of_time(self, world: World) -> Next:
        """A tick passes. Who should have acted before is slow: only then is the run disturbed, or it can't be."""
        overdue = bool(world.puts)
        overdue = overdue or any(self.site_overdue(site, at) for at, site in enumerate(world.sites))
        overdue = overdue or any(map(self.move_overdue, world.moves))
        if overdue and not self.scenario.slow:
            return
        after = world._replace(
            sites=tuple(self.later_site(site, at, world.disturbed) for at, site in enumerate(world.sites)),
            stores=tuple(map(self.later_store, world.stores)),
            moves=tuple(self.later_move(move, world.disturbed) for move in world.moves),
        )
        yield TICK, disturbed(after) if overdue else after

    def site_overdue(self, site: Site, at: int) -> bool:
        """True if a site was slower than the times allow, should time pass now."""
        if not site.begun or self.is_static(at):
            return False
        if not site.agent or site.shut or self.parties.due(site.agent) or (site.read and site.read.began < 0):
            return True
        return site.final is not None and (site.final.age >= self.scenario.snapshot or self._silent(site, site.final))

    def move_overdue(self, move: Move) -> bool:
        """The same of a copy."""
        if not move.copier or (self.parties.copier(move.copier).ready and not self.scenario.writes_done):
            return False
        return move.checking or self.parties.due(move.copier) or (move.read is not None and move.read.began < 0)

    def _silent(self, site: Site, final: Snapshot) -> bool:
        told = min(final.age, self.scenario.progress)
        silent = Closure.PROGRESS in self._without or not site.agent
        return not silent and self.parties.agent(site.agent).stored < told

    def later_site(self, site: Site, at: int, disturbed: bool) -> Site:
        """A site after a tick. Of what is too old to matter, how old is forgotten."""
        if not site.begun or self.is_static(at):
            return site
        stays = Closure.DEADLINE in self._without
        longest = self.scenario.progress if disturbed else self.scenario.snapshot
        oldest = -self.scenario.validity
        if disturbed and site.agent and self.parties.agent(site.agent).phase in ENDING:
            oldest = 0
        proxy = site.proxy if stays else max(site.proxy - 1, 0)
        after = site._replace(
            agent=self.parties.later(site.agent),
            proxy=proxy,
            cache=site.cache if stays and site.proxy else max(site.cache - 1, 0),
            connected=site.connected and proxy > 0,
            idle=self._idle_later(site),
            read=_older(site.read, oldest),
            final=site.final and site.final._replace(age=min(site.final.age + 1, longest)),
        )
        return self._without_order(after) if after.agent else after

    def _idle_later(self, site: Site) -> int:
        if not self.scenario.api_servers or site.connected:
            return 0
        return min(site.idle + 1, self.scenario.long_idle)

    def later_move(self, move: Move, disturbed: bool) -> Move:
        """A copy after a tick."""
        if not move.copier:
            return move
        read = _older(move.read, 0 if disturbed else -1)
        return move._replace(copier=self.parties.later(move.copier), read=read)

    def later_store(self, store: Store) -> Store:
        """A store after a tick."""
        return store._replace(before=store.at_tick, at_tick=store.operation) if self.scenario.staleness else store


def _older(read: Read | None, oldest: int) -> Read | None:
    return read and read._replace(began=max(read.began - 1, oldest))
