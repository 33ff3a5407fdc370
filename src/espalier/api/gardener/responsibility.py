"""The seed that acts for an object of the garden, and its operation. Pure: the same result for all callers.

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
    if migrating(shoot) or last is None:
        return False
    if last.type == OperationType.MIGRATE:
        return last.state in (OperationState.SUCCEEDED, OperationState.ABORTED)
    return last.type == OperationType.RESTORE and not last.finished


def created(shoot: Shoot) -> bool:
    """True if the shoot's creation has finished: only then can it migrate (G33)."""
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
        return OperationType.RESTORE  # also if it is being deleted: only what was restored here can be deleted here
    if shoot.metadata.deletion_timestamp is not None:  # annotations do not migrate shoots: `spec.seedName` does
        return OperationType.DELETE
    if last is None:
        return OperationType.CREATE
    if last.type in _REPEATED and not last.finished:
        return OperationType(last.type)
    return OperationType.RECONCILE


def requested_operation(metadata: ObjectMeta) -> str:
    """The value of the operation annotation, such as reconcile, migrate or restore; empty if there is none."""
    annotations = metadata.annotations
    return annotations.get(metadata_keys.OPERATION) or annotations.get(metadata_keys.OLDER_OPERATION) or ""
