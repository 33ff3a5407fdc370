"""Selectors are remembered, and what strangers send fills no memory."""

from __future__ import annotations

import tracemalloc

from espalier.apiserver import selectors


def test_a_selector_is_read_once() -> None:
    assert selectors.parse_labels("app in (a, b), !c") is selectors.parse_labels("app in (a, b), !c")


def test_long_selectors_are_not_kept() -> None:
    """A request has room for one of some 60 KB, and a thousand of them would be kept for ever."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        for number in range(200):
            selectors.parse_labels(f"app = a{number}{'a' * 60_000}")
        assert tracemalloc.get_traced_memory()[0] - before < 1_000_000
    finally:
        tracemalloc.stop()
