"""Steps of an operation, as a dry run prints them."""

from __future__ import annotations

import time
from collections.abc import Sequence

from espalier.cli.kit.printing import output
from espalier.management.plan import Planned
from espalier.management.steps import Elapsed


def since_now() -> Elapsed:
    """The time since this call, for the lines of steps: `after 46 s`."""
    began = time.monotonic()
    return lambda: f"after {time.monotonic() - began:.0f} s"


def print_steps(steps: Sequence[Planned]) -> None:
    """Print each step, with the objects and files that it would write."""
    for number, step in enumerate(steps, 1):
        output.say(f"{number}. {step.title}")
        output.say("\n".join(f"     {text}" for text in step.writes))
