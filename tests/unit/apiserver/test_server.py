"""The embedded API server as a whole: what no real one can be asked, for it needs this one's clock, store or seed."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from espalier.api.core import (
    CONFIG_MAP,
    CORE_EVENT,
    CUSTOM_RESOURCE_DEFINITION,
    EVENT,
    MUTATING_WEBHOOK_CONFIGURATION,
    NAMESPACE,
    POD,
    VALIDATING_WEBHOOK_CONFIGURATION,
)
from espalier.api.crd import crd_of
from espalier.api.kinds import KubeObject
from espalier.api.resource import Resource
from espalier.apiserver.server import Server
from espalier.apiserver.store import HISTORY, Change, MemoryStore, Store
from espalier.apiserver.webhooks import CallFailed, CallWebhook, WebhookCall
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import ApiError, BadRequest, Conflict, Expired, Forbidden, Invalid, NotFound, ServerFailure
from espalier.kube.inprocess import InProcessTransport
from espalier.kube.retry import Retry
from espalier.kube.wire import ADMIN, Request, Response, User
from espalier.providers.kinds import CLUSTER_API_KINDS, EKSA_KINDS
from espalier.runtime.virtual import Simulation, run

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
THING = Resource("example.com", "v1", "things", "Thing")


def new_server(store: Store | None = None, call_webhook: CallWebhook | None = None) -> Server:
    return Server(
        store or MemoryStore(), now=lambda: datetime.now(UTC), random=random.Random(1), call_webhook=call_webhook
    )


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = new_server()
    await server.start()
    yield server
    await server.close()


@pytest.fixture
def client(server: Server) -> Client:
    return client_of(server)


def client_of(server: Server, user: User = ADMIN, agent: str = "tester") -> Client:
    return Client(InProcessTransport(server, user), user_agent=agent, retry=Retry(attempts=1))


def body(name: str, data: dict[str, str] | None = None, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", **metadata}, "data": data or {}}


def definition(kind: str = "Thing", plural: str = "things", schema: dict[str, Any] | None = None) -> dict[str, Any]:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, **(schema or {})}
        },
    }
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version],
        },
    }


def condition(tree: dict[str, Any], type_: str) -> dict[str, Any]:
    return next(each for each in tree["status"]["conditions"] if each["type"] == type_)


# Time and chance.


async def journey(simulation: Simulation) -> bytes:
    server = Server(MemoryStore(), now=simulation.clock.now, random=simulation.random)
    await server.start()
    client = client_of(server)

    async def make(lane: int) -> None:
        for _ in range(5):
            created = await client.create(CONFIG_MAP, {"metadata": {"generateName": "c-", "namespace": "default"}})
            await asyncio.sleep(0.1 * lane)
            await client.apply(CONFIG_MAP, body(created.name, {"lane": str(lane)}))

    await asyncio.gather(*(make(lane) for lane in range(3)))
    await client.delete(NAMESPACE, "kube-node-lease")
    listed = await client.raw(Request("GET", CONFIG_MAP.path()))
    namespaces = await client.raw(Request("GET", NAMESPACE.path()))
    await server.close()
    return listed.body + namespaces.body


def test_with_one_seed_and_one_clock_a_journey_replays_bit_by_bit() -> None:
    first, second, other = (run(journey, epoch=EPOCH, seed=seed) for seed in (7, 7, 8))
    assert first == second
    assert first != other


def simulated(story: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
    async def main(simulation: Simulation) -> None:
        server = Server(MemoryStore(), now=simulation.clock.now, random=simulation.random)
        await server.start()
        await story(client_of(server))
        await server.close()

    run(main, epoch=EPOCH, seed=1)


def test_a_quiet_watch_hears_each_minute_how_far_it_has_come() -> None:
    async def story(client: Client) -> None:
        async with aclosing(client.watch(CONFIG_MAP, resource_version="5")) as events:
            times = []
            async for event in events:
                assert event.type == "BOOKMARK"
                times.append(asyncio.get_running_loop().time())
                if len(times) == 3:
                    break
                await client.patch(
                    NAMESPACE, "default", patch={"metadata": {"labels": {"n": str(len(times))}}}, type=PatchType.MERGE
                )
            assert times == [60, 120, 180]
            assert int(event.object.resource_version) > 5, "bookmarks rise with writes elsewhere"

    simulated(story)


def test_changes_are_kept_for_some_minutes() -> None:
    async def story(client: Client) -> None:
        start = (await client.create(CONFIG_MAP, body("a"))).resource_version
        await client.patch(CONFIG_MAP, "a", "default", patch={"data": {"x": "1"}}, type=PatchType.MERGE)
        await asyncio.sleep(4 * 60)
        async for event in client.watch(CONFIG_MAP, resource_version=start, timeout_seconds=1):
            assert event.type in ("MODIFIED", "BOOKMARK")
        await asyncio.sleep(3 * 60)
        with pytest.raises(Expired):
            async for _ in client.watch(CONFIG_MAP, resource_version=start, timeout_seconds=1):
                pass

    simulated(story)


# Watches.


def test_who_has_seen_more_than_a_store_that_was_put_back_hears_nothing_that_it_may_have_seen() -> None:
    """As kube-apiserver: a watch from the future waits in silence, without bookmarks, until the store is there."""

    async def story(client: Client) -> None:
        seen = int((await client.create(CONFIG_MAP, body("last"))).resource_version) + 2
        watch = client.watch(CONFIG_MAP, "default", resource_version=str(seen), timeout_seconds=150)
        async with aclosing(watch) as events:
            first = asyncio.ensure_future(anext(events))
            await asyncio.sleep(61)  # the minute in which others get a bookmark
            for name in "abc":
                await client.create(CONFIG_MAP, body(name))
            event = await first
            assert (event.type, event.object.name) == ("ADDED", "c")
            assert (await anext(events)).type == "BOOKMARK"

    simulated(story)


async def test_a_page_of_a_store_that_was_put_back_is_too_old(server: Server, client: Client) -> None:
    for name in "abc":
        await client.create(CONFIG_MAP, body(name))
    path = CONFIG_MAP.path("default")
    later = msgspec.json.decode((await client.raw(Request("GET", path, {"limit": "1"}))).body)
    earlier = new_server()
    await earlier.start()
    query = {"limit": "1", "continue": later["metadata"]["continue"]}
    assert (await server.serve(Request("GET", path, query), ADMIN)).status == 200
    assert (await earlier.serve(Request("GET", path, query), ADMIN)).status == 410
    await earlier.close()


async def test_a_reader_that_falls_too_far_behind_is_cut_off(client: Client) -> None:
    start = (await client.create(CONFIG_MAP, body("a"))).resource_version
    async with aclosing(client.watch(CONFIG_MAP, resource_version=start)) as events:
        first = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0)
        for index in range(2 * HISTORY):
            await client.patch(CONFIG_MAP, "a", "default", patch={"data": {"x": str(index)}}, type=PatchType.MERGE)
        assert (await first).type == "MODIFIED"
        with pytest.raises(Expired):
            async for _ in events:
                pass


async def test_watches_end_with_their_server(server: Server, client: Client) -> None:
    start = (await client.list(CONFIG_MAP)).resource_version

    async def read() -> list[str]:
        return [event.type async for event in client.watch(CONFIG_MAP, resource_version=start)]

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    await server.close()
    async with asyncio.timeout(5):
        assert await reading == []


# Durability.


class HeldStore(Store):
    """Writes become durable when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.held: list[Change] = []
        self.hold = False
        self.turn = asyncio.Event()

    def _persist(self, change: Change) -> None:
        if self.hold:
            self.held.append(change)
        else:
            self._release((change,))

    def remove_finalizer(self) -> None:
        self._release(self.held)
        self.turn.set()

    async def flushed(self, revision: int) -> None:
        while revision > self.durable:
            await self.turn.wait()


