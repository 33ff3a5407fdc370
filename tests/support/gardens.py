"""A garden and its seeds in one process, on a simulated clock: API servers, gardenlets, and what runs in seeds.

What others build is simulated here as small as it can be: an etcd-druid, extensions that keep Gardener's contract, an
infrastructure with an inventory and a log, buckets, and Deployments that are available at once.
"""

from __future__ import annotations

import asyncio
import random
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

import msgspec

from espalier.api import core
from espalier.api.conditions import timestamp
from espalier.api.crd import crd_of
from espalier.api.etcd.calls import CopyOperationStatus, InitiateCopyOperation
from espalier.api.etcd.ownership import CopyOperation, Status, Writer
from espalier.api.etcd.timing import Timing
from espalier.api.gardener import (
    EXTENSION_KINDS,
    GARDEN_KINDS,
    SEED_KINDS,
    leases,
    metadata_keys,
    names,
    responsibility,
)
from espalier.api.gardener.cluster import Cluster
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.extension import Extended, Extension
from espalier.api.gardener.extension_backups import BackupEntry as ExtensionBackupEntry
from espalier.api.gardener.infrastructure import Infrastructure
from espalier.api.gardener.operations import OperationState, OperationType
from espalier.api.gardener.seed import Seed
from espalier.api.gardener.shoot import Shoot
from espalier.api.gardener.worker import Worker
from espalier.api.meta import Tree
from espalier.api.resource import Key, Resource
from espalier.apiserver.server import Server
from espalier.apiserver.store import MemoryStore
from espalier.apiserver.webhooks import CallFailed, CallWebhook, WebhookCall
from espalier.cli.gardening import webhook_configuration
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists, Conflict, KubeError, NotFound, Unreachable
from espalier.kube.inprocess import InProcessTransport
from espalier.kube.objects import Object
from espalier.kube.retry import Retry
from espalier.kube.wire import ADMIN, Response, Stream, Transport, User
from espalier.runtime import virtual
from espalier.runtime.cache import Caches
from espalier.runtime.component import Component, assemble
from espalier.runtime.controller import Controller
from espalier.runtime.definitions import until_established
from espalier.runtime.manager import Manager
from espalier.runtime.outcome import Done, Outcome, Wait
from espalier.runtime.webhooks import Webhooks
from espalier.shoots.admission import setup as admission
from espalier.shoots.admission.users import SEEDS
from espalier.shoots.control_plane.rendering import ControlPlane
from espalier.shoots.garden import setup as garden_setup
from espalier.shoots.garden.config import GardenConfig
from espalier.shoots.garden.roles import USER
from espalier.shoots.gardenlet import setup as gardenlet_setup
from espalier.shoots.gardenlet.config import GardenletConfig
from espalier.shoots.local_provider import setup as local_provider
from espalier.shoots.machine_controller import setup as machine_controller
from espalier.simulator.cloud.service import Cloud
from tests.support.clouds import MemoryStores
from tests.support.tasks import left_over

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
PROJECT, NAMESPACE = "dev", "garden-dev"
GARDENLET, GARDEN = "gardenlet", "garden"
"""User agents of the programs that are tested; all else has another."""

KEEPS_STATE: tuple[type[Extended], ...] = (Infrastructure, Worker, Extension)
"""Extension kinds here that keep state."""

Wrap = Callable[[str, Transport], Transport]
"""Stands in a connection of a program (`garden`, `gardenlet <seed>`), and may let things go wrong."""


def unchanged(_program: str, transport: Transport) -> Transport:
    return transport


