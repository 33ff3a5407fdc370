"""Machines as containers, by Cluster API's contract: the provider alone, on the embedded API server."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from espalier.api import capi, eksa
from espalier.api.capi.cluster import Cluster
from espalier.api.capi.docker import DockerCluster, DockerMachine
from espalier.api.capi.machine import Machine
from espalier.api.core import SECRET
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.server import Server
from espalier.apiserver.store import MemoryStore, Store
from espalier.kube.client import Client
from espalier.kube.inprocess import InProcessTransport
from espalier.kube.objects import Object
from espalier.local.assets.cache import assets_folder, is_finished
from espalier.local.management import install_definitions
from espalier.local.nspawn import cgroups, container, processes
from espalier.local.nspawn.addresses import AddressRange
from espalier.local.nspawn.build import build, remove_everything
from espalier.local.nspawn.commands import run
from espalier.local.nspawn.state import NodeRecord, State
from espalier.releases import Releases
from espalier.runtime.cache import Cache
from espalier.runtime.clock import SystemClock
from espalier.runtime.manager import Manager
from tests.support.footprint import Footprint, footprint

ADDRESSES = AddressRange.parse("10.79.0.0/24")
BRIDGE = "esptest"
PATIENCE = 120.0

GOOD = b"""\
## template: jinja
#cloud-config
write_files:
- path: /run/cluster-api/placeholder
  content: ""
- path: /etc/greeting
  owner: root:root
  permissions: '0640'
  content: hello {{ ds.meta_data.local_hostname }}
users:
- name: gardener
  shell: /bin/sh
runcmd:
- id gardener
- echo success > /run/cluster-api/bootstrap-success.complete
"""
BAD = b"#cloud-config\nruncmd:\n- echo watering; echo the well is dry >&2; exit 3\n"


def root_file_system() -> Path | None:
    found = [home for home in assets_folder().glob("node-root-*") if is_finished(home)]
    return max(found, key=lambda home: home.stat().st_mtime) / "rootfs" if found else None


def why_not() -> str:
    if os.geteuid() != 0:
        return "needs root"
    if shutil.which("systemd-nspawn") is None:
        return "needs systemd-nspawn (package systemd-container)"
    return "" if root_file_system() else "needs a node's root file system: espalier assets build node-root"


pytestmark = [pytest.mark.nodes, pytest.mark.skipif(bool(why_not()), reason=why_not())]


@dataclass(frozen=True)
class Debian:
    """A base without Kubernetes: what its nodes run is all in their bootstrap data."""

    lower: str
    version = "1.35.4"
    images: dict[str, str]
    store: Path

    def clone_store(self, target: Path) -> None:
        target.mkdir()


class Bases:
    """Only of one version."""

    def find(self, version: str) -> Debian:
        if version != Debian.version:
            raise LookupError(f"there is no base for nodes of Kubernetes {version}")
        return Debian(str(root_file_system()), {}, Path("/nonexistent"))

    def all(self) -> list[Debian]:
        return []


@dataclass
class Provider:
    """The provider, and the objects that Cluster API's controllers would make for it."""

    client: Client
    manager: Manager
    state: State

    def cache(self, resource: Resource) -> Cache:
        return self.manager.caches.of(resource)

    async def until(self, resource: Resource, name: str, is_so: Callable[[Object | None], bool]) -> None:
        cache = self.cache(resource)
        reached = asyncio.Event()

        def changed(_old: Object | None, new: Object | None, _first: bool) -> None:
            if (new or _old) is not None and (new or _old).name == name and is_so(new):  # type: ignore[union-attr]
                reached.set()

        stop = cache.subscribe(changed)
        try:
            if not is_so(cache.get(Key("default", name))):
                async with asyncio.timeout(PATIENCE):
                    await reached.wait()
        finally:
            stop()

    async def make_cluster(self, name: str = "garden") -> None:
        cluster = await self.client.create(Cluster.resource, body(Cluster.resource, name, spec={}))
        owned = body(DockerCluster.resource, name, owner=cluster, labels={"cluster.x-k8s.io/cluster-name": name})
        await self.client.create(DockerCluster.resource, owned)
        await self.until(DockerCluster.resource, name, is_provisioned)

    async def make_machine(self, name: str, data: bytes, version: str = "v1.35.4-eks-1-35-1") -> None:
        import base64

        labels = {"cluster.x-k8s.io/cluster-name": "garden"}
        secret = body(SECRET, name, labels=labels) | {"data": {"value": base64.b64encode(data).decode()}}
        await self.client.create(SECRET, secret)
        spec = {
            "clusterName": "garden",
            "version": version,
            "bootstrap": {"dataSecretName": name},
            "infrastructureRef": {
                "apiGroup": DockerMachine.resource.group,
                "kind": DockerMachine.resource.kind,
                "name": name,
            },
        }
        machine = await self.client.create(Machine.resource, body(Machine.resource, name, spec=spec, labels=labels))
        infrastructure = body(DockerMachine.resource, name, spec={}, owner=machine, labels=labels)
        await self.client.create(DockerMachine.resource, infrastructure)

    async def delete_machine(self, name: str) -> None:
        await self.client.delete(DockerMachine.resource, name, "default")
        await self.until(DockerMachine.resource, name, lambda found: found is None)

    async def delete_cluster(self, name: str = "garden") -> None:
        await self.client.delete(DockerCluster.resource, name, "default")
        await self.until(DockerCluster.resource, name, lambda found: found is None)

    def node(self, name: str) -> tuple[NodeRecord, container.Running]:
        record = next(record for record in self.state.nodes() if record.name == name)
        running = container.find(self.state.folder(record.id))
        assert running is not None
        return record, running

    async def inside(self, name: str, *command: str) -> str:
        return await run(*container.inside(self.node(name)[1], *command))