async def test_nothing_is_told_before_it_is_durable() -> None:
    store = HeldStore()
    server = new_server(store)
    await server.start()
    client = client_of(server)
    kept = await client.create(CONFIG_MAP, body("kept"))
    start = kept.resource_version
    store.hold = True
    heard: list[str] = []

    async def listen() -> None:
        async for event in client.watch(CONFIG_MAP, resource_version=start):
            heard.append(event.object.name)

    listening = asyncio.ensure_future(listen())
    writing = asyncio.ensure_future(client.create(CONFIG_MAP, body("new")))
    await asyncio.sleep(0.01)
    reads = [
        asyncio.ensure_future(client.get(CONFIG_MAP, "new", "default")),
        asyncio.ensure_future(client.list(CONFIG_MAP)),
        asyncio.ensure_future(client.create(CONFIG_MAP, body("new"))),
        asyncio.ensure_future(client.get(CONFIG_MAP, "missing", "default")),
    ]
    await asyncio.sleep(0.01)
    assert not writing.done()
    assert not any(each.done() for each in reads)
    assert heard == []
    assert await client.get(CONFIG_MAP, "kept", "default") == kept, "what is durable can be read"
    watch = client.watch(CONFIG_MAP, resource_version="0")
    assert (await anext(watch)).object.name == "kept"
    store.remove_finalizer()
    async with asyncio.timeout(5):
        assert (await writing).name == "new"
        assert (await anext(watch)).object.name == "new"
        results = await asyncio.gather(*reads, return_exceptions=True)
    assert [type(each).__name__ for each in results] == ["Object", "ObjectList", "AlreadyExists", "NotFound"]
    assert heard == ["new"]
    listening.cancel()
    await watch.aclose()
    await server.close()


