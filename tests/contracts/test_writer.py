"""Writes, and their objects: each way of writing, when it is equal, stale, gone, or another's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from espalier.api.core import CONFIG_MAP, NAMESPACE
from espalier.api.eksa.upgrades import NodeUpgrade, NodeUpgradeSpec, NodeUpgradeStatus, ObjectReference
from espalier.api.meta import ObjectMeta, OwnerReference, Tree
from espalier.api.resource import Key, Resource
from espalier.cli.local.environment.management import install_definitions
from espalier.kube.client import Client, PatchType
from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.errors import Conflict, Invalid, NotFound, Unreachable
from espalier.kube.objects import Object
from espalier.kube.transports.http import HttpTransport
from espalier.kube.transports.inprocess import InProcessTransport
from espalier.kube.transports.wire import Request, Response, Transport
from espalier.runtime.caches.cache import Caches
from espalier.runtime.controllers import owners
from espalier.runtime.controllers.own_writes import OwnWrites
from espalier.runtime.controllers.writer import NameTaken, Precondition, Writer, found_by_owner
from tests.support.environments.control_plane import ControlPlane

UPGRADE = NodeUpgrade.resource
FINALIZER = "example.com/ours"
STATUS = NodeUpgradeStatus(completed=True)


class Counting:
    """Keeps which writes left; `loses` says that none of them is answered."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.writes: list[str] = []
        self.loses = False

    async def request(self, request: Request) -> Response:
        if request.method != "GET":
            self.writes.append(request.method)
        response = await self._transport.request(request)
        if self.loses and request.method != "GET":
            raise Unreachable("the connection was lost")
        return response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Environment(NamedTuple):
    """A server, a writer on it that shows what was written in its caches, and a namespace."""

    client: Client
    sent: Counting
    caches: Caches
    writer: Writer
    own_writes: OwnWrites
    namespace: str
    owner: OwnerReference
    """Of an object that is there: others are collected when theirs is not."""
    is_embedded: bool

    async def make(self, name: str = "a", **data: str) -> Object:
        """A ConfigMap that somebody wrote, and the caches show."""
        metadata = {"name": name, "namespace": self.namespace}
        made = await self.client.create(CONFIG_MAP, {"metadata": metadata, "data": data})
        self.caches.of(CONFIG_MAP).wrote(made)
        return made

    async def upgrade(self) -> Object:
        """An object with a status."""
        spec = NodeUpgradeSpec(machine=ObjectReference("m"), kubernetes_version="v1.36.3", node_type="Worker")
        metadata = ObjectMeta(name="a", namespace=self.namespace)
        return await self.client.create(UPGRADE, NodeUpgrade(metadata=metadata, spec=spec))

    async def edit(self, resource: Resource, name: str = "a") -> Object:
        """Somebody else changes an object."""
        patch = {"metadata": {"labels": {"edited": "by-another"}}}
        return await Writer(self.client, {}).merge(resource, await self.stored(resource, name), patch)

    async def stored(self, resource: Resource, name: str = "a") -> Object:
        return await self.client.get(resource, name, self.namespace)

    async def anew(self, resource: Resource, make: Callable[[], Awaitable[Object]]) -> Object:
        """Somebody else deletes an object and makes one of its name."""
        await self.client.delete(resource, "a", self.namespace)
        return await make()


@pytest.fixture(
    params=[
        pytest.param("in_memory", marks=pytest.mark.embedded),
        pytest.param("real", marks=pytest.mark.envtest),
    ]
)
def transport(request: pytest.FixtureRequest) -> Transport:
    if request.param == "in_memory":
        return InProcessTransport(request.getfixturevalue("in_memory"))
    real: ControlPlane = request.getfixturevalue("control_plane")
    return HttpTransport(Kubeconfig.load([real.kubeconfig]).context(), environment={})


@pytest.fixture
async def env(transport: Transport) -> AsyncIterator[Environment]:
    sent = Counting(transport)
    client, own_writes = Client(sent, field_manager="writer"), OwnWrites()
    await install_definitions([NodeUpgrade], client)
    namespace = (await client.create(NAMESPACE, {"metadata": {"generateName": "writer-"}})).name
    caches = Caches(client)
    running = asyncio.create_task(caches.run())
    shown = {resource: caches.of(resource) for resource in (CONFIG_MAP, UPGRADE)}
    await caches.wait_synced()
    owner = await client.create(CONFIG_MAP, {"metadata": {"name": "owner", "namespace": namespace}})
    sent.writes.clear()
    writer, reference = Writer(client, shown, "ours", {UPGRADE: own_writes}), owners.owner_reference(owner)
    is_embedded = isinstance(transport, InProcessTransport)
    yield Environment(client, sent, caches, writer, own_writes, namespace, reference, is_embedded)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await client.close()


