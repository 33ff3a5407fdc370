"""A folder for an environment of real nodes, and what was on the machine before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.environments.footprint import Footprint, footprint


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir(mode=0o700)  # a test may write into it before the environment is there
    return folder


@pytest.fixture
def clean(home: Path) -> Footprint:
    """The machine before the environment; an environment that is gone leaves it so."""
    return footprint(home)
