"""The runtime's assumptions about API servers hold on each: the embedded one and the real one."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Any

import pytest

from espalier.api.core import CONFIG_MAP, CORE_EVENT, LEASE, NAMESPACE, VALIDATING_WEBHOOK_CONFIGURATION
from espalier.api.resource import Key
from espalier.apiserver.access.webhook_calls import HttpWebhooks
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import Client
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import ApiError
from espalier.kube.objects import Object
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Transport
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.clock import SystemClock
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.events import Recorder
from espalier.runtime.controllers.outcome import Done, Outcome
from espalier.runtime.controllers.writer import Writer
from espalier.runtime.leadership.election import Election, Timing
from espalier.runtime.leadership.fencing import Fence
from espalier.runtime.manager import Ending, Manager
from espalier.runtime.servers.admission import AdmissionRequest, AdmissionResponse
from espalier.runtime.servers.certificates import ServingCertificate
from espalier.runtime.servers.webhooks import Webhooks
from tests.support.environments.control_plane import ControlPlane
from tests.support.waiting import running

PATIENCE = 120.0


@pytest.fixture
async def embedded() -> AsyncIterator[Server]:
    webhooks = HttpWebhooks()
    server = Server(MemoryStore(), now=lambda: datetime.now(UTC), random=random.Random(1), call_webhook=webhooks)
    await server.start()
    yield server
    await server.close()
    await webhooks.close()


@pytest.fixture(
    params=[
        pytest.param("embedded", marks=pytest.mark.embedded),
        pytest.param("real", marks=pytest.mark.envtest),
    ]
)
def transport(request: pytest.FixtureRequest) -> Transport:
    if request.param == "embedded":
        return InProcessTransport(request.getfixturevalue("embedded"))
    real: ControlPlane = request.getfixturevalue("control_plane")
    return HttpTransport(Kubeconfig.load([real.kubeconfig]).context(), environment={})


@pytest.fixture
async def client(transport: Transport) -> AsyncIterator[Client]:
    client = Client(transport, field_manager="runtime")
    yield client
    await client.close()


@pytest.fixture
async def namespace(client: Client) -> str:
    return (await client.create(NAMESPACE, {"metadata": {"generateName": "runtime-"}})).name


async def until(cache: Cache, holds: Callable[[], bool]) -> None:
    """Wait for events of a cache until something holds."""
    changed = asyncio.Event()
    unsubscribe = cache.subscribe(lambda old, new, first: changed.set())
    async with asyncio.timeout(PATIENCE):
        while not holds():
            changed.clear()
            await changed.wait()
    unsubscribe()


def config_map(namespace: str, name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": namespace}, "data": data}


def data_of(object_: Object | None) -> Any:
    return object_.tree.get("data", {}) if object_ is not None else None


async def test_a_cache_follows_what_happens(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAP, config_map(namespace, "a"))
    caches = Caches(client)
    cache = caches.of(CONFIG_MAP, namespace)
    async with running(caches):
        await cache.wait_synced()
        assert cache.get(Key(namespace, "a")) is not None
        await client.replace(CONFIG_MAP, config_map(namespace, "a", step="1"))
        await until(cache, lambda: data_of(cache.get(Key(namespace, "a"))) == {"step": "1"})
        await client.delete(CONFIG_MAP, "a", namespace)
        await until(cache, lambda: Key(namespace, "a") not in [item.key for item in cache.list()])
        cached = cache.list()
        assert all(item.metadata.managed_fields is None and b"managedFields" not in item.raw for item in cached)


async def test_own_writes_are_read_back_at_once(client: Client, namespace: str) -> None:
    caches = Caches(client)
    cache = caches.of(CONFIG_MAP, namespace)
    key = Key(namespace, "a")
    story: list[int] = []
    async with running(caches):
        await cache.wait_synced()
        cache.subscribe(lambda old, new, first: story.append(int(data_of(new).get("step", -1))) if new else None)
        for step in range(100):
            written = await client.apply(CONFIG_MAP, config_map(namespace, "a", step=str(step)))
            cache.wrote(written)
            assert int(data_of(cache.get(key))["step"]) >= step
        await client.create(CONFIG_MAP, config_map(namespace, "b", step="1000"))
        await until(cache, lambda: cache.get(Key(namespace, "b")) is not None)
    assert [*range(100)] == [step for step in story if 0 <= step < 1000]


async def test_freed_and_deleted_object_leaves_the_cache(client: Client, namespace: str) -> None:
    caches = Caches(client)
    cache = caches.of(CONFIG_MAP, namespace)
    writer = Writer(client, {CONFIG_MAP: cache})
    async with running(caches):
        await cache.wait_synced()
        for number in range(20):
            name = f"a{number}"
            created = await client.create(CONFIG_MAP, config_map(namespace, name))
            held = await writer.add_finalizer(CONFIG_MAP, created, "example.com/hold")
            deleting = await client.delete(CONFIG_MAP, name, namespace)
            assert deleting is not None
            cache.wrote(deleting)
            assert held.metadata.finalizers == ["example.com/hold"]
            await writer.remove_finalizer(CONFIG_MAP, deleting, "example.com/hold")
        await until(cache, lambda: not any(item.name.startswith("a") for item in cache.list()))


async def test_a_watch_of_one_name_sees_no_other(client: Client, namespace: str) -> None:
    caches = Caches(client)
    result = caches.of(CONFIG_MAP, namespace, fields="metadata.name=one")
    async with running(caches):
        await result.wait_synced()
        for name in ("two", "one", "three"):
            await client.create(CONFIG_MAP, config_map(namespace, name))
        await until(result, lambda: len(result) > 0)
        assert [item.name for item in result.list()] == ["one"]


async def test_one_of_two_candidates_leads_and_other_follows(client: Client, namespace: str) -> None:
    timing = Timing(lease=2.0, renew=1.5, retry=0.2)

    def candidate(identity: str) -> Election:
        return Election(
            client,
            namespace=namespace,
            name="manager",
            identity=identity,
            fence=Fence(time.monotonic),
            clock=SystemClock(),
            rng=random.Random(1),
            timing=timing,
        )

    result, two = candidate("one"), candidate("two")
    async with asyncio.timeout(PATIENCE), AsyncExitStack() as stack:
        await result.acquire()
        holding = asyncio.create_task(result.hold())
        waiting = asyncio.create_task(two.acquire())
        stack.callback(holding.cancel)
        await asyncio.wait([holding, waiting], timeout=2 * timing.lease)
        assert not waiting.done()
        assert result.fence.is_open
        holding.cancel()
        await asyncio.wait([holding])
        await result.release()
        await waiting
        assert (result.fence.is_open, two.fence.is_open) == (False, True)
        spec = (await client.get(LEASE, "manager", namespace)).tree["spec"]
        assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("two", 1)


async def test_events_are_found_under_their_object(client: Client, namespace: str) -> None:
    stored = await client.create(CONFIG_MAP, config_map(namespace, "a"))
    recorder = Recorder(client, component="espalier", clock=SystemClock(), rng=random.Random())
    for _ in range(3):
        recorder.event(stored, "Warning", "Waiting", "waiting for rain")
        await recorder.flush()
    about = f"involvedObject.uid={stored.metadata.uid}"
    events = [event.tree for event in (await client.list(CORE_EVENT, namespace, fields=about)).items]
    assert [(event["reason"], event["message"], event["count"]) for event in events] == [
        ("Waiting", "waiting for rain", 3)
    ]


async def test_webhook_is_called_with_certificate_of_ours(client: Client, namespace: str) -> None:
    """The whole way: Secret made, caBundle patched, TLS trusted, review answered, refusal seen by the client."""
    name = f"{namespace}.example.com"
    webhooks = Webhooks(host="127.0.0.1", port=0)

    def refuse(request: AdmissionRequest) -> AdmissionResponse:
        if request.object is not None and request.object.name == "forbidden":
            return AdmissionResponse(False, "forbidden: choose another name", warnings=("think again",))
        return AdmissionResponse()

    webhooks.handle("/validate-config-maps", refuse)
    webhooks.certificate = ServingCertificate(
        client,
        namespace=namespace,
        names=["127.0.0.1"],
        validating=[name],
        serve=webhooks.use,
        clock=SystemClock(),
    )
    manager = Manager(client, clock=SystemClock())
    manager.add(webhooks)
    managing = asyncio.create_task(manager.run())
    async with asyncio.timeout(PATIENCE):
        await manager.leading.wait()
        await client.create(VALIDATING_WEBHOOK_CONFIGURATION, configuration(name, namespace, webhooks.port))
        caches = Caches(client)
        configurations = caches.of(VALIDATING_WEBHOOK_CONFIGURATION, fields=f"metadata.name={name}")
        async with running(caches):
            await until(configurations, lambda: b"caBundle" in b"".join(item.raw for item in configurations.list()))
        refusal = ""
        while not refusal:  # the server takes a moment to call a new webhook
            try:
                await client.create(CONFIG_MAP, config_map(namespace, "forbidden"))
                await client.delete(CONFIG_MAP, "forbidden", namespace)
            except ApiError as error:
                refusal = str(error)
        assert "forbidden: choose another name" in refusal
        await client.create(CONFIG_MAP, config_map(namespace, "allowed"))
        await client.delete(VALIDATING_WEBHOOK_CONFIGURATION, name)
        manager.stop()
        assert await managing is Ending.STOPPED


def configuration(name: str, namespace: str, port: int) -> dict[str, Any]:
    webhook = {
        "name": name,
        "clientConfig": {"url": f"https://127.0.0.1:{port}/validate-config-maps"},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
    }
    return {"metadata": {"name": name}, "webhooks": [webhook]}


async def test_manager_reaches_the_desired_state_and_rests(client: Client, namespace: str) -> None:
    """A copy of each ConfigMap labelled so, whatever happens to it."""
    manager = Manager(client, clock=SystemClock())
    cache = manager.caches.of(CONFIG_MAP, namespace)
    writes = 0

    async def reconcile(key: Key) -> Outcome:
        nonlocal writes
        stored = cache.get(key)
        if stored is None or "copied" not in stored.metadata.labels:
            return Done()
        wanted = {**config_map(namespace, f"{key.name}-copy"), "data": data_of(stored)}
        present = cache.get(Key(namespace, f"{key.name}-copy"))
        if data_of(present) != wanted["data"]:
            writes += 1
            cache.wrote(await client.apply(CONFIG_MAP, wanted))
        return Done()

    def originals(stored: Object) -> list[Key]:
        return [Key(namespace, stored.name.removesuffix("-copy"))]

    controller = Controller("copier", reconcile)
    controller.watch(cache, originals)
    manager.add(controller)
    managing = asyncio.create_task(manager.run())
    async with asyncio.timeout(PATIENCE):
        await manager.leading.wait()
        for number in range(20):
            tree = config_map(namespace, f"a{number}", step="1")
            tree["metadata"]["labels"] = {"copied": "yes"}
            await client.create(CONFIG_MAP, tree)
        copies = [Key(namespace, f"a{number}-copy") for number in range(20)]
        await until(cache, lambda: all(cache.get(key) for key in copies))
        await client.delete(CONFIG_MAP, "a3-copy", namespace)
        await until(cache, lambda: cache.get(copies[3]) is None)
        await until(cache, lambda: all(cache.get(key) for key in copies))
        assert writes == 21
        manager.stop()
        await managing
