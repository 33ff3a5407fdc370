"""Tags of a vCenter by its REST API, with a server that answers as the test says."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from espalier.clusters.report.checks.questions import Credentials
from espalier.providers.vsphere.checks.vcenter import _Tags

ACCOUNT = Credentials("maker", "rosebud")


class Server:
    """Has the session, and answers the question for a tag with this status."""

    def __init__(self, status: int) -> None:
        self._status, self._path = status, ""
        self.is_closed = False

    def request(self, _method: str, path: str, _body: bytes | None, _headers: object) -> None:
        self._path = path

    def getresponse(self) -> Any:
        status = self._status if "/tagging/tag/" in self._path else 200
        value = {"name": "garden"} if "/tagging/tag/" in self._path else "session"
        return SimpleNamespace(status=status, read=lambda: json.dumps({"value": value}).encode())

    def close(self) -> None:
        self.is_closed = True


@pytest.mark.parametrize(("status", "unknown"), [(200, ()), (400, ("a",)), (403, ("a",)), (404, ("a",))])
def test_invalid_or_unreadable_tag_counts_as_missing(status: int, unknown: tuple[str, ...]) -> None:
    """And not a vCenter that can't be reached: the rest of the machine config would not be checked either."""
    server: Any = Server(status)
    assert _Tags(server, ACCOUNT).answers({}, ["a"]) == ({}, frozenset(unknown))
    assert server.is_closed


def test_an_error_of_the_server_is_no_missing_tag() -> None:
    server: Any = Server(503)
    with pytest.raises(OSError, match="GET tagging/tag/id:a returned status 503"):
        _Tags(server, ACCOUNT).answers({}, ["a"])
    assert server.is_closed
