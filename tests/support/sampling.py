"""Variants of one story: some are told in every run, the others by `make soak`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from _pytest.mark.structures import ParameterSet


def sampled(variants: Iterable[object], *often: int) -> list[ParameterSet]:
    """For `parametrize`: variants at these places are in every run. A tuple is the arguments of one variant."""
    values = list(variants)
    assert often, "no variant would be told"
    assert set(often) <= set(range(len(values))), "a place at which there is no variant"
    return [
        pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=() if at in often else pytest.mark.soak)
        for at, value in enumerate(values)
    ]
