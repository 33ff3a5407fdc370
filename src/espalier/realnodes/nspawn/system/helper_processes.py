"""Helper processes that outlive the local environment's process: the balancer and the registry.

They are started once, and taken over if they run already.
"""

from __future__ import annotations

import json
import signal
import socket
import sys
from pathlib import Path
from typing import TypedDict, cast

from espalier.realnodes.nspawn.system import balancer, processes, registry
from espalier.realnodes.nspawn.system.commands import start_detached
from espalier.realnodes.nspawn.system.processes import Process
from espalier.realnodes.nspawn.system.registry import ServedImages
from espalier.realnodes.nspawn.system.state import State


class HelperProcess:
    """A helper process with a settings file. `program` is its source, which uses only the standard library."""

    def __init__(self, state: State, name: str, program: str) -> None:
        self._name = name
        self._program = program
        self._settings = state.root / f"{name}.conf"
        self._log = state.root / f"{name}.log"
        self._pid = state.root / f"{name}.pid"

    @property
    def process(self) -> Process | None:
        """The process, if it runs. A reused PID belongs to a process with other arguments."""
        try:
            pid = int(self._pid.read_text())
            arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return processes.identify(pid) if str(self._settings).encode() in arguments else None

    def settings(self) -> object:
        """Last settings, None before the first."""
        try:
            return json.loads(self._settings.read_bytes())
        except FileNotFoundError:
            return None

    def configure(self, wanted: object) -> bool:
        """Write the settings; returns True if they changed."""
        content = json.dumps(wanted, indent=1).encode()
        if self._settings.exists() and self._settings.read_bytes() == content:
            return False
        fresh = self._settings.with_suffix(".new")
        fresh.write_bytes(content)
        fresh.replace(self._settings)
        return True

    async def start(self) -> None:
        """Start the process with its settings. Raises `OSError` when it ends at once."""
        # The file itself, isolated: it needs nothing of this package, so it starts fast and stays small.
        command = (sys.executable, "-I", "-S", self._program, str(self._settings))
        await start_detached(command, pid=self._pid, log=self._log)
        if self.process is None:
            raise OSError(f"the {self._name} exited immediately: see {self._log}")

    async def end(self) -> None:
        """Stop the process."""
        running = self.process
        if running is not None:
            processes.stop(running)
            await processes.ended(running)


def check_free(address: str, port: int, service: str) -> None:
    """Raise `OSError` when the address is in use."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, port))
        except OSError as error:
            message = f"another program listens at {address}:{port}, where {service} should: stop it"
            raise OSError(error.errno, message) from error


class RegistryProcess:
    """The registry of a local environment. It outlives its process, because nodes pull at any time."""

    def __init__(self, state: State) -> None:
        self._program = HelperProcess(state, "registry", registry.__file__)

    async def offer(self, served_images: ServedImages, host: str, port: int = registry.PORT) -> None:
        """Serve these images. Raises `OSError` when the address does not exist, or is in use."""
        running = self.process
        if running is None:
            check_free(host, port, "the registry of nodes")
        self._program.configure({"host": host, "port": port, **served_images.to_settings()})
        if running is None:
            await self._program.start()

    async def end(self) -> None:
        """Stop the registry."""
        await self._program.end()

    @property
    def process(self) -> Process | None:
        """The registry's process, if it runs."""
        return self._program.process


class ControlPlaneEndpoint(TypedDict):
    """The endpoint of a control plane, and the addresses of its nodes."""

    address: str
    port: int
    backends: list[str]


class BalancerProcess:
    """The balancer of a local environment. It does not run without control planes."""

    def __init__(self, state: State) -> None:
        self._program = HelperProcess(state, "balancer", balancer.__file__)

    async def serve(self, endpoints: list[ControlPlaneEndpoint]) -> None:
        """Update the balancer: start it if it does not run, reload it when settings changed.

        Raises `OSError` when another program listens at the endpoint of a control plane.
        """
        if not endpoints:
            await self.end()
            return
        running = self.process
        before = cast("list[ControlPlaneEndpoint]", self._program.settings() or []) if running is not None else []
        for new in [endpoint for endpoint in endpoints if _place(endpoint) not in map(_place, before)]:
            check_free(*_place(new), "the control plane")
        changed = self._program.configure(sorted(endpoints, key=lambda endpoint: endpoint["address"]))
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


def _place(endpoint: ControlPlaneEndpoint) -> tuple[str, int]:
    return endpoint["address"], endpoint["port"]
