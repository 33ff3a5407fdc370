"""A minimal client of the Kubernetes API for the steps, with the pod's own ServiceAccount."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .host import Clock, StepFailed

SECRETS = "var/run/secrets/kubernetes.io/serviceaccount"
MERGE = "application/merge-patch+json"
RETRY_FOR = 120
"""Seconds for which an API server may be unreachable or answer 5xx."""
BEGINNING = 10
"""Seconds within which a restarted API server has loaded its RBAC rules."""
EVERY = 1


class Unreachable(Exception):
    """The API server gave no answer. It may still have done what was asked."""


@dataclass(frozen=True)
class Answer:
    """Answer of the API server."""

    status: int
    text: str

    @property
    def tree(self) -> Any:
        """The object; an empty one if the answer has none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return {}

    @property
    def reason(self) -> str:
        """Why the request failed: the code, and the server's message."""
        tree = self.tree
        said = tree.get("message") if isinstance(tree, dict) else None
        return f"{self.status}: {said or self.text.strip()[:300]}"


class Api:
    """The API server of the node's cluster."""

    def __init__(self, environment: Mapping[str, str], secrets: Path) -> None:
        self._host = environment.get("KUBERNETES_SERVICE_HOST", "")
        self._port = environment.get("KUBERNETES_SERVICE_PORT", "443")
        self._secrets = secrets

    def ask(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Answer:
        """One request. Raises `Unreachable`; `StepFailed` in a pod that has no ServiceAccount."""
        import http.client  # noqa: PLC0415 - half of the program's start, and most steps ask nothing
        import ssl  # noqa: PLC0415

        try:
            token = (self._secrets / "token").read_text().strip()
        except OSError as error:
            raise StepFailed(f"the pod has no ServiceAccount token for the API server ({error})") from error
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json", "User-Agent": "espalier-upgrader"}
        content = None
        if body is not None:
            content = json.dumps(body).encode()
            headers["Content-Type"] = content_type
        try:
            context = ssl.create_default_context(cafile=str(self._secrets / "ca.crt"))
            connection = http.client.HTTPSConnection(self._host, int(self._port), timeout=10, context=context)
            try:
                connection.request(method, path, content, headers)
                response = connection.getresponse()
                return Answer(response.status, response.read().decode(errors="replace"))
            finally:
                connection.close()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unreachable(f"the API server {self._host}:{self._port} does not answer ({error})") from error


class PatientApi(Api):
    """Retries while the server is unreachable or starting. All requests of steps can be repeated."""

    def __init__(self, environment: Mapping[str, str], secrets: Path, clock: Clock) -> None:
        super().__init__(environment, secrets)
        self._clock = clock

    def ask(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Answer:
        """One request, with retries. Raises `Unreachable`; `StepFailed` in a pod that has no ServiceAccount."""
        begun = away = self._clock.now()
        while True:
            try:
                answer = self._once(method, path, body, content_type)
            except Unreachable:
                if self._clock.now() >= begun + RETRY_FOR:
                    raise
                away = self._clock.now()
            else:
                begins = answer.status in (401, 403) and self._clock.now() < away + BEGINNING
                ill = answer.status >= 500 and self._clock.now() < begun + RETRY_FOR
                if not begins and not ill:
                    return answer
                away = self._clock.now() if ill else away
            self._clock.wait(EVERY)

    def _once(self, method: str, path: str, body: Any, content_type: str) -> Answer:
        return super().ask(method, path, body, content_type=content_type)
