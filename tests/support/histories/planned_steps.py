"""A cluster whose manifest is changed step by step; each step is planned, made, and compared with the plan."""

from __future__ import annotations

from typing import Any

from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.providers.kinds import CATALOG
from tests.support.environments.managed_clusters import AccountedClusters
from tests.support.environments.upgraders import Upgraders


class PlannedSteps:
    """The manifest of a cluster; the Cluster comes first in it."""

    def __init__(self, env: AccountedClusters, key: Key, trees: list[Tree], *, machines: int = 1) -> None:
        self.env = env
        self.key = key
        self.trees = trees
        self.spec["controlPlaneConfiguration"]["count"] = machines

    @property
    def spec(self) -> dict[str, Any]:
        """Of the Cluster."""
        result: dict[str, Any] = self.trees[0]["spec"]
        return result

    async def apply(self) -> None:
        """Apply all."""
        for tree in self.trees:
            resource = CATALOG.resource_of(tree["apiVersion"], tree["kind"])
            await self.env.client.apply(resource, tree, field_manager="kubectl")

    async def make(self) -> None:
        """Apply all, and wait until it is so."""
        await self.apply()
        await self.env.until_it_rests()  # of a linked object, the Cluster's generation tells nothing
        await self.env.until_ready(self.key)
        await self.env.until_machines_rest(self.key.name)

    async def step(self, *replaced: str) -> None:
        """Plan, then make: machines of these groups are replaced, as planned, and no others."""
        preview = await self.env.preview(self.key, self.trees)
        assert preview.refusals == (), preview.refusals
        assert preview.stops == "", preview.stops
        planned = {group.name for group in preview.groups if group.replaced}
        before = await self.env.machine_names(self.key.name)
        await self.make()
        after = await self.env.machine_names(self.key.name)
        results = {name for name, machines in before.items() if name in after and not machines & after[name]}
        assert results == planned == set(replaced)
        stay = before.keys() & after.keys() - results
        assert all(before[name] <= after[name] or after[name] <= before[name] for name in stay)

    async def in_place(self) -> None:
        """From now on, machines are upgraded in place."""
        Upgraders(self.env.workloads)
        in_place = {"upgradeRolloutStrategy": {"type": "InPlace"}}
        self.spec["controlPlaneConfiguration"] |= in_place
        for group in self.spec["workerNodeGroupConfigurations"]:
            group.update(in_place)
        await self.step()
