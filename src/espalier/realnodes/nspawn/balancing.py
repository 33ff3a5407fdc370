"""The balancer from outside: which control planes it is in front of."""

from __future__ import annotations

import signal
from typing import TypedDict, cast

from espalier.realnodes.nspawn import balancer, processes
from espalier.realnodes.nspawn.companion import Companion, check_free
from espalier.realnodes.nspawn.processes import Process
from espalier.realnodes.nspawn.state import State


class Front(TypedDict):
    """A control plane: where it is reached, and the nodes behind."""

    address: str
    port: int
    backends: list[str]


class Balancing:
    """The balancer of a local environment. Nothing runs while there is no control plane."""

    def __init__(self, state: State) -> None:
        self._program = Companion(state, "balancer", balancer.__file__)

    async def front(self, fronts: list[Front]) -> None:
        """Have the balancer do this. It is started when it does not run, and told when something changed.

        Raises `OSError` when somebody else listens where a control plane should be reached.
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
        """Have no balancer."""
        await self._program.end()

    @property
    def process(self) -> Process | None:
        """The balancer's process, if it runs."""
        return self._program.process


def _place(front: Front) -> tuple[str, int]:
    return front["address"], front["port"]
