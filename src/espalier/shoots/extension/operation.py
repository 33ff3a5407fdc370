"""Which operation an extension resource asks for. Pure."""

from __future__ import annotations

from enum import StrEnum

from espalier.api.meta import ObjectMeta
from espalier.shoots.extension import names
from espalier.shoots.extension.views import LastOperation


class Operation(StrEnum):
    """The types of `status.lastOperation`."""

    CREATE = "Create"
    RECONCILE = "Reconcile"
    MIGRATE = "Migrate"
    RESTORE = "Restore"
    DELETE = "Delete"


class State(StrEnum):
    """The states of `status.lastOperation` that extensions give."""

    PROCESSING = "Processing"
    SUCCEEDED = "Succeeded"
    ERROR = "Error"


_RESUMED = (Operation.CREATE, Operation.MIGRATE, Operation.RESTORE)
"""What was begun as one of these ends as it, whatever became of the annotation."""


def operation_of(metadata: ObjectMeta, last: LastOperation | None) -> Operation | None:
    """The operation that is due; None where nothing is.

    A resource that was migrated is another seed's. It is left alone, also when it changes or is deleted, until somebody
    asks for `migrate` or `restore`.
    """
    asked = metadata.annotations.get(names.OPERATION)
    if asked == names.MIGRATE:
        return Operation.MIGRATE
    is_done = last is None or last.state == State.SUCCEEDED
    if last is not None and last.type == Operation.MIGRATE and is_done:
        is_restored = asked == names.RESTORE and metadata.deletion_timestamp is None
        return Operation.RESTORE if is_restored else None
    if metadata.deletion_timestamp is not None:
        return Operation.DELETE
    if asked == names.RESTORE:
        return Operation.RESTORE
    if asked == names.WAIT_FOR_STATE:
        return None
    if last is None:
        return Operation.CREATE
    if not is_done:
        return next((one for one in _RESUMED if one == last.type), Operation.RECONCILE)
    return Operation.RECONCILE if asked == names.RECONCILE else None
