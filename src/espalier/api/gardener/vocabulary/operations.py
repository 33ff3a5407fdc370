"""Types that all of Gardener's kinds share: the last operation, its errors, conditions, references."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)
from enum import StrEnum
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta, Raw

from espalier.api.kinds import ATOMIC
from espalier.api.meta import Observed, Part

RawExtension: TypeAlias = Raw
"""Any JSON, kept as it is and read only by the extension that wrote it. Absent is None (see `ObjectMeta`)."""

Time = Annotated[str, Meta(extra_json_schema={"format": "date-time"})]


class OperationType(StrEnum):
    """The type of an operation on an object."""

    CREATE = "Create"
    RECONCILE = "Reconcile"
    DELETE = "Delete"
    MIGRATE = "Migrate"
    RESTORE = "Restore"


class OperationState(StrEnum):
    """The state of an operation."""

    PENDING = "Pending"
    PROCESSING = "Processing"
    SUCCEEDED = "Succeeded"
    ERROR = "Error"
    """The operation failed and is tried again."""
    FAILED = "Failed"
    """The operation failed and is not tried again before somebody changes something."""
    ABORTED = "Aborted"


class ErrorCode(StrEnum):
    """Classes of errors that people can do something about."""

    UNAUTHENTICATED = "ERR_INFRA_UNAUTHENTICATED"
    UNAUTHORIZED = "ERR_INFRA_UNAUTHORIZED"
    QUOTA_EXCEEDED = "ERR_INFRA_QUOTA_EXCEEDED"
    RATE_LIMITS_EXCEEDED = "ERR_INFRA_RATE_LIMITS_EXCEEDED"
    DEPENDENCIES = "ERR_INFRA_DEPENDENCIES"
    RETRYABLE_DEPENDENCIES = "ERR_RETRYABLE_INFRA_DEPENDENCIES"
    RESOURCES_DEPLETED = "ERR_INFRA_RESOURCES_DEPLETED"
    CLEANUP = "ERR_CLEANUP_CLUSTER_RESOURCES"
    CONFIGURATION = "ERR_CONFIGURATION_PROBLEM"
    RETRYABLE_CONFIGURATION = "ERR_RETRYABLE_CONFIGURATION_PROBLEM"
    PROBLEMATIC_WEBHOOK = "ERR_PROBLEMATIC_WEBHOOK"


class LastOperation(Observed, frozen=True):
    """The current or last operation. Types and states are those above; others are kept as they were found."""

    type: str
    state: str
    description: str = ""
    progress: Annotated[int, Meta(ge=0, le=100, description="Progress in percent.")] = 0
    last_update_time: Time = ""

    def is_(self, type: OperationType, state: OperationState) -> bool:
        """True if the operation has this type and this state."""
        return self.type == type and self.state == state

    @property
    def finished(self) -> bool:
        """True if nothing of the operation is left to do: the next operation is a new one."""
        return self.state == OperationState.SUCCEEDED


class LastError(Observed, frozen=True):
    """An error of the last operation. One with a task is cleared when that task succeeds."""

    description: str
    task_id: Annotated[str, Meta(description="Task of the flow that failed.")] = msgspec.field(
        default="", name="taskID"
    )
    codes: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []
    last_update_time: Time = ""


def reported_by(last: LastOperation | None, error: LastError | None) -> str:
    """The report of a status on an operation that has not finished, for the end of a message: `: TEXT`, or nothing."""
    text = error.description if error is not None else last.description if last is not None else ""
    return f": {text}" if text else ""


class Condition(Observed, frozen=True):
    """An observation about an object of Gardener. Its status may also be "Progressing"."""

    type: str
    status: str
    reason: str = ""
    message: str = ""
    last_transition_time: Time = ""
    last_update_time: Time = ""
    codes: Annotated[list[str], Meta(extra_json_schema=ATOMIC)] = []


class SecretReference(Part):
    """A Secret by name; without a namespace, in that of the object which refers to it."""

    name: str = ""
    namespace: str = ""


class ObjectReference(Part):
    """An object by its kind and name, in the namespace of the object that refers to it."""

    kind: str
    name: str
    api_version: str = ""


class NamedReference(Part):
    """A reference that has a name of its own: provider configurations point to it."""

    name: str
    resource_ref: ObjectReference
