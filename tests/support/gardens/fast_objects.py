"""The objects of a seed, as the fakes that act in it read and write them."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable

from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Conflict, NotFound
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Caches
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Outcome, Wait


class Objects:
    """Caches of a seed, and writes to it that are meant for the very object that was read."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.caches = Caches(client, rng=random.Random(1))
        self.are_there = True
        """False once the seed has no power."""

    def get(self, resource: Resource, key: Key) -> Object | None:
        return self.caches.of(resource).get(key) if self.are_there else None

    def list(self, resource: Resource) -> list[Object]:
        return list(self.caches.of(resource).list()) if self.are_there else []

    def controller(self, resource: Resource, reconcile: Callable[[Key], Awaitable[Outcome]]) -> Controller:
        """A controller that tries again when the object was changed meanwhile."""

        async def attempt(key: Key) -> Outcome:
            try:
                return await reconcile(key)
            except (Conflict, NotFound):
                return Wait("Changed", "it was changed meanwhile", after=0.5)

        made = Controller(f"fast-{resource.plural}", attempt, rng=random.Random(1))
        made.watch(self.caches.of(resource))
        return made

    async def status(self, resource: Resource, live: Object, status: Tree) -> Object:
        patch = {"metadata": {"uid": live.metadata.uid}, "status": status}
        return await self._merge(resource, live, patch, "status")

    async def metadata(self, resource: Resource, live: Object, metadata: Tree) -> Object:
        return await self._merge(resource, live, {"metadata": {"uid": live.metadata.uid, **metadata}})

    async def _merge(self, resource: Resource, live: Object, patch: Tree, subresource: str | None = None) -> Object:
        return await self.client.patch(
            resource, live.name, live.namespace or None, patch=patch, type=PatchType.MERGE, subresource=subresource
        )
