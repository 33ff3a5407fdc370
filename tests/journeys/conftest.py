"""Where journeys begin."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from tests.support.management import Management, laptop, production


@pytest.fixture(
    params=[
        pytest.param("embedded", marks=pytest.mark.embedded),
        pytest.param("envtest", marks=pytest.mark.envtest),
    ]
)
def starting(request: pytest.FixtureRequest, tmp_path: Path) -> AbstractAsyncContextManager[Management]:
    """The way to a management cluster; entered in the test itself, for its tasks belong to the test."""
    if request.param == "envtest":
        return production(request.getfixturevalue("control_plane"), tmp_path)
    return laptop(tmp_path)
