"""The machines in their world: what they know is what its stores hold, what they do changes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from msgspec.structs import replace

from espalier.api.etcd.ownership import CopyOperation, FirstStart, Status, Writer
from espalier.etcdbackup.election import actions, agent, events
from tests.support.etcd.election.closures import Closure
from tests.support.etcd.election.parties import Parties
from tests.support.etcd.election.scenario import Scenario
from tests.support.etcd.election.world import (
    Copying,
    Interned,
    Move,
    Put,
    Read,
    Site,
    Snapshot,
    Store,
    World,
    in_order,
    with_move,
    with_site,
    with_store,
)

TICK = "a tick passes"
TIMER = " sees that a time has come"
ENDING = (agent.Phase.HANDING_OVER, agent.Phase.HANDED_OVER)

Next = Iterator[tuple[str, World]]
"""Sentences, and the worlds after them."""


class Machines:
    """Agents and copies of a scenario. Epoch numbers begin at 1; `at` is an index."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.values = Interned()
        self.parties = Parties(scenario, self.values)
        self._without = {closure for closure in Closure if not scenario.holds(closure)}

    def first(self) -> World:
        """One owner, which is about to start. Nothing has moved yet, or a first move has just ended."""
        marker = self.values.number(self.parties.marker(1, None, 0, False))
        more = self.scenario.epochs - 1
        world = World(
            garden=1,
            sites=(Site(begun=True), *(Site(),) * more),
            stores=(Store(marker=marker), *(Store(),) * more),
            moves=(Move(),) * self.scenario.epochs,
            disturbed=not self.scenario.judges_loss,
        )
        return self._moved(world) if self.scenario.moved_once else world

    def _moved(self, world: World) -> World:
        """Epoch 2 owns what was epoch 1's. Agent and puts of epoch 1 are still about."""
        done = CopyOperation(1, Status.DONE, Writer.DESTINATION, "final 0")
        over = self.values.number(done)
        marker = self.values.number(self.parties.marker(2, 1, 0, True))
        world = world._replace(garden=2, puts=(Put(-2, 1, over, False, 0, False),))
        world = with_store(world, 0, world.stores[0]._replace(operation=over, at_tick=over, before=over, final=0))
        world = with_store(world, 1, world.stores[1]._replace(marker=marker))
        world = with_move(world, 1, Move(predecessor=1))
        return with_site(world, 1, Site(begun=True))

    def is_static(self, at: int) -> bool:
        """True for an epoch without an agent of its own: it serves from its start on."""
        return at >= self.scenario.agents

    def operation(self, number: int) -> CopyOperation | None:
        """The CopyOperation that has this number."""
        return cast("CopyOperation | None", self.values[number])

    def marker(self, number: int) -> FirstStart | None:
        """The marker that has this number."""
        return cast("FirstStart | None", self.values[number])

    def _key(self, at: int) -> int:
        """The store in which an epoch's CopyOperation is."""
        return self._container(at) if Closure.EPOCH_KEYS in self._without else at

    def _prefix(self, at: int) -> int:
        """The store in which an epoch's snapshots are."""
        return self._container(at) if Closure.EPOCH_PREFIX in self._without else at

    def _container(self, at: int) -> int:
        """The store of the first epoch that was in the same seed, or in one with the same container."""
        return at % self.scenario.containers

    def _of_epoch(self, operation: CopyOperation | None, epoch: int) -> CopyOperation | None:
        """An object of an earlier epoch is none, where that is compared."""
        earlier = operation is not None and operation.epoch < epoch
        return None if earlier and self.scenario.compares_epochs else operation

    def _promised(self, marker: FirstStart | None) -> FirstStart | None:
        short = self.scenario.release if Closure.FENCE in self._without else self.scenario.shortfall
        return marker and replace(marker, release_seconds=marker.release_seconds - short)

    def _agent(self, world: World, at: int, event: events.AgentEvent) -> World:
        """The world after an event at an agent, with all that the agent does about it."""
        site = world.sites[at]
        number, wanted = self.parties.step_agent(at + 1, site.agent, event)
        world = with_site(world, at, site._replace(agent=number))
        for action in wanted:
            world = self._agent_acts(world, at, action)
        if self.parties.due(world.sites[at].agent):
            return self._agent(world, at, events.Due())
        return with_site(world, at, self._without_order(world.sites[at]))

    def _without_order(self, site: Site) -> Site:
        """The site without an order to the guard that changes nothing any more, and whose answer nobody needs."""
        state = self.parties.agent(site.agent)
        over = state.phase is agent.Phase.HANDED_OVER and state.shut_since is not None and site.proxy == 0
        if not over or not site.shut:
            return site
        return site._replace(shut=False, agent=self.values.number(replace(state, proxy=agent.ProxyState.SHUT)))

    def _agent_acts(self, world: World, at: int, action: actions.AgentAction) -> World:
        site = world.sites[at]
        match action:
            case actions.Observe():
                return with_site(world, at, site._replace(read=self._read(world, self._key(at))))
            case actions.PutOperation(operation=operation, version=version):
                return self._under_way(
                    world, Put(at + 1, at + 1, self.values.number(operation), False, _of(version), True)
                )
            case actions.StartEtcd():
                return self._agent(with_site(world, at, site._replace(etcd=True)), at, events.EtcdStarted())
            case actions.StopEtcd():
                ended = self._cut(site)._replace(etcd=False)
                return self._agent(with_site(world, at, ended), at, events.EtcdEnded())
            case actions.OpenProxy(until=until):
                ticks = max(int(until), 0)
                if self.scenario.api_servers and not site.connected:
                    return with_site(world, at, site._replace(proxy=ticks))
                cache = max(site.cache, ticks + self.scenario.grace)
                return with_site(world, at, site._replace(proxy=ticks, cache=cache))
            case actions.ShutProxy():
                ordered = with_site(world, at, site._replace(shut=True))
                if Closure.PROXY_ANSWER in self._without:
                    return self._agent(ordered, at, events.ProxyShut())
                return ordered
            case actions.TakeFinalSnapshot():
                final = Snapshot(site.data, 0, site.data == site.acked, False)
                return with_site(world, at, site._replace(final=final))
            case _:
                raise AssertionError(f"no agent that has its marker does {action}")

    def _cut(self, site: Site) -> Site:
        """Nobody is connected any more; API servers that were go on from their caches."""
        idle = 0 if site.connected else site.idle
        return site._replace(connected=False, idle=idle, cache=min(site.cache, self.scenario.grace))

    def _copier(self, world: World, at: int, event: events.CopierEvent) -> World:
        """The world after an event at a copy, with all that the copy does about it."""
        move = world.moves[at]
        number, wanted = self.parties.step_copier(at + 1, move.predecessor, move.copier, event)
        world = with_move(world, at, move._replace(copier=number))
        for action in wanted:
            world = self._copier_acts(world, at, action)
        after = world.moves[at].copier
        if self.parties.copier(after).ready and not self.scenario.writes_done:
            return with_move(world, at, world.moves[at]._replace(read=None, checking=False))
        return self._copier(world, at, events.Due()) if self.parties.due(after) else world

    def _copier_acts(self, world: World, at: int, action: actions.CopierAction) -> World:
        move, me = world.moves[at], -(at + 1)
        source = move.predecessor - 1
        match action:
            case actions.Observe():
                return with_move(world, at, move._replace(read=self._read(world, self._key(source))))
            case actions.ReadOwnMarker():
                return with_move(world, at, move._replace(checking=True))
            case actions.PutOperation(operation=operation, version=version):
                return self._under_way(
                    world, Put(me, source + 1, self.values.number(operation), False, _of(version), True)
                )
            case actions.PutMarker(marker=marker):
                return self._under_way(world, Put(me, at + 1, self.values.number(marker), True, 0, True))
            case actions.Copy():
                store = world.stores[self._prefix(source)]
                listed = Copying(max(store.uploaded, store.final), store.final >= 0)
                return with_move(world, at, move._replace(copying=listed))

    def _under_way(self, world: World, put: Put) -> World:
        return world._replace(puts=in_order(*world.puts, put))

    def _read(self, world: World, key: int) -> Read:
        store = world.stores[key]
        return Read(0, store.operation, store.before if self.scenario.staleness else store.operation)


def told(operation: CopyOperation | None, began: int = 0) -> str:
    """The object that a party reads or puts, in words."""
    late = f", in a read that began {-began} ticks before" if began else ""
    if operation is None:
        return f"that there is no CopyOperation{late}"
    final = f" with {operation.final_snapshot}" if operation.final_snapshot else ""
    return (
        f"{operation.status.value} of epoch {operation.epoch} by the {operation.written_by.value.lower()}{final}{late}"
    )


def _of(version: str) -> int:
    return int(version or 0)
