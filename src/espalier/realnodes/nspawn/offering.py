"""The registry from outside: what it offers, and where."""

from __future__ import annotations

from espalier.realnodes.nspawn import registry
from espalier.realnodes.nspawn.companion import Companion, check_free
from espalier.realnodes.nspawn.processes import Process
from espalier.realnodes.nspawn.registry import Shelf
from espalier.realnodes.nspawn.state import State


class Offering:
    """The registry of a local environment. Nodes pull from it at any time, so it outlives it."""

    def __init__(self, state: State) -> None:
        self._program = Companion(state, "registry", registry.__file__)

    async def offer(self, shelf: Shelf, host: str, port: int = registry.PORT) -> None:
        """Have it offer these images. Raises `OSError` when the address is not there, or taken."""
        running = self.process
        if running is None:
            check_free(host, port, "the registry of nodes")
        self._program.tell({"host": host, "port": port, **shelf.to_settings()})
        if running is None:
            await self._program.start()

    async def end(self) -> None:
        """Have no registry."""
        await self._program.end()

    @property
    def process(self) -> Process | None:
        """The registry's process, if it runs."""
        return self._program.process
