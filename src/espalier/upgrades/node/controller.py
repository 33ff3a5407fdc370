"""The NodeUpgrade controller: runs an upgrader pod on the node, follows its steps, and cleans up."""

from __future__ import annotations

import random

from espalier.api.eksa.upgrades import NodeUpgrade, NodeUpgradeStatus
from espalier.api.eksa.vocabulary.upgrade_keys import NODE_FINALIZER
from espalier.kube.objects import Object
from espalier.runtime.controllers.controller import RESYNC, Controller
from espalier.runtime.controllers.outcome import Done, Outcome
from espalier.upgrades.node.containers import BEGINNING, TRANSIENT, UNDER_WAY
from espalier.upgrades.node.context import NodeUpgradeContext
from espalier.upgrades.node.deletion import DELETION
from espalier.upgrades.node.observe import observe
from espalier.upgrades.node.steps import CLEANUP, STEPS
from espalier.upgrades.observed.observe import keys_of
from espalier.upgrades.reconciling import Kind, UpgradeReport, UpgradeTools, conditions_of, reconciler_of

NAME = "nodeupgrade"
RESOURCE = NodeUpgrade.resource
QUIET = UNDER_WAY | BEGINNING
"""Reasons of an upgrade in progress, which get no event: conditions report each step and its time."""


def controller(
    tools: UpgradeTools, *, workers: int = 10, resync: float = RESYNC, rng: random.Random | None = None
) -> Controller:
    """The controller of NodeUpgrades, with its watches."""

    def context_of(node_upgrade: Object) -> NodeUpgradeContext:
        return NodeUpgradeContext(tools, observe(tools.observer, node_upgrade))

    kind = Kind(
        RESOURCE,
        context_of,
        STEPS,
        DELETION,
        _report,
        NODE_FINALIZER,
        afterwards=CLEANUP,
        transient=TRANSIENT,
    )
    controller_ = Controller(NAME, reconciler_of(tools, kind).reconcile, workers=workers, resync=resync, rng=rng)
    tools.observer.watch(controller_, RESOURCE)
    controller_.watch(tools.observer.images, keys_of(tools.observer.own[RESOURCE]))
    return controller_


def _report(ctx: NodeUpgradeContext, outcome: Outcome) -> UpgradeReport:
    """A condition for each step. A completed upgrade stays completed, unless somebody else wrote that."""
    old = ctx.scope.upgrade.status
    message = f"node {ctx.scope.node_name} has Kubernetes {ctx.scope.upgrade.spec.kubernetes_version}"
    if ctx.scope.renews_certificates:
        message = f"certificates of node {ctx.scope.node_name} are renewed"
    completed = isinstance(outcome, Done) or ctx.is_done
    was_written = {"completed": completed} if old.completed else {}
    generation = ctx.object.metadata.generation
    return UpgradeReport(
        before=old.conditions,
        now=[*ctx.scope.conditions, *conditions_of(outcome, message, QUIET)],
        status=lambda conditions: (NodeUpgradeStatus(conditions, completed, generation), was_written),
        quiet=QUIET,
    )
