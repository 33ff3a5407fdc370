"""What ends an operation early, and the codes by which Gardener's users learn who has to act."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum


class Code(StrEnum):
    """The codes of `status.lastError` that extensions give. Those of a user's mistake are not retried for ever."""

    UNAUTHENTICATED = "ERR_INFRA_UNAUTHENTICATED"
    UNAUTHORIZED = "ERR_INFRA_UNAUTHORIZED"
    QUOTA_EXCEEDED = "ERR_INFRA_QUOTA_EXCEEDED"
    RATE_LIMITS_EXCEEDED = "ERR_INFRA_RATE_LIMITS_EXCEEDED"
    DEPENDENCIES = "ERR_INFRA_DEPENDENCIES"
    RETRYABLE_DEPENDENCIES = "ERR_RETRYABLE_INFRA_DEPENDENCIES"
    RESOURCES_DEPLETED = "ERR_INFRA_RESOURCES_DEPLETED"
    CONFIGURATION = "ERR_CONFIGURATION_PROBLEM"
    RETRYABLE_CONFIGURATION = "ERR_RETRYABLE_CONFIGURATION_PROBLEM"


class OperationFailed(Exception):
    """An operation can't be done, or not now: told in `status.lastError`, and tried again.

    The message says what was found, what is needed and what to do.
    """

    def __init__(self, message: str, *codes: Code, reason: str = "OperationFailed") -> None:
        super().__init__(message)
        self.codes: Sequence[Code] = codes
        self.reason = reason


class StateInvalid(OperationFailed):
    """The saved state lacks, or is none that this extension wrote. Nothing is made in its place."""

    def __init__(self, message: str) -> None:
        super().__init__(message, Code.RETRYABLE_CONFIGURATION, reason="StateInvalid")


class StateTooLarge(OperationFailed):
    """The state does not fit into the object; the one that was saved before stays."""

    def __init__(self, size: int, largest: int) -> None:
        super().__init__(
            f"status.state: found {size / 2**20:.2f} MiB, allowed: up to {largest / 2**20:.2f} MiB, for an object has "
            "to fit into a request of etcd; the state that was saved before is kept: have the extension save less",
            Code.CONFIGURATION,
            reason="StateTooLarge",
        )


class Stopped(Exception):
    """The operation may not go on: `reason` is CamelCase. It is no failure; who catches it has nothing to save."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
