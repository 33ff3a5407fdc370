"""Errors that end an operation early."""

from __future__ import annotations

from collections.abc import Sequence

from espalier.api.gardener.vocabulary.operations import ErrorCode
from espalier.api.gardener.vocabulary.reasons import ExtensionReason
from espalier.runtime.controllers.outcome import Wait


class OperationFailed(Exception):
    """An operation can't be done, or not now: reported in `status.lastError`, and retried.

    The message says what was found, what is needed and what to do.
    """

    def __init__(self, message: str, *codes: ErrorCode, reason: str = ExtensionReason.OPERATION_FAILED) -> None:
        super().__init__(message)
        self.codes: Sequence[ErrorCode] = codes
        self.reason = reason


class StateInvalid(OperationFailed):
    """The saved state is missing, or was not written by this extension. Nothing is created instead."""

    def __init__(self, message: str) -> None:
        super().__init__(message, ErrorCode.RETRYABLE_CONFIGURATION, reason=ExtensionReason.STATE_INVALID)


class StateTooLarge(OperationFailed):
    """The state does not fit into the object; the saved one is kept."""

    def __init__(self, size: int, largest: int) -> None:
        super().__init__(
            f"status.state: found {size / 2**20:.2f} MiB, allowed: up to {largest / 2**20:.2f} MiB, as it must "
            "fit into an etcd request; the earlier state is kept: have the extension save less",
            ErrorCode.CONFIGURATION,
            reason=ExtensionReason.STATE_TOO_LARGE,
        )


class Stopped(Exception):
    """The operation may not continue: `reason` is CamelCase. It is no failure; there is nothing to save."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason

    @property
    def wait(self) -> Wait:
        """The outcome of the reconcile. An event will follow, unless the operation only took too long."""
        return Wait(self.reason, str(self), after=1.0 if self.reason == ExtensionReason.OPERATION_TOO_LONG else None)
