"""Who may read and write ShootStates: gardenlets and the garden. Members of projects never may."""

from __future__ import annotations

from collections.abc import Iterable

from espalier.api.core import CONFIG_MAP, SECRET
from espalier.api.gardener.backups import BackupEntry
from espalier.api.gardener.shoot import Shoot
from espalier.api.gardener.shoot_state import ShootState
from espalier.api.resource import Resource
from espalier.kube.rbac import FOLLOW, Right

HIDDEN: frozenset[Resource] = frozenset({ShootState.resource})
"""Kinds in the namespaces of projects that no role for people has."""

_READ = ("get", *FOLLOW)
_WRITE = ("create", "update", "patch", "delete", "deletecollection")

GARDENLET = (Right((ShootState.resource,), ("get", *FOLLOW, "create", "update", "patch", "delete")),)
"""Rights of a gardenlet, in the namespaces of its shoots' projects."""

GARDENLET_IN_STATE_NAMESPACE = (Right((SECRET,), ("get", "list", "create", "delete")),)
"""Its rights in `names.STATE_NAMESPACE`."""

PROJECT_VIEWER = (Right((Shoot.resource, BackupEntry.resource), _READ), Right((CONFIG_MAP,), _READ))
"""Rules of the Role of those who see a project, in its namespace."""

PROJECT_ADMIN = (
    Right((Shoot.resource,), (*_READ, *_WRITE)),
    Right((BackupEntry.resource,), _READ),
    Right((CONFIG_MAP, SECRET), (*_READ, *_WRITE)),
)
"""Rules of the Role of a project's admins, in its namespace. Secrets there are their own; state is in another one."""


def revealing(rights: Iterable[Right]) -> list[Right]:
    """Rights that would show ShootStates: by name, by a wildcard in group, kind or verb. None may be for people."""
    return [right for right in rights if any(_covers(right, hidden) for hidden in HIDDEN)]


def _covers(right: Right, hidden: Resource) -> bool:
    return any(
        resource.group in (hidden.group, "*") and resource.plural in (hidden.plural, "*")
        for resource in right.resources
    )
