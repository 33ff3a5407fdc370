"""The real machines, stepped at time 0: each state and event once, by the numbers that their values have."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import cast

from msgspec.structs import replace

from espalier.api.etcd.ownership import FirstStart
from espalier.etcdbackup.election import agent, copier
from espalier.etcdbackup.election.actions import AgentAction, CopierAction
from espalier.etcdbackup.election.agent import Agent
from espalier.etcdbackup.election.copier import Copier
from espalier.etcdbackup.election.events import AgentEvent, CopierEvent
from tests.support.etcd.election.scenario import Scenario
from tests.support.etcd.election.world import Interned

CLUSTER = "shoot"


class Parties:
    """Agents and copies of all epochs of a scenario. States are numbers, times are ticks from now."""

    def __init__(self, scenario: Scenario, values: Interned) -> None:
        self._scenario, self._values = scenario, values
        self._agents = {
            epoch: agent.Settings(epoch, CLUSTER, scenario.agent_timing) for epoch in range(1, scenario.epochs + 1)
        }
        self._timing = scenario.copier_timing
        self._steps: dict[Hashable, tuple[int, tuple[object, ...]]] = {}
        self._later: dict[int, int] = {0: 0}
        self._due: dict[int, bool] = {0: False}

    def marker(self, epoch: int, predecessor: int | None, revision: int, lossless: bool) -> FirstStart:
        """The first-start marker of an epoch that starts from a revision."""
        return FirstStart(epoch, CLUSTER, self._scenario.release, predecessor, (f"revision {revision}",), lossless)

    def agent(self, number: int) -> Agent:
        """The agent that has this number."""
        return cast(Agent, self._values[number])

    def copier(self, number: int) -> Copier:
        """The copy that has this number."""
        return cast(Copier, self._values[number])

    def start_agent(self, epoch: int, running: bool) -> int:
        """A new agent."""
        etcd = agent.Etcd.RUNNING if running else agent.Etcd.ENDED
        return self._values.number(agent.start(self._agents[epoch], etcd, True, 0))

    def start_copier(self) -> int:
        """A new copy."""
        return self._values.number(replace(copier.Copier(0), read_due=self._timing.store_staleness))

    def step_agent(self, epoch: int, number: int, event: AgentEvent) -> tuple[int, tuple[AgentAction, ...]]:
        """The agent after an event, and its actions."""
        key = (epoch, number, event)
        value = self._steps.get(key)
        if value is None:
            after, actions = agent.step(self._agents[epoch], self.agent(number), event, 0)
            value = self._steps[key] = (self._values.number(_plain_agent(after)), actions)
        return cast("tuple[int, tuple[AgentAction, ...]]", value)

    def step_copier(
        self, epoch: int, predecessor: int, number: int, event: CopierEvent
    ) -> tuple[int, tuple[CopierAction, ...]]:
        """The copy after an event, and its actions."""
        key = (-epoch, predecessor, number, event)
        value = self._steps.get(key)
        if value is None:
            settings = copier.Settings(epoch, predecessor, CLUSTER, self._timing)
            after, actions = copier.step(settings, self.copier(number), event, 0)
            value = self._steps[key] = (self._values.number(_plain_copier(after, self._scenario.writes_done)), actions)
        return cast("tuple[int, tuple[CopierAction, ...]]", value)

    def later(self, number: int) -> int:
        """The same agent or copy a tick later."""
        stored = self._later.get(number)
        if stored is None:
            value = self._values[number]
            after = self._aged_agent(value) if isinstance(value, Agent) else self._aged_copier(cast(Copier, value))
            stored = self._later[number] = self._values.number(after)
        return stored

    def due(self, number: int) -> bool:
        """True if an agent or a copy wants to be told that time has passed."""
        stored = self._due.get(number)
        if stored is None:
            value = self._values[number]
            if isinstance(value, Agent):
                at = agent.due(self._agents[1], value)
            else:
                at = copier.due(copier.Settings(2, 1, CLUSTER, self._timing), cast(Copier, value))
            stored = self._due[number] = at is not None and at <= 0
        return stored

    def _aged_agent(self, old: Agent) -> Agent:
        grace = math.ceil(self._agents[1].timing.serving_grace)
        return replace(
            old,
            read_due=_sooner(old.read_due),
            proxy_until=_sooner(old.proxy_until),
            shut_since=None if old.shut_since is None else max(old.shut_since - 1, -grace),
            idle_since=None if old.idle_since is None else max(old.idle_since - 1, -grace),
            api_servers_ended=None if old.api_servers_ended is None else max(old.api_servers_ended - 1, -grace),
            retry_due=_sooner(old.retry_due),
            progress_due=_sooner(old.progress_due),
        )

    def _aged_copier(self, old: Copier) -> Copier:
        patience = math.ceil(self._timing.progress_timeout)
        fence = math.ceil(self._timing.fence(old.release))
        longest = max(fence, math.ceil(self._timing.copy_timeout))
        if longest == fence:
            patience = 0  # then progress changes nothing
        return replace(
            old,
            read_due=_sooner(old.read_due),
            retry_due=_sooner(old.retry_due),
            seen_since=None if old.seen_since is None else max(old.seen_since - 1, -longest),
            progress_since=0 if old.seen_since is None else max(old.progress_since - 1, -patience),
        )


def _sooner(due: float) -> float:
    """A time that has come stays so."""
    return max(due - 1, 0)


def _plain_agent(state: Agent) -> Agent:
    """The state without times that no longer matter to it."""
    if state.phase is agent.Phase.HANDED_OVER and state.shut_since is not None:
        return replace(
            state,
            proxy_until=0,
            shut_since=0,
            idle_since=0,
            api_servers_ended=None,
            retry_due=0,
            progress_due=0,
            stored=0,
            unread=False,
        )
    if state.phase is agent.Phase.HANDING_OVER:
        until = state.proxy_until if state.shut_since is None else 0
        if state.ready is not None:
            return replace(state, proxy_until=until, retry_due=0, progress_due=0, stored=0)
        return replace(state, proxy_until=until)
    return state


def _plain_copier(state: Copier, writes_done: bool) -> Copier:
    if state.phase in (copier.Phase.CHECKING, copier.Phase.WAITING):
        return state if state.seen_since is not None else replace(state, progress_since=0)
    if state.phase is copier.Phase.FINISHED and not writes_done:
        return copier.Copier(0, copier.Phase.FINISHED)
    return replace(state, seen_since=0, progress_since=0, release=0)
