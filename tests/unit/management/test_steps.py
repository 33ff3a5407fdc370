"""Steps of an operation whose API server does not always answer."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from espalier.kube.errors import Unreachable
from espalier.management import steps
from espalier.runtime.virtual import Simulation, run


class Quiet:
    def say(self, text: str, sign: str = "", *, aside: str = "") -> None: ...

    def wait(self, text: str) -> None: ...


def attempts_at(breaks: int) -> int:
    """The number of attempts at a step that fails so many times."""
    attempts = 0

    async def action() -> None:
        nonlocal attempts
        attempts += 1
        if attempts <= breaks:
            raise Unreachable("it closed the connection")

    async def main(_: Simulation) -> None:
        await steps._act(action, Quiet())

    run(main, epoch=datetime(2026, 1, 1, tzinfo=UTC), seed=1)
    return attempts


@pytest.mark.parametrize("breaks", range(steps._ATTEMPTS))
def test_step_is_repeated_after_a_broken_connection(breaks: int) -> None:
    assert attempts_at(breaks) == breaks + 1


def test_step_whose_server_never_answers_is_an_error() -> None:
    with pytest.raises(Unreachable):
        attempts_at(steps._ATTEMPTS)
