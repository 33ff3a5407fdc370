"""API servers on one etcd: each sees at once what another has written, and the revisions are etcd's."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from espalier.api.core import CONFIG_MAP, NAMESPACE
from espalier.apiserver.builtin.builtin import KINDS
from espalier.apiserver.server import Server
from espalier.apiserver.storage.etcd_keys import Keys
from espalier.apiserver.storage.etcd_store import EtcdStore
from espalier.apiserver.storage.store import Change
from espalier.etcd.errors import Compacted
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import AlreadyExists, ApiError, Conflict, Expired, NotFound
from espalier.kube.objects import Object
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.retry import Retry
from espalier.kube.watching import WatchEvent
from tests.support.etcd.etcds import Clients
from tests.support.tasks import left_over

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def keys(prefix: bytes) -> Keys:
    return Keys(KINDS, prefix.decode())


@contextlib.asynccontextmanager
async def serving(clients: Clients, keys: Keys, seed: int = 1) -> AsyncIterator[Server]:
    server = Server(EtcdStore(clients(), keys), now=lambda: datetime.now(UTC), random=random.Random(seed))
    try:
        await server.start()
        yield server
    finally:
        await server.close()


def client_of(server: Server) -> Client:
    return Client(InProcessTransport(server), user_agent="tester", field_manager="tester", retry=Retry(attempts=1))


@pytest_asyncio.fixture(loop_scope="session")
async def client_a(clients: Clients, keys: Keys) -> AsyncIterator[Client]:
    async with serving(clients, keys, 1) as server:
        client = client_of(server)
        yield client
        await client.close()


@pytest_asyncio.fixture(loop_scope="session")
async def client_b(clients: Clients, keys: Keys, client_a: Client) -> AsyncIterator[Client]:
    async with serving(clients, keys, 2) as server:
        client = client_of(server)
        yield client
        await client.close()


def config_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, "data": data}


async def test_object_lies_where_kube_apiserver_would_put_it(clients: Clients, keys: Keys, client_a: Client) -> None:
    made = await client_a.create(CONFIG_MAP, config_map("a", k="v"))
    async with clients() as etcd:
        value = await etcd.get(keys.prefix + b"configmaps/default/a")
    assert value is not None
    assert made.resource_version == str(value.mod_revision)
    tree = msgspec.json.decode(value.value)
    assert "resourceVersion" not in tree["metadata"]
    assert {**made.tree, "metadata": {**made.tree["metadata"], "resourceVersion": None}} == {
        **tree,
        "metadata": {**tree["metadata"], "resourceVersion": None},
    }


async def test_write_to_one_server_is_shown_by_the_other(client_a: Client, client_b: Client) -> None:
    for number in range(20):
        made = await client_a.create(CONFIG_MAP, config_map(f"n{number}"))
        assert (await client_b.get(CONFIG_MAP, f"n{number}", "default")) == made
        await client_b.delete(CONFIG_MAP, f"n{number}", "default")
        with pytest.raises(NotFound):
            await client_a.get(CONFIG_MAP, f"n{number}", "default")
    listed = await client_a.list(CONFIG_MAP, "default")
    assert int(listed.resource_version) >= int(made.resource_version)


async def test_one_of_two_writes_to_one_object_is_refused(client_a: Client, client_b: Client) -> None:
    made = await client_a.create(CONFIG_MAP, config_map("a", count="0"))

    async def write(client: Client, who: str) -> str:
        tree = made.tree
        tree["data"] = {"by": who}
        try:
            await client.replace(CONFIG_MAP, tree)
        except Conflict:
            return "refused"
        return who

    done = await asyncio.gather(*(write(client, who) for client, who in ((client_a, "one"), (client_b, "other")) * 5))
    assert len(done) - done.count("refused") == 1
    (winner,) = set(done) - {"refused"}
    for client in (client_a, client_b):
        assert (await client.get(CONFIG_MAP, "a", "default")).tree["data"]["by"] == winner


async def test_one_of_many_creations_succeeds(client_a: Client, client_b: Client) -> None:
    async def create(client: Client) -> bool:
        try:
            await client.create(CONFIG_MAP, config_map("a"))
        except AlreadyExists:
            return False
        return True

    assert sum(await asyncio.gather(*(create(client) for client in (client_a, client_b) * 5))) == 1


async def test_patches_by_both_are_all_made(client_a: Client, client_b: Client) -> None:
    await client_a.create(CONFIG_MAP, config_map("a"))

    async def patch(client: Client, field: str) -> None:
        await client.patch(CONFIG_MAP, "a", "default", patch={"data": {field: "x"}}, type=PatchType.MERGE)

    await asyncio.gather(
        *(patch(client, f"{who}{n}") for who, client in (("a", client_a), ("b", client_b)) for n in range(4))
    )
    assert len((await client_a.get(CONFIG_MAP, "a", "default")).tree["data"]) == 8


async def test_a_watch_reports_writes_by_both_in_their_order(client_a: Client, client_b: Client) -> None:
    start = (await client_a.list(CONFIG_MAP, "default")).resource_version
    first = await client_a.create(CONFIG_MAP, config_map("a"))
    second = await client_b.patch(CONFIG_MAP, "a", "default", patch={"data": {"k": "v"}}, type=PatchType.MERGE)
    await client_b.delete(CONFIG_MAP, "a", "default")
    stories = []
    for client in (client_a, client_b):
        results: list[WatchEvent] = []
        async with asyncio.timeout(20):
            async for event in client.watch(CONFIG_MAP, "default", resource_version=start):
                results.append(event)
                if event.type == "DELETED":
                    break
        stories.append([(event.type, event.object.name, event.object.resource_version) for event in results])
    assert stories[0] == stories[1]
    assert [each[:2] for each in stories[0]] == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    revisions = [int(each[2]) for each in stories[0]]
    assert revisions[:2] == [int(first.resource_version), int(second.resource_version)]
    assert revisions[2] > revisions[1]


async def test_namespace_is_emptied_once_by_either_server(client_a: Client, client_b: Client) -> None:
    await client_a.create(NAMESPACE, {"metadata": {"name": "n"}})
    for number in range(5):
        await client_b.create(CONFIG_MAP, {"metadata": {"name": f"c{number}", "namespace": "n"}})
    await client_a.delete(NAMESPACE, "n")
    async with asyncio.timeout(20):
        async for event in client_b.watch(NAMESPACE, resource_version="0"):
            if event.type == "DELETED":
                break
    assert (await client_b.list(CONFIG_MAP, "n")).items == []


async def test_started_server_has_objects_and_last_changes(clients: Clients, keys: Keys) -> None:
    async with serving(clients, keys) as server:
        client = client_of(server)
        start = (await client.list(CONFIG_MAP)).resource_version
        made = [await client.create(CONFIG_MAP, config_map(name)) for name in "abc"]
        await client.delete(CONFIG_MAP, "b", "default")
        before = (await client.list(CONFIG_MAP)).items
    async with serving(clients, keys) as server:
        client = client_of(server)
        assert [(each.key, each.tree) for each in (await client.list(CONFIG_MAP)).items] == [
            (each.key, each.tree) for each in before
        ]
        seen: list[tuple[str, str]] = []
        async with asyncio.timeout(20):
            async for event in client.watch(CONFIG_MAP, "default", resource_version=start):
                seen.append((event.type, event.object.name))
                if event.type == "DELETED":
                    break
        assert seen == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c"), ("DELETED", "b")]
        renewed = await client.replace(CONFIG_MAP, {**made[0].tree, "data": {"k": "v"}})
        assert int(renewed.resource_version) > int(made[2].resource_version)


async def test_a_server_starts_behind_a_compaction(clients: Clients, keys: Keys) -> None:
    async with serving(clients, keys) as server:
        client = client_of(server)
        start = (await client.list(CONFIG_MAP)).resource_version
        await client.create(CONFIG_MAP, config_map("a"))
        last = await client.create(CONFIG_MAP, config_map("b"))
    async with clients() as etcd:
        await etcd.compact(int(last.resource_version))
    async with serving(clients, keys) as server:
        client = client_of(server)
        assert [item.name for item in (await client.list(CONFIG_MAP, "default")).items] == ["a", "b"]
        with pytest.raises(Expired):
            async for _ in client.watch(CONFIG_MAP, "default", resource_version=start):
                pass


async def test_a_compaction_by_the_server_reaches_etcd(clients: Clients, keys: Keys) -> None:
    store = EtcdStore(clients(), keys)
    server = Server(store, now=lambda: datetime.now(UTC), random=random.Random(1))
    await server.start()
    made = await client_of(server).create(CONFIG_MAP, config_map("a"))
    async with clients() as etcd:
        store.compact(store.durable)
        with pytest.raises(Expired):
            store.table("configmaps").after(int(made.resource_version) - 1)
        await asyncio.gather(*store._tasks[3:])  # it is done behind the server's back
        with pytest.raises(Compacted):
            await etcd.get(b"x", revision=int(made.resource_version) - 1)
    await server.close()


async def test_mistake_of_ours_in_following_etcd_ends_server(clients: Clients, keys: Keys) -> None:
    store = EtcdStore(clients(), keys)
    server = Server(store, now=lambda: datetime.now(UTC), random=random.Random(1))
    await server.start()

    def mistaken(change: Change) -> None:
        raise ZeroDivisionError(change.key.name)

    store.follow(mistaken)
    with suppress(ApiError):  # etcd may have answered before its event was brought, and the object is there
        await client_of(server).create(CONFIG_MAP, config_map("a"))
    assert "watching etcd failed: ZeroDivisionError: a" in await server.lost()
    with pytest.raises(ApiError, match="not running"):
        await client_of(server).get(CONFIG_MAP, "a", "default")
    await server.close()


async def test_keys_of_others_do_not_disturb(clients: Clients, keys: Keys, client_a: Client) -> None:
    async with clients() as etcd:
        for path in (b"compact_rev_key", b"masterleases/10.0.0.1", b"\xff", b"unknown/a/b/c/d"):
            await etcd.put(keys.prefix + path, b"no object")
        await etcd.put(b"/elsewhere", b"")
    assert await client_a.create(CONFIG_MAP, config_map("a")) is not None
    assert (await client_a.get(CONFIG_MAP, "a", "default")).name == "a"


async def test_an_object_too_large_for_etcd_is_refused(client_a: Client) -> None:
    with pytest.raises(ApiError, match="etcdserver: request is too large") as refused:
        await client_a.create(CONFIG_MAP, config_map("a", k='"' * 900_000))  # a quote is two bytes of JSON
    assert refused.value.status.code == 413
    with pytest.raises(NotFound):
        await client_a.get(CONFIG_MAP, "a", "default")


async def test_nothing_is_left_of_a_server(clients: Clients, keys: Keys) -> None:
    before = asyncio.all_tasks()
    async with serving(clients, keys) as server:
        stream = client_of(server).watch(CONFIG_MAP, "default", resource_version="0")
        await client_of(server).create(CONFIG_MAP, config_map("a"))
        assert isinstance((await anext(aiter(stream))).object, Object)
    assert not await left_over(before)