# Rights, counts, versions.


async def test_who_is_no_administrator_is_told_what_he_may_not(server: Server) -> None:
    bob = client_of(server, User("bob", ("system:authenticated",)))
    with pytest.raises(Forbidden) as refused:
        await bob.list(CONFIG_MAP, "default")
    assert str(refused.value) == (
        'configmaps is forbidden: User "bob" cannot list resource "configmaps" in API group "" in the namespace '
        '"default"'
    )
    with pytest.raises(Forbidden, match=r'^namespaces "default" is forbidden: User "bob" cannot delete resource'):
        await bob.delete(NAMESPACE, "default")
    with pytest.raises(Forbidden, match=r'resource "pods/status" in API group "" in the namespace "default"$'):
        await bob.patch(POD, "p", "default", patch={}, type=PatchType.MERGE, subresource="status")


async def test_requests_are_counted(server: Server, client: Client) -> None:
    await client.create(CONFIG_MAP, body("a"))
    await client.patch(CONFIG_MAP, "a", "default", patch={"data": {"x": "1"}}, type=PatchType.MERGE)
    await client.get(CONFIG_MAP, "a", "default")
    own = {key[:3]: count for key, count in server.requests.items() if key[3] == "tester"}
    assert own == {("create", "configmaps", ""): 1, ("patch", "configmaps", ""): 1, ("get", "configmaps", ""): 1}


async def test_the_version_can_be_changed_while_it_runs(server: Server, client: Client) -> None:
    server.version = "v1.35.4"
    answer = await client.raw(Request("GET", "/version"))
    assert msgspec.json.decode(answer.body)["gitVersion"] == "v1.35.4"


async def test_a_server_that_is_not_running_says_so() -> None:
    with pytest.raises(ServerFailure) as refused:
        await client_of(new_server()).list(CONFIG_MAP)
    assert refused.value.status.code == 503


async def test_some_namespaces_stay(client: Client) -> None:
    with pytest.raises(Forbidden, match=r'^namespaces "default" is forbidden: this namespace may not be deleted$'):
        await client.delete(NAMESPACE, "default")


# Definitions.


