"""Patience with an API server that is away: a single one restarts with the kubelet of its node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .api import Answer, Api, Unreachable
from .node import Clock

AWAY = 120
"""Seconds for which an API server may be away, or say that it can't serve."""
BEGINNING = 10
"""Seconds within which one that has just started knows everybody's rights."""
EVERY = 1


class PatientApi(Api):
    """Asks again while there is no answer, or one of a server that starts. All requests of steps may be repeated."""

    def __init__(self, environment: Mapping[str, str], secrets: Path, clock: Clock) -> None:
        super().__init__(environment, secrets)
        self._clock = clock

    def ask(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Answer:
        """One request, repeated. Raises `Unreachable`; `StepFailed` in a pod that has no ServiceAccount."""
        begun = away = self._clock.now()
        while True:
            try:
                answer = self._once(method, path, body, content_type)
            except Unreachable:
                if self._clock.now() >= begun + AWAY:
                    raise
                away = self._clock.now()
            else:
                begins = answer.status in (401, 403) and self._clock.now() < away + BEGINNING
                ill = answer.status >= 500 and self._clock.now() < begun + AWAY
                if not begins and not ill:
                    return answer
                away = self._clock.now() if ill else away
            self._clock.wait(EVERY)

    def _once(self, method: str, path: str, body: Any, content_type: str) -> Answer:
        return super().ask(method, path, body, content_type=content_type)
