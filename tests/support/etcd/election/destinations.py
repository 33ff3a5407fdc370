"""Transitions at a destination: the garden counts, a copy runs, an epoch starts."""

from __future__ import annotations

from espalier.api.etcd.ownership import FirstStart
from espalier.etcdbackup.election import copier, events
from tests.support.etcd.election.closures import Closure
from tests.support.etcd.election.machines import TIMER, Next, told
from tests.support.etcd.election.puts import Puts
from tests.support.etcd.election.world import Read, Site, World, disturbed, with_move, with_site, with_store


class Destinations(Puts):
    """Copies, and the garden that lets their epochs start."""

    def of_move(self, world: World, at: int) -> Next:
        """Next states by the copy for an epoch, and by the garden. Other sites play a part before it has moved."""
        if not world.sites[at].begun:
            yield from self._moves(world, at)

    def _moves(self, world: World, at: int) -> Next:
        epoch, move = at + 1, world.moves[at]
        if not move.predecessor:
            if world.garden == at and (world.sites[at - 1].begun or self.scenario.passed_over):
                last = max(index for index, site in enumerate(world.sites) if site.begun)
                yield (
                    f"the garden counts to epoch {epoch}",
                    with_move(world._replace(garden=epoch), at, move._replace(predecessor=last + 1)),
                )
            return
        if not move.copier:
            started = with_move(world, at, move._replace(copier=self.parties.start_copier()))
            yield f"the copy for epoch {epoch} starts", started
            return
        yield from self._copies(world, at)
        state = self.parties.copier(move.copier)
        allowed = world.garden == epoch or Closure.GARDEN_CAS in self._without
        if state.ready and allowed:
            yield f"epoch {epoch} starts", self._begin(world, at)
        if self.scenario.crashes:
            puts = self._orphaned(world, -epoch)
            dead = move._replace(copier=0, read=None, checking=False, copying=None)
            yield f"the copy for epoch {epoch} crashes", disturbed(with_move(world, at, dead)._replace(puts=puts))

    def _copies(self, world: World, at: int) -> Next:
        epoch, move = at + 1, world.moves[at]
        who = f"the copy for epoch {epoch}"
        state = self.parties.copier(move.copier)
        if state.ready and not self.scenario.writes_done:
            return
        if self.parties.due(move.copier):
            yield f"{who}{TIMER}", self._copier(world, at, events.Due())
        if move.checking:
            after = with_move(world, at, move._replace(checking=False))
            own = self.marker(world.stores[at].marker)
            message = "finds the marker of its epoch" if own else "finds no marker of its epoch"
            yield f"{who} {message}", self._copier(after, at, events.OwnMarkerRead(own))
            if self.scenario.store_fails:
                failed = self._copier(after, at, events.StoreFailed())
                yield f"{who} gets no answer to its read", disturbed(failed)
        if move.read is not None:
            yield from self._copier_reads(world, at, move.read, who)
        if state.putting:
            yield from self._puts(world, -epoch, who)
        if move.copying is not None:
            after = with_move(world, at, move._replace(copying=None))
            copied = events.Copied((f"revision {move.copying.revision}",))
            yield f"{who} has copied all", self._copier(after, at, copied)
        waits = state.phase is copier.Phase.WAITING and state.seen_since is not None
        if waits and world.drifted < self.scenario.drift:
            ahead = move._replace(copier=self.parties.later(move.copier))
            yield (
                f"the clock of {who} runs a tick ahead",
                with_move(world._replace(drifted=world.drifted + 1), at, ahead),
            )

    def _copier_reads(self, world: World, at: int, read: Read, who: str) -> Next:
        move = world.moves[at]
        source = move.predecessor - 1
        key = self._key(source)
        after = with_move(world, at, move._replace(read=None))
        marker = self._promised(self.marker(world.stores[source].marker))
        for number in dict.fromkeys((world.stores[key].operation, read.operation, read.before)):
            operation = self._of_epoch(self.operation(number), source + 1)
            if operation is None and Closure.READ_BACK in self._without:
                operation = self.parties.copier(move.copier).operation
            seen = events.Observed(0, operation, marker, str(number) if number else "")
            yield f"{who} reads {told(operation, read.began)}", self._copier(after, at, seen)
        if self.scenario.astray:
            mark = marker if Closure.MARKER in self._without else None
            empty = events.Observed(0, None, mark)
            yield f"{who} reads in an empty container", disturbed(self._copier(after, at, empty))
        if self.scenario.store_fails:
            failed = self._copier(after, at, events.StoreFailed())
            yield f"{who} gets no answer to its read", disturbed(failed)

    def _begin(self, world: World, at: int) -> World:
        marker = self.marker(world.stores[at].marker)
        revision = _revision(marker) if marker is not None else 0
        if Closure.EPOCH_PREFIX in self._without:
            pool = world.stores[self._prefix(at)]
            revision = max(revision, pool.uploaded, pool.final)
        store = world.stores[at]._replace(uploaded=revision)
        began = Site(begun=True, restored=revision, acked=revision, data=revision)
        if self.is_static(at):
            began = began._replace(etcd=True, proxy=1, cache=1)
        move = world.moves[at]._replace(copier=0, read=None, checking=False, copying=None)
        puts = self._orphaned(world, -(at + 1))
        return with_move(with_site(with_store(world, at, store), at, began), at, move)._replace(puts=puts)


def _revision(marker: FirstStart) -> int:
    return int(marker.snapshots[0].split()[1])
