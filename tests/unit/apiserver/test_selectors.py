"""Selectors are remembered, and what strangers send fills no memory."""

from __future__ import annotations

import tracemalloc

import pytest

from espalier.apiserver.requests import selectors
from espalier.kube.errors import BadRequest


def test_a_selector_is_read_once() -> None:
    assert selectors.parse_labels("app in (a, b), !c") is selectors.parse_labels("app in (a, b), !c")


@pytest.mark.soak
def test_long_selectors_are_not_kept() -> None:
    """A request has room for one of some 60 KB, and a thousand of them would be kept for ever."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(5):
            selectors.parse_labels(f"app in ({','.join(f'a{number}-{value}' for value in range(3_000))})")
        assert tracemalloc.get_traced_memory()[0] - before < 300_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("app!=/b", 'values[0][app]: Invalid value: "/b"'),
        ("app notin (a,b_)", 'values[1][app]: Invalid value: "b_"'),
        ("app in (a, b_)", 'values[1][app]: Invalid value: "b_"'),
        (f"app={'a' * 64}", "must be no more than 63 bytes"),
        ("!a/b/", 'key: Invalid value: "a/b/"'),
        ("-a", 'key: Invalid value: "-a"'),
        ("a\0=b", "key: Invalid value"),
        ("-a!=_b", 'parse requirement: [key: Invalid value: "-a"'),
    ],
)
def test_a_selector_that_no_label_can_match_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadRequest, match="unable to parse requirement") as refused:
        selectors.parse_labels(text)
    assert message in str(refused.value)


@pytest.mark.parametrize("text", ["app", "!example.com/app", "app=", "app in (,b)", "a.b/c_d in (E-f)", "size>5"])
def test_selectors_that_labels_can_match_are_read(text: str) -> None:
    assert len(selectors.parse_labels(text)) == 1
