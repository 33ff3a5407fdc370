"""T2. Named to be collected first: these tests take long and mostly wait, so others run beside them."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from tests.support.environments.cluster_api import RealClusterApi, real_cluster_api, why_no_cluster_api
from tests.support.left_files import folder_of_a_fixture


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def real(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RealClusterApi]:
    """The real Cluster API for the tests of a module; without the programs, the tests are skipped.

    It goes with the module: its managers never rest, and would compete with all tests that come after.
    """
    if lacking := why_no_cluster_api():
        pytest.skip(lacking)
    with folder_of_a_fixture(tmp_path_factory, "real") as folder:
        async with real_cluster_api(folder) as env:
            yield env
