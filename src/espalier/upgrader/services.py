"""Services of the host's systemd, and what becomes of them when their programs are replaced."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from .failures import StepFailed
from .node import Node

STARTING = 60
"""Seconds within which a service comes up, on slow disks too."""
STEADY = 1
"""Seconds for which a service must have run since its start before it is asked how it is; what fails, fails at once."""
RESTARTS = 3
"""As often may systemd try to start it."""


@dataclass(frozen=True)
class Service:
    """State of a service, as systemd reports it."""

    name: str
    loaded: bool
    program: str
    """Path of the program that it starts; empty when it starts none."""
    active: bool
    state: str
    restarts: int
    """Number of restarts by systemd since it was last asked to start it."""


def show(node: Node, name: str) -> Service:
    """State of a service, as systemd reports it. Raises `StepFailed` when there is no systemd to ask."""
    properties = "LoadState,ExecStart,ActiveState,SubState,NRestarts"
    result = node.commands.run("systemctl", "show", f"{name}.service", f"--property={properties}")
    if result.code:
        raise StepFailed(
            f"systemd can't be asked about {name} on the host (systemctl show ended with {result.code}: "
            f"{result.last_lines()}); nodes need the layout of image-builder, with {name} run by systemd"
        )
    said = dict(line.split("=", 1) for line in result.output.splitlines() if "=" in line)
    program = re.search(r"path=(\S+)", said.get("ExecStart", ""))
    restarts = said.get("NRestarts", "")
    return Service(
        name,
        said.get("LoadState") == "loaded",
        program[1] if program else "",
        said.get("ActiveState") == "active" and said.get("SubState") == "running",
        f"{said.get('ActiveState', 'unknown')} ({said.get('SubState', 'unknown')})",
        int(restarts) if restarts.isdecimal() else 0,
    )


def program_of(node: Node, name: str) -> str:
    """Path of the program that a service starts. Raises `StepFailed` where the host has another layout."""
    service = show(node, name)
    if not service.loaded or not service.program:
        raise StepFailed(
            f"the host has no service {name}.service: nodes need the layout of image-builder, "
            f"where systemd runs {name}; nothing was changed"
        )
    if not node.files.is_file(service.program):
        raise StepFailed(f"{name}.service starts {service.program}, which is not on the host; repair the service first")
    return service.program


@dataclass(frozen=True)
class Verdict:
    """True if a service is well."""

    missing: str = ""
    """Problem of the service; empty if it is well."""
    sure: bool = True
    """False when that could not be found out, so that nothing speaks against the service either."""


WELL = Verdict()


def restart(node: Node, name: str, healthy: Callable[[], Verdict], *, timeout: float = STARTING) -> Verdict:
    """Restart a service; it is well when it runs steadily and `healthy` finds it so, within `timeout` seconds."""
    node.commands.run("systemctl", "reset-failed", f"{name}.service")  # also sets the count of restarts to 0
    result = node.commands.run("systemctl", "restart", f"{name}.service", timeout=2 * STARTING)
    if result.code:
        return Verdict(f"systemctl restart {name} ended with {result.code}: {result.last_lines()}")
    node.clock.wait(STEADY)
    end = node.clock.now() + timeout
    while True:
        service = show(node, name)
        if service.restarts >= RESTARTS:
            return Verdict(f"systemd started it {service.restarts} times more, and each time it ended")
        verdict = healthy() if service.active else Verdict(f"it is {service.state}")
        if not verdict.missing or node.clock.now() >= end:
            return verdict
        node.clock.wait(1)


def journal(node: Node, name: str) -> str:
    """The last lines that a service said, in one line; empty when they can't be had."""
    result = node.commands.run("journalctl", f"--unit={name}", "--lines=3", "--output=cat", "--no-pager", timeout=10)
    return "" if result.code else result.last_lines(3)
