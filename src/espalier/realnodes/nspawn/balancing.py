"""Controls the balancer process and its settings."""

from __future__ import annotations

import signal
from typing import TypedDict, cast

from espalier.realnodes.nspawn import balancer, processes
from espalier.realnodes.nspawn.companion import Companion, check_free
from espalier.realnodes.nspawn.processes import Process
from espalier.realnodes.nspawn.state import State


class Front(TypedDict):
    """A control plane: its endpoint and its nodes."""

    address: str
    port: int
    backends: list[str]


class Balancing:
    """The balancer of a local environment. It does not run without control planes."""

    def __init__(self, state: State) -> None:
        self._program = Companion(state, "balancer", balancer.__file__)

    async def front(self, fronts: list[Front]) -> None:
        """Update the balancer: start it if it does not run, reload it when settings changed.

        Raises `OSError` when another program listens at the endpoint of a control plane.
        """
        if not fronts:
            await self.end()
            return
        running = self.process
        before = cast("list[Front]", self._program.told() or []) if running is not None else []
        for new in [front for front in fronts if _place(front) not in map(_place, before)]:
            check_free(*_place(new), "the control plane")
        changed = self._program.tell(sorted(fronts, key=lambda front: front["address"]))
        if running is None:
            await self._program.start()
        elif changed:
            processes.stop(running, signal.SIGHUP)

    async def end(self) -> None:
        """Stop the balancer."""
        await self._program.end()

    @property
    def process(self) -> Process | None:
        """The balancer's process, if it runs."""
        return self._program.process


def _place(front: Front) -> tuple[str, int]:
    return front["address"], front["port"]