def ours(resource: Resource, object_: Object) -> str:
    return "somebody" if "edited" in object_.metadata.labels else ""


def body(env: Environment, **data: str) -> Tree:
    metadata = {"name": "a", "namespace": env.namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}


Act = Callable[[Environment, Object], Awaitable[Object | None]]
WANTED: Tree = {"metadata": {"annotations": {"example.com/a": "1"}}, "data": {"x": "1", "gone": None}}

MERGES: dict[str, Act] = {
    "merge, by version": lambda env, current: env.writer.merge(CONFIG_MAP, current, WANTED),
    "merge, by uid": lambda env, current: env.writer.merge(CONFIG_MAP, current, WANTED, Precondition.UID),
    "add a finalizer": lambda env, current: env.writer.add_finalizer(CONFIG_MAP, current, FINALIZER),
    "add an owner": lambda env, current: env.writer.add_owner(CONFIG_MAP, current, env.owner, {"owned": "yes"}),
}
REMOVALS: dict[str, Act] = {
    "remove a finalizer": lambda env, current: env.writer.remove_finalizer(CONFIG_MAP, current, FINALIZER),
    "remove an owner": lambda env, current: env.writer.remove_owner(CONFIG_MAP, current, env.owner.uid),
}
BY_VERSION = [name for name in MERGES | REMOVALS if name != "merge, by uid"]


async def prepared(env: Environment) -> Object:
    """An object from which everything can be removed that the removals remove."""
    made = await env.make(gone="1")
    owned = await env.writer.add_owner(CONFIG_MAP, made, env.owner)
    result = await env.writer.add_finalizer(CONFIG_MAP, owned, FINALIZER)
    env.sent.writes.clear()
    return result


@pytest.mark.parametrize("act", MERGES.values(), ids=MERGES)
async def test_complete_object_is_returned_unwritten(env: Environment, act: Act) -> None:
    result = await env.make(gone="1")
    written = await act(env, result)
    assert written is not None
    assert written is not result
    shown = env.caches.of(CONFIG_MAP).get(written.key)
    assert shown is not None
    assert shown.resource_version == written.resource_version, "the cache shows it at once"
    assert b"managedFields" not in written.raw
    env.sent.writes.clear()
    assert await act(env, written) is written
    assert not env.sent.writes


@pytest.mark.parametrize("act", REMOVALS.values(), ids=REMOVALS)
async def test_field_is_removed_once_and_not_while_deleted(env: Environment, act: Act) -> None:
    result = await prepared(env)
    await act(env, result)
    left = await env.stored(CONFIG_MAP)
    assert left.metadata.finalizers == [] or left.metadata.owner_references == []
    assert env.sent.writes == ["PATCH"]
    await act(env, left)
    assert env.sent.writes == ["PATCH"]
    if left.metadata.finalizers:
        await env.writer.remove_finalizer(CONFIG_MAP, left, FINALIZER)
    await env.client.delete(CONFIG_MAP, "a", env.namespace)
    await act(env, result)


@pytest.mark.parametrize("name", BY_VERSION)
async def test_a_change_by_another_is_a_conflict(env: Environment, name: str) -> None:
    act, result = (MERGES | REMOVALS)[name], await prepared(env)
    if name in MERGES:
        result = await env.make("b")
    edited = await env.edit(CONFIG_MAP, result.name)
    with pytest.raises(Conflict):
        await act(env, result)
    assert (await env.stored(CONFIG_MAP, result.name)).resource_version == edited.resource_version


async def test_by_uid_what_another_changed_meanwhile_stays(env: Environment) -> None:
    result = await env.make(y="2")
    await env.edit(CONFIG_MAP)
    written = await env.writer.merge(CONFIG_MAP, result, WANTED, Precondition.UID)
    assert written.metadata.labels == {"edited": "by-another"}
    assert written.tree["data"] == {"x": "1", "y": "2"}


@pytest.mark.parametrize("act", MERGES.values(), ids=MERGES)
async def test_recreated_object_conflicts_and_missing_is_404(env: Environment, act: Act) -> None:
    result = await env.make(gone="1")
    other = await env.anew(CONFIG_MAP, env.make)
    with pytest.raises(Conflict):
        await act(env, result)
    assert (await env.stored(CONFIG_MAP)).resource_version == other.resource_version
    await env.client.delete(CONFIG_MAP, "a", env.namespace)
    with pytest.raises(NotFound):
        await act(env, result)


