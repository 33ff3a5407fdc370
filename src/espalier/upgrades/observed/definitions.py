"""The definitions of upgrades that are installed. Those of an earlier release lack fields that this manager knows.

An API server leaves such fields out of what it stores and of what it answers, so an object may ask for less than it
says: a renewal of certificates without its field is an upgrade.
"""

from __future__ import annotations

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.definitions.structural import lacking_fields
from espalier.api.eksa import UPGRADE_KINDS
from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.controllers.controller import Controller


class Definitions:
    """Caches of the definitions, and the fields that they lack."""

    def __init__(self, caches: Caches) -> None:
        self._kinds = {kind.resource.group_resource: kind for kind in UPGRADE_KINDS}
        self._caches: dict[str, Cache] = {
            name: caches.of(CUSTOM_RESOURCE_DEFINITION, fields=f"metadata.name={name}") for name in self._kinds
        }
        self._known: dict[str, tuple[str, list[str]]] = {}

    def watched_by(self, controller: Controller, upgrades: Cache) -> None:
        """Enqueue all these upgrades when a definition changes."""
        for cache in self._caches.values():
            controller.watch(cache, lambda _: [upgrade.key for upgrade in upgrades.list()])

    def lacking(self) -> dict[str, list[str]]:
        """The fields of specs that definitions lack, by their names; those of all kinds, for they are made of another.

        Nothing is said of a definition that does not exist: nor does an object of it.
        """
        lacking = {}
        for name, cache in self._caches.items():
            definition = cache.get(Key("", name))
            if definition is not None and (fields := self._fields(name, definition)):
                lacking[name] = fields
        return lacking

    def _fields(self, name: str, definition: Object) -> list[str]:
        version, fields = self._known.get(name, ("", []))
        if version != definition.resource_version:
            fields = lacking_fields(self._kinds[name], definition.tree)
            self._known[name] = definition.resource_version, fields
        return fields
