"""A minimal client of the Kubernetes API for the steps, with the pod's own ServiceAccount."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .host import Clock, StepFailed

SECRETS = "var/run/secrets/kubernetes.io/serviceaccount"
MERGE_PATCH = "application/merge-patch+json"
RETRY_SECONDS = 120
"""Seconds for which an API server may be unreachable or answer 5xx."""
STARTUP_SECONDS = 10
"""Seconds within which a restarted API server has loaded its RBAC rules; until then it answers 401 or 403."""
RETRY_INTERVAL = 1
"""Seconds between two attempts."""


class Unreachable(Exception):
    """The API server did not respond. It may have handled the request nevertheless."""


@dataclass(frozen=True)
class Response:
    """Response of the API server."""

    status: int
    text: str

    @property
    def tree(self) -> Any:
        """The body as JSON; an empty object if it is none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return {}

    @property
    def reason(self) -> str:
        """The status code and the message of the server, for errors."""
        tree = self.tree
        message = tree.get("message") if isinstance(tree, dict) else None
        return f"{self.status}: {message or self.text.strip()[:300]}"


class Api:
    """The API server of the node's cluster."""

    def __init__(self, environment: Mapping[str, str], secrets: Path) -> None:
        self._host = environment.get("KUBERNETES_SERVICE_HOST", "")
        self._port = environment.get("KUBERNETES_SERVICE_PORT", "443")
        self._secrets = secrets

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Response:
        """Send one request. Raises `Unreachable`; `StepFailed` in a pod that has no ServiceAccount."""
        import http.client  # noqa: PLC0415 - half of the program's start-up time, and most steps send no request
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
                return Response(response.status, response.read().decode(errors="replace"))
            finally:
                connection.close()
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Unreachable(f"the API server {self._host}:{self._port} does not answer ({error})") from error


class RetryingApi(Api):
    """A client that retries while the server is unreachable or starting. All requests of steps are idempotent."""

    def __init__(self, environment: Mapping[str, str], secrets: Path, clock: Clock) -> None:
        super().__init__(environment, secrets)
        self._clock = clock

    def request(self, method: str, path: str, body: Any = None, *, content_type: str = "application/json") -> Response:
        """Send one request, with retries. Raises `Unreachable`; `StepFailed` in a pod that has no ServiceAccount."""
        started = last_outage = self._clock.now()
        while True:
            try:
                answer = self._once(method, path, body, content_type)
            except Unreachable:
                if self._clock.now() >= started + RETRY_SECONDS:
                    raise
                last_outage = self._clock.now()
            else:
                is_starting = answer.status in (401, 403) and self._clock.now() < last_outage + STARTUP_SECONDS
                is_failing = answer.status >= 500 and self._clock.now() < started + RETRY_SECONDS
                if not is_starting and not is_failing:
                    return answer
                last_outage = self._clock.now() if is_failing else last_outage
            self._clock.wait(RETRY_INTERVAL)

    def _once(self, method: str, path: str, body: Any, content_type: str) -> Response:
        return super().request(method, path, body, content_type=content_type)
