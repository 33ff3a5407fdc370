"""Sessions of blocking libraries: in threads, with a timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from espalier.clusters.report.checks.questions import UNREACHABLE, LookUpError

A = TypeVar("A")

CONTROLLERS = 2
"""One for datacenters, one for machines."""


class Session(Protocol):
    """A session that a thread blocks on."""

    def abort(self) -> None:
        """End the session: waiting calls get an error. May be called from any thread."""


class Threads:
    """Threads for each server: one per controller, each with one session at a time (`ErrorBackoff`). A slow server
    delays no other.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._threads: dict[str, ThreadPoolExecutor] = {}

    async def run(
        self, host: str, session: Session, ask: Callable[[], A], *, seconds: float, unreachable: str = UNREACHABLE
    ) -> A:
        """Return the answers of a session with a server, and end it. Raises the errors of `ask`, and `LookUpError` on
        timeout.
        """
        threads = self._threads.get(host)
        if threads is None:  # as many as Secrets permit
            prefix = f"{self._name}-{len(self._threads)}"
            threads = self._threads[host] = ThreadPoolExecutor(CONTROLLERS, thread_name_prefix=prefix)
        answers = asyncio.get_running_loop().run_in_executor(threads, ask)
        try:
            async with asyncio.timeout(seconds):
                return await asyncio.shield(answers)
        except TimeoutError as error:
            message = f"{host} did not answer all questions within {seconds:g} s"
            raise LookUpError(unreachable, message) from error
        finally:
            session.abort()  # a thread that still reads ends with an error, which nobody waits for
            answers.add_done_callback(lambda done: done.cancelled() or done.exception())
