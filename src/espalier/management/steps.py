"""Execution of an operation: the steps that are left, each of which can be repeated, and the record of the last one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from espalier.kube.client import Client
from espalier.kube.errors import Unreachable
from espalier.management import record as records
from espalier.management.plan import Planned, remaining

_ATTEMPTS, _PAUSE = 4, 3.0
"""Attempts at a step, and the seconds between them."""


class Refused(Exception):
    """An operation that can't begin or go on; each text names the object, what was found, and what to do."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Progress(Protocol):
    """Prints how far an operation is."""

    def say(self, text: str, sign: str = ..., *, aside: str = "") -> None:
        """Something is done."""

    def wait(self, text: str) -> None:
        """Something is waited for."""


Elapsed = Callable[[], str]
"""The time since the command began, for people."""

Actions = Mapping[str, Callable[[], Awaitable[None]]]
"""The action of each step, by its name."""


async def _act(action: Callable[[], Awaitable[None]], progress: Progress) -> None:
    """A step, again if a connection breaks: the control plane that it talks to may be loaded, or being replaced.

    Raises `Unreachable` after some attempts.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            await action()
        except Unreachable as error:
            if attempt == _ATTEMPTS:
                raise
            progress.wait(str(error))
            await asyncio.sleep(_PAUSE)
        else:
            return


async def run(
    bootstrap: Client,
    record: records.Record,
    steps: Sequence[Planned],
    actions: Actions,
    progress: Progress,
    elapsed: Elapsed,
) -> None:
    """Run the steps that are left, and record each one that is done."""
    for step in remaining(steps, record.step):
        progress.wait(step.title)
        await _act(actions[step.name], progress)
        record = msgspec.structs.replace(record, step=step.name)
        await records.write(bootstrap, record)
        progress.say(step.title, aside=elapsed())
