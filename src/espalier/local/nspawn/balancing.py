"""The balancer from outside: started once, taken over when it runs already, told what to do by a file."""

from __future__ import annotations

import json
import signal
import socket
import sys
from pathlib import Path
from typing import TypedDict

from espalier.local.nspawn import balancer, processes
from espalier.local.nspawn.commands import start_apart
from espalier.local.nspawn.processes import Process
from espalier.local.nspawn.state import State


class Front(TypedDict):
    """A control plane: where it is reached, and the nodes behind."""

    address: str
    port: int
    backends: list[str]


class Balancing:
    """The balancer of a world. Nothing runs while there is no control plane."""

    def __init__(self, state: State) -> None:
        self._settings = state.root / "balancer.conf"
        self._log = state.root / "balancer.log"
        self._pid = state.root / "balancer.pid"

    async def front(self, fronts: list[Front]) -> None:
        """Have the balancer do this. It is started when it does not run, and told when something changed.

        Raises `OSError` when somebody else listens where a control plane should be reached.
        """
        if not fronts:
            await self.end()
            return
        content = json.dumps(sorted(fronts, key=lambda front: front["address"]), indent=1).encode()
        changed = not self._settings.exists() or self._settings.read_bytes() != content
        running = self.process
        before = fronts_of(self._settings) if running is not None else []
        for new in [front for front in fronts if _place(front) not in map(_place, before)]:
            _check_free(*_place(new))
        if changed:
            fresh = self._settings.with_suffix(".new")
            fresh.write_bytes(content)
            fresh.replace(self._settings)
        if running is None:
            await self._start()
        elif changed:
            processes.stop(running, signal.SIGHUP)

    async def end(self) -> None:
        """Have no balancer."""
        running = self.process
        if running is not None:
            processes.stop(running)
            await processes.ended(running)

    @property
    def process(self) -> Process | None:
        """The balancer's process, if it runs. A reused number would belong to a process with other arguments."""
        try:
            pid = int(self._pid.read_text())
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return processes.identify(pid) if str(self._settings).encode() in arguments else None

    async def _start(self) -> None:
        # The file itself, isolated: it needs nothing of this package, so it starts fast and stays small.
        command = (sys.executable, "-I", "-S", balancer.__file__, str(self._settings))
        await start_apart(command, pid=self._pid, log=self._log)
        if self.process is None:
            raise OSError(f"the balancer ended at once: see {self._log}")


def fronts_of(settings: Path) -> list[Front]:
    """What the balancer was told last."""
    try:
        told: list[Front] = json.loads(settings.read_bytes())
    except FileNotFoundError:
        return []
    return told


def _place(front: Front) -> tuple[str, int]:
    return front["address"], front["port"]


def _check_free(address: str, port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            message = f"another program listens at {address}:{port}, where the control plane should: stop it"
            raise OSError(error.errno, message) from error
