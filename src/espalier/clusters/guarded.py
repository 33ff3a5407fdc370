"""Writes of objects by their names, in a namespace that owners share: never to what is another's.

Every apply and delete goes through `Guarded`. It knows nothing about clusters: `belongs` judges whose an object is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.kube.client import Client
from espalier.kube.errors import Conflict, Invalid, NotFound
from espalier.kube.objects import Object
from espalier.runtime.cache import Cache

Belongs: TypeAlias = Callable[[Resource, Object], str]
"""Whose an object is, for people; empty when it is the writer's own."""

NEVER = "1"
"""A resource version that no stored object has. Applied with it, an object is made if there is none of the name, and
else refused with a Conflict: what a cache does not show yet is not overwritten."""

_UID = "metadata.uid"


class NameTaken(Exception):
    """An object was not written, for one of its name is another's."""

    def __init__(self, resource: Resource, key: Key, holder: str) -> None:
        super().__init__(taken(resource, key, holder))
        self.resource, self.key, self.holder = resource, key, holder


def taken(resource: Resource, key: Key, holder: str) -> str:
    """An object that is another's, for people."""
    return f"{resource.kind}.{resource.group or 'core'} {key} ({holder})"


class Guarded:
    """Applies and deletes. `caches` show the objects of each kind that is written, whoever's they are."""

    def __init__(self, client: Client, caches: Mapping[Resource, Cache], field_manager: str) -> None:
        self._client = client
        self._caches = caches
        self._field_manager = field_manager

    async def apply(self, resource: Resource, body: Tree, belongs: Belongs) -> Object:
        """Own these fields of an object, whoever owned them before; make it if it is not there.

        Raises `NameTaken` when the object is another's, and `Conflict` when it is another one than the cache shows:
        then nothing was written.
        """
        metadata = body["metadata"]
        live = self._judged(resource, Key(metadata.get("namespace", ""), metadata["name"]), belongs)
        expected = {"uid": live.metadata.uid} if live is not None else {"resourceVersion": NEVER}
        written = {**body, "metadata": {**metadata, **expected}}
        try:
            return await self._client.apply(resource, written, field_manager=self._field_manager)
        except Invalid as refusal:
            causes = refusal.status.details.causes if refusal.status.details else ()
            if [cause.field for cause in causes] == [_UID]:  # how API servers say that it is another object
                raise Conflict.of(f"{resource.kind} {metadata['name']} was made anew by somebody else") from refusal
            raise

    async def delete(self, resource: Resource, object_: Object, belongs: Belongs) -> Object | None:
        """Ask for the deletion of exactly this object: None when it is gone, the object while a finalizer holds it.

        Raises `NameTaken` when it is another's by now, and `Conflict` when another one has its name.
        """
        self._judged(resource, object_.key, belongs)
        if holder := belongs(resource, object_):
            raise NameTaken(resource, object_.key, holder)
        try:
            return await self._client.delete(
                resource, object_.name, object_.namespace or None, uid=object_.metadata.uid
            )
        except NotFound:
            return None

    def _judged(self, resource: Resource, key: Key, belongs: Belongs) -> Object | None:
        """The object of a name, which is not another's."""
        live = self._caches[resource].get(key)
        if live is not None and (holder := belongs(resource, live)):
            raise NameTaken(resource, key, holder)
        return live
