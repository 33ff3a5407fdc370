"""Signals that end a command: as an interrupt does, so that temporary folders with keys are removed.

SIGTERM and, of a terminal that is closed, SIGHUP would kill the process otherwise. Where a signal is ignored, as SIGHUP
by `nohup`, or a command handles it, that stays.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_DEADLY = (signal.SIGTERM, signal.SIGHUP)


def ending() -> Iterator[signal.Signals]:
    """The signals that should end a command, for those that end in their own way."""
    yield signal.SIGINT
    yield from (number for number in _DEADLY if signal.getsignal(number) is not signal.SIG_IGN)


@contextmanager
def raised() -> Iterator[None]:
    """Within the block, a signal that would kill the process raises `KeyboardInterrupt`."""
    if threading.current_thread() is not threading.main_thread():
        yield  # nobody else can handle signals
        return
    deadly = [number for number in _DEADLY if signal.getsignal(number) is signal.SIG_DFL]
    for number in deadly:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number in deadly:
            signal.signal(number, signal.SIG_DFL)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


@contextmanager
def raised_at_once() -> Iterator[None]:
    """Within the block, which blocks a running loop, signals that end a command raise `KeyboardInterrupt`: the loop
    would handle them after it.
    """
    before = {number: signal.signal(number, _interrupt) for number in ending()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def cancel_current_task() -> None:
    """Have the same signals cancel this task of the running loop, once: a shell and the kernel both send SIGHUP, and
    the second one is not to break off what the first one began."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    for number in _DEADLY:
        if task is not None and signal.getsignal(number) is _interrupt:
            loop.add_signal_handler(number, _once(task.cancel))


def _once(do: Callable[[], object]) -> Callable[[], None]:
    done: list[object] = []

    def handle() -> None:
        if not done:
            done.append(do())

    return handle
