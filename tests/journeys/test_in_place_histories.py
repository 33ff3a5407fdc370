"""Random faults, hands and second thoughts while a cluster is upgraded in place: it ends well, or says what helps.

A history that ended badly is told by its seed: `in_place_histories.tell(SEED)`, or that of hooks.
"""

from __future__ import annotations

import itertools
import os
import time
from types import ModuleType

import pytest

from tests.support.histories import in_place_histories, in_place_hooked_histories

pytestmark = pytest.mark.embedded


@pytest.mark.soak
@pytest.mark.parametrize("seed", [0])
def test_random_upgrade_ends_well_or_says_what_helps(seed: int) -> None:
    in_place_histories.tell(seed)


@pytest.mark.soak
@pytest.mark.parametrize("seed", [3])
def test_random_hooks_upgrade_ends_or_says_what_helps(seed: int) -> None:
    in_place_hooked_histories.tell(seed)


@pytest.mark.soak
@pytest.mark.parametrize("front_end", [in_place_histories, in_place_hooked_histories], ids=["annotations", "hooks"])
def test_many_random_upgrades_end_or_say_what_helps(front_end: ModuleType) -> None:
    until = time.monotonic() + float(os.environ.get("ESPALIER_SOAK_SECONDS", "60"))
    for seed in itertools.count(1):
        front_end.tell(seed)
        if time.monotonic() > until:
            return