@dataclass
class Infrastructures:
    """The inventory of all shoots, and the log of who asked for what."""

    inventory: dict[tuple[str, str, str], str] = field(default_factory=dict)
    log: list[tuple[float, str, str, str, str]] = field(default_factory=list)

    def ensure(self, seed: str, shoot: str, kind: str, name: str) -> str:
        """Make it, if it is not there."""
        key = (shoot, kind, name)
        self._log(seed, "look" if key in self.inventory else "create", kind, shoot)
        return self.inventory.setdefault(key, f"{kind.lower()}-{len(self.inventory)}")

    def adopt(self, seed: str, shoot: str, kind: str, name: str, wanted: str) -> bool:
        """True if what a state tells of is there."""
        self._log(seed, "look", kind, shoot)
        return self.inventory.get((shoot, kind, name)) == wanted

    def delete(self, seed: str, shoot: str, kind: str, name: str) -> None:
        self._log(seed, "delete", kind, shoot)
        self.inventory.pop((shoot, kind, name), None)

    def count(self, what: str, seed: str | None = None) -> int:
        return sum(1 for entry in self.log if entry[2] == what and seed in (None, entry[1]))

    def _log(self, seed: str, what: str, kind: str, shoot: str) -> None:
        self.log.append((asyncio.get_running_loop().time(), seed, what, kind, shoot))


@dataclass
class Buckets:
    """All buckets: data of each epoch's etcd by its prefix, and the CopyOperations of epochs that ended."""

    data: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    ended: dict[tuple[str, str], Status] = field(default_factory=dict)
    cut: set[str] = field(default_factory=set)
    """Seeds that can't reach any bucket."""


class Witness:
    """Sees when etcds serve, and says when two do for one shoot."""

    def __init__(self) -> None:
        self.serving: dict[str, str] = {}
        self.history: list[tuple[float, str, str, bool]] = []

    def serves(self, shoot: str, seed: str, *, is_so: bool) -> None:
        now = asyncio.get_running_loop().time()
        holder = self.serving.get(shoot)
        if is_so:
            assert holder in (None, seed), f"{shoot} is served in {holder} and {seed} at once"
            if holder is None:
                self.history.append((now, shoot, seed, True))
            self.serving[shoot] = seed
        elif holder == seed:
            self.history.append((now, shoot, seed, False))
            del self.serving[shoot]


