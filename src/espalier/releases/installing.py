"""Installs releases in a management cluster. Existing objects are never overwritten: releases are immutable."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

from espalier.api.kinds import KubeObject
from espalier.api.resource import Key, Resource
from espalier.kube.client import Client
from espalier.kube.errors import AlreadyExists
from espalier.kube.objects import Object


async def install(client: Client, objects: Sequence[KubeObject]) -> list[Object]:
    """Create the missing objects, in this order, and return them as stored."""
    created = []
    for object_ in objects:
        with suppress(AlreadyExists):
            created.append(await client.create(object_.resource, object_))
    return created


class Uninstalled:
    """Objects that a manager could not install, each with the reason."""

    def __init__(self) -> None:
        self._failures: dict[tuple[Resource, Key], tuple[KubeObject, str]] = {}
        self.when_changed: Callable[[], None] = lambda: None
        """Called when the set changes."""

    def __len__(self) -> int:
        return len(self._failures)

    @property
    def objects(self) -> list[KubeObject]:
        """All objects and reasons."""
        return [object_ for object_, _ in self._failures.values()]

    def refused(self, object_: KubeObject, reason: str) -> bool:
        """Record a failed installation. Returns True if that is new."""
        known = self._failures.get(_name(object_))
        if known is not None and known[1] == reason:
            return False
        self._failures[_name(object_)] = (object_, reason)
        self.when_changed()
        return True

    def installed(self, object_: KubeObject) -> None:
        """Record a successful installation."""
        if self._failures.pop(_name(object_), None) is not None:
            self.when_changed()

    def why(self, resource: Resource, key: Key) -> str:
        """A message with object and reason; empty unless its installation failed."""
        failure = self._failures.get((resource, key))
        return f"{resource.group_resource} {key} could not be installed: {failure[1]}" if failure else ""

    def __str__(self) -> str:
        return "; ".join(self.why(*name) for name in self._failures)


def _name(object_: KubeObject) -> tuple[Resource, Key]:
    return object_.resource, Key(object_.metadata.namespace, object_.metadata.name)
