"""A cluster on vSphere, as it is asked for step by step."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from espalier.api.core import SECRET
from espalier.api.resource import Key
from espalier.providers.kinds import CATALOG
from tests.journeys.managed import CALM, NAMESPACE, ManagedEnvironment
from tests.support.upgraders import Upgraders
from tests.support.vsphere import CREDENTIALS, credentials, manifest, of

VINEYARD = Key(NAMESPACE, "vineyard")


async def put_credentials(env: ManagedEnvironment, data: Mapping[str, str] = CREDENTIALS, **annotations: str) -> None:
    """The Secret that an administrator makes."""
    await env.client.apply(SECRET, credentials(data, NAMESPACE, **annotations), field_manager="administrator")


class Vineyard:
    """The manifest of a cluster, as it is changed step by step; each step is planned, made, and compared."""

    def __init__(self, env: ManagedEnvironment, *, machines: int = 1) -> None:
        self.env = env
        self.trees = manifest(NAMESPACE)
        self.spec["controlPlaneConfiguration"]["count"] = machines

    @property
    def spec(self) -> dict[str, Any]:
        """Of the Cluster."""
        found: dict[str, Any] = self.trees[0]["spec"]
        return found

    async def apply(self) -> None:
        """Apply all."""
        for tree in self.trees:
            resource = CATALOG.resource_of(tree["apiVersion"], tree["kind"])
            await self.env.client.apply(resource, tree, field_manager="kubectl")

    async def make(self) -> None:
        """Apply all, and wait until it is so."""
        await self.apply()
        await asyncio.sleep(CALM)  # of a linked object, the Cluster's generation tells nothing
        await self.env.until_ready(VINEYARD)
        await self.env.until_machines_rest("vineyard")

    async def step(self, *replaced: str) -> None:
        """Plan, then make: machines of these groups are replaced, as planned, and no others."""
        preview = await self.env.preview(VINEYARD, self.trees)
        assert preview.refusals == ()
        assert preview.stops == ""
        planned = {one.name for one in preview.groups if one.replaced}
        before = await self.env.machine_names("vineyard")
        await self.make()
        after = await self.env.machine_names("vineyard")
        found = {name for name, machines in before.items() if name in after and not machines & after[name]}
        assert found == planned == set(replaced)
        stay = before.keys() & after.keys() - found
        assert all(before[name] <= after[name] or after[name] <= before[name] for name in stay)


async def upgrade_in_place(vineyard: Vineyard) -> None:
    """Kubernetes, on the machines themselves: the template that new machines would have is no difference."""
    Upgraders(vineyard.env.workloads)
    in_place = {"upgradeRolloutStrategy": {"type": "InPlace"}}
    vineyard.spec["controlPlaneConfiguration"] |= in_place
    for group in vineyard.spec["workerNodeGroupConfigurations"]:
        group.update(in_place)
    await vineyard.step()
    vineyard.spec["kubernetesVersion"] = "1.36"
    for name in ("vineyard-cp", "vineyard"):
        of(vineyard.trees, "VSphereMachineConfig", name)["template"] = "ubuntu-1-36"
    await vineyard.step()
    assert {one.split("-")[0] for one in await vineyard.env.versions(VINEYARD)} == {"v1.36.3"}
