"""Execution of an operation: the steps that are left, each of which can be repeated, and the record of the last one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from espalier.kube.client import Client
from espalier.management import record as records
from espalier.management.plan import Planned, remaining


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
        await actions[step.name]()
        record = msgspec.structs.replace(record, step=step.name)
        await records.write(bootstrap, record)
        progress.say(step.title, aside=elapsed())
