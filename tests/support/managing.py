"""A manager that runs while a block does."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from espalier.cli.managing import Managing
from espalier.runtime.manager import Manager


@asynccontextmanager
async def led_by(manager: Manager) -> AsyncIterator[Managing]:
    """Its controllers run when the block begins. Raises, also at the end, what ended the manager before."""
    managing = Managing.begin(manager)
    try:
        await managing.leading()
        yield managing
    finally:
        manager.stop()
        await managing.task
