"""The controllers of ControlPlaneUpgrades and MachineDeploymentUpgrades, whoever created those."""

from __future__ import annotations

import random

from espalier.api.eksa.upgrades import NodeUpgrade
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime.caches.mapping import owners_of
from espalier.runtime.controllers.controller import RESYNC, Controller
from espalier.runtime.controllers.outcome import Done, Outcome
from espalier.upgrades import names
from espalier.upgrades.group import sequence
from espalier.upgrades.group.group import Group, Upgrade
from espalier.upgrades.group.observe import GroupContext, observe
from espalier.upgrades.group.steps import DELETION, STEPS
from espalier.upgrades.reconciling import Kind, UpgradeReport, UpgradeTools, conditions_of, reconciler_of

UNDER_WAY = frozenset({Reason.CACHE_NOT_SYNCED, Reason.UPGRADING_NODES, Reason.DELETING})
"""Reasons of an upgrade in progress."""


def controller(
    tools: UpgradeTools, group: Group, *, workers: int = 10, resync: float = RESYNC, rng: random.Random | None = None
) -> Controller:
    """The controller of one of the kinds, with its watches."""

    def context_of(upgrade: Object) -> GroupContext:
        return GroupContext(tools, group, observe(tools.observer, group, upgrade))

    reconciler = reconciler_of(tools, Kind(group.resource, context_of, STEPS, DELETION, _report, group.finalizer))
    name = group.resource.kind.lower()
    controller_ = Controller(name, reconciler.reconcile, workers=workers, resync=resync, rng=rng)
    tools.observer.watch(controller_, group.resource)
    controller_.watch(tools.observer.own[NodeUpgrade.resource], owners_of(group.resource))
    upgrades = tools.observer.own[group.resource]

    def blocked_upgrades(changed: Object) -> list[Key]:
        """The upgrades that need a NodeUpgrade of this name."""
        return [
            upgrade.key for upgrade in upgrades.list() if changed.name in _needed(upgrade.decode(group.upgrade_type))
        ]

    controller_.watch(tools.observer.own[NodeUpgrade.resource], blocked_upgrades, predicate=_appears_or_goes)
    return controller_


def _needed(upgrade: Upgrade) -> set[str]:
    return {names.node_upgrade(machine.name) for machine in upgrade.spec.machines_require_upgrade}


def _appears_or_goes(old: Object | None, new: Object | None) -> bool:
    return old is None or new is None


def _report(ctx: GroupContext, outcome: Outcome) -> UpgradeReport:
    """The counts of machines and the conditions."""
    old = ctx.scope.upgrade.status
    counts = sequence.counts(ctx.scope.members)
    is_ready = isinstance(outcome, Done) or ctx.is_done
    generation = ctx.object.metadata.generation
    return UpgradeReport(
        before=old.conditions,
        now=conditions_of(outcome, f"all {counts.upgraded} nodes have Kubernetes {ctx.scope.version}", UNDER_WAY),
        status=lambda conditions: ctx.group.status(counts, is_ready, conditions, generation),
        progress=[time for member in ctx.scope.members for time in member.progress],
    )
