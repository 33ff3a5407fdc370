"""kubectl is all that a user needs; and whoever runs the controllers may be killed in the middle of an upgrade."""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager

import pytest

from espalier.api.capi.machine import Machine
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.kube.objects import Object
from tests.support.environments.management import Management
from tests.support.histories import kubectl_story as story


class Machines:
    """Which machines there ever were, by version."""

    def __init__(self, management: Management) -> None:
        self._cache = management.caches.of(Machine.resource, SYSTEM_NAMESPACE)
        self._changed = asyncio.Event()
        self.seen: dict[str, set[str]] = {}
        self._stop = self._cache.subscribe(self._see)

    def _see(self, _old: Object | None, new: Object | None, _first: bool) -> None:
        if new is not None:
            version = new.decode(Machine).spec.version or ""
            self.seen.setdefault(version, set()).add(new.metadata.uid)
        self._changed.set()

    def there(self) -> set[str]:
        return {item.metadata.uid for item in self._cache.list()}

    async def until_there_is_one_of(self, version: str) -> None:
        async with asyncio.timeout(60):
            while not self.seen.get(version):
                self._changed.clear()
                await self._changed.wait()


@pytest.mark.demand(
    "L1",
    "L2",
    "L3",
    "L5",
    "L6",
    "L60",
    L4="`apply`, `edit` and `delete`",
    L36="`kubectl wait`",
    L53="that kubectl works with it",
    L69="by kubectl",
    L70="the three steps of the workload cluster, under one management cluster",
)
@pytest.mark.often("embedded")  # real nodes have the same story
async def test_a_cluster_in_the_hands_of_kubectl(starting: AbstractAsyncContextManager[Management]) -> None:
    async with starting as management:
        before = await story.inventory(management)
        await story.create(management)
        await story.looks_well(management)
        await story.scale(management)

        machines = Machines(management)
        await story.begin_upgrade(management)
        await machines.until_there_is_one_of(story.VERSIONS["1.36"])
        await management.crash()
        assert len(machines.seen[story.VERSIONS["1.36"]]) == 1, "it was killed too late"
        await management.restart()
        await story.upgraded(management)
        assert len(machines.seen[story.VERSIONS["1.36"]]) == 5, "every machine was replaced once"
        assert machines.there() == machines.seen[story.VERSIONS["1.36"]]

        await story.delete(management)
        await story.nothing_is_left(management, before)
