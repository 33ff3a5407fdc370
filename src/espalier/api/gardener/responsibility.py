"""The seed that acts for an object of the garden, and its operation. Pure: the same result for all callers.

A Shoot has two seeds: the wanted one in `spec.seedName`, and in `status.seedName` the one that has the control plane.
Whether it was moved, and restored since, is decided by its ownership epochs: `status.lastOperation` is for people, and
can say that a shoot is being restored, but never that it is not.
"""

from __future__ import annotations

from collections.abc import Container

from espalier.api.gardener import ownership
from espalier.api.gardener.garden.backups import BackupEntry
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.ownership import Ownership, OwnershipError
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import OperationState, OperationType
from espalier.api.meta import ObjectMeta

_REPEATED = (OperationType.CREATE, OperationType.MIGRATE, OperationType.RESTORE)


def responsible_seed(wanted: str | None, current: str | None) -> str | None:
    """The seed that acts: None without a wanted one; else the current one, which migrates the shoot if it is not the
    wanted one; the wanted one if there is no current one."""
    if not wanted:
        return None
    return current or wanted


def seed_of(obj: Shoot | BackupEntry) -> str | None:
    """The seed that acts for a Shoot or a BackupEntry."""
    return responsible_seed(obj.spec.seed_name, obj.status.seed_name)


def migrating(shoot: Shoot) -> bool:
    """True if the shoot must leave the seed that has it. From then on its lease is not renewed."""
    return bool(shoot.spec.seed_name and shoot.status.seed_name) and shoot.spec.seed_name != shoot.status.seed_name


def restoring(shoot: Shoot) -> bool:
    """True if the shoot has left a seed, and the new one has not finished restoring it."""
    last = shoot.status.last_operation
    if migrating(shoot):
        return False
    if is_unrestored(shoot):
        return True
    if last is None:
        return False
    if last.type == OperationType.MIGRATE:
        return last.state in (OperationState.SUCCEEDED, OperationState.ABORTED)
    return last.type == OperationType.RESTORE and not last.finished


def is_unrestored(shoot: Shoot) -> bool:
    """True if the shoot's etcd started in an epoch before that of the seed that has it now, and the restore of this one
    has not finished, by the annotations of the garden."""
    epochs, seed = _epochs(shoot), seed_of(shoot)
    current = epochs.current
    if current is None or seed is None or migrating(shoot):
        return False
    if current.seed != seed:  # the seed's epoch will be added
        return epochs.last_started is not None
    is_restored = shoot.metadata.annotations.get(metadata_keys.RESTORED_EPOCH) == str(current.epoch)
    return epochs.predecessor is not None and not is_restored


def created(shoot: Shoot) -> bool:
    """True if the shoot's creation has finished: only then can it migrate (G33)."""
    last = shoot.status.last_operation
    if shoot.status.seed_name is None:
        return False
    if _epochs(shoot).predecessor is not None:
        return True  # only a shoot that was created was moved
    if last is None:
        return False
    return last.type != OperationType.CREATE or last.finished


def operation_of_shoot(shoot: Shoot) -> OperationType:
    """The operation that the responsible seed has to do for a shoot."""
    if migrating(shoot):
        return OperationType.MIGRATE
    last = shoot.status.last_operation
    is_handed_over = last is not None and last.type == OperationType.MIGRATE and restoring(shoot)
    if is_handed_over or is_unrestored(shoot):
        return (
            OperationType.RESTORE
        )  # also if the shoot is being deleted: only what was restored here can be deleted here
    if shoot.metadata.deletion_timestamp is not None:  # annotations do not migrate shoots: `spec.seedName` does
        return OperationType.DELETE
    due = OperationType.RECONCILE
    if last is None:
        due = OperationType.CREATE
    elif last.type in _REPEATED and not last.finished:
        due = OperationType(last.type)
    was_moved = _epochs(shoot).predecessor is not None
    return OperationType.RECONCILE if due is OperationType.CREATE and was_moved else due


def requested_operation(metadata: ObjectMeta, carried_out: Container[str] = metadata_keys.CARRIED_OUT) -> str:
    """The operation that is requested by annotation, by default of an extension; empty if there is none. A value that
    nobody carries out is no request: waiting for its end would never end."""
    values = (metadata.annotations.get(key) for key in (metadata_keys.OPERATION, metadata_keys.OLDER_OPERATION))
    return next((value for value in values if value is not None and value in carried_out), "")


def _epochs(shoot: Shoot) -> Ownership:
    """The ownership epochs; none if they can't be parsed: then nobody acts."""
    try:
        return ownership.parse(shoot.metadata.annotations.get(metadata_keys.OWNERSHIP))
    except OwnershipError:
        return Ownership()


def is_deletion_confirmed(metadata: ObjectMeta) -> bool:
    """True if a resource may be deleted with what is behind it. Without that, its deletion deletes nothing: anybody may
    have asked for it, or for that of its namespace."""
    return metadata.annotations.get(metadata_keys.CONFIRM_DELETION) == "true"


def is_deleted_unconfirmed(metadata: ObjectMeta) -> bool:
    """True if a resource is being deleted, but what is behind it must stay."""
    return metadata.deletion_timestamp is not None and not is_deletion_confirmed(metadata)