def body(
    resource: Resource, name: str, *, spec: Tree | None = None, owner: Object | None = None, labels: Tree | None = None
) -> Tree:
    metadata: Tree = {"name": name, "namespace": "default", "labels": labels or {}}
    if owner is not None:
        reference = {"apiVersion": owner.tree["apiVersion"], "kind": owner.kind, "name": owner.name}
        metadata["ownerReferences"] = [reference | {"uid": owner.metadata.uid}]
    made: Tree = {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}
    return made if spec is None else made | {"spec": spec}


def is_provisioned(found: Object | None) -> bool:
    return bool(found and found.tree.get("status", {}).get("initialization", {}).get("provisioned"))


def ready(found: Object | None) -> Tree:
    conditions = found.tree.get("status", {}).get("conditions", []) if found else []
    return next((condition for condition in conditions if condition["type"] == "Ready"), {})


def says(reason: str) -> Callable[[Object | None], bool]:
    return lambda found: ready(found).get("reason") == reason


@asynccontextmanager
async def provider(folder: Path, store: Store) -> AsyncIterator[Provider]:
    """A provider that takes over whatever `folder` and `store` hold. Leaving it is as if it were killed."""
    clock = SystemClock()
    server = Server(store, now=clock.now, random=random.Random(1))
    await server.start()
    client = Client(InProcessTransport(server))
    await install_definitions([*eksa.KINDS, *capi.KINDS], client)
    manager = Manager(client, clock=clock)
    state = State(folder)
    controllers = build(
        client,
        manager.caches,
        clock=clock,
        state=state,
        addresses=ADDRESSES,
        bridge=BRIDGE,
        bases=Bases(),
        releases=Releases.load(),
    )
    for controller in controllers:
        manager.add(controller)
    running = asyncio.create_task(manager.run())
    await manager.leading.wait()
    try:
        yield Provider(client, manager, state)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await client.close()
        await server.close()


@pytest.fixture
async def before(tmp_path: Path) -> AsyncIterator[Footprint]:
    """The machine before a test; whatever a failed one leaves is taken away after it."""
    yield footprint(tmp_path)
    await remove_everything(State(tmp_path / "nodes"))


async def test_a_machine_becomes_a_node_and_leaves_nothing_when_it_goes(tmp_path: Path, before: Footprint) -> None:
    async with provider(tmp_path / "nodes", MemoryStore()) as world:
        await world.make_cluster()
        await world.make_machine("garden-a", GOOD)
        await world.until(DockerMachine.resource, "garden-a", is_provisioned)
        found = world.cache(DockerMachine.resource).get(Key("default", "garden-a"))
        assert found is not None
        record, _ = world.node("garden-a")
        assert found.tree["spec"]["providerID"] == "docker:////garden-a"
        assert found.tree["status"]["addresses"] == [
            {"type": "InternalIP", "address": record.address},
            {"type": "Hostname", "address": "garden-a"},
        ]
        assert await world.inside("garden-a", "cat", "/etc/greeting") == "hello garden-a"
        assert await world.inside("garden-a", "stat", "-c", "%a %U", "/etc/greeting") == "640 root\n"
        assert "gardener" in await world.inside("garden-a", "getent", "passwd", "gardener")
        assert (await world.inside("garden-a", "hostname")).strip() == "garden-a"
        assert footprint(tmp_path) != before
        await world.delete_machine("garden-a")
        await world.delete_cluster()
        assert footprint(tmp_path) == before


