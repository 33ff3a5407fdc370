"""Containers as coroutines of this process: the interface of their programs.

It runs on virtual time as well. It has no sockets: a program listens on a port with any object, and others get that
object when they connect to the pod's Service.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from signal import Signals
from typing import TypeAlias, TypeVar

from espalier.api.resource import Key
from espalier.runtime.clock import Clock
from espalier.simulator.pods.runtimes.life import Life
from espalier.simulator.pods.runtimes.memory_volumes import Mounted
from espalier.simulator.pods.runtimes.pod_network import LOCALHOSTS, Listener, PodNetwork, endpoint_of

T = TypeVar("T")

InProcessProgram: TypeAlias = Callable[["Container"], Awaitable[int]]
"""Runs one container and returns its exit code. SIGTERM cancels it, and it may clean up. SIGKILL cancels it as well,
but then its life is over, its volumes are unmounted and its connections closed, so its clean-up has no effect. It
registers with `Container.life.at_end` what the kernel does at the end of a process; nothing else needs a clean-up."""

InProcessPrograms: TypeAlias = Callable[[str], InProcessProgram | None]
"""The program of an image, None if there is none."""

Command: TypeAlias = Callable[[Sequence[str]], Awaitable[int]]
"""A command that an exec probe may run: gets its arguments, returns its exit code."""

SendSignal: TypeAlias = Callable[[str, Signals], None]


@dataclass
class Container:
    """One run of a container, as its program sees it."""

    pod: Key
    pod_uid: str
    name: str
    image: str
    arguments: Sequence[str]
    """`command` and `args`, with variables expanded."""
    environment: Mapping[str, str]
    volumes: Mapping[str, Mounted]
    """Volumes by the path where they are mounted."""
    clock: Clock
    random: random.Random
    network: PodNetwork
    life: Life
    send_signal: SendSignal
    """Sends a signal to another container of the pod, by name. Raises `ProcessLookupError` if it does not run, or if
    the pod has no shareProcessNamespace."""
    message: str = ""
    """The container's termination message."""
    log: list[str] = field(default_factory=list)
    commands: dict[str, Command] = field(default_factory=dict)
    """The commands that probes may run in it, by name."""

    def listen(self, port: int, endpoint: object, *, answers: Callable[[str], Awaitable[int]] | None = None) -> None:
        """Listen on a port: clients get `endpoint`, and HTTP probes get the status from `answers`."""
        self.network.listen(self.pod_uid, port, Listener(endpoint, self.life, answers))

    def find(self, host: str, port: int) -> Listener:
        """The listener at a Service's name, or in this pod at localhost. Raises `ConnectionRefused`."""
        if host in LOCALHOSTS:
            return self.network.of_pod(self.pod_uid, port)
        return self.network.resolve(self.pod.namespace, host, port)

    def connect(self, host: str, port: int, type_: type[T]) -> T:
        """The endpoint of the listener found by `find`. Raises `ConnectionRefused`, also for one of another type."""
        return endpoint_of(self.find(host, port), type_)
