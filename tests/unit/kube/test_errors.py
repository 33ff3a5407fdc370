"""Failures keep their meaning over the wire."""

from __future__ import annotations

import msgspec
import pytest

from espalier.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
    ServerFailure,
    StatusCause,
    StatusDetails,
    TooManyRequests,
    Unauthorized,
    error_of,
)


@pytest.mark.parametrize(
    "error",
    [
        AlreadyExists,
        BadRequest,
        Conflict,
        Expired,
        Forbidden,
        Invalid,
        NotFound,
        ServerFailure,
        TooManyRequests,
        Unauthorized,
    ],
)
def test_a_failure_arrives_as_it_was_sent(error: type[ApiError]) -> None:
    cause = StatusCause(reason="FieldValueInvalid", message="must be odd", field="spec.count")
    sent = error.of("count: must be odd", StatusDetails(name="a", kind="clusters", causes=[cause]))
    wire = msgspec.json.encode(sent.status)
    got = error_of(sent.status.code, wire)
    assert type(got) is error
    assert str(got) == "count: must be odd"
    assert got.status == sent.status
    assert {"kind": "Status", "apiVersion": "v1", "status": "Failure"}.items() <= msgspec.json.decode(wire).items()


def test_a_body_that_is_no_status_becomes_the_message() -> None:
    error = error_of(502, b"<html>bad gateway</html>")
    assert isinstance(error, ServerFailure)
    assert "bad gateway" in str(error)
    assert error.status.code == 502


@pytest.mark.parametrize(
    ("body", "is_of_kind"),
    [
        (b'{"kind":"Status","message":"nicht da","details":{"name":"a","kind":"clusters"}}', False),
        (
            b'{"kind":"Status","message":"the server could not find the requested resource","details":{"name":"a"}}',
            False,
        ),
        (b'{"kind":"Status","message":"no such thing","details":{}}', True),
        (b'{"kind":"Status","message":"no such thing"}', True),
        (b"404 page not found\n", True),
        (b"<html>nginx</html>", True),
    ],
)
def test_an_absent_kind_is_known_by_details(body: bytes, *, is_of_kind: bool) -> None:
    """Not by a sentence, which proxies and later servers word otherwise."""
    error = error_of(404, body)
    assert isinstance(error, NotFound)
    assert error.is_of_kind is is_of_kind