class SeedWorld:
    """One seed: its API server, and all that acts in it but the gardenlet."""

    def __init__(self, world: World, name: str) -> None:
        self.world, self.name = world, name
        self.server = world.new_server()
        self.client = client_of(self.server, "seed")
        self.is_dead = False
        self.stuck: set[str] = set()
        """Kinds whose extensions never finish."""
        self.failing: dict[str, str] = {}
        """Kinds whose extensions fail, with what they say."""
        self.codes: list[str] = []
        """Error codes that they give."""
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        await self.server.start()
        for kind in SEED_KINDS:
            await self.client.create(core.CUSTOM_RESOURCE_DEFINITION, crd_of(kind))
        await until_established(self.client, {kind.resource.group_resource for kind in SEED_KINDS})
        self.revive()

    def revive(self) -> None:
        """Start all that acts in the seed."""
        self.is_dead = False
        caches = Caches(self.client, rng=random.Random(1))
        self.caches = caches
        self.clusters = caches.of(Cluster.resource)
        controllers = [self._druid(caches), self._kubelet(caches)]
        if self.world.cloud is None:
            controllers += [self._extension(caches, kind) for kind in EXTENSION_KINDS]
        else:
            self._tasks.append(asyncio.create_task(self._extensions(self.world.cloud)))
        self._tasks += [asyncio.create_task(caches.run()), *(asyncio.create_task(one.run()) for one in controllers)]

    async def kill(self) -> None:
        """The seed is gone, its API server too. Who serves no longer is seen so at once."""
        self.is_dead = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        for shoot, seed in list(self.world.witness.serving.items()):
            if seed == self.name:
                self.world.witness.serves(shoot, seed, is_so=False)

    async def stop(self) -> None:
        await self.kill()
        await self.server.close()

    async def _extensions(self, cloud: Cloud) -> None:
        """The extensions of type `local`, and the machine controller manager, on the simulated cloud."""
        call, timing = cloud.called_by(self.name), self.world.timing
        token = self.world.random
        made = [
            local_provider.component(call, self.world.stores, timing, lambda: f"{token.getrandbits(64):x}"),
            machine_controller.component(call, timing),
        ]
        client = client_of(self.server, "extensions")
        manager = Manager(client, clock=self.world.clock, rng=random.Random(1), grace=0, fill_within=None)
        assemble(manager, made)
        await manager.run()

    # Deployments.

    def _kubelet(self, caches: Caches) -> Controller:
        cache = caches.of(core.DEPLOYMENT)

        async def reconcile(key: Key) -> Outcome:
            live = cache.get(key)
            if live is None:
                return Done()
            replicas = live.tree["spec"].get("replicas", 1)
            status = {
                "observedGeneration": live.metadata.generation,
                "replicas": replicas,
                "availableReplicas": replicas,
            }
            present = live.tree.get("status") or {}
            if any(present.get(name, 0) != value for name, value in status.items()):
                await asyncio.sleep(self.world.delay)
                await self._status(core.DEPLOYMENT, live, status)
            return Done()

        return self._controller("kubelet", reconcile, caches, core.DEPLOYMENT)

    # Etcd.

    def _druid(self, caches: Caches) -> Controller:
        cache = caches.of(Etcd.resource)

        async def reconcile(key: Key) -> Outcome:
            live = cache.get(key)
            if live is None:
                self.world.witness.serves(key.namespace, self.name, is_so=False)
                return Done()
            typed = live.decode(Etcd)
            if typed.spec.backup.source_store is not None:
                return await self._copy(live, typed)
            serves = typed.spec.replicas > 0 and self._may_serve(typed)
            if serves and not self.world.buckets.data.get(_place(typed)):
                self._founded(live, typed)
            self.world.witness.serves(key.namespace, self.name, is_so=serves)
            await self._ready(live, typed, is_so=serves)
            return Wait("Polls", "the CopyOperation is read again", after=5)

        return self._controller("druid", reconcile, caches, Etcd.resource)

    def _may_serve(self, etcd: Etcd) -> bool:
        return self.name not in self.world.buckets.cut and _place(etcd) not in self.world.buckets.ended

    def _founded(self, live: Object, typed: Etcd) -> None:
        marks = live.metadata.annotations
        assert metadata_keys.FOUNDING in marks, f"{live} starts without data, and is not the first"
        self.world.buckets.data[_place(typed)] = [self.world.next_write()]

    async def _copy(self, live: Object, typed: Etcd) -> Outcome:
        source = typed.spec.backup.source_store
        assert source is not None
        buckets, place = self.world.buckets, (source.container or "", source.prefix)
        await asyncio.sleep(self.world.delay)
        if self.name in buckets.cut:
            return Wait("BucketCut", "no way to the bucket", after=5)
        if buckets.data.get(_place(typed)):
            await self._ready(live, typed, is_so=True)
            return Done()
        if place not in buckets.ended:
            buckets.ended[place] = Status.INITIAL
        owner = self.world.agent_of(place)
        if buckets.ended[place] is Status.INITIAL and owner is None:
            await asyncio.sleep(self.world.timing.progress_timeout)
            if self.world.agent_of(place) is None:
                buckets.ended[place] = Status.READY
        if buckets.ended[place] is Status.INITIAL:
            if owner is not None:
                owner.close(place)
            return Wait("Waits", "for Ready", after=2)
        buckets.ended[place] = Status.DONE
        buckets.data[_place(typed)] = list(buckets.data.get(place, []))
        await self._ready(live, typed, is_so=True)
        return Done()

    def close(self, place: tuple[str, str]) -> None:
        """The agent sees the CopyOperation: etcd ends, and the final snapshot is stored."""
        for found in self.caches.of(Etcd.resource).list():
            if _place(found.decode(Etcd)) == place:
                self.world.witness.serves(found.namespace, self.name, is_so=False)
        self.world.buckets.ended[place] = Status.READY

    async def call(self, namespace: str, path: str, body: bytes) -> bytes:
        """What the agent answers."""
        live = self.caches.of(Etcd.resource).get(Key(namespace, "etcd-main"))
        if live is None or self.is_dead:
            raise Unreachable("no agent")
        typed = live.decode(Etcd)
        if typed.spec.replicas == 0:
            raise Unreachable("no agent: etcd-main has no replicas")
        epoch = int(live.metadata.annotations[metadata_keys.EPOCH])
        place, buckets = _place(typed), self.world.buckets
        if path == "copyop/initiate" and self.name not in buckets.cut:
            assert msgspec.json.decode(body, type=InitiateCopyOperation).epoch == epoch
            buckets.ended.setdefault(place, Status.INITIAL)
            if buckets.ended[place] is Status.INITIAL:
                asyncio.get_running_loop().call_later(self.world.delay, self._closes, place)
        status = buckets.ended.get(place)
        operation = CopyOperation(epoch, status, Writer.SOURCE) if status is not None else None
        return msgspec.json.encode(CopyOperationStatus(epoch, operation is not None, operation))

    def _closes(self, place: tuple[str, str]) -> None:
        if not self.is_dead and self.world.buckets.ended[place] is Status.INITIAL:
            self.close(place)

    async def _ready(self, live: Object, typed: Etcd, *, is_so: bool) -> None:
        status = {"ready": is_so, "observedGeneration": live.metadata.generation}
        if (typed.status.ready, typed.status.observed_generation) != (is_so, live.metadata.generation):
            await self._status(Etcd.resource, live, status)

    # Extensions.

    def _extension(self, caches: Caches, kind: type[Extended]) -> Controller:
        cache = caches.of(kind.resource)
        finalizer = metadata_keys.finalizer(kind.__name__)

        async def reconcile(key: Key) -> Outcome:
            live = cache.get(key)
            if live is None:
                return Done()
            last = live.decode(kind).status.last_operation
            order = responsibility.order(live.metadata)
            operation = responsibility.operation_of(live.decode(kind))
            if responsibility.left(last, operation) or order == metadata_keys.WAIT_FOR_STATE:
                return Done()
            if operation is OperationType.RECONCILE and not order:
                return Done()
            if operation is OperationType.DELETE and finalizer not in live.metadata.finalizers:
                return Done()
            if operation is not OperationType.MIGRATE and not self._has_lease(live):
                return Wait("LeaseExpired", "the lease is over", after=5)
            return await self._operate(kind, live, operation, finalizer)

        return self._controller(kind.__name__.lower(), reconcile, caches, kind.resource)

    def _has_lease(self, live: Object) -> bool:
        if not live.namespace:
            return True
        cluster = self.clusters.get(Key("", live.namespace))
        if cluster is None:
            return False
        expires = leases.expiration(cluster.decode(Cluster))
        return expires is not None and expires > self.world.now()

    async def _operate(self, kind: type[Extended], live: Object, operation: OperationType, finalizer: str) -> Outcome:
        name, resource = kind.__name__, kind.resource
        await asyncio.sleep(self.world.delay)
        if name in self.stuck:
            return Wait("Stuck", "it never ends", after=30)
        if name in self.failing:
            last = {"type": operation, "state": OperationState.ERROR, "description": self.failing[name]}
            at = timestamp(self.world.now())
            error = {"description": self.failing[name], "codes": self.codes, "lastUpdateTime": at}
            await self._status(resource, live, {"lastOperation": last, "lastError": error})
            return Wait("Failing", "it is tried again", after=5)
        has_finalizer = finalizer in live.metadata.finalizers
        if operation not in (OperationType.MIGRATE, OperationType.DELETE) and not has_finalizer:
            live = await self._patch(resource, live, {"finalizers": [*live.metadata.finalizers, finalizer]})
        status: Tree = {"lastError": None, "observedGeneration": live.metadata.generation}
        infrastructures, shoot = self.world.infrastructures, live.namespace
        state = live.tree.get("status", {}).get("state")
        if operation is OperationType.DELETE:
            if shoot:
                infrastructures.delete(self.name, shoot, name, live.name)
            await self._patch(resource, live, {"finalizers": []})
            return Done()
        if operation is OperationType.RESTORE and kind in KEEPS_STATE:
            if not isinstance(state, dict) or not infrastructures.adopt(self.name, shoot, name, live.name, state["id"]):
                message = f"status.state: found {state}, allowed: what this extension saved"
                last = {"type": operation, "state": OperationState.ERROR, "description": message}
                await self._status(resource, live, {"lastOperation": last, "lastError": {"description": message}})
                return Wait("StateInvalid", message, after=30)
        elif operation is not OperationType.MIGRATE and shoot:
            found = infrastructures.ensure(self.name, shoot, name, live.name)
            if kind in KEEPS_STATE:
                status["state"] = {"id": found}
        is_entry = kind is ExtensionBackupEntry and operation is not OperationType.MIGRATE
        if is_entry and not await self._backup_secret(live):
            return Wait("NoNamespace", "the namespace is not there yet", after=2)
        status["lastOperation"] = {"type": operation, "state": OperationState.SUCCEEDED, "progress": 100}
        live = await self._status(resource, live, status)
        metadata: Tree = {"annotations": {metadata_keys.OPERATION: None}}
        if operation is OperationType.MIGRATE:
            metadata["finalizers"] = [one for one in live.metadata.finalizers if one != finalizer]
        await self._patch(resource, live, metadata)
        return Done()

    async def _backup_secret(self, live: Object) -> bool:
        is_source = names.is_source_backup_entry(live.name)
        namespace = names.original_backup_entry(live.name).rpartition("--")[0]
        name = names.SOURCE_BACKUP_SECRET if is_source else names.BACKUP_SECRET
        body = {"metadata": {"name": name, "namespace": namespace}, "data": {}}
        try:
            await self.client.create(core.SECRET, body)
        except AlreadyExists:
            return True
        except KubeError:
            return False
        return True

    def _controller(self, name: str, reconcile: Any, caches: Caches, resource: Resource) -> Controller:
        async def attempt(key: Key) -> Outcome:
            try:
                return await reconcile(key)  # type: ignore[no-any-return]
            except (Conflict, NotFound):
                return Wait("Changed", "it was changed meanwhile", after=0.5)

        made = Controller(name, attempt, rng=random.Random(1))
        made.watch(caches.of(resource))
        return made

    async def _status(self, resource: Resource, live: Object, status: Tree) -> Object:
        patch = {"metadata": {"uid": live.metadata.uid}, "status": status}
        return await self._merge(resource, live, patch, "status")

    async def _patch(self, resource: Resource, live: Object, metadata: Tree) -> Object:
        return await self._merge(resource, live, {"metadata": {"uid": live.metadata.uid, **metadata}})

    async def _merge(self, resource: Resource, live: Object, patch: Tree, subresource: str | None = None) -> Object:
        return await self.client.patch(
            resource, live.name, live.namespace or None, patch=patch, type=PatchType.MERGE, subresource=subresource
        )


