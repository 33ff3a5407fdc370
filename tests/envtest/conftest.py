"""Where tests on a real API server begin."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from espalier.kube.client import Client
from tests.support.environments.control_plane import ControlPlane


@pytest.fixture
async def admin(control_plane: ControlPlane) -> AsyncIterator[Client]:
    """The administrator of a real control plane."""
    client = control_plane.client()
    yield client
    await client.close()
