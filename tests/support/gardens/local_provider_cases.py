"""One case for each extension kind: what a gardenlet asks for, and what it needs to be there before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from espalier.api.gardener.extensions.control_plane import ControlPlane
from espalier.api.gardener.extensions.dns_record import DNSRecord
from espalier.api.gardener.extensions.extension import Extension
from espalier.api.gardener.extensions.extension_backups import BackupBucket, BackupEntry
from espalier.api.gardener.extensions.infrastructure import Infrastructure
from espalier.api.gardener.extensions.network import Network
from espalier.api.gardener.extensions.operating_system_config import OperatingSystemConfig
from espalier.api.gardener.extensions.worker import Worker
from espalier.api.resource import Resource
from tests.support.gardens.clouds import CREDENTIALS, World, state_in
from tests.support.gardens.extensions import SHOOT, Seed, succeeded

FILES = [{"path": "/etc/motd", "content": {"inline": {"data": "hello"}}}]
OSC = {"type": "local", "purpose": "provision", "files": FILES}
INFRASTRUCTURE = {"type": "local", "region": "here", "secretRef": CREDENTIALS}
POOL = {
    "name": "a",
    "machineType": "small",
    "minimum": 2,
    "maximum": 5,
    "maxSurge": 1,
    "maxUnavailable": 0,
    "machineImage": {"name": "linux", "version": "1"},
    "userDataSecretRef": {"name": "osc-result-osc", "key": "cloud_config"},
}
ENTRY = f"{SHOOT}--0815"
BUCKET = {"type": "local", "providerConfig": {"url": "file:///backups/{bucket}"}}


@dataclass(frozen=True)
class Case:
    """A resource of one kind."""

    resource: Resource
    name: str
    spec: dict[str, Any]
    stateful: bool = False
    calls: bool = False
    """Calls the cloud or a store to reconcile."""
    leased: bool = True
    """Its reconcile needs a lease."""
    prepare: Callable[[World, Seed], Awaitable[dict[str, Any]]] | None = None
    """Makes what it needs; gives further fields of its spec."""

    def __str__(self) -> str:
        return self.resource.kind

    async def spec_for(self, world: World, seed: Seed) -> dict[str, Any]:
        """Its spec in a seed."""
        return {**self.spec, **(await self.prepare(world, seed) if self.prepare else {})}


async def needs_of_workers(world: World, seed: Seed) -> dict[str, Any]:
    """A network and user data. A second seed restores the network of the first."""
    first = next(iter(world.seeds.values()))
    result = await first.find(Infrastructure.resource, "infra")
    state = state_in(result.tree) if result and first is not seed else None
    operation = "Restore" if state else "Create"
    asks = "restore" if state else "reconcile"
    await seed.make(Infrastructure.resource, "infra", INFRASTRUCTURE, asks=asks, state=state)
    await seed.make(OperatingSystemConfig.resource, "osc", OSC, asks="reconcile")
    await seed.until(OperatingSystemConfig.resource, "osc", succeeded("Create"))
    infrastructure = await seed.until(Infrastructure.resource, "infra", succeeded(operation))
    return {"infrastructureProviderStatus": infrastructure["status"]["providerStatus"]}


CASES = [
    Case(Infrastructure.resource, "rose", INFRASTRUCTURE, stateful=True, calls=True),
    Case(
        Worker.resource,
        "rose",
        {"type": "local", "region": "here", "secretRef": CREDENTIALS, "pools": [POOL]},
        stateful=True,
        prepare=needs_of_workers,
    ),
    Case(ControlPlane.resource, "rose", {"type": "local", "purpose": "normal", "secretRef": CREDENTIALS}),
    Case(Network.resource, "rose", {"type": "local", "podCIDR": "100.96.0.0/11", "ipFamilies": ["IPv4"]}),
    Case(OperatingSystemConfig.resource, "rose", OSC),
    Case(
        DNSRecord.resource,
        "rose",
        {
            "type": "local",
            "secretRef": CREDENTIALS,
            "name": "api.rose.example",
            "recordType": "A",
            "values": ["192.0.2.1"],
            "ttl": 30,
        },
        calls=True,
    ),
    Case(Extension.resource, "rose", {"type": "toy"}, stateful=True),
    Case(BackupBucket.resource, "bucket-1", BUCKET, calls=True, leased=False),
    Case(
        BackupEntry.resource,
        ENTRY,
        {"type": "local", "bucketName": "bucket-1", "backupBucketProviderStatus": {"url": "file:///backups/bucket-1"}},
        leased=False,
    ),
]
