"""Requests to infrastructure servers: one session at a time, and a pause after a server was unreachable or rejected an
account.

Many objects name the same server. Servers lock an account after a few rejected logins, and an unreachable one would be
tried for each object.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import Generic, TypeVar

from espalier.clusters.report.checks.questions import Credentials, LookUp, LookUpError, Query
from espalier.runtime.clock import Clock

UNREACHABLE = 30.0
"""Seconds until an unreachable server is tried again."""
REFUSED = 300.0
"""Seconds until a rejected account logs in again: longer than servers count rejections."""

Q = TypeVar("Q", bound=Query)
A = TypeVar("A")


class ErrorBackoff(Generic[Q, A]):
    """Asks through `look_up`, unless a recent error would repeat.

    Errors are kept in this process only: after a restart each server is asked once more.
    """

    def __init__(self, look_up: LookUp[Q, A], clock: Clock) -> None:
        self._look_up = look_up
        self._clock = clock
        self._errors: dict[tuple[object, ...], tuple[float, LookUpError]] = {}
        self._turns: dict[str, asyncio.Lock] = {}

    async def __call__(self, query: Q, credentials: Credentials, /) -> A:
        """Return all answers. Raises `LookUpError`, for a while the same one again.

        Callers that wait for their turn get the result of the one before: the wait does not count as time without an
        answer.
        """
        async with self._turns.setdefault(query.server.host, asyncio.Lock()):  # as many as Secrets permit
            self._raise_again(query, credentials)
            try:
                return await self._look_up(query, credentials)
            except LookUpError as error:
                now = self._clock.monotonic()
                if error.refused:
                    self._errors[query.server, _account(credentials)] = (now + REFUSED, error)
                elif error.is_there:
                    self._errors[query.server, query] = (now + UNREACHABLE, error)
                else:
                    self._errors[query.server,] = (now + UNREACHABLE, error)
                raise

    def _raise_again(self, query: Q, credentials: Credentials) -> None:
        now = self._clock.monotonic()
        self._errors = {key: error for key, error in self._errors.items() if now < error[0]}
        keys: tuple[tuple[object, ...], ...] = (
            (query.server,),
            (query.server, _account(credentials)),
            (query.server, query),
        )
        for key in keys:
            if key in self._errors:
                _, earlier = self._errors[key]
                raise LookUpError(earlier.reason, str(earlier), refused=earlier.refused, is_there=earlier.is_there)


def _account(credentials: Credentials) -> bytes:
    return hashlib.sha256("\0".join(map(str, credentials)).encode()).digest()
