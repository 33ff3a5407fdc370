"""The operation that is due for an extension resource. Pure."""

from __future__ import annotations

from espalier.api.gardener.responsibility import is_deletion_confirmed, requested_operation
from espalier.api.gardener.vocabulary import metadata_keys as keys
from espalier.api.gardener.vocabulary.operations import LastOperation, OperationType
from espalier.api.meta import ObjectMeta

_RESUMED = (OperationType.CREATE, OperationType.MIGRATE, OperationType.RESTORE)
"""An operation that began with one of these types keeps it until it is done, even without the annotation."""


def operation_of(metadata: ObjectMeta, last: LastOperation | None, *, is_changed: bool = False) -> OperationType | None:
    """The operation that is due; None if there is none. `is_changed`: results in the status are not as reported,
    or objects in the seed are gone, so `reconcile` makes them again.

    A migrated resource is another seed's. It is left alone, even if it changes or is deleted, until `migrate` or
    `restore` is requested.
    """
    wanted = requested_operation(metadata)
    if wanted == keys.MIGRATE:
        return OperationType.MIGRATE
    is_done = last is None or last.finished
    if last is not None and last.type == OperationType.MIGRATE and is_done:
        is_restored = wanted == keys.RESTORE and metadata.deletion_timestamp is None
        return OperationType.RESTORE if is_restored else None
    if metadata.deletion_timestamp is not None:
        return OperationType.DELETE if is_deletion_confirmed(metadata) else None  # its gardenlet releases it
    if wanted == keys.RESTORE:
        return OperationType.RESTORE
    if wanted == keys.WAIT_FOR_STATE:
        return None
    if last is None:
        return OperationType.CREATE
    if not is_done:
        return next((operation for operation in _RESUMED if operation == last.type), OperationType.RECONCILE)
    return OperationType.RECONCILE if wanted == keys.RECONCILE or is_changed else None