@pytest.mark.parametrize("kind", [*EKSA_KINDS, *CLUSTER_API_KINDS], ids=lambda kind: kind.resource.group_resource)
async def test_our_own_definitions_are_served_at_once(client: Client, kind: type[KubeObject]) -> None:
    created = await client.create(CUSTOM_RESOURCE_DEFINITION, crd_of(kind))
    assert condition(created.tree, "Established")["status"] == "True"
    assert (await client.list(kind.resource)).items == []


async def test_rules_that_call_what_is_missing_here_are_admitted_to(client: Client) -> None:
    rules = [{"rule": "isIP(self.metadata.name) || cidr(self.metadata.name).isCanonical()", "message": "an address"}]
    created = await client.create(CUSTOM_RESOURCE_DEFINITION, definition(schema={"x-kubernetes-validations": rules}))
    told = condition(created.tree, "RulesEvaluated")
    assert (told["status"], told["reason"]) == ("False", "NotSupported")
    assert told["message"].startswith("rules that need cidr, isCanonical are stored;")
    assert (await client.create(THING, body("no-address"))).name == "no-address"
    rules[0]["rule"] = "self.metadata.name != 'x'"
    mended = definition(schema={"x-kubernetes-validations": rules})
    mended["metadata"]["resourceVersion"] = created.resource_version
    replaced = await client.replace(CUSTOM_RESOURCE_DEFINITION, mended)
    assert "RulesEvaluated" not in [each["type"] for each in replaced.tree["status"]["conditions"]]


async def test_two_definitions_can_not_have_one_name(client: Client) -> None:
    await client.create(CUSTOM_RESOURCE_DEFINITION, definition())
    second = await client.create(CUSTOM_RESOURCE_DEFINITION, definition(plural="thingies"))
    assert condition(second.tree, "NamesAccepted")["reason"] == "NameConflict"
    with pytest.raises(NotFound):
        await client.list(THING._replace(plural="thingies"))


async def test_a_watch_of_a_kind_that_vanishes_ends(client: Client) -> None:
    await client.create(CUSTOM_RESOURCE_DEFINITION, definition())
    start = (await client.list(THING)).resource_version

    async def read() -> list[str]:
        return [event.type async for event in client.watch(THING, resource_version=start)]

    reading = asyncio.ensure_future(read())
    await asyncio.sleep(0)
    await client.create(THING, body("a"))
    await client.delete(CUSTOM_RESOURCE_DEFINITION, "things.example.com")
    async with asyncio.timeout(5):
        assert [type_ for type_ in await reading if type_ != "BOOKMARK"] == ["ADDED", "DELETED"]


# Built-in kinds.


async def test_a_pod_on_a_node_has_time_to_end(client: Client) -> None:
    spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
    await client.create(POD, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
    ending = await client.delete(POD, "p", "default")
    assert ending is not None
    assert ending.metadata.deletion_grace_period_seconds == 30
    assert await client.delete(POD, "p", "default", grace_period_seconds=0) is None
    await client.create(
        POD, {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": spec["containers"]}}
    )
    assert await client.delete(POD, "p", "default") is None, "no kubelet, nobody to wait for"


async def test_a_pod_can_be_bound_once_and_evicted(client: Client) -> None:
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    created = await client.create(POD, pod)

    async def post(subresource: str, body: dict[str, Any]) -> int:
        path = POD.path("default", "p", subresource)
        headers = {"content-type": "application/json"}
        return (await client.raw(Request("POST", path, {}, headers, msgspec.json.encode(body)))).status

    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"},
    }
    assert await post("binding", binding) == 201
    assert (await client.get(POD, "p", "default")).tree["spec"]["nodeName"] == "n"
    assert await post("binding", binding) == 409
    eviction: dict[str, Any] = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    other = {**eviction, "deleteOptions": {"preconditions": {"uid": "other"}}}
    assert await post("eviction", other) == 409
    now = {**eviction, "deleteOptions": {"preconditions": {"uid": created.metadata.uid}, "gracePeriodSeconds": 0}}
    assert await post("eviction", now) == 201
    with pytest.raises(NotFound):
        await client.get(POD, "p", "default")


async def test_events_of_both_groups_are_the_same(client: Client) -> None:
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "regarding": {"kind": "Pod", "name": "p", "namespace": "default"},
        "note": "It happened.",
        "reportingController": "tester",
        "reportingInstance": "t-1",
        "action": "Test",
        "reason": "Happened",
        "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000000Z",
    }
    created = await client.create(EVENT, event)
    assert (created.tree["apiVersion"], created.tree["note"]) == ("events.k8s.io/v1", "It happened.")
    found = await client.list(CORE_EVENT, "default", fields="involvedObject.name=p,reason=Happened")
    (core,) = [item.tree for item in found.items]
    assert (core["apiVersion"], core["message"], core["reportingComponent"]) == ("v1", "It happened.", "tester")
    assert "note" not in core
    assert (await client.list(CORE_EVENT, "default", fields="involvedObject.name=q")).items == []


