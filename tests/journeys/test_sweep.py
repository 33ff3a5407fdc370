"""Random users, random hands, random faults: whatever happens, it ends well, or a condition says what helps.

A history that ended badly is told by its seed: `tell(SEED)`.
"""

from __future__ import annotations

import itertools
import os
import time

import pytest

from tests.journeys.sweep.hands import HANDS
from tests.journeys.sweep.runner import tell
from tests.journeys.sweep.users import USERS
from tests.support.sampling import sampled

pytestmark = pytest.mark.embedded

MANY = 2
"""Seeds that are always the same, the shorter one in every run; `make soak` goes on from there."""


@pytest.mark.soak
@pytest.mark.parametrize("seed", sampled(range(MANY), 1))
def test_a_random_history_ends_well_or_says_what_helps(seed: int) -> None:
    tell(seed)


REDUCED = {
    "a machine that is being deleted loses its finalizer, and leaves its node": (
        2,
        ["delete MachineDeployment", "strip the finalizers of Machine"],
    ),
}
"""Histories that ended badly once, as short as they can be: seed and acts."""


@pytest.mark.soak
@pytest.mark.parametrize("what", REDUCED)
def test_a_history_that_ended_badly_ends_well(what: str) -> None:
    tell(*REDUCED[what], in_place=False)


@pytest.mark.soak
def test_a_random_history_is_the_same_in_each_run() -> None:
    assert tell(3) == tell(3)


@pytest.mark.soak
@pytest.mark.parametrize("act", [*USERS, *HANDS])
@pytest.mark.parametrize("in_place", [False, True], ids=["replaced", "in place"])
def test_single_edit_ends_undisturbed_or_with_a_remedy(act: str, in_place: bool) -> None:
    tell(1, [act], in_place=in_place)


@pytest.mark.soak
def test_random_histories_end_ready_or_with_a_remedy() -> None:
    until = time.monotonic() + float(os.environ.get("ESPALIER_SOAK_SECONDS", "60"))
    for seed in itertools.count(MANY):
        tell(seed)
        if time.monotonic() > until:
            return
