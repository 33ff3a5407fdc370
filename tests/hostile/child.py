"""Feeds targets in a process of its own: `python -m tests.hostile.child SECONDS EXAMPLES TARGET...`.

It may be ended by what it reads; then its parent knows by what. Bounds are of CPU and of memory, so that a busy machine
changes nothing. SECONDS 0: EXAMPLES inputs, the same ones each time.
"""

from __future__ import annotations

import faulthandler
import random
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from types import FrameType
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded

from tests.hostile.targets import TARGETS, Target

CPU = 3.0
"""Seconds of one input: a hundred times what the slowest takes, on a machine that is shared."""

MEMORY = 512 * 1024 * 1024
"""Bytes that reading may add to what the process has."""


class TooSlow(BaseException):
    """One input took too long. Nobody catches it by accident."""


def main() -> int:
    """Feed the targets that are named; say how many failed."""
    seconds, examples = float(sys.argv[1]), int(sys.argv[2])
    faulthandler.enable()
    _limit_memory()
    signal.signal(signal.SIGPROF, _too_slow)
    failed = 0
    for name in sys.argv[3:]:
        print(f"target {name}", flush=True)
        try:
            _feed(TARGETS[name], seconds, examples)
        except (Exception, TooSlow):
            failed += 1
            print(f"FAILED {name}\n{traceback.format_exc(limit=-12)[-6000:]}", flush=True)
    return failed


def _feed(target: Target, seconds: float, examples: int) -> None:
    for bomb in target.bombs:
        try:
            _read(target, bomb)
        except (Exception, TooSlow) as error:
            raise AssertionError(f"a bomb: {repr(bomb)[:80]}") from error

    phases = (Phase.generate,) if seconds else (Phase.generate, Phase.shrink)

    def once(seed: int | None) -> None:
        fed: Callable[[], None] = given(target.inputs)(lambda value: _read(target, value))
        chosen = settings(
            max_examples=examples if seed is None else 1000,
            derandomize=seed is None,
            deadline=None,
            database=None,
            phases=phases,
            print_blob=False,
            suppress_health_check=list(HealthCheck),
        )
        chosen(fed if seed is None else seeded(seed)(fed))()

    if not seconds:
        once(None)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        seed = random.randrange(2**32)
        print(f"seed {seed}", flush=True)
        once(seed)


def _read(target: Target, value: Any) -> None:
    signal.setitimer(signal.ITIMER_PROF, CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time() + 10 * CPU), resource.RLIM_INFINITY))
    try:
        target.read(value)
    except target.refusals:
        pass
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _too_slow(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlow(f"more than {CPU} s of CPU")


def _limit_memory() -> None:
    with open("/proc/self/statm") as file:
        now = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, resource.RLIM_INFINITY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    sys.exit(main())