# Admission.


def webhook(name: str, **more: Any) -> dict[str, Any]:
    rule = {"operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
    return {
        "name": name,
        "clientConfig": {"url": "https://webhooks.example.com/x", "caBundle": ""},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **more,
    }


Answering = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]


async def admitting(answer: Answering, kind: Resource = MUTATING_WEBHOOK_CONFIGURATION) -> tuple[Server, Client]:
    """A server that asks `answer` about ConfigMaps."""

    async def call(asked: WebhookCall) -> bytes:
        request = msgspec.json.decode(asked.body)["request"]
        response = {"uid": request["uid"], "allowed": True, **await answer(request)}
        return msgspec.json.encode(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        )

    server = new_server(call_webhook=call)
    await server.start()
    client = client_of(server)
    await client.create(kind, {"metadata": {"name": "w"}, "webhooks": [webhook("w.example.com")]})
    return server, client


def patching(*operations: dict[str, Any]) -> dict[str, Any]:
    return {"patchType": "JSONPatch", "patch": base64.b64encode(msgspec.json.encode(operations)).decode()}


async def test_what_a_webhook_adds_belongs_to_nobody(server: Server) -> None:
    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        return patching({"op": "add", "path": "/data/added", "value": "yes"})

    server, client = await admitting(answer)
    applied = await client.apply(CONFIG_MAP, body("a", {"own": "1"}), field_manager="me")
    assert applied.tree["data"] == {"own": "1", "added": "yes"}
    entries = {entry["operation"]: entry["fieldsV1"] for entry in applied.tree["metadata"]["managedFields"]}
    assert entries == {"Apply": {"f:data": {"f:own": {}}}}
    again = await client.apply(CONFIG_MAP, body("a", {"own": "1"}), field_manager="me")
    assert again.resource_version == applied.resource_version, "the same once more is no write"
    await server.close()


async def test_a_denial_is_passed_on() -> None:
    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        return {"allowed": False, "status": {"message": "not today", "code": 403}}

    server, client = await admitting(answer, VALIDATING_WEBHOOK_CONFIGURATION)
    with pytest.raises(Forbidden, match=r'^admission webhook "w.example.com" denied the request: not today$'):
        await client.create(CONFIG_MAP, body("a"))
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAP, "a", "default")
    await server.close()


async def test_what_happens_while_a_webhook_thinks_is_not_lost() -> None:
    thinking, think = asyncio.Event(), asyncio.Event()

    async def answer(request: dict[str, Any]) -> dict[str, Any]:
        if request["object"]["data"].get("slow"):
            thinking.set()
            await think.wait()
        return {}

    server, client = await admitting(answer, VALIDATING_WEBHOOK_CONFIGURATION)
    created = await client.create(CONFIG_MAP, body("a"))

    async def meanwhile(slow: Awaitable[Any], key: str) -> Any:
        thinking.clear()
        think.clear()
        running = asyncio.ensure_future(slow)
        await thinking.wait()
        await client.patch(CONFIG_MAP, "a", "default", patch={"data": {key: "1", "slow": None}}, type=PatchType.MERGE)
        think.set()
        return await running

    patch = {"data": {"slow": "1"}}
    patched = await meanwhile(client.patch(CONFIG_MAP, "a", "default", patch=patch, type=PatchType.MERGE), "first")
    assert patched.tree["data"] == {"first": "1", "slow": "1"}, "a patch is made anew on what is there now"
    replacement = {**patched.tree, "data": {"slow": "2"}}
    with pytest.raises(Conflict):
        await meanwhile(client.replace(CONFIG_MAP, replacement), "second")
    assert (await client.get(CONFIG_MAP, "a", "default")).tree["data"] == {"first": "1", "second": "1"}
    assert created.metadata.uid == patched.metadata.uid
    await server.close()


