"""What a settled cluster of each provider costs its infrastructure's API: the requests of checks in an hour.

    python -m benchmarks.bench_checks

The manager runs on virtual time for an hour in which nothing changes, and what it would ask is written down. Then the
same is asked, over the real protocols, of a simulated API of each provider, and the requests are counted. vCenters are
left out where their simulator is not built (`make real-assets`). Tinkerbell is not asked: Hardware is watched.
"""

from __future__ import annotations

import asyncio
import http.client
import os
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch

import msgspec

from benchmarks.measure import arguments, report, size
from espalier.clusters.report.checks import controller
from espalier.providers import registry
from espalier.providers.cloudstack.checks.cloudstacks import CloudStacks
from espalier.providers.nutanix.checks.prism import PrismCentrals
from espalier.providers.simulated import cloudstack as simulated_cloudstack
from espalier.providers.simulated import nutanix as simulated_prism
from espalier.providers.simulated import snow as simulated_devices
from espalier.providers.simulated import vsphere as simulated_vcenter
from espalier.providers.snow.checks.devices import SnowDevices
from espalier.providers.vsphere.checks.questions import ObjectType, Question
from espalier.providers.vsphere.checks.vcenter import VCenters
from espalier.runtime import logs
from espalier.runtime.virtual import Simulation, run
from tests.support.environments.managed_environment import managed_environment
from tests.support.providers import vcenter
from tests.support.providers.cloudstack_api import KEYS, running
from tests.support.providers.prism import ACCOUNT, prism_central
from tests.support.providers.provider_lives import LIVES, ProviderLife
from tests.support.providers.snow_devices import snow_device

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
HOUR = size(3600.0, 900.0)
SIMULATED = (simulated_vcenter, simulated_prism, simulated_cloudstack, simulated_devices)
IN_SIMULATOR = {
    ObjectType.DATACENTER: "DC0",
    ObjectType.NETWORK: "VM Network",
    ObjectType.DATASTORE: "LocalDS_0",
    ObjectType.FOLDER: "",
    ObjectType.RESOURCE_POOL: "DC0_H0/Resources",
    ObjectType.TEMPLATE: "DC0_H0_VM0",
    ObjectType.COMPUTE_CLUSTER: "DC0_C0",
}
"""What govmomi's simulator has of each kind."""

Api = tuple[Callable[[Any], Awaitable[Any]], Callable[[], int]]
"""Asks it, and tells how many requests it has had."""


def questions(life: ProviderLife) -> Counter[Any]:
    """What is asked in an hour about a settled cluster, and how often."""
    asked: Counter[Any] = Counter()

    def written_down(look_up: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def ask(question: Any, credentials: Any, /) -> Any:
            asked[question] += 1
            return await look_up(question, credentials)

        return ask

    async def main(simulation: Simulation) -> None:
        look_ups: Any = [written_down(item.simulated_answers) for item in SIMULATED]
        there = registry.providers(*look_ups)
        async with managed_environment(simulation.clock, providers=there) as env:
            await life.before(env)
            steps = life.steps(env)
            await steps.make()
            await asyncio.sleep(controller.AGAIN)
            asked.clear()
            await asyncio.sleep(HOUR)

    run(main, epoch=EPOCH, seed=1)
    return asked


def of(look_up: Callable[..., Awaitable[Any]], server: object, account: object) -> Callable[[Any], Awaitable[Any]]:
    """Asks this server whatever another one would be asked."""
    return lambda asked: look_up(msgspec.structs.replace(asked, server=server), account)


@asynccontextmanager
async def vsphere() -> AsyncIterator[Api]:
    sent, before = Counter[str](), http.client.HTTPConnection.putrequest

    def counted(self: http.client.HTTPConnection, method: str, url: str, *more: Any, **options: Any) -> None:
        sent[method] += 1
        before(self, method, url, *more, **options)

    with vcenter.vcenter() as center, patch.object(http.client.HTTPConnection, "putrequest", counted):
        ask = of(VCenters(center.resolve), center.server, vcenter.ACCOUNT)

        def there(asked: Any) -> Any:
            types = {question.object_type for question in asked.questions}
            named = frozenset(Question(type_, "DC0", IN_SIMULATOR[type_]) for type_ in types)
            return msgspec.structs.replace(asked, questions=named)

        yield (lambda asked: ask(there(asked))), sent.total


@asynccontextmanager
async def nutanix() -> AsyncIterator[Api]:
    async with prism_central() as central:
        yield of(PrismCentrals(central.resolve), central.server, ACCOUNT), lambda: len(central.asked)


@asynccontextmanager
async def cloudstack() -> AsyncIterator[Api]:
    async with running() as (api, chain):
        with patch.dict(os.environ, {"SSL_CERT_FILE": chain}):
            yield of(CloudStacks(api.resolve), api.server, KEYS), lambda: len(api.asked)


@asynccontextmanager
async def snow() -> AsyncIterator[Api]:
    async with snow_device() as device:
        devices = SnowDevices(device.resolve, device.ports)
        yield of(devices, device.server, device.account), lambda: len(device.asked)


APIS = {item.__name__: item for item in (vsphere, nutanix, cloudstack, snow)}


async def requests(name: str, asked: Counter[Any]) -> int:
    """The requests of all that."""
    total = 0
    async with APIS[name]() as (ask, had):
        for question, times in asked.items():
            before = had()
            await ask(question)
            total += times * (had() - before)
    return total


def main() -> None:
    arguments(__doc__).parse_args()
    logs.setup(level="error")
    for life in LIVES:
        name = life.datacenter.removesuffix("DatacenterConfig").lower()
        if name not in APIS or (name == "vsphere" and vcenter.MISSING):
            continue
        asked = questions(life)
        used = asyncio.run(requests(name, asked))
        report(f"checks of a settled cluster on {name}, an hour", f"{asked.total()} sessions, {used} requests")


if __name__ == "__main__":
    main()
