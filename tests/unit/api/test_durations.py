"""Durations as Kubernetes writes them."""

from __future__ import annotations

import pytest

from espalier.api.text.durations import seconds


@pytest.mark.parametrize(
    ("text", "number"),
    [("10m0s", 600), ("5m", 300), ("1h30m", 5400), ("45s", 45), ("0s", 0), ("1h0m1s", 3601)],
)
def test_durations_are_read(text: str, number: int) -> None:
    assert seconds(text) == number


@pytest.mark.parametrize(
    ("text", "number"), [("0.5h", 1800), ("1.5m", 90), ("1m0.999s", 60), ("90s500ms", 90), ("500ms", 0)]
)
def test_fractions_are_read_and_cut_to_whole_seconds(text: str, number: int) -> None:
    assert seconds(text) == number


@pytest.mark.parametrize("text", ["", "soon", "10", "5m10m", "-5m", ".5h", "1,5h", "10m 0s"])
def test_an_invalid_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="hours, minutes and seconds"):
        seconds(text)
