"""Failures of steps."""

from __future__ import annotations

DONE, FAILED, MISSING = 0, 1, 75
"""Exit codes: done; failed, with a sentence; what `copy` brings is not on the host, so begin with that step again."""


class StepFailed(Exception):
    """A step can't do its work. The message says what was found and what to do, for the status of the NodeUpgrade."""

    code = FAILED


class NotCopied(StepFailed):
    """Files that `copy` brings are missing on the host."""

    code = MISSING
