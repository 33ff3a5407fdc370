"""Programs that die at one of their writes, before or after it was made, and are started again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from espalier.cli.local.environment.garden.gardens import Garden
from espalier.kube.errors import Unreachable
from espalier.kube.transports.wire import Request, Response, Stream, Transport

AGAIN = 3.0
"""Seconds until a program that died is started again."""


@dataclass
class Killer:
    """Counts the writes of all programs while it is armed, and kills the program of each that was chosen.

    Leases and events are none: nothing depends on them that a crash could leave half done.
    """

    garden: Garden | None = None
    numbers: Sequence[int] = ()
    after: bool = False
    seen: int = 0
    killed: list[str] = field(default_factory=list)
    _generation: dict[str, int] = field(default_factory=dict)
    _restarts: set[asyncio.Task[None]] = field(default_factory=set)

    def arm(self, garden: Garden, *numbers: int, after: bool) -> None:
        """Kill at these writes from now on, once each."""
        self.garden, self.numbers, self.after, self.seen = garden, numbers, after, 0

    def __call__(self, program: str, transport: Transport) -> Transport:
        if program == "user":
            return transport
        return _Mortal(self, program, transport, self._generation.setdefault(program, 0))

    def is_dead(self, program: str, generation: int) -> bool:
        return self._generation[program] != generation

    def counts(self, request: Request) -> bool:
        """True if this write is the one."""
        if self.garden is None or request.method == "GET" or "/leases/" in request.path or "/events" in request.path:
            return False
        self.seen += 1
        return self.seen in self.numbers

    def kill(self, program: str, request: Request) -> None:
        """The program is dead from now on."""
        assert self.garden is not None
        self.killed.append(f"{program}: {request.method} {request.path}")
        self._generation[program] += 1
        task = asyncio.create_task(self._again(self.garden, program))
        self._restarts.add(task)
        task.add_done_callback(self._restarts.discard)

    async def _again(self, garden: Garden, program: str) -> None:
        await garden.kill(program)
        await asyncio.sleep(AGAIN)
        await garden.restart(program)


class _Mortal:
    def __init__(self, killer: Killer, program: str, transport: Transport, generation: int) -> None:
        self._killer, self._program, self._transport, self._generation = killer, program, transport, generation

    async def request(self, request: Request) -> Response:
        self._check()
        is_last = self._killer.counts(request)
        if is_last and not self._killer.after:
            self._killer.kill(self._program, request)
            self._check()
        response = await self._transport.request(request)
        if is_last:
            self._killer.kill(self._program, request)
        self._check()
        return response

    async def stream(self, request: Request) -> Stream | Response:
        self._check()
        return await self._transport.stream(request)

    async def close(self) -> None:
        await self._transport.close()

    def _check(self) -> None:
        if self._killer.is_dead(self._program, self._generation):
            raise Unreachable("the process is dead", sent=False)
