"""The summary that `espalier describe cluster` begins with, on terminals and in pipes."""

from __future__ import annotations

import pytest

from espalier.cli.describe import within

FACT = "Ready     False for 3m: spec.workerNodeGroupConfigurations[0].failureDomains: waiting for Secret eksa-system/a"


@pytest.mark.parametrize("width", [70, 80, 100])
def test_a_long_sentence_is_wrapped_between_words_below_its_beginning(width: int) -> None:
    first, *rest = within(FACT, width)
    assert max(map(len, (first, *rest))) <= width
    assert all(line.startswith(" " * 10) and line[10] != " " for line in rest)
    assert " ".join([first, *(line.strip() for line in rest)]) == FACT


def test_in_a_pipe_it_is_one_line() -> None:
    assert within(FACT, 0) == [FACT]
