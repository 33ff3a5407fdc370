"""The controllers of ControlPlaneUpgrades and MachineDeploymentUpgrades: each acts on its own kind, whoever made it."""

from __future__ import annotations

import random

from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.resource import Key
from espalier.kube.errors import KubeError, NotFound
from espalier.runtime import conditions as condition_list
from espalier.runtime import steps
from espalier.runtime.controller import RESYNC, Controller
from espalier.runtime.mapping import owners_of
from espalier.runtime.outcome import Done, Outcome, fault_of
from espalier.upgrades import names, sequence
from espalier.upgrades.group import Group, GroupPass, observe
from espalier.upgrades.group_life import DELETION, LIFE
from espalier.upgrades.observe import cluster_of
from espalier.upgrades.passing import Tools, ready


def controller(
    tools: Tools, group: Group, *, workers: int = 10, resync: float = RESYNC, entropy: random.Random | None = None
) -> Controller:
    """The controller of one of the kinds, with its watches."""
    name = group.resource.kind.lower()
    made = Controller(name, Reconciler(tools, group).reconcile, workers=workers, resync=resync, entropy=entropy)
    tools.observer.watch(made, group.resource)
    made.watch(tools.observer.own[NodeUpgrade.resource], owners_of(group.resource))
    return made


class Reconciler:
    """Brings one upgrade a step further at a time, and says where it is."""

    def __init__(self, tools: Tools, group: Group) -> None:
        self._tools = tools
        self._group = group
        self._clusters: dict[Key, str] = {}

    async def reconcile(self, key: Key) -> Outcome:
        """One pass: whatever can be done now is done, and the status is true afterwards."""
        found = self._tools.observer.upgrade(self._group.resource, key.name)
        if found is None:
            self._tools.observer.leave_if_idle(self._clusters.pop(key, ""))
            return Done()
        self._clusters[key] = cluster_of(found)
        p = GroupPass(self._tools, self._group, observe(self._tools.observer, self._group, found))
        if p.scope.upgrade.status.ready and not p.scope.is_deleted:
            return Done()
        try:
            outcome = await steps.run(DELETION if p.scope.is_deleted else LIFE, p)
        except KubeError as error:
            outcome = fault_of(error)
        if not (p.scope.is_deleted and isinstance(outcome, Done)):
            await self._report(p, outcome)
        return outcome

    async def _report(self, p: GroupPass, outcome: Outcome) -> None:
        old = p.scope.upgrade.status
        counts = sequence.counts(p.scope.members)
        condition = ready(outcome, f"all {counts.upgraded} nodes have Kubernetes {p.scope.version}")
        generation = p.scope.object.metadata.generation
        condition.observed_generation = generation
        conditions = condition_list.set(old.conditions, condition, p.tools.clock.now())
        status, always = p.group.status(counts, isinstance(outcome, Done) or old.ready, conditions, generation)
        try:
            written = await p.writer.report(p.group.resource, p.scope.object, status, always=always)
        except NotFound:
            return
        before = condition_list.get(old.conditions, names.READY)
        if written and (before is None or before.reason != condition.reason):
            p.tools.recorder.event(p.scope.object, "Normal", condition.reason, condition.message)
