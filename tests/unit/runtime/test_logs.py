from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import structlog

from espalier.kube.objects import Object
from espalier.kube.transports.wire import Request, Response
from espalier.runtime import logs
from espalier.runtime.controllers.outcome import Wait

KEY = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEE\n-----END EC PRIVATE KEY-----"


@dataclass
class Login:
    """A program's own type, as a log may have it."""

    password: str


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    before = structlog.get_config()
    logs.setup(level="info", stream=stream)
    yield stream
    structlog.configure(**before)


def log(written: io.StringIO, **values: Any) -> dict[str, Any]:
    structlog.get_logger("test").info("happened", **values)
    line: dict[str, Any] = json.loads(written.getvalue().splitlines()[-1])
    return line


def test_a_line_is_one_json_object(written: io.StringIO) -> None:
    line = log(written, controller="cluster", count=3, outcome=Wait("NoRain", "waiting for rain"), odd=object)
    assert (line["event"], line["level"], line["controller"], line["count"]) == ("happened", "info", "cluster", 3)
    assert "NoRain" in str(line["outcome"])
    assert "timestamp" in line


def test_records_below_the_level_are_not_written(written: io.StringIO) -> None:
    structlog.get_logger("test").debug("quiet")
    assert written.getvalue() == ""


@pytest.mark.parametrize(
    "values",
    [
        {"data": {"admin": "hunter2"}},
        {"kubeconfig": "hunter2"},
        {"request": {"headers": {"Authorization": "hunter2"}}},
        {"items": [{"stringData": {"a": "hunter2"}}]},
        {"message": "Authorization: Bearer hunter2hunter2"},
        {"raw": b"hunter2"},
        {"secret": "hunter2"},
        {"object": Object(b'{"kind":"Secret","metadata":{"name":"a"},"data":{"p":"hunter2"}}')},
        {"error": KEY.replace("MHcCAQEE", "hunter2")},
        {"client_private_key": "hunter2"},
        {"clientSecret": "hunter2"},
        {"bind_password": "hunter2"},
        {"credentials": {"user": "hunter2"}},
        {"response": Response(200, b"hunter2")},
        {"api_token": "hunter2"},
        {"login": Login("hunter2")},
        {"request": Request("GET", "/", headers={"authorization": "hunter2"})},
    ],
    ids=lambda values: next(iter(values)),
)
def test_secrets_stay_out(written: io.StringIO, values: dict[str, Any]) -> None:
    log(written, **values)
    assert "hunter2" not in written.getvalue()


def test_names_of_secrets_are_written(written: io.StringIO) -> None:
    line = log(written, secret_name="rose", reference={"secretRef": {"name": "rose"}})
    assert (line["secret_name"], line["reference"]) == ("rose", {"secretRef": {"name": "rose"}})


def test_secrets_in_an_exception_stay_out(written: io.StringIO) -> None:
    try:
        raise ValueError(f"cannot parse {KEY}")
    except ValueError:
        structlog.get_logger("test").exception("panic")
    assert "MHcCAQEE" not in written.getvalue()
    assert "cannot parse" in written.getvalue()
