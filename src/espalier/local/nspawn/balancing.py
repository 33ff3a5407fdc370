"""The balancer from outside: started once, taken over when it runs already, told what to do by a file."""

from __future__ import annotations

import json
import signal
import sys
from typing import TypedDict

from espalier.local.nspawn import balancer, processes
from espalier.local.nspawn.commands import start_apart
from espalier.local.nspawn.state import BalancerRecord, State


class Front(TypedDict):
    """A control plane: where it is reached, and the nodes behind."""

    address: str
    port: int
    backends: list[str]


class Balancing:
    """The balancer of a world. Nothing runs while there is no control plane."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._settings = state.root / "balancer.conf"
        self._log = state.root / "balancer.log"

    async def front(self, fronts: list[Front]) -> None:
        """Have the balancer do this. It is started when it does not run, and told when something changed."""
        if not fronts:
            await self.end()
            return
        content = json.dumps(sorted(fronts, key=lambda front: front["address"]), indent=1).encode()
        changed = not self._settings.exists() or self._settings.read_bytes() != content
        if changed:
            fresh = self._settings.with_suffix(".new")
            fresh.write_bytes(content)
            fresh.replace(self._settings)
        record = self._state.balancer()
        if record is None or not record.process.alive:
            await self._start()
        elif changed:
            processes.stop(record.process, signal.SIGHUP)

    async def end(self) -> None:
        """Have no balancer."""
        record = self._state.balancer()
        if record is not None and record.process.alive:
            processes.stop(record.process)
            await processes.ended(record.process)

    @property
    def process(self) -> processes.Process | None:
        """The balancer's process, if it runs."""
        record = self._state.balancer()
        return record.process if record is not None and record.process.alive else None

    async def _start(self) -> None:
        # The file itself, isolated: it needs nothing of this package, so it starts fast and stays small.
        command = (sys.executable, "-I", "-S", balancer.__file__, str(self._settings))
        pid = self._state.root / "balancer.pid"
        await start_apart(command, pid=pid, log=self._log)
        started = processes.identify(int(pid.read_text()))
        if started is None:
            raise OSError(f"the balancer ended at once: see {self._log}")
        self._state.write_balancer(BalancerRecord(started))
