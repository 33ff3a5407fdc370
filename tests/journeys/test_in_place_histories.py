"""Random faults, hands and second thoughts while a cluster is upgraded in place: it ends well, or says what helps.

A history that ended badly is told by its seed: `tell(SEED)`.
"""

from __future__ import annotations

import itertools
import os
import time

import pytest

from tests.journeys.in_place_histories import tell

pytestmark = pytest.mark.embedded


@pytest.mark.parametrize("seed", [0])
def test_a_random_history_of_an_upgrade_ends_well_or_says_what_helps(seed: int) -> None:
    tell(seed)


@pytest.mark.soak
def test_many_random_histories_of_upgrades_end_well_or_say_what_helps() -> None:
    until = time.monotonic() + float(os.environ.get("ESPALIER_SOAK_SECONDS", "60"))
    for seed in itertools.count(1):
        tell(seed)
        if time.monotonic() > until:
            return
