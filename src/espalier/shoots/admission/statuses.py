"""Writes of a Shoot's status: which seed has the shoot, and the shoot's identity. Pure.

Each seed writes the status of its shoots, and may write anything. The status decides who acts next, and which
namespace, Cluster and BackupEntry are the shoot's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.responsibility import seed_of
from espalier.api.gardener.vocabulary.operations import OperationState, OperationType
from espalier.api.text.violations import Violation
from espalier.kube.objects import Object
from espalier.kube.transports.wire import User
from espalier.shoots.admission import messages, users
from espalier.shoots.admission.shoot_rules.shoots import Garden

DECIDING = ("seedName", "technicalID", "uid", "lastOperation", "constraints")
"""Fields of the status on which seeds and the garden act."""

_SEED, _TECHNICAL_ID, _UID = "status.seedName", "status.technicalID", "status.uid"


def violations(old: Object, new: Object, user: User, garden: Garden) -> Iterator[Violation]:
    """The problems of a write of a Shoot's status."""
    before, after = old.decode(Shoot), new.decode(Shoot)
    seed = users.seed_of(user)
    if seed is not None:
        if seed_of(before) != seed:
            owner = seed_of(before) or "none"
            yield Violation("status", f"a write of seed {seed}", owner, messages.STATUS_OF_OTHER_SEED)
            return
        yield from _seed(before, after, seed)
        yield from _identity(before, after)
    elif not users.is_garden(user):
        yield from _by_others(old, new)
        return
    is_assigned = seed is not None and before.status.technical_id
    if not is_assigned and after.status.technical_id not in ("", before.status.technical_id):
        yield from _technical_id(after, garden)


def _seed(before: Shoot, after: Shoot, seed: str) -> Iterator[Violation]:
    """A gardenlet may take a shoot that no seed has yet, and hand over one that it has migrated."""
    present, wanted = before.status.seed_name, after.status.seed_name
    if wanted == present:
        return
    if present is None:
        if wanted != seed:
            yield Violation(_SEED, wanted or "nothing", seed, messages.SEED_TAKES)
        return
    last = after.status.last_operation
    is_migrated = last is not None and last.is_(OperationType.MIGRATE, OperationState.SUCCEEDED)
    if not (is_migrated and wanted == before.spec.seed_name):
        yield Violation(_SEED, wanted or "nothing", present, messages.SEED_HANDS_OVER)


def _identity(before: Shoot, after: Shoot) -> Iterator[Violation]:
    """A gardenlet may write the shoot's identity once."""
    for field, present, wanted in (
        (_TECHNICAL_ID, before.status.technical_id, after.status.technical_id),
        (_UID, before.status.uid, after.status.uid),
    ):
        if present and wanted != present:
            yield Violation(field, wanted or "nothing", present, messages.IDENTITY_STAYS)
    if not before.status.uid and after.status.uid not in ("", after.metadata.uid):
        yield Violation(_UID, after.status.uid, after.metadata.uid, messages.UID)


def _technical_id(shoot: Shoot, garden: Garden) -> Iterator[Violation]:
    technical_id, allowed = shoot.status.technical_id, garden.technical_id(shoot)
    if technical_id != allowed:
        yield Violation(_TECHNICAL_ID, technical_id, allowed, messages.TECHNICAL_ID)
    elif garden.is_taken(shoot, technical_id):
        yield Violation(_TECHNICAL_ID, technical_id, "", messages.TECHNICAL_ID_TAKEN)


def _by_others(old: Object, new: Object) -> Iterator[Violation]:
    before, after = _status(old), _status(new)
    for field in DECIDING:
        present, wanted = before.get(field), after.get(field)
        if (wanted or None) != (present or None):
            yield Violation(f"status.{field}", _text(wanted), _text(present), messages.STATUS_DECIDES)


def _status(shoot: Object) -> dict[str, Any]:
    return shoot.tree.get("status") or {}


def _text(value: Any) -> str:
    return "nothing" if value is None else value if isinstance(value, str) else msgspec.json.encode(value).decode()