async def test_nodes_reach_each_other_by_address_and_the_host(tmp_path: Path, before: Footprint) -> None:
    async with provider(tmp_path / "nodes", MemoryStore()) as world:
        await world.make_cluster()
        for name in ("garden-a", "garden-b"):
            await world.make_machine(name, GOOD)
        for name in ("garden-a", "garden-b"):
            await world.until(DockerMachine.resource, name, is_provisioned)
        other, _ = world.node("garden-b")
        for address in (other.address, str(ADDRESSES.bridge)):
            await world.inside("garden-a", "ping", "-c", "1", "-W", "5", address)


async def test_the_last_words_of_bootstrap_data_that_fail_are_in_the_condition(
    tmp_path: Path, before: Footprint
) -> None:
    async with provider(tmp_path / "nodes", MemoryStore()) as world:
        await world.make_cluster()
        await world.make_machine("garden-a", BAD)
        await world.until(DockerMachine.resource, "garden-a", says("BootstrapFailed"))
        found = world.cache(DockerMachine.resource).get(Key("default", "garden-a"))
        assert ready(found)["message"] == ("the bootstrap data failed; their last lines:\nwatering\nthe well is dry")
        await world.delete_machine("garden-a")
        await world.delete_cluster()
        assert footprint(tmp_path) == before


async def test_a_version_without_a_base_waits_and_says_so(tmp_path: Path, before: Footprint) -> None:
    async with provider(tmp_path / "nodes", MemoryStore()) as world:
        await world.make_cluster()
        await world.make_machine("garden-a", GOOD, version="v1.33.1")
        await world.until(DockerMachine.resource, "garden-a", says("BaseMissing"))
        found = world.cache(DockerMachine.resource).get(Key("default", "garden-a"))
        assert ready(found)["message"] == "there is no base for nodes of Kubernetes 1.33.1"
        assert world.state.nodes() == []


async def test_nodes_go_on_without_their_provider_and_are_taken_over(tmp_path: Path, before: Footprint) -> None:
    store = MemoryStore()
    async with provider(tmp_path / "nodes", store) as world:
        await world.make_cluster()
        await world.make_machine("garden-a", GOOD)
        await world.until(DockerMachine.resource, "garden-a", is_provisioned)
        await world.make_machine("garden-b", GOOD)
        await world.until(DockerMachine.resource, "garden-b", says("Bootstrapping"))
        booted, booting = world.node("garden-a"), world.node("garden-b")
    async with provider(tmp_path / "nodes", store) as world:
        await world.until(DockerMachine.resource, "garden-b", is_provisioned)
        assert (world.node("garden-a"), world.node("garden-b")) == (booted, booting)
        for name in ("garden-a", "garden-b"):
            await world.delete_machine(name)
        await world.delete_cluster()
        assert footprint(tmp_path) == before


async def test_a_node_whose_processes_died_is_switched_on_again(tmp_path: Path, before: Footprint) -> None:
    async with provider(tmp_path / "nodes", MemoryStore()) as world:
        await world.make_cluster()
        await world.make_machine("garden-a", GOOD)
        await world.until(DockerMachine.resource, "garden-a", is_provisioned)
        record, running = world.node("garden-a")
        await world.inside("garden-a", "touch", "/etc/planted")
        await cgroups.end_all(record.id)
        await world.until(DockerMachine.resource, "garden-a", says("Booting"))
        await world.until(DockerMachine.resource, "garden-a", says("Ready"))
        _, again = world.node("garden-a")
        assert again != running
        await world.inside("garden-a", "test", "-e", "/etc/planted")


async def test_a_world_is_taken_away_without_its_provider(tmp_path: Path, before: Footprint) -> None:
    async with provider(tmp_path / "nodes", MemoryStore()) as world:
        await world.make_cluster()
        await world.make_machine("garden-a", GOOD)
        await world.until(DockerMachine.resource, "garden-a", is_provisioned)
        _, running = world.node("garden-a")
    assert processes.identify(running.init.pid) == running.init
    await remove_everything(State(tmp_path / "nodes"))
    assert footprint(tmp_path) == before
