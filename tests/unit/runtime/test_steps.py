from __future__ import annotations

import pytest

from espalier.kube.errors import Conflict
from espalier.runtime.controllers import steps
from espalier.runtime.controllers.outcome import Continue, Done, Fault, Outcome, Wait, fault_of


async def note_it(scope: list[str]) -> Outcome:
    scope.append("noted")
    return Continue()


async def wait_for_rain(scope: list[str]) -> Outcome:
    return Wait("NoRain", "waiting for rain")


async def fall_over(scope: list[str]) -> Outcome:
    raise Conflict.of("somebody else changed it")


async def test_steps_run_until_one_has_to_wait() -> None:
    scope: list[str] = []
    assert await steps.run([note_it, note_it, wait_for_rain, note_it], scope) == Wait("NoRain", "waiting for rain")
    assert scope == ["noted", "noted"]


async def test_when_no_step_is_left_the_reconcile_is_done() -> None:
    assert await steps.run([note_it], []) == Done()


async def test_an_exception_says_in_which_step_it_happened() -> None:
    with pytest.raises(Conflict) as caught:
        await steps.run([note_it, fall_over], [])
    assert fault_of(caught.value) == Fault("Conflict", "somebody else changed it (in step fall_over)")