def _place(etcd: Etcd) -> tuple[str, str]:
    store = etcd.spec.backup.store
    assert store is not None
    return store.container or "", store.prefix


def _configuration() -> Tree:
    """The garden's webhooks, as a manifest registers them."""
    return {**webhook_configuration("https://garden.internal"), "metadata": {"name": "garden"}}


def client_of(server: Server, agent: str, user: User = ADMIN, wrap: Wrap = unchanged, program: str = "") -> Client:
    return Client(wrap(program, InProcessTransport(server, user)), user_agent=agent, retry=Retry(attempts=1))


@dataclass
class Running:
    """A program: its manager, and the task in which it runs."""

    manager: Manager
    task: asyncio.Task[Any]

    async def crash(self) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)


class World:
    """The garden, its seeds, and the programs that are tested."""

    def __init__(
        self,
        simulation: virtual.Simulation,
        *,
        timing: Timing | None = None,
        delay: float = 1.0,
        wrap: Wrap = unchanged,
        with_cloud: bool = False,
    ) -> None:
        self.clock, self.random = simulation.clock, simulation.random
        self.timing, self.delay, self.wrap = timing or Timing(), delay, wrap
        self.config = GardenConfig()
        self.infrastructures, self.buckets, self.witness = Infrastructures(), Buckets(), Witness()
        self.seeds: dict[str, SeedWorld] = {}
        self.running: dict[str, Running] = {}
        self.webhooks: Webhooks | None = None
        self.server = self.new_server(self._review)
        self.client = client_of(self.server, "user")
        self.cloud = Cloud(simulation.clock, {"garden": "secret"}) if with_cloud else None
        """Where it is there, seeds have the extensions of type `local`, instead of those of this module."""
        self.stores = MemoryStores()
        self._writes = 0
        self.cut_from_garden: set[str] = set()
        self.cut_from_seed: set[str] = set()

    def now(self) -> datetime:
        return self.clock.now()

    def new_server(self, call_webhook: CallWebhook | None = None) -> Server:
        generator = random.Random(self.random.random())
        return Server(MemoryStore(), now=self.clock.now, random=generator, call_webhook=call_webhook)

    async def _review(self, call: WebhookCall) -> bytes:
        """The garden's controllers answer for its webhooks, while they run."""
        if self.webhooks is None:
            raise CallFailed("the garden's controllers do not run")
        return self.webhooks.review(urlsplit(call.url).path, call.body)

    def next_write(self) -> int:
        self._writes += 1
        return self._writes

    def agent_of(self, place: tuple[str, str]) -> SeedWorld | None:
        """The seed in which the agent of this epoch lives and reaches its bucket."""
        for seed in self.seeds.values():
            if not seed.is_dead and seed.name not in self.buckets.cut:
                for found in seed.caches.of(Etcd.resource).list():
                    typed = found.decode(Etcd)
                    if _place(typed) == place and typed.spec.backup.source_store is None and typed.spec.replicas:
                        return seed
        return None

    async def start(self, seeds: Iterable[str]) -> None:
        await self.server.start()
        for kind in GARDEN_KINDS:
            await self.client.create(core.CUSTOM_RESOURCE_DEFINITION, crd_of(kind))
        await until_established(self.client, {kind.resource.group_resource for kind in GARDEN_KINDS})
        for namespace in (NAMESPACE, "garden"):
            await self.client.create(core.NAMESPACE, {"metadata": {"name": namespace}})
        account = {"account": b64encode(b"garden").decode(), "token": b64encode(b"secret").decode()}
        await self.client.create(core.SECRET, {"metadata": {"name": "cloud", "namespace": NAMESPACE}, "data": account})
        self.run_garden()
        await self.client.create(core.VALIDATING_WEBHOOK_CONFIGURATION, _configuration())
        for name in seeds:
            await self.add_seed(name)

    async def add_seed(self, name: str) -> None:
        secret = {"metadata": {"name": f"backup-{name}", "namespace": "garden"}, "data": {}}
        with suppress(AlreadyExists):
            await self.client.create(core.SECRET, secret)
        reference = {"name": f"backup-{name}", "namespace": "garden"}
        spec = {
            "provider": {"type": "local", "region": "here"},
            "backup": {
                "provider": "local",
                "region": "here",
                "credentialsRef": reference,
                "providerConfig": {"url": "s3://{bucket}"},
            },
        }
        await self.client.create(Seed.resource, {"metadata": {"name": name}, "spec": spec})
        if name not in self.seeds:
            self.seeds[name] = SeedWorld(self, name)
            await self.seeds[name].start()
        self.run_gardenlet(name)

    def run_garden(self) -> None:
        """Start the garden's controllers."""
        client = client_of(self.server, GARDEN, wrap=self.wrap, program="garden")
        self.webhooks = Webhooks(port=None)
        made = (garden_setup.component(self.config), admission.garden())
        self._run("garden", client, *made, webhooks=self.webhooks)

    def run_gardenlet(self, name: str) -> None:
        """Start the gardenlet of a seed."""
        user = User(USER.format(seed=name), (SEEDS, "system:authenticated"))
        seed = self.seeds[name]
        program = f"gardenlet {name}"
        seed_way = self._way(lambda: name in self.cut_from_seed or seed.is_dead)
        garden_way = self._way(lambda: name in self.cut_from_garden)
        client = client_of(seed.server, GARDENLET, wrap=seed_way, program=program)
        garden = client_of(self.server, GARDENLET, user, garden_way, program)
        config = GardenletConfig(seed=name, timing=self.timing, dns_type="local")
        component = gardenlet_setup.component(
            config, garden=garden, renderer=ControlPlane(), call=seed.call, random_keys=False
        )
        self._run(program, client, component)

    def _way(self, is_cut: Callable[[], bool]) -> Wrap:
        """The way of a program to an API server: it may be cut."""
        return lambda program, transport: _CutTransport(self.wrap(program, transport), is_cut)

    def _run(self, name: str, client: Client, *made: Component, webhooks: Webhooks | None = None) -> None:
        manager = Manager(client, clock=self.clock, rng=random.Random(1), component=made[0].name, fill_within=None)
        assemble(manager, made, webhooks=webhooks)
        self.running[name] = Running(manager, asyncio.create_task(manager.run(), name=name))

    async def crash(self, name: str) -> None:
        """`kill -9` of a program: `garden`, or `gardenlet <seed>`."""
        if name == "garden":
            self.webhooks = None
        await self.running.pop(name).crash()

    async def restart(self, name: str) -> None:
        """Kill a program and start it again."""
        await self.crash(name)
        self.run_garden() if name == "garden" else self.run_gardenlet(name.removeprefix("gardenlet "))

    async def kill_seed(self, name: str) -> None:
        """All of a seed is gone, its gardenlet too."""
        await self.crash(f"gardenlet {name}")
        await self.seeds[name].kill()

    async def revive_seed(self, name: str) -> None:
        """A seed comes back, and its gardenlet."""
        self.seeds[name].revive()
        self.run_gardenlet(name)

    # What users do, and see.

    async def create_shoot(self, name: str = "apple", seed: str | None = "a", **spec: Any) -> None:
        image = {"name": "local", "version": "1.0"}
        worker = {"name": "pool", "machine": {"type": "small", "image": image}, "minimum": 1, "maximum": 2}
        body = {
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {
                "provider": {"type": "local", "workers": [worker]},
                "region": "here",
                "kubernetes": {"version": "1.34.0"},
                "networking": {"type": "local", "pods": "10.0.0.0/16", "services": "10.1.0.0/16"},
                "extensions": [{"type": "toy"}],
                "secretBindingName": "cloud",
                **({"seedName": seed} if seed else {}),
                **spec,
            },
        }
        await self.client.create(Shoot.resource, body)

    async def move(self, seed: str, name: str = "apple") -> None:
        await self.patch({"spec": {"seedName": seed}}, name)

    async def patch(self, patch: Tree, name: str = "apple") -> None:
        await self.client.patch(Shoot.resource, name, NAMESPACE, patch=patch, type=PatchType.MERGE)

    async def patch_seed(self, name: str, patch: Tree) -> None:
        await self.client.patch(Seed.resource, name, patch=patch, type=PatchType.MERGE)

    async def shoot(self, name: str = "apple") -> Shoot:
        return (await self.client.get(Shoot.resource, name, NAMESPACE)).decode(Shoot)

    async def until(
        self, is_so: Callable[[Shoot], bool], name: str = "apple", *, seconds: float = 3600, every: float = 1.0
    ) -> Shoot:
        """Wait until a Shoot is as described; raises with what it says if it never is."""
        end = asyncio.get_running_loop().time() + seconds
        while True:
            found = await self.shoot(name)
            if is_so(found):
                return found
            if asyncio.get_running_loop().time() > end:
                raise TimeoutError(
                    f"after {seconds} s: {msgspec.to_builtins(found.status)} {found.metadata.annotations}"
                )
            await asyncio.sleep(every)

    async def healthy(self, seed: str, name: str = "apple", *, seconds: float = 3600) -> Shoot:
        """Wait until a shoot is whole on a seed."""

        def is_so(shoot: Shoot) -> bool:
            last = shoot.status.last_operation
            is_done = last is not None and last.state == OperationState.SUCCEEDED and last.type != OperationType.MIGRATE
            return (shoot.spec.seed_name, shoot.status.seed_name) == (seed, seed) and is_done

        return await self.until(is_so, name, seconds=seconds)

    async def gone(self, seed: str, name: str = "apple", *, seconds: float = 3600) -> None:
        """Wait until nothing of a shoot is in a seed."""
        end = asyncio.get_running_loop().time() + seconds
        while left := await self.left(seed, name):
            if asyncio.get_running_loop().time() > end:
                raise TimeoutError(f"after {seconds} s in {seed}: {left}")
            await asyncio.sleep(1)

    async def left(self, seed: str, name: str = "apple") -> list[str]:
        """What is in a seed of a shoot, namespaces and Clusters and what has none."""
        technical_id = names.technical_id(PROJECT, name)
        client = self.seeds[seed].client
        found = []
        for resource in (core.NAMESPACE, Cluster.resource, ExtensionBackupEntry.resource):
            found += [
                f"{one.kind} {one.name}" for one in (await client.list(resource)).items if technical_id in one.name
            ]
        return found

    async def secrets(self, seed: str, name: str = "apple") -> dict[str, dict[str, str]]:
        listed = await self.seeds[seed].client.list(core.SECRET, names.technical_id(PROJECT, name))
        return {one.name: one.tree.get("data") or {} for one in listed.items}

    def requests(self, server: Server, agent: str) -> Counter[tuple[str, str]]:
        """What a program has asked a server for, by verb and resource."""
        found: Counter[tuple[str, str]] = Counter()
        for (verb, resource, _sub, who), count in server.requests.items():
            if who == agent:
                found[verb, resource] += count
        return found


