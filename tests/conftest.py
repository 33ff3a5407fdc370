"""What holds for all tests."""

from __future__ import annotations

import logging
import os

import structlog
from hypothesis import settings

STORY = "ESPALIER_TELL_PASSES"
"""Set, tests log every pass and step of every controller: for a test that failed. It is a tenth of their time."""


def pytest_configure() -> None:
    """Leave the debug logs out, unless they are asked for; and no property is late: machines are busy at times."""
    settings.register_profile("house", deadline=None)
    settings.load_profile("house")
    level = logging.DEBUG if os.environ.get(STORY) else logging.INFO
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(level))
