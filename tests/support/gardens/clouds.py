"""Seeds on one simulated cloud, with the extensions of type `local`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec

from espalier.api.cloud import AnyCall, CloudError, CloudRequest, Refusal
from espalier.api.core import SECRET, Secret
from espalier.api.meta import ObjectMeta
from espalier.api.resource import Resource
from espalier.kube.transports.wire import Transport
from espalier.runtime.component import Component
from espalier.runtime.manager import Manager
from espalier.runtime.virtual import Simulation
from espalier.shoots.extension import OperationFailed
from espalier.shoots.local_provider import setup
from espalier.shoots.machine_controller import setup as machines
from espalier.simulator.cloud.service import Cloud, Fault, Faults
from tests.support.gardens.extensions import SHOOT, TIMING, Seed, new_seed, running

KINDS = (*setup.NAMESPACED, *setup.CLUSTER_SCOPED, *setup.MACHINES)
ACCOUNT, TOKEN = "garden", "secret"
CREDENTIALS = {"name": "cloudprovider", "namespace": SHOOT}


@dataclass
class MemoryStores:
    """Buckets in memory, and what was asked."""

    buckets: dict[str, list[str]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    breaks: bool = False

    async def ensure_bucket(self, url: str, credentials: Mapping[str, bytes]) -> None:
        self._asked(f"ensure {url}")
        self.buckets.setdefault(url, [])

    async def delete_bucket(self, url: str, credentials: Mapping[str, bytes]) -> None:
        self._asked(f"delete {url}")
        self.buckets.pop(url, None)

    async def delete_folder(self, url: str, folder: str, credentials: Mapping[str, bytes]) -> None:
        self._asked(f"delete {url}/{folder}")
        self.buckets[url] = [item for item in self.buckets.get(url, []) if not item.startswith(f"{folder}/")]

    def _asked(self, call: str) -> None:
        self.log.append(call)
        if self.breaks:
            raise OperationFailed("the store does not answer")


@dataclass
class World:
    """One cloud, its stores, and seeds by name."""

    simulation: Simulation
    cloud: Cloud
    stores: MemoryStores = field(default_factory=MemoryStores)
    seeds: dict[str, Seed] = field(default_factory=dict)

    async def seed(self, name: str) -> Seed:
        """A seed with all kinds, the shoot's namespace, and credentials in it."""
        seed = self.seeds[name] = await new_seed(self.simulation, KINDS)
        data = {"account": ACCOUNT.encode(), "token": TOKEN.encode()}
        secret = Secret(metadata=ObjectMeta(name="cloudprovider", namespace=SHOOT), data=data)
        await seed.client.create(SECRET, secret)
        return seed

    def components(self, name: str, *, with_machines: bool = True) -> list[Component]:
        """The extensions of a seed, and its machine controller manager."""
        call = self.cloud.called_by(name)
        rng = self.simulation.random
        results = [setup.component(call, self.stores, TIMING, lambda: f"{rng.getrandbits(64):x}")]
        return [*results, machines.component(call, TIMING)] if with_machines else results

    @asynccontextmanager
    async def extensions(
        self,
        name: str,
        wrap: Callable[[Transport], Transport] = lambda transport: transport,
        *,
        with_machines: bool = True,
    ) -> AsyncIterator[Manager]:
        """Run them while the block runs."""
        async with running(self.seeds[name], self.components(name, with_machines=with_machines), wrap) as manager:
            yield manager

    @property
    def calls(self) -> list[str]:
        """Everything that was asked of the cloud and of stores."""
        return [*map(str, self.cloud.log.entries), *self.stores.log]

    @property
    def changes(self) -> list[str]:
        """Requests of the cloud's log that ask for a change."""
        return [str(write) for write in self.cloud.log.writes()]

    @property
    def names_of_machines(self) -> list[str]:
        """Names and ids of all virtual machines."""
        return sorted(f"{item.name} {item.id}" for item in self.cloud.inventory.all("VirtualMachine"))


async def new_world(simulation: Simulation, *seeds: str) -> World:
    """A world with these seeds."""
    world = World(simulation, Cloud(simulation.clock, {ACCOUNT: TOKEN}))
    for name in seeds:
        await world.seed(name)
    return world


async def names_in(seed: Seed, *resources: Resource) -> list[str]:
    """Names of all objects of kinds in the shoot's namespace."""
    return [item.name for resource in resources for item in (await seed.client.list(resource, SHOOT)).items]


def state_in(tree: dict[str, Any]) -> Any:
    """The saved state of a resource."""
    return tree.get("status", {}).get("state")


def decoded(state: Any) -> dict[str, Any]:
    """A state that is saved as text."""
    return dict(msgspec.json.decode(state))


def refuse(refusal: Refusal, message: str, *calls: type[AnyCall]) -> Faults:
    """Refuse all requests, or those of some types."""

    def faults(request: CloudRequest) -> Fault | None:
        is_meant = not calls or isinstance(request.call, calls)
        return Fault(refused=CloudError(refusal, message)) if is_meant else None

    return faults
