"""Secrets of namespace `shoot-states`, which have large states of shoots. Pure.

RBAC can't restrict creations by name. The seed that has a shoot later reads, and deletes, what is created here under
the shoot's UID.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from espalier.api.gardener import metadata_keys, ownership
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.shoot import Shoot
from espalier.api.violations import Violation
from espalier.kube.objects import Object
from espalier.kube.wire import User
from espalier.shoots.admission import messages, users
from espalier.shoots.state import pieces


def violations(secret: Object, user: User, find: Callable[[str], Shoot | None]) -> Iterator[Violation]:
    """The problems of a Secret that a gardenlet creates. `find` returns the Shoot with a UID."""
    seed = users.seed_of(user)
    if seed is None:
        return
    origin = pieces.origin_of(secret.name)
    if origin is None or _owner(find(origin.shoot_uid)) != (origin.epoch, seed):
        yield Violation("metadata.name", secret.name, "", messages.PIECE_OF_OTHER_SEED)
        return
    labels = {metadata_keys.SHOOT_UID: origin.shoot_uid, metadata_keys.EPOCH: str(origin.epoch)}
    for label, allowed in labels.items():
        found = secret.metadata.labels.get(label, "")
        if found != allowed:
            yield Violation(f"metadata.labels[{label}]", found or "nothing", allowed, messages.PIECE_LABELS)
    if secret.metadata.owner_references:
        yield Violation("metadata.ownerReferences", "", "nothing", messages.PIECE_LABELS)


def _owner(shoot: Shoot | None) -> tuple[int, str] | None:
    """Number and seed of a shoot's newest epoch."""
    try:
        found = ownership.parse(shoot.metadata.annotations.get(metadata_keys.OWNERSHIP) if shoot else None).current
    except OwnershipError:
        return None
    return (found.epoch, found.seed) if found is not None else None
