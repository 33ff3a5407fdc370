"""A vCenter that is away, and an account that it refused, are left alone for a while."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from espalier.providers.vsphere.checks.caution import AWAY, REFUSED, Caution
from espalier.providers.vsphere.checks.questions import Answers, Asked, Credentials, Server, VCenterError
from espalier.runtime.virtual import Simulation, run

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
A, B = Asked(Server("a.example.com")), Asked(Server("b.example.com"))
ANN, EVE = Credentials("ann", "apple"), Credentials("ann", "elder")


class VCenter:
    """Counts what it is asked, and answers by the errors that are set."""

    def __init__(self) -> None:
        self.asked = 0
        self.errors: dict[tuple[Asked, Credentials], VCenterError] = {}

    async def __call__(self, asked: Asked, credentials: Credentials, /) -> Answers:
        self.asked += 1
        if (asked, credentials) in self.errors:
            raise self.errors[asked, credentials]
        return Answers()


@pytest.mark.parametrize(("refused", "pause", "spares_account"), [(False, AWAY, True), (True, REFUSED, False)])
def test_the_same_error_is_told_without_asking_until_time_has_passed(
    refused: bool, pause: float, spares_account: bool
) -> None:
    async def story(simulation: Simulation) -> None:
        center = VCenter()
        center.errors[A, ANN] = VCenterError("Reason", "message", refused=refused)
        look_up = Caution(center, simulation.clock)
        for _ in range(3):
            with pytest.raises(VCenterError, match="message") as told:
                await look_up(A, ANN)
            assert told.value.refused is refused
        assert center.asked == 1
        await look_up(B, ANN)  # another server is asked
        assert center.asked == 2
        if spares_account:
            with pytest.raises(VCenterError):
                await look_up(A, EVE)
            assert center.asked == 2
        else:
            await look_up(A, EVE)  # another password is tried at once
            assert center.asked == 3
        center.errors.clear()
        await asyncio.sleep(pause - 1)
        with pytest.raises(VCenterError):
            await look_up(A, ANN)
        await asyncio.sleep(2)
        assert await look_up(A, ANN) == Answers()

    run(story, epoch=EPOCH, seed=0)


def test_no_repr_has_the_password() -> None:
    assert "apple" not in repr(ANN)
