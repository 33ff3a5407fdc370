"""Histories of accepted writes: two acceptors at a time are found."""

from __future__ import annotations

import pytest

from tests.support.histories.write_histories import Accepted, WriteHistory


def history(*writes: tuple[float, float, str, int]) -> WriteHistory:
    def connect(_seed: str) -> None:
        raise NotImplementedError

    accepted = [Accepted(*write, name=f"sentinel-{number}") for number, write in enumerate(writes)]
    return WriteHistory(connect, accepted)  # type: ignore[arg-type]


def test_one_acceptor_after_another_is_a_move() -> None:
    history((0, 1, "east", 5), (0.5, 2, "east", 4), (3, 4, "west", 9), (5, 6, "east", 12)).check(
        ["east", "west", "east"]
    )


@pytest.mark.parametrize(
    "writes",
    [
        [(0, 1, "east", 5), (2, 3, "west", 9), (4, 5, "east", 10)],
        [(0, 1, "east", 5), (2, 3, "west", 9), (4, 5, "east", 6)],
        [(0, 1, "east", 5), (0, 3, "west", 9), (0, 4, "east", 6)],
        [(0, 1, "east", 9), (2, 3, "west", 8)],
        [(0, 1, "east", 5), (2, 3, "east", 4), (4, 5, "west", 6)],
        [(0, 1, "east", 5)],
    ],
    ids=["later", "lost revision", "late answer", "lower revision", "order of one", "no move"],
)
def test_a_second_acceptor_is_found(writes: list[tuple[float, float, str, int]]) -> None:
    with pytest.raises(AssertionError):
        history(*writes).check(["east", "west"])
