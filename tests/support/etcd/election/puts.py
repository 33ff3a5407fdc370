"""Puts of sync objects: they come to the store, are lost, come late, or twice."""

from __future__ import annotations

from espalier.api.etcd.ownership import CopyOperation, Status
from espalier.etcdbackup.election import events
from tests.support.etcd.election.closures import Closure
from tests.support.etcd.election.machines import Machines, Next, told
from tests.support.etcd.election.world import Put, World, disturbed, in_order, with_store

RANK = {Status.INITIAL: 1, Status.READY: 2, Status.DONE: 3}


class Puts(Machines):
    """Transitions of puts that are under way."""

    def _puts(self, world: World, origin: int, who: str) -> Next:
        put = next((put for put in world.puts if put.origin == origin and put.waiting), None)
        if put is None:
            return
        others = tuple(other for other in world.puts if other is not put)
        late = put._replace(waiting=False)
        may_stay = sum(not other.waiting for other in others) < self.scenario.late_puts
        landed = self._landed(world._replace(puts=others), put)
        yield f"{who} puts {self._content(put)}", self._answered(landed, origin)
        if self.scenario.store_fails:
            lost = disturbed(world._replace(puts=others))
            yield f"{who} gets no answer to its put, which is lost", self._unanswered(lost, origin, put)
            if may_stay:
                delayed = disturbed(world._replace(puts=in_order(*others, late)))
                yield f"{who} gets no answer to its put, which is under way", self._unanswered(delayed, origin, put)
        if may_stay:
            twice = disturbed(landed._replace(puts=in_order(*others, late)))
            yield f"{who} puts {self._content(put)}, which is repeated on its way", self._answered(twice, origin)

    def of_puts(self, world: World) -> Next:
        """Next states by puts for which nobody waits. Sites and moves play no part in it."""
        for put in dict.fromkeys(world.puts):
            if not put.waiting:
                rest = list(world.puts)
                rest.remove(put)
                without = world._replace(puts=tuple(rest))
                yield f"a late put comes to the store: {self._content(put)}", self._landed(without, put)
                yield "a late put is lost", without

    def _landed(self, world: World, put: Put) -> World:
        at = put.epoch - 1
        if put.marker:
            store = world.stores[at]
            if self.scenario.conditional and store.marker:
                return world
            return with_store(world, at, store._replace(marker=put.content))
        key = self._key(at)
        store = world.stores[key]
        if self.scenario.conditional and store.operation != put.version:
            return world
        was, now = self.operation(store.operation), self.operation(put.content)
        if was is not None and now is not None and was.epoch == now.epoch and RANK[now.status] < RANK[was.status]:
            world = world._replace(went_back=True)
        return with_store(world, key, store._replace(operation=put.content))

    def _answered(self, world: World, origin: int) -> World:
        if origin > 0:
            return self._agent(world, origin - 1, events.PutEnded())
        return self._copier(world, -origin - 1, events.PutEnded())

    def _unanswered(self, world: World, origin: int, put: Put) -> World:
        world = self._answered(world, origin)
        if Closure.READ_BACK in self._without and origin < 0 and not put.marker:
            source = put.epoch - 1
            marker = self._promised(self.marker(world.stores[source].marker))
            believed = events.Observed(0, self.operation(put.content), marker, str(put.content))
            return self._copier(world, -origin - 1, believed)
        return world

    def _orphaned(self, world: World, origin: int) -> tuple[Put, ...]:
        mine = [put for put in world.puts if put.origin == origin and put.waiting]
        others = [put for put in world.puts if not (put.origin == origin and put.waiting)]
        if sum(not put.waiting for put in others) < self.scenario.late_puts:
            others += [put._replace(waiting=False) for put in mine]
        return in_order(*others)

    def _content(self, put: Put) -> str:
        value = self.values[put.content]
        return told(value) if isinstance(value, CopyOperation) else f"the marker of epoch {put.epoch}"
