"""Named steps: the list of what a reconcile does, in order, up to the first that is not done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias, TypeVar

import structlog

from espalier.runtime.controllers.outcome import Continue, Done, Outcome

S = TypeVar("S")

Step: TypeAlias = Callable[[S], Awaitable[Outcome]]
"""An asynchronous function of the scope; its name is the step's name in logs."""

_log = structlog.get_logger("espalier.steps")


async def run(steps: Sequence[Step[S]], scope: S) -> Outcome:
    """Run steps until one does not return `Continue`; its outcome is that of the reconcile, `Done` if none is left.

    An exception is raised with a note that names the step.
    """
    log = _log.bind()  # once: a logger that is not bound looks up its level at each call
    for step in steps:
        name = name_of(step)
        try:
            outcome = await step(scope)
        except Exception as error:
            error.add_note(f"in step {name}")
            raise
        if not isinstance(outcome, Continue):
            log.debug("step", step=name, outcome=outcome)
            return outcome
        log.debug("step", step=name, outcome="Continue")
    return Done()


def name_of(step: Callable[..., object]) -> str:
    """The name of a step: that of its function."""
    return getattr(step, "__name__", type(step).__name__)