class _CutTransport:
    """Nothing goes through while it is cut, and watches end."""

    def __init__(self, transport: Transport, is_cut: Callable[[], bool]) -> None:
        self._transport, self._is_cut = transport, is_cut

    async def request(self, request: Any) -> Any:
        if self._is_cut():
            raise Unreachable("the way is cut", sent=False)
        return await self._transport.request(request)

    async def stream(self, request: Any) -> Any:
        if self._is_cut():
            raise Unreachable("the way is cut", sent=False)
        stream = await self._transport.stream(request)
        return stream if isinstance(stream, Response) else _CutStream(stream, self._is_cut)

    async def close(self) -> None:
        await self._transport.close()


class _CutStream:
    """A watch that tells nothing once its way is cut: what comes then comes with the next one."""

    def __init__(self, stream: Stream, is_cut: Callable[[], bool]) -> None:
        self._stream, self._is_cut = stream, is_cut

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for document in self._stream:
            if self._is_cut():
                raise Unreachable("the way is cut")
            yield document

    async def close(self) -> None:
        await self._stream.close()


@asynccontextmanager
async def garden(
    simulation: virtual.Simulation,
    *seeds: str,
    timing: Timing | None = None,
    delay: float = 1.0,
    wrap: Wrap = unchanged,
    with_cloud: bool = False,
) -> AsyncIterator[World]:
    """A garden with these seeds, all running. Nothing is left running afterwards."""
    before = asyncio.all_tasks()
    world = World(simulation, timing=timing, delay=delay, wrap=wrap, with_cloud=with_cloud)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_stop, world)
        await world.start(seeds or ("a", "b"))
        yield world
    assert await left_over(before) == set()


async def _stop(world: World) -> None:
    for name in list(world.running):
        await world.crash(name)
    for seed in world.seeds.values():
        await seed.stop()
    await world.server.close()
