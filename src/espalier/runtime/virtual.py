"""A simulated event loop: its time jumps to the next timer as soon as nothing is ready, so hours pass in milliseconds.

Everything on it replays exactly with the same `seed`, as there are no sockets, threads or system clock. The program
must not iterate over a set of strings or tasks where the order matters.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from concurrent.futures import Executor
from contextvars import Context
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn, TypeVar, TypeVarTuple

from espalier.runtime.clock import LoopClock

T = TypeVar("T")
Ts = TypeVarTuple("Ts")


class NotInSimulation(RuntimeError):
    """The program used something that a simulation cannot repeat: a socket, a thread or a process."""


class Stalled(RuntimeError):
    """Nothing is ready and no timer is set: the program would wait for ever."""


@dataclass(frozen=True, slots=True)
class Simulation:
    """Clock and random generator of a simulated program."""

    clock: LoopClock
    random: random.Random


def run(main: Callable[[Simulation], Awaitable[T]], *, epoch: datetime, seed: int) -> T:
    """Run `main` on a simulated loop that starts at `epoch` (aware). Raises `Stalled`, `NotInSimulation`."""

    async def start() -> T:
        return await main(Simulation(LoopClock(epoch), random.Random(seed)))  # noqa: S311 - repeatable on purpose

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(start())


def _refused(capability: str) -> Any:
    def method(self: VirtualLoop, *args: Any, **options: Any) -> NoReturn:
        raise NotInSimulation(f"a simulation has no {capability}")

    return method


class VirtualLoop(asyncio.BaseEventLoop):
    """The loop itself. Its time starts at 0 and counts seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        self._clock_resolution = 1e-6  # more than what a float loses over a hundred years
        self._selector = self  # the base class asks its selector to pass the time until the next timer

    def time(self) -> float:
        """Simulated seconds since the start."""
        return self._now

    def call_at(
        self, when: float, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As any loop, but a timer in the future is never called before time has passed.

        Otherwise one due within the clock's resolution would be, and a wait for the rest of a time would loop for ever.
        """
        if self._now < when < self._now + self._clock_resolution:
            when = self._now + self._clock_resolution
        return super().call_at(when, callback, *args, context=context)

    def select(self, timeout: float | None) -> list[Any]:
        """Pass the time until the next timer at once."""
        if timeout is None:
            raise Stalled(f"nothing is ready and no timer is set; waiting: {self._waiting() or 'nobody'}")
        self._now += timeout
        return []

    def run_in_executor(self, executor: Executor | None, func: Callable[[*Ts], T], *args: *Ts) -> NoReturn:
        """Raise `NotInSimulation`."""
        raise NotInSimulation(f"a simulation has no threads to run {func!r}")

    add_reader = add_writer = _refused("sockets")
    create_connection = create_server = create_datagram_endpoint = sock_connect = getaddrinfo = _refused("network")
    create_unix_connection = create_unix_server = _refused("sockets")
    subprocess_exec = subprocess_shell = _refused("processes")

    def _process_events(self, event_list: list[Any]) -> None:
        """Do nothing: no events come from outside."""

    def _write_to_self(self) -> None:
        """Do nothing: `select` never blocks."""

    def _waiting(self) -> str:
        return ", ".join(sorted(task.get_name() for task in asyncio.all_tasks(self)))
