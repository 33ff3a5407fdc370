"""The controller that deletes completed NodeUpgrades that Cluster API no longer asks about."""

from __future__ import annotations

import random

from espalier.api.eksa.upgrades import UPDATE_IN_PROGRESS, NodeUpgrade
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Key
from espalier.runtime.controllers.controller import RESYNC, Controller
from espalier.runtime.controllers.outcome import Done, Outcome, Wait
from espalier.runtime.controllers.reconciler import is_moved_away
from espalier.runtime.controllers.writer import found_by_owner
from espalier.upgrades.hooks.machines import is_ours
from espalier.upgrades.observed.observe import cluster_of
from espalier.upgrades.reconciling import UpgradeTools

NAME = "nodeupgrade-clearing"


def controller(
    tools: UpgradeTools, *, workers: int = 10, resync: float = RESYNC, rng: random.Random | None = None
) -> Controller:
    """The controller, with its watches."""
    controller_ = Controller(NAME, NodeUpgradeCleanup(tools).reconcile, workers=workers, resync=resync, rng=rng)
    tools.observer.watch(controller_, NodeUpgrade.resource)
    return controller_


class NodeUpgradeCleanup:
    """Deletes completed NodeUpgrades that Cluster API no longer asks about."""

    def __init__(self, tools: UpgradeTools) -> None:
        self._tools = tools

    async def reconcile(self, key: Key) -> Outcome:
        """Delete a NodeUpgrade if it is completed and no longer needed."""
        observer = self._tools.observer
        node_upgrade = observer.unless_of_others(observer.upgrade(NodeUpgrade.resource, key.name))
        if node_upgrade is None or not is_ours(node_upgrade) or not node_upgrade.decode(NodeUpgrade).is_completed:
            return Done()
        cluster_view = observer.view(cluster_of(node_upgrade))
        if cluster_view is None:
            return Wait(Reason.CACHE_NOT_SYNCED, f"reading cluster {cluster_of(node_upgrade)}")
        machine = cluster_view.capi_objects.machine(node_upgrade.decode(NodeUpgrade).spec.machine.name)
        if machine is not None and is_moved_away(machine.object):
            return Done()
        if machine is None or UPDATE_IN_PROGRESS not in machine.object.metadata.annotations:
            await self._tools.writer.delete(NodeUpgrade.resource, node_upgrade, found_by_owner)
        return Done()
