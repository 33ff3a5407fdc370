"""The writes that planners ask for, as values."""

from __future__ import annotations

from dataclasses import dataclass

from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource


@dataclass(frozen=True, slots=True)
class Create:
    """Create an object; no error when it exists already."""

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
    """Delete an object; no error when it is gone already. `uid` protects a namesake."""

    resource: Resource
    key: Key
    uid: str


Write = Create | Change | Delete
