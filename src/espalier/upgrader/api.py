"""As much of a client of the Kubernetes API as the steps need, with the pod's own ServiceAccount."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .failures import StepFailed

SECRETS = "var/run/secrets/kubernetes.io/serviceaccount"
MERGE = "application/merge-patch+json"


class Unreachable(Exception):
    """The API server gave no answer. Whether it did what was asked is not known."""


@dataclass(frozen=True)
class Answer:
    """Answer of the API server."""

    status: int
    text: str

    @property
    def tree(self) -> Any:
        """The object; an empty one when the answer holds none."""
        try:
            return json.loads(self.text)
        except ValueError:
            return {}

    @property
    def reason(self) -> str:
        """In words, why it was not done."""
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
            raise StepFailed(f"the pod has no ServiceAccount token to ask the API server with ({error})") from error
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
