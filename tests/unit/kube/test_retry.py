"""How long the client waits before it tries again, and when it does not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.kube.errors import Unreachable
from espalier.kube.transports.retry import Retry
from espalier.kube.transports.wire import Request, Response
from tests.support.servers.no_retry import NO_RETRY

READ, WRITE = Request("GET", "/api"), Request("POST", "/api")


@given(st.integers(1, 4), st.integers(0, 10**6), st.sampled_from([429, 503]), st.integers())
def test_time_named_by_server_is_bounded_and_spread(attempt: int, named: int, status: int, seed: int) -> None:
    retry = Retry(attempts=5, first=0.1, longest=30)
    pause = retry.after_response(attempt, Response(status, headers={"retry-after": str(named)}), random.Random(seed))
    assert pause is not None
    assert min(max(named, 0.1), 30) <= pause <= 45


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (500, {"retry-after": "1"}),
        (409, {}),
        (200, {}),
        (429, {}),
        (503, {"retry-after": "Sat, 21 Nov 2026 12:00:00 GMT"}),
        (503, {"retry-after": "²"}),
        (503, {"retry-after": "-1"}),
        (503, {"retry-after": "1e3"}),
        (503, {"retry-after": "٣"}),
    ],
)
def test_other_answers_are_final(status: int, headers: dict[str, str]) -> None:
    assert Retry().after_response(1, Response(status, headers=headers), random.Random(1)) is None


@given(st.integers(1, 100), st.integers())
def test_pauses_after_failures_grow_to_a_bound(attempt: int, seed: int) -> None:
    retry = Retry(attempts=1000, first=0.1, longest=5)
    pause = retry.after_failure(attempt, READ, Unreachable("x"), random.Random(seed))
    assert pause is not None
    bound = min(0.1 * 2 ** (attempt - 1), 5)
    assert bound / 2 <= pause <= bound


def test_write_that_may_have_arrived_is_not_sent_twice() -> None:
    assert Retry().after_failure(1, WRITE, Unreachable("x"), random.Random(1)) is None
    assert Retry().after_failure(1, WRITE, Unreachable("x", sent=False), random.Random(1)) is not None


def test_failure_after_the_limit_of_time_is_final() -> None:
    retry = Retry(within=5)
    assert retry.after_failure(1, READ, Unreachable("x"), random.Random(1), elapsed=4.9) is not None
    assert retry.after_failure(1, READ, Unreachable("x"), random.Random(1), elapsed=5) is None


def test_a_reader_that_does_not_want_to_wait_does_not() -> None:
    assert NO_RETRY.after_failure(1, READ, Unreachable("x"), random.Random(1)) is None
    assert NO_RETRY.after_response(1, Response(429, headers={"retry-after": "1"}), random.Random(1)) is None