@pytest.mark.parametrize("precondition", Precondition)
async def test_a_status_is_written_whole_where_it_differs(env: Environment, precondition: Precondition) -> None:
    result = await env.upgrade()
    written = await env.writer.status(UPGRADE, result, STATUS, precondition)
    assert written.tree["status"] == {"completed": True}
    env.sent.writes.clear()
    assert await env.writer.status(UPGRADE, written, STATUS, precondition) is written
    assert not env.sent.writes
    emptied = await env.writer.status(UPGRADE, written, {}, precondition)
    assert not emptied.tree.get("status")
    edited = await env.edit(UPGRADE)
    if precondition is Precondition.VERSION:
        with pytest.raises(Conflict):
            await env.writer.status(UPGRADE, emptied, STATUS, precondition)
    else:
        again = await env.writer.status(UPGRADE, emptied, STATUS, precondition)
        assert again.metadata.labels == edited.metadata.labels
    await env.anew(UPGRADE, env.upgrade)
    if precondition is Precondition.VERSION or env.is_embedded:
        # kube-apiserver takes the stored metadata for a status before it compares them: it does not look at the uid.
        with pytest.raises(Conflict):
            await env.writer.status(UPGRADE, result, STATUS, precondition)


async def test_unknown_parts_of_a_status_stay(env: Environment) -> None:
    result = await env.writer.status(UPGRADE, await env.upgrade(), {"completed": True, "conditions": []})
    assert "conditions" in result.tree["status"]
    before = NodeUpgradeStatus(completed=True)
    assert await env.writer.status(UPGRADE, result, STATUS, before=before) is result
    written = await env.writer.status(UPGRADE, result, NodeUpgradeStatus(observed_generation=1), before=before)
    assert written.tree["status"] == {"conditions": [], "observedGeneration": 1}


async def test_own_writes_are_recorded_before_they_are_sent(env: Environment) -> None:
    result = await env.upgrade()
    written = await env.writer.status(UPGRADE, result, STATUS)
    assert not env.own_writes.by_others(result, written)
    annotated = await env.writer.merge(UPGRADE, written, {"metadata": {"annotations": {"a": "1"}}})
    assert not env.own_writes.by_others(written, annotated)
    freed = await env.writer.merge(UPGRADE, annotated, {"metadata": {"annotations": {"a": None}}})
    assert not env.own_writes.by_others(annotated, freed)
    assert env.own_writes.by_others(freed, annotated), "somebody brings it back"


async def test_an_unanswered_own_write_is_noticed(env: Environment) -> None:
    """The cache lacks it, so the next reconcile may find that nothing has to be written: its event has to come."""
    result = await env.upgrade()
    env.sent.loses = True
    with pytest.raises(Unreachable):
        await env.writer.status(UPGRADE, result, STATUS)
    assert (await env.writer.status(UPGRADE, result, NodeUpgradeStatus())) is result
    reported = await env.stored(UPGRADE)
    assert reported.decode(NodeUpgrade).status == STATUS
    assert env.own_writes.by_others(result, reported)
    with pytest.raises(Unreachable):
        await env.writer.merge(UPGRADE, reported, {"metadata": {"annotations": {"example.com/a": "1"}}})
    assert env.own_writes.by_others(reported, await env.stored(UPGRADE))


async def test_a_name_that_is_taken_is_left_alone(env: Environment) -> None:
    there = await env.make(x="theirs")
    assert await env.writer.create(CONFIG_MAP, body(env, x="ours")) is None
    assert (await env.stored(CONFIG_MAP)) == there
    await env.client.delete(CONFIG_MAP, "a", env.namespace)
    made = await env.writer.create(CONFIG_MAP, body(env, x="ours"))
    assert made is not None
    assert made.tree["data"] == {"x": "ours"}


async def test_a_replaced_object_keeps_nothing_of_the_former(env: Environment) -> None:
    await env.make(y="theirs")
    assert (await env.writer.replace(CONFIG_MAP, body(env, x="ours"))).tree["data"] == {"x": "ours"}


async def test_apply_creates_the_missing_and_owns_the_rest(env: Environment) -> None:
    made = await env.writer.apply(CONFIG_MAP, body(env, x="1", y="1"), ours)
    assert made.tree["data"] == {"x": "1", "y": "1"}
    await env.edit(CONFIG_MAP)  # which the cache does not need to know of
    applied = await env.writer.apply(CONFIG_MAP, body(env, x="2"), lambda _resource, _object: "")
    assert applied.tree["data"] == {"x": "2"}
    assert applied.metadata.uid == made.metadata.uid
    shown = env.caches.of(CONFIG_MAP).get(made.key)
    assert shown is not None
    assert shown.resource_version == applied.resource_version


