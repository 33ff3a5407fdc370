"""RBAC rules as data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from espalier.api.meta import Tree
from espalier.api.resource import Resource

FOLLOW = ("list", "watch")
APPLY = ("create", "patch")
"""The verbs of server-side apply, which also creates objects."""


@dataclass(frozen=True, slots=True)
class Right:
    """Verbs on resources of one group, or on a subresource of them; `names` restricts it to objects of these names."""

    resources: tuple[Resource, ...]
    verbs: tuple[str, ...]
    subresource: str = ""
    names: tuple[str, ...] = ()

    @property
    def tree(self) -> Tree:
        """The rule in a Role."""
        suffix = f"/{self.subresource}" if self.subresource else ""
        tree: Tree = {
            "apiGroups": sorted({resource.group for resource in self.resources}),
            "resources": [resource.plural + suffix for resource in self.resources],
            "verbs": list(self.verbs),
        }
        if self.names:
            tree["resourceNames"] = list(self.names)
        return tree


@dataclass(frozen=True)
class Rights:
    """The rights of one component, by the scope in which they are granted."""

    watched: tuple[Right, ...] = ()
    """In each namespace whose objects are watched, or in all."""
    cluster_scoped: tuple[Right, ...] = ()
    """On kinds that have no namespace, and on single objects of a namespace that may not exist yet: no Role can grant
    these."""
    system: tuple[Right, ...] = ()
    """In the system's namespace."""
    by_owners: tuple[Right, ...] = ()
    """In a namespace whose owner grants them."""

    @property
    def everywhere(self) -> tuple[Right, ...]:
        """The rules of a ClusterRole, for a manager that watches all namespaces."""
        return (*self.watched, *self.cluster_scoped)

    @property
    def kinds(self) -> frozenset[Resource]:
        """All kinds that these rules name."""
        rights = (*self.everywhere, *self.system, *self.by_owners)
        return frozenset(kind for right in rights for kind in right.resources)


NO_RIGHTS = Rights()


def trees(rights: Iterable[Right]) -> list[Tree]:
    """Rules of a Role or ClusterRole."""
    return [right.tree for right in rights]
