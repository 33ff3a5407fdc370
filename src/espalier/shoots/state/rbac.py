"""Rights on ShootStates: gardenlets and the garden have them, members of projects never."""

from __future__ import annotations

from collections.abc import Iterable

from espalier.api.core import CONFIG_MAP, CORE_EVENT, ROLE, SECRET
from espalier.api.gardener.garden.backups import BackupEntry
from espalier.api.gardener.garden.credentials_binding import CredentialsBinding
from espalier.api.gardener.garden.shoot import Shoot
from espalier.kube.objects import Object
from espalier.kube.rbac import FOLLOW, Right

_READ = ("get", *FOLLOW)
_WRITE = ("create", "update", "patch", "delete", "deletecollection")


ROLE_OF_GARDENLET = "gardener.cloud:gardenlet:{seed}"
"""Name of a seed's Role in each namespace of the garden where it has rights."""


def in_state_namespace(seed: str, secrets: Iterable[str]) -> list[Right]:
    """Rights of a gardenlet in `names.STATE_NAMESPACE`: on these Secrets, with state of its shoots.

    Admission checks the names of those that it creates. Its Role lists them, and so finds those that a crash left.
    """
    own = tuple(sorted(secrets))
    rights = [Right((SECRET,), ("create",)), Right((ROLE,), ("get",), names=(ROLE_OF_GARDENLET.format(seed=seed),))]
    return [*rights, Right((SECRET,), ("get", "delete"), names=own)] if own else rights


def named_secrets(role: Object) -> list[str]:
    """The Secrets that a Role names."""
    rules = role.tree.get("rules") or []
    return [name for rule in rules if SECRET.plural in rule["resources"] for name in rule.get("resourceNames") or []]


PROJECT_VIEWER = (Right((Shoot.resource, BackupEntry.resource), _READ), Right((CONFIG_MAP, CORE_EVENT), _READ))
"""Rules of the role of a project's viewers, which is bound in its namespace."""

PROJECT_ADMIN = (
    Right((Shoot.resource, CredentialsBinding.resource), (*_READ, *_WRITE)),
    Right((BackupEntry.resource,), _READ),
    Right((CORE_EVENT,), _READ),
    Right((CONFIG_MAP, SECRET), (*_READ, *_WRITE)),
)
"""Rules of the role of a project's admins, which is bound in its namespace. Secrets there are their own; state is
elsewhere."""
