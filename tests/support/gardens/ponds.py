"""An extension as its author writes it: ponds of a provider, and the seed in which they are asked for."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import msgspec

from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.vocabulary.operations import ErrorCode
from espalier.kube.objects import Object
from espalier.runtime.component import Component, Host
from espalier.runtime.controllers.outcome import Wait
from espalier.runtime.controllers.writer import Writer
from espalier.runtime.virtual import Simulation
from espalier.shoots.extension import (
    Extension,
    OperationFailed,
    Request,
    Result,
    SavedState,
    controller_of,
    leases_of,
)
from tests.support.gardens.extensions import TIMING, Seed, new_seed

POND = Infrastructure.resource


class Water(msgspec.Struct):
    pond: str


@dataclass
class Provider:
    """The provider behind the author's actuator: it keeps ponds, and a log."""

    ponds: list[str] = field(default_factory=list)
    log: list[tuple[float, str]] = field(default_factory=list)
    breaks: bool = False
    takes: float = 0.0

    @property
    def calls(self) -> list[str]:
        return [call for _, call in self.log]

    async def dig(self, name: str) -> str:
        await self._called(f"dig {name}")
        if name not in self.ponds:
            self.ponds.append(name)
        return name

    async def fill(self, name: str) -> None:
        await self._called(f"fill {name}")

    async def _called(self, call: str) -> None:
        self.log.append((asyncio.get_running_loop().time(), call))
        await asyncio.sleep(self.takes)
        if self.breaks:
            raise OperationFailed("the spade broke; get another one", ErrorCode.DEPENDENCIES)


class Ponds:
    """An author's actuator."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self.migrated: list[str] = []
        self.size = 0

    async def reconcile(self, request: Request[Water]) -> Result[Water] | Wait:
        pond = await request.call(self.provider.dig, request.object.namespace)
        await request.save(Water(pond))
        await request.call(self.provider.fill, pond)
        return Result(Water(pond + "~" * self.size), status={"nodesCIDR": "10.0.0.0/16"})

    async def restore(self, request: Request[Water]) -> Result[Water] | Wait:
        assert request.state is not None
        if request.state.pond not in self.provider.ponds:
            raise OperationFailed(f"pond {request.state.pond} is not there")
        await request.call(self.provider.fill, request.state.pond)
        return Result(request.state)

    async def migrate(self, object: Object, writer: Writer) -> Wait | None:
        self.migrated.append(object.name)
        return None

    async def delete(self, request: Request[Water]) -> Wait | None:
        await request.call(self.provider.fill, "up")
        self.provider.ponds.clear()
        return None


@dataclass
class Story:
    seed: Seed
    provider: Provider
    actuator: Ponds

    def component(self) -> Component:
        def build(host: Host) -> None:
            leases = leases_of(host, TIMING)
            extension = Extension(POND, "garden", self.actuator, SavedState(Water))
            host.manager.add(controller_of(extension, host, leases, TIMING))

        return Component("ponds", build)

    async def make(self, **options: Any) -> None:
        await self.seed.make(POND, "pond", {"type": "garden"}, **options)

    async def until(self, holds: Any) -> dict[str, Any]:
        return await self.seed.until(POND, "pond", holds)


async def begin(simulation: Simulation) -> Story:
    provider = Provider()
    seed = await new_seed(simulation, [Infrastructure])
    return Story(seed, provider, Ponds(provider))
