"""The NodeUpgrade controller: an upgrader pod on the node, its steps followed, and nothing left behind."""

from __future__ import annotations

import random

from espalier.api.eksa.upgrades import NodeUpgrade, NodeUpgradeStatus
from espalier.api.meta import Condition
from espalier.api.resource import Key
from espalier.kube.errors import KubeError, NotFound
from espalier.runtime import conditions as condition_list
from espalier.runtime import steps
from espalier.runtime.controller import RESYNC, Controller
from espalier.runtime.outcome import Done, Outcome, fault_of
from espalier.upgrades import names
from espalier.upgrades.node_deletion import DELETION
from espalier.upgrades.node_life import LIFE
from espalier.upgrades.node_pass import Pass
from espalier.upgrades.node_scope import observe
from espalier.upgrades.node_steps import BEGINNING, UNDER_WAY
from espalier.upgrades.observe import cluster_of, keys_of
from espalier.upgrades.passing import Tools, ready

NAME = "nodeupgrade"
RESOURCE = NodeUpgrade.resource
QUIET = UNDER_WAY | BEGINNING
"""Reasons that are no event: conditions tell the steps, and when each was done."""


def controller(
    tools: Tools, *, workers: int = 10, resync: float = RESYNC, entropy: random.Random | None = None
) -> Controller:
    """The controller of NodeUpgrades, with its watches."""
    made = Controller(NAME, Reconciler(tools).reconcile, workers=workers, resync=resync, entropy=entropy)
    tools.observer.watch(made, RESOURCE)
    made.watch(tools.observer.images, keys_of(tools.observer.own[RESOURCE]))
    return made


class Reconciler:
    """Brings one NodeUpgrade a step further at a time, and says where it is."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._clusters: dict[Key, str] = {}

    async def reconcile(self, key: Key) -> Outcome:
        """One pass: whatever can be done now is done, and the status is true afterwards."""
        found = self._tools.observer.upgrade(RESOURCE, key.name)
        if found is None:
            self._tools.observer.leave_if_idle(self._clusters.pop(key, ""))
            return Done()
        self._clusters[key] = cluster_of(found)
        p = Pass(self._tools, observe(self._tools.observer, found))
        if p.scope.upgrade.status.completed and not p.scope.is_deleted:
            return Done()
        try:
            outcome = await steps.run(DELETION if p.scope.is_deleted else LIFE, p)
        except KubeError as error:
            outcome = fault_of(error)
        if not (p.scope.is_deleted and isinstance(outcome, Done)):
            await self._report(p, outcome)
        return outcome

    async def _report(self, p: Pass, outcome: Outcome) -> None:
        """Write the status where it differs, and tell of a step that failed. What was completed stays so."""
        old = p.scope.upgrade.status
        message = f"node {p.scope.node_name} has Kubernetes {p.scope.upgrade.spec.kubernetes_version}"
        found = _merged(old.conditions, [*p.scope.conditions, ready(outcome, message)], p)
        completed = isinstance(outcome, Done) or old.completed
        status = NodeUpgradeStatus(found, completed, p.scope.object.metadata.generation)
        try:
            written = await p.tools.writer.report(RESOURCE, p.scope.object, status)
        except NotFound:
            return
        before = condition_list.get(old.conditions, names.READY)
        now = condition_list.get(found, names.READY)
        is_news = now is not None and now.reason not in QUIET and (before is None or before.reason != now.reason)
        if written and now is not None and is_news:
            type_ = "Warning" if now.reason.endswith("Failed") else "Normal"
            p.tools.recorder.event(p.scope.object, type_, now.reason, now.message)  # type: ignore[arg-type]


def _merged(before: list[Condition], now: list[Condition], p: Pass) -> list[Condition]:
    found = list(before)
    for condition in now:
        condition.observed_generation = p.scope.object.metadata.generation
        found = condition_list.set(found, condition, p.tools.clock.now())
    return found