async def test_a_webhook_that_fails_fails_the_write_unless_it_may_be_ignored() -> None:
    async def call(asked: WebhookCall) -> bytes:
        raise CallFailed("failed to call webhook: nobody is there")

    server = new_server(call_webhook=call)
    await server.start()
    client = client_of(server)
    hooks = [webhook("w.example.com")]
    created = await client.create(VALIDATING_WEBHOOK_CONFIGURATION, {"metadata": {"name": "w"}, "webhooks": hooks})
    with pytest.raises(ApiError, match=r'^Internal error occurred: failed calling webhook "w.example.com": failed to'):
        await client.create(CONFIG_MAP, body("a"))
    tree = created.tree
    tree["webhooks"][0]["failurePolicy"] = "Ignore"
    await client.replace(VALIDATING_WEBHOOK_CONFIGURATION, tree)
    await client.create(CONFIG_MAP, body("a"))
    await server.close()


async def test_a_wrong_webhook_configuration_is_refused(client: Client) -> None:
    hooks = [webhook("w.example.com", matchConditions=[{"name": "n", "expression": "true"}])]
    with pytest.raises(Invalid, match=r"does not evaluate matchConditions"):
        await client.create(VALIDATING_WEBHOOK_CONFIGURATION, {"metadata": {"name": "w"}, "webhooks": hooks})


async def raw(server: Server, method: str, path: str, media: str, content: bytes, user: User = ADMIN) -> Response:
    return await server.serve(Request(method, path, {"fieldManager": "me"}, {"content-type": media}, content), user)


MAPS = "/api/v1/namespaces/default/configmaps"


async def test_bodies_in_yaml_and_protobuf_are_read_as_json_is(server: Server) -> None:
    yaml = b"kind: ConfigMap\napiVersion: v1\nmetadata: {name: a}\ndata: {a: 'b'}\n"
    made = await raw(server, "PATCH", f"{MAPS}/a", "application/apply-patch+yaml", yaml)
    assert made.status == 201
    assert msgspec.json.decode(made.body)["data"] == {"a": "b"}
    namespace = b"k8s\x00\n\x0f\n\x02v1\x12\tNamespace\x12\x05\n\x03\n\x01a"
    media = "application/vnd.kubernetes.protobuf"
    assert (await raw(server, "POST", "/api/v1/namespaces", media, namespace)).status == 201
    assert (await raw(server, "POST", "/api/v1/namespaces", media, b"k8s\x00\n\x0f\n")).status == 400
    assert (await raw(server, "PATCH", f"{MAPS}/a", "application/apply-patch+yaml", b"a: [")).status == 400
    other = await raw(server, "POST", MAPS, "application/cbor", b"\xa0")
    assert (other.status, msgspec.json.decode(other.body)["reason"]) == (415, "UnsupportedMediaType")


@pytest.mark.parametrize(
    ("media", "content"),
    [
        ("application/json", b"[" * 5000 + b"]" * 5000),
        ("application/json", b'{"data":' * 300 + b"{}" + b"}" * 300),
        ("application/yaml", b"[" * 60_000),
        ("application/apply-patch+yaml", b"? " * 60_000),
        ("application/apply-patch+yaml", b'{"a":' * 60_000),
        ("application/merge-patch+json", b'{"data":' * 300 + b"{}" + b"}" * 300),
        ("application/json-patch+json", b"[" * 5000 + b"]" * 5000),
    ],
)
async def test_what_is_nested_without_end_is_a_bad_request(server: Server, media: str, content: bytes) -> None:
    await raw(server, "POST", MAPS, "application/json", b'{"metadata":{"name":"a"}}')
    for method, path in (("POST", MAPS), ("PATCH", f"{MAPS}/a"), ("PUT", f"{MAPS}/a"), ("DELETE", f"{MAPS}/a")):
        answer = await raw(server, method, path, media, content)
        assert answer.status in (400, 415), (method, answer.body)


