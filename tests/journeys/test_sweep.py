"""Random users, random hands, random faults: whatever happens, it ends well, or a condition says what helps.

A history that ended badly is told by its seed: `tell(SEED, without=KNOWN)`.
"""

from __future__ import annotations

import itertools
import os
import time

import pytest

from tests.journeys.sweeping import HANDS, USERS, tell

pytestmark = pytest.mark.embedded

MANY = 20
KNOWN = {
    "delete DockerCluster": "its successor has another address, and Ready stays True although no API server answers",
    "delete KubeadmControlPlane": "it waits for workers that nobody takes away, and nothing says what helps",
}
"""Acts that do not end well, and why. Who mends one takes it out: a test fails until then."""


@pytest.mark.parametrize("seed", range(MANY))
def test_a_random_history_ends_well_or_says_what_helps(seed: int) -> None:
    tell(seed, without=tuple(KNOWN))


@pytest.mark.parametrize("act", KNOWN)
def test_what_is_known_to_end_badly_still_does(act: str) -> None:
    assert act in HANDS
    with pytest.raises(AssertionError, match="left:"):
        tell(4, [act], in_place=False)


def test_a_history_is_the_same_each_time_it_is_told() -> None:
    assert tell(3, without=tuple(KNOWN)) == tell(3, without=tuple(KNOWN))


@pytest.mark.soak
@pytest.mark.parametrize("act", [one for one in (*USERS, *HANDS) if one not in KNOWN])
@pytest.mark.parametrize("in_place", [False, True], ids=["replaced", "in place"])
def test_after_each_single_act_the_end_is_the_undisturbed_one_or_what_is_said_helps(act: str, in_place: bool) -> None:
    tell(1, [act], in_place=in_place)


@pytest.mark.soak
def test_thousands_of_histories_end_well_or_say_what_helps() -> None:
    until = time.monotonic() + float(os.environ.get("ESPALIER_SOAK_SECONDS", "60"))
    for seed in itertools.count(MANY):
        tell(seed, without=tuple(KNOWN))
        if time.monotonic() > until:
            return
