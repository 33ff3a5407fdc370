"""Rules for repeating requests, and the pauses before.

The rules are client-go's, a little stricter: a server that names a time to come back (429 and 503 with `Retry-After`,
see API priority and fairness) has done nothing yet, so any request may be repeated. After a broken connection only
reads are, and writes of which it is certain that they never left.
"""

from __future__ import annotations

import math
import random

import msgspec

from espalier.kube.errors import Unreachable
from espalier.kube.transports.wire import SAFE_METHODS, Request, Response

_RETRYABLE = frozenset({429, 503})


class Retry(msgspec.Struct, frozen=True):
    """The retries of a client: attempts in total, and seconds of the first and the longest pause.

    Without `failures` only requests with Retry-After are repeated. Failures later than `within` seconds after the first
    attempt began are final.
    """

    attempts: int = 5
    first: float = 0.1
    longest: float = 30.0
    failures: bool = True
    within: float = math.inf

    def after_response(self, attempt: int, response: Response, rng: random.Random) -> float | None:
        """Seconds until the next attempt, None when the response is final. `attempt` counts from 1."""
        if response.status not in _RETRYABLE or attempt >= self.attempts:
            return None
        named = response.headers.get("retry-after", "")
        if not (named.isascii() and named.isdigit()):  # the HTTP-date form is not used by API servers
            return None
        # Many clients get the same time; up to half of it is added to spread them.
        return min(max(float(named), self.first), self.longest) * (1 + rng.random() / 2)

    def after_failure(
        self, attempt: int, request: Request, failure: Unreachable, rng: random.Random, elapsed: float = 0.0
    ) -> float | None:
        """Seconds until the next attempt, None when the failure is final. `elapsed`: seconds since the first began."""
        if not self.failures or attempt >= self.attempts or (failure.sent and request.method not in SAFE_METHODS):
            return None
        if elapsed >= self.within:
            return None
        return min(self.first * 2.0 ** (attempt - 1), self.longest) * (0.5 + rng.random() / 2)
