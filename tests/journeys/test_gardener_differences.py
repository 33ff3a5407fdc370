"""A garden of ours judges objects as the page about differences from Gardener says."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from espalier.api.gardener.garden.differences import CASES, Case
from espalier.cli.local.environment.garden.gardens import Garden
from espalier.cli.local.environment.garden.migration_scenario import quick_settings
from espalier.kube.client import Client
from espalier.runtime.clock import SystemClock
from tests.support.gardens.judged_objects import judged, objects, prepare

pytestmark = pytest.mark.embedded
in_module = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[Client]:
    """A garden of ours, with its admission."""
    async with Garden.run_with(SystemClock(), random.SystemRandom(), [], quick_settings(), projects=[]) as garden:
        await prepare(garden.client)
        yield garden.client


@in_module
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.kind}-{case.what}")
async def test_our_garden_judges_as_its_page_says(case: Case, client: Client) -> None:
    assert ((await judged(client, case)) == "") is case.here


@in_module
async def test_our_garden_accepts_what_is_changed(client: Client) -> None:
    kinds = await objects(client)
    refusals = [await judged(client, Case(kind, "", {}, True, True)) for kind in kinds]
    assert refusals == [""] * len(kinds)
    assert {case.kind for case in CASES} == set(kinds)


def test_each_difference_says_why() -> None:
    assert [case.what for case in CASES if (case.here is not case.gardener) is not bool(case.why)] == []
    assert len({(case.kind, case.what) for case in CASES}) == len(CASES)