async def test_apply_over_what_the_cache_lacks_conflicts(env: Environment) -> None:
    """Or shows as another object than it is."""
    unseen = Writer(env.client, {CONFIG_MAP: Caches(env.client).of(CONFIG_MAP)}, "ours")
    there = await env.make(x="theirs")
    with pytest.raises(Conflict):
        await unseen.apply(CONFIG_MAP, body(env, x="ours"), ours)
    assert await env.stored(CONFIG_MAP) == there
    stale = Caches(env.client).of(CONFIG_MAP)
    stale.begin_list()
    stale.listed([there])
    other = await env.anew(CONFIG_MAP, env.make)
    with pytest.raises(Conflict, match="recreated by somebody else"):
        await Writer(env.client, {CONFIG_MAP: stale}, "ours").apply(CONFIG_MAP, body(env, x="ours"), ours)
    assert await env.stored(CONFIG_MAP) == other


async def test_object_of_another_is_not_applied_nor_deleted(env: Environment) -> None:
    result = await env.make()
    edited = await env.edit(CONFIG_MAP)
    env.caches.of(CONFIG_MAP).wrote(edited)
    env.sent.writes.clear()
    with pytest.raises(NameTaken, match=r"ConfigMap\.core .*somebody"):
        await env.writer.apply(CONFIG_MAP, body(env), ours)
    for seen in (result, edited):
        with pytest.raises(NameTaken, match="somebody"):
            await env.writer.delete(CONFIG_MAP, seen, ours)
    assert not env.sent.writes


@pytest.mark.parametrize("belongs", [ours, found_by_owner])
async def test_deletion_is_of_one_object_and_requested_once(env: Environment, belongs: Any) -> None:
    result = await env.make()
    other = await env.anew(CONFIG_MAP, env.make)
    with pytest.raises(Conflict):
        await env.writer.delete(CONFIG_MAP, result, belongs)
    held = await env.writer.add_finalizer(CONFIG_MAP, other, FINALIZER)
    await env.writer.delete(CONFIG_MAP, held, belongs)
    deleted = env.caches.of(CONFIG_MAP).get(Key(env.namespace, "a"))
    assert deleted is not None
    assert deleted.metadata.deletion_timestamp, "the cache shows it at once"
    env.sent.writes.clear()
    await env.writer.delete(CONFIG_MAP, deleted, belongs)
    assert not env.sent.writes
    await env.writer.remove_finalizer(CONFIG_MAP, deleted, FINALIZER)
    assert env.caches.of(CONFIG_MAP).get(deleted.key) in (deleted, None), "what is gone does not come back"
    await env.writer.delete(CONFIG_MAP, held, belongs)


async def test_object_changed_meanwhile_is_not_deleted(env: Environment) -> None:
    seen = await env.make(kept="no")
    patch = {"data": {"kept": "yes"}}
    changed = await env.client.patch(CONFIG_MAP, "a", env.namespace, patch=patch, type=PatchType.MERGE)
    with pytest.raises(Conflict):
        await env.writer.delete(CONFIG_MAP, seen, found_by_owner, Precondition.VERSION)
    await env.writer.delete(CONFIG_MAP, changed, found_by_owner, Precondition.VERSION)
    with pytest.raises(NotFound):
        await env.client.get(CONFIG_MAP, "a", env.namespace)


async def test_invalid_write_is_reported_with_servers_reason(env: Environment) -> None:
    with pytest.raises(Invalid):
        await env.writer.merge(CONFIG_MAP, await env.make(), {"metadata": {"labels": {"a": "no value: a space"}}})


async def test_caches_show_writes_before_their_events(env: Environment) -> None:
    caches = Caches(env.client)  # which are not kept true
    cache, writer = caches.of(CONFIG_MAP), Writer(env.client, {}).with_caches({CONFIG_MAP: caches.of(CONFIG_MAP)})
    made = await writer.create(CONFIG_MAP, body(env))
    assert made is not None

    async def replace(env: Environment, _current: Object) -> Object:
        return await env.writer.replace(CONFIG_MAP, body(env, x="2"))

    for act in (*MERGES.values(), replace):
        written = await act(env._replace(writer=writer), cache.get(made.key) or made)
        assert written is not None
        shown = cache.get(made.key)
        assert shown is not None
        assert shown.resource_version == written.resource_version != made.resource_version


async def test_owners_keep_their_order(env: Environment) -> None:
    other = owners.owner_reference(await env.make("other"), controller=False)
    first = await env.writer.add_owner(CONFIG_MAP, await env.make(), env.owner)
    both = await env.writer.add_owner(CONFIG_MAP, first, other)
    assert [reference.name for reference in both.metadata.owner_references] == ["owner", "other"]
    assert await env.writer.add_owner(CONFIG_MAP, both, env.owner) is both
    free = owners.owner_reference(await env.stored(CONFIG_MAP, "owner"), controller=False)
    again = await env.writer.add_owner(CONFIG_MAP, both, free)
    assert [(reference.name, reference.controller) for reference in again.metadata.owner_references] == [
        ("other", None),
        ("owner", None),
    ]
