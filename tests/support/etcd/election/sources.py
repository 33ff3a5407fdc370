"""Transitions at the owner of an epoch: its agent, the guard of its etcd, and its clients."""

from __future__ import annotations

from msgspec.structs import replace

from espalier.api.etcd.ownership import Status, Unreadable
from espalier.etcdbackup.election import agent, events
from tests.support.etcd.election.closures import Closure
from tests.support.etcd.election.machines import ENDING, TIMER, Next, told
from tests.support.etcd.election.puts import Puts
from tests.support.etcd.election.world import Read, Site, Snapshot, World, disturbed, with_site, with_store

NOT_UNDERSTOOD = Unreadable("its status is not known")


class Sources(Puts):
    """Owners of epochs, which are the sources of migrations."""

    def of_site(self, world: World, at: int) -> Next:
        """Next states by the agent of an epoch, its guard and its clients. Other sites and moves play no part in it."""
        site = world.sites[at]
        if site.begun and not self.is_static(at):
            yield from self._agents(world, at, site)
            yield from self._guards(world, at, site)

    def _agents(self, world: World, at: int, site: Site) -> Next:
        epoch, who = at + 1, f"the agent of epoch {at + 1}"
        if not site.agent:
            yield f"{who} starts", self._start_agent(world, at)
            return
        if self.parties.due(site.agent):
            yield f"{who}{TIMER}", self._agent(world, at, events.Due())
        if site.read is not None:
            yield from self._agent_reads(world, at, site, site.read, who)
        state = self.parties.agent(site.agent)
        if state.putting:
            yield from self._puts(world, epoch, who)
        serves = state.phase is agent.Phase.OWNER and site.etcd and site.proxy > 0
        prefix = self._prefix(at)
        if serves and world.stores[prefix].uploaded < site.data:
            store = world.stores[prefix]._replace(uploaded=site.data)
            yield f"{who} stores a delta snapshot", with_store(world, prefix, store)
        if site.final is not None and not site.final.orphan:
            yield from self._finals(world, at, site, site.final, who)
        is_news = site.ended and state.api_servers_ended is None and state.phase is not agent.Phase.HANDED_OVER
        if self.scenario.initiates and ((not state.initiating and state.operation is None) or is_news):
            if world.garden > epoch:
                message = ", as all API servers have ended" if site.ended else ""
                called = self._agent(world, at, events.InitiateCalled(site.ended))
                yield f"copyop/initiate is called at {who}{message}", called
            elif Closure.INITIATE_EPOCH in self._without:
                late = self._agent(world, at, events.InitiateCalled())
                yield f"a call of copyop/initiate of an earlier migration comes to {who}", late
        if self.scenario.crashes:
            yield from self._crashes(world, at, site, who)

    def _agent_reads(self, world: World, at: int, site: Site, read: Read, who: str) -> Next:
        epoch, key = at + 1, self._key(at)
        begun = with_site(world, at, site._replace(read=None))
        began = 0 if Closure.FROM_START in self._without else read.began
        marker = self.marker(world.stores[at].marker)
        for number in dict.fromkeys((world.stores[key].operation, read.operation, read.before)):
            operation = self._of_epoch(self.operation(number), epoch)
            seen = events.Observed(began, operation, marker, str(number) if number else "")
            before = begun
            if operation is None and Closure.MEMORY in self._without:
                before = self._forgotten(begun, at)
            yield f"{who} reads {told(operation, read.began)}", self._agent(before, at, seen)
            if self.scenario.astray and operation is not None:
                understood = None if Closure.UNREADABLE in self._without else NOT_UNDERSTOOD
                broken = events.Observed(began, understood, marker)
                yield f"{who} reads a CopyOperation it does not understand", disturbed(self._agent(begun, at, broken))
        if self.scenario.astray:
            mark = marker if Closure.MARKER in self._without else None
            empty = events.Observed(began, None, mark)
            yield f"{who} reads in an empty container", disturbed(self._agent(begun, at, empty))
        if self.scenario.store_fails:
            yield f"{who} gets no answer to its read", disturbed(self._agent(begun, at, events.StoreFailed()))

    def _forgotten(self, world: World, at: int) -> World:
        site = world.sites[at]
        state = self.parties.agent(site.agent)
        if state.phase not in ENDING:
            return world
        fresh = replace(state, phase=agent.Phase.UNDECIDED, operation=None, ready=None)
        return with_site(world, at, site._replace(agent=self.values.number(fresh)))

    def _guards(self, world: World, at: int, site: Site) -> Next:
        if site.shut:
            message = self._idle(site)
            shut = self._cut(site)._replace(shut=False, proxy=0)
            after = with_site(world, at, shut)
            if shut.agent and Closure.PROXY_ANSWER not in self._without:
                after = self._agent(after, at, events.ProxyShut(message))
            yield f"the guard of epoch {at + 1} shuts the proxy", after
        if self.scenario.api_servers:
            yield from self._api_servers(world, at, site)
        reached = site.connected or not self.scenario.api_servers
        if reached and site.etcd and site.proxy > 0 and site.acked - site.restored < self.scenario.writes:
            written = site._replace(acked=site.acked + 1, data=site.data + 1)
            yield f"epoch {at + 1} acknowledges a write", with_site(world, at, written)
        if site.final is not None and site.final.orphan:
            yield f"the final snapshot of epoch {at + 1} comes to the store late", self._final_stored(world, at, site)
        stored = world.stores[at]
        if self.scenario.disks and stored.operation and site.data > stored.uploaded and site.final is None:
            lost = with_site(world, at, site._replace(data=stored.uploaded))
            yield f"epoch {at + 1} loses its data directory, which is restored", disturbed(lost)
        if Closure.NO_DELETION in self._without and stored.operation and world.garden > at + 1:
            operation = self.operation(stored.operation)
            if operation is not None and operation.status is Status.DONE:
                gone = stored._replace(operation=0, at_tick=0, before=0)
                yield f"the CopyOperation of epoch {at + 1} is deleted, as it is done", with_store(world, at, gone)
        collects = Closure.NO_COLLECTION in self._without and site.agent and stored.final >= 0
        if collects and not stored.collected:
            broken = any(
                move.predecessor == at + 1 and move.copying is not None and not move.copying.final
                for move in world.moves
            )
            after = with_store(world, at, stored._replace(collected=True))
            if broken:
                after = after._replace(broken_copy=True)
            yield f"the agent of epoch {at + 1} deletes the snapshots before the final one", after

    def _idle(self, site: Site) -> float | None:
        """Since when nobody is connected, as the guard says when it shuts the proxy."""
        if not self.scenario.api_servers:
            return None
        if Closure.ENDED_SINCE in self._without and self.parties.agent(site.agent).api_servers_ended is not None:
            return -self.scenario.long_idle
        if site.connected:
            return -self.scenario.long_idle if Closure.IDLE in self._without else 0
        return -site.idle

    def _api_servers(self, world: World, at: int, site: Site) -> Next:
        who = f"the API server of epoch {at + 1}"
        if site.connected:
            yield f"{who} loses its connection", with_site(world, at, self._cut(site))
        elif not site.ended and site.etcd and site.proxy > 0:
            cache = max(site.cache, site.proxy + self.scenario.grace)
            yield f"{who} connects", with_site(world, at, site._replace(connected=True, idle=0, cache=cache))
        if world.garden > at + 1:
            if site.ended:
                yield f"{who} is started again", with_site(world, at, site._replace(ended=False))
            else:
                gone = self._cut(site)._replace(ended=True, cache=0)
                yield f"{who} ends", with_site(world, at, gone)

    def _finals(self, world: World, at: int, site: Site, final: Snapshot, who: str) -> Next:
        state = self.parties.agent(site.agent)
        if final.age and state.stored < self.scenario.progress and Closure.PROGRESS not in self._without:
            more = events.SnapshotProgressed(min(state.stored + 1, final.age))
            if more.stored > state.stored:
                yield f"{who} has stored more of the final snapshot", self._agent(world, at, more)
        complete = final.complete or Closure.COMPLETE in self._without
        stored = events.SnapshotStored(f"final {final.revision}", complete)
        after = self._final_stored(world, at, site)
        yield f"{who} has stored the final snapshot", self._agent(after, at, stored)
        if self.scenario.store_fails:
            failed = with_site(world, at, site._replace(final=None))
            yield f"{who} can't store the final snapshot", disturbed(self._agent(failed, at, events.SnapshotFailed()))

    def _final_stored(self, world: World, at: int, site: Site) -> World:
        assert site.final is not None
        prefix = self._prefix(at)
        store = world.stores[prefix]._replace(final=max(site.final.revision, world.stores[prefix].final))
        return with_store(with_site(world, at, site._replace(final=None)), prefix, store)

    def _crashes(self, world: World, at: int, site: Site, who: str) -> Next:
        puts = self._orphaned(world, at + 1)
        final = None if site.final is None else site.final._replace(orphan=True)
        dead = site._replace(agent=0, read=None, shut=False, final=final)
        yield f"{who} crashes", disturbed(with_site(world, at, dead)._replace(puts=puts))
        if site.etcd or site.proxy:
            ended = self._cut(dead)._replace(etcd=False, proxy=0, idle=self._idle_at_start)
            yield f"the pod of epoch {at + 1} crashes", disturbed(with_site(world, at, ended)._replace(puts=puts))

    @property
    def _idle_at_start(self) -> int:
        """The count with which a new guard starts: it has seen nobody yet."""
        forgets = self.scenario.api_servers and Closure.IDLE_GUARD in self._without
        return self.scenario.long_idle if forgets else 0

    def _start_agent(self, world: World, at: int) -> World:
        site = world.sites[at]
        started = with_site(world, at, site._replace(agent=self.parties.start_agent(at + 1, site.etcd)))
        if Closure.READ_FIRST in self._without:
            trusted = events.Observed(0, None, self.marker(world.stores[at].marker))
            return self._agent(started, at, trusted)
        return started
