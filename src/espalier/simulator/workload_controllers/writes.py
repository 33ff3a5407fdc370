"""The writes that planners ask for, as values."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource


@dataclass(frozen=True, slots=True)
class Create:
    """Make an object; it is fine when it is there already."""

    resource: Resource
    body: Tree


@dataclass(frozen=True, slots=True)
class Change:
    """Merge `patch` into an object, or into its status."""

    resource: Resource
    key: Key
    patch: Tree
    subresource: str | None = None


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove an object; it is fine when it is gone already. `uid` guards against removing a namesake."""

    resource: Resource
    key: Key
    uid: str


Write = Create | Change | Delete
