"""How long steps wait for an API server that is away."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from espalier.upgrader import api
from espalier.upgrader.api import Response, RetryingApi, Unreachable
from espalier.upgrader.host import Clock


class Restarting(RetryingApi):
    """An API server that answers by the time since the first request; `None` stands for no answer."""

    def __init__(self, status: Callable[[float], int | None]) -> None:
        self.time = 0.0
        super().__init__({}, Path(), Clock(lambda: self.time, self._wait))
        self._status = status

    def _wait(self, seconds: float) -> None:
        self.time += seconds

    def _once(self, method: str, path: str, body: Any, content_type: str) -> Response:
        status = self._status(self.time)
        if status is None:
            raise Unreachable("nobody listens")
        return Response(status, "")


def test_an_api_server_that_restarts_is_waited_for() -> None:
    def status(time: float) -> int | None:
        return None if time < 20 else 503 if time < 30 else 403 if time < 34 else 200

    assert Restarting(status).request("GET", "/version").status == 200


def test_one_that_stays_away_is_no_longer_waited_for() -> None:
    gone = Restarting(lambda _: None)
    with pytest.raises(Unreachable, match="nobody listens"):
        gone.request("GET", "/version")
    assert gone.time == api.RETRY_SECONDS
    ill = Restarting(lambda _: 500)
    assert (ill.request("GET", "/readyz").status, ill.time) == (500, api.RETRY_SECONDS)
    refusing = Restarting(lambda _: 403)
    assert (refusing.request("PATCH", "/api/v1/nodes/a").status, refusing.time) == (403, api.STARTUP_SECONDS)


@pytest.mark.parametrize(
    ("text", "reason"), [('{"message": "no rights"}', "403: no rights"), ("<html>", "403: <html>"), ("[1]", "403: [1]")]
)
def test_an_error_has_the_message_of_the_server(text: str, reason: str) -> None:
    assert Response(403, text).reason == reason


@pytest.mark.parametrize("status", [200, 201, 404, 409, 429])
def test_an_answer_is_taken_at_once(status: int) -> None:
    api = Restarting(lambda _: status)
    assert (api.request("GET", "/version").status, api.time) == (status, 0)
