"""The fixture `control_plane`: import it in a conftest.py to offer it to the tests there."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.control_plane import ControlPlane, find_assets, real_control_plane, why_no_assets


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def control_plane(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ControlPlane]:
    """A real control plane for the tests of a module; without the programs, they are skipped.

    It goes with the module: a dozen that idle to the end of the run would take half a core.
    """
    assets = find_assets()
    if assets is None:
        pytest.skip(why_no_assets())
    async with real_control_plane(tmp_path_factory.mktemp("control-plane"), assets) as running:
        yield running
