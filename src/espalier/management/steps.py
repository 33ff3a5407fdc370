"""Named steps of an operation: each can be repeated, and the record says which is the last that is done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from espalier.kube.client import Client
from espalier.management import record as records


class Refused(Exception):
    """An operation that can't begin or go on; each text names the object, what was found, and what to do."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


@dataclass(frozen=True)
class Step:
    """One step."""

    name: str
    """Stored in the record."""
    title: str
    act: Callable[[], Awaitable[None]]
    writes: Sequence[str] = ()
    """The objects it writes, and where: for a dry run."""


class Progress(Protocol):
    """Prints how far an operation is."""

    def say(self, text: str, sign: str = ..., *, aside: str = "") -> None:
        """Something is done."""

    def wait(self, text: str) -> None:
        """Something is waited for."""


def remaining(steps: Sequence[Step], done: str) -> Sequence[Step]:
    """The steps after the one that is the last done. An unknown one, of another release, counts as none."""
    names = [one.name for one in steps]
    return steps[names.index(done) + 1 :] if done in names else steps


async def run(
    bootstrap: Client, record: records.Record, steps: Sequence[Step], progress: Progress, elapsed: Callable[[], str]
) -> None:
    """Run the steps that are left, and record each one that is done."""
    for step in remaining(steps, record.step):
        progress.wait(step.title)
        await step.act()
        record = records.Record(record.operation, record.namespace, record.name, record.release, step.name)
        await records.write(bootstrap, record)
        progress.say(step.title, aside=elapsed())