async def test_who_may_not_write_has_nothing_read_that_he_sent(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(body: bytes, content_type: str) -> bytes:
        raise AssertionError("read")

    monkeypatch.setattr("espalier.apiserver.content.json_of", never)
    nobody = User("nobody", ("system:authenticated",))
    for method, path in (("PATCH", f"{MAPS}/a"), ("POST", MAPS), ("PUT", f"{MAPS}/a"), ("DELETE", f"{MAPS}/a")):
        answer = await raw(server, method, path, "application/apply-patch+yaml", b"[" * 60_000, nobody)
        assert answer.status == 403
    assert (await raw(server, "GET", MAPS, "application/yaml", b"[" * 60_000)).status == 200


async def test_copies_of_a_json_patch_are_counted(server: Server) -> None:
    await raw(server, "POST", MAPS, "application/json", b'{"metadata":{"name":"a"},"data":{"a":"b"}}')
    doubling = [{"op": "copy", "from": "/data", "path": f"/data/{number}"} for number in range(60)]
    answer = await raw(server, "PATCH", f"{MAPS}/a", "application/json-patch+json", msgspec.json.encode(doubling))
    assert answer.status == 413
    deeper = [{"op": "add", "path": "/x" * depth, "value": {}} for depth in range(1, 300)]
    answer = await raw(server, "PATCH", f"{MAPS}/a", "application/json-patch+json", msgspec.json.encode(deeper))
    assert (answer.status, b"levels deep" in answer.body) == (400, True)


async def test_rules_of_one_object_have_a_budget(client: Client) -> None:
    items = {"type": "integer", "x-kubernetes-validations": [{"rule": f"self != {number}"} for number in range(20)]}
    schema = {"properties": {"l": {"type": "array", "items": items}}}
    await client.create(CUSTOM_RESOURCE_DEFINITION, definition(schema=schema))
    await client.create(THING, {"metadata": {"name": "a", "namespace": "default"}, "l": [99] * 1000})
    with pytest.raises(Invalid, match="running out of cost budget"):
        await client.create(THING, {"metadata": {"name": "b", "namespace": "default"}, "l": [99] * 30_000})


@pytest.mark.parametrize("below", [{"properties": 5}, {"type": 1}, {"items": "x"}, {"allOf": [5]}, 5, [{}]])
@pytest.mark.parametrize("where", ["items", "additionalProperties"])
async def test_schemas_in_places_that_may_hold_something_else_are_schemas(
    client: Client, below: Any, where: str
) -> None:
    inner = {"type": "array" if where == "items" else "object", where: below}
    with pytest.raises((BadRequest, Invalid)):
        await client.create(CUSTOM_RESOURCE_DEFINITION, definition(schema={"properties": {"l": inner}}))


@pytest.mark.parametrize("spec", [5, "x", [], {"resourceAttributes": 5}, {"user": 5, "groups": "x"}, {"groups": [5]}])
@pytest.mark.parametrize("plural", ["selfsubjectaccessreviews", "subjectaccessreviews", "selfsubjectrulesreviews"])
async def test_access_reviews_of_other_types_are_bad_requests(server: Server, plural: str, spec: Any) -> None:
    path = f"/apis/authorization.k8s.io/v1/{plural}"
    answer = await raw(server, "POST", path, "application/json", msgspec.json.encode({"spec": spec}))
    assert 400 <= answer.status < 500 or (plural, answer.status) == ("selfsubjectrulesreviews", 201)
