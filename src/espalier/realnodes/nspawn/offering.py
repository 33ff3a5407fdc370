"""Controls the registry process and its settings."""

from __future__ import annotations

from espalier.realnodes.nspawn import registry
from espalier.realnodes.nspawn.companion import Companion, check_free
from espalier.realnodes.nspawn.processes import Process
from espalier.realnodes.nspawn.registry import Shelf
from espalier.realnodes.nspawn.state import State


class Offering:
    """The registry of a local environment. It outlives its process, because nodes pull at any time."""

    def __init__(self, state: State) -> None:
        self._program = Companion(state, "registry", registry.__file__)

    async def offer(self, shelf: Shelf, host: str, port: int = registry.PORT) -> None:
        """Serve these images. Raises `OSError` when the address does not exist, or is in use."""
        running = self.process
        if running is None:
            check_free(host, port, "the registry of nodes")
        self._program.tell({"host": host, "port": port, **shelf.to_settings()})
        if running is None:
            await self._program.start()

    async def end(self) -> None:
        """Stop the registry."""
        await self._program.end()

    @property
    def process(self) -> Process | None:
        """The registry's process, if it runs."""
        return self._program.process
