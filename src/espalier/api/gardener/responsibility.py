"""Which seed acts for an object of the garden, and what it has to do: pure, the same for all that ask.

A Shoot has two seeds: the wanted one in `spec.seedName`, and in `status.seedName` the one that has the control plane.
"""

from __future__ import annotations

from espalier.api.gardener import metadata_keys
from espalier.api.gardener.backups import BackupEntry
from espalier.api.gardener.operations import OperationState, OperationType
from espalier.api.gardener.shoot import Shoot
from espalier.api.meta import ObjectMeta

_REPEATED = (OperationType.CREATE, OperationType.MIGRATE, OperationType.RESTORE)


def responsible_seed(wanted: str | None, current: str | None) -> str | None:
    """The seed that acts: nobody without a wanted one; the current one as long as it differs, to migrate; else the
    wanted one."""
    if not wanted:
        return None
    return current or wanted


def seed_of(obj: Shoot | BackupEntry) -> str | None:
    """The seed that acts for a Shoot or a BackupEntry."""
    return responsible_seed(obj.spec.seed_name, obj.status.seed_name)


def migrating(shoot: Shoot) -> bool:
    """True if the shoot is to leave the seed that has it. From then on its lease is not renewed."""
    return bool(shoot.spec.seed_name and shoot.status.seed_name) and shoot.spec.seed_name != shoot.status.seed_name


def restoring(shoot: Shoot) -> bool:
    """True if the shoot has left a seed, and the new one has not finished to restore it."""
    last = shoot.status.last_operation
    if migrating(shoot) or last is None:
        return False
    if last.type == OperationType.MIGRATE:
        return last.state in (OperationState.SUCCEEDED, OperationState.ABORTED)
    return last.type == OperationType.RESTORE and not last.finished


def created(shoot: Shoot) -> bool:
    """True if the shoot's creation was finished: only then it can migrate (G33)."""
    last = shoot.status.last_operation
    if shoot.status.seed_name is None or last is None:
        return False
    return last.type != OperationType.CREATE or last.finished


def operation_of_shoot(shoot: Shoot) -> OperationType:
    """The operation that the responsible seed has to do for a shoot."""
    if migrating(shoot):
        return OperationType.MIGRATE
    last = shoot.status.last_operation
    if last is not None and last.type == OperationType.MIGRATE and restoring(shoot):
        return OperationType.RESTORE  # also of one that is deleted: only what is known here can be deleted here
    if shoot.metadata.deletion_timestamp is not None:  # seeds decide about moves, whatever an annotation says
        return OperationType.DELETE
    if last is None:
        return OperationType.CREATE
    if last.type in _REPEATED and not last.finished:
        return OperationType(last.type)
    return OperationType.RECONCILE


def order(metadata: ObjectMeta) -> str:
    """The order that an object's annotation has: reconcile, migrate, restore, or empty."""
    found = metadata.annotations
    return found.get(metadata_keys.OPERATION) or found.get(metadata_keys.OLDER_OPERATION) or ""
