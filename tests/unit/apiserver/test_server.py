"""The embedded API server as a whole: what no real one can be asked, for it needs this one's clock, store or seed."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from espalier.api.core import (
    CONFIG_MAP,
    CORE_EVENT,
    CUSTOM_RESOURCE_DEFINITION,
    EVENT,
    NAMESPACE,
    POD,
)
from espalier.api.definitions.crd import crd_of
from espalier.api.kinds import KubeObject
from espalier.apiserver.server import Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Conflict, Forbidden, NotFound, ServerFailure
from espalier.kube.transports.wire import Request, User
from espalier.providers.kinds import CLUSTER_API_KINDS, EKSA_KINDS
from espalier.runtime.virtual import Simulation, run
from tests.support.servers.embedded_server import THING, body, client_of, condition, definition, new_server

# Time and chance.


EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


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


def test_journey_replays_with_one_seed_and_clock() -> None:
    first, second, other = (run(journey, epoch=EPOCH, seed=seed) for seed in (7, 7, 8))
    assert first == second
    assert first != other


# Rights, counts, versions.


async def test_forbidden_request_names_user_verb_resource(server: Server) -> None:
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


@pytest.mark.parametrize(
    ("rule", "names"),
    [
        ("isIP(self.metadata.name) || cidr(self.metadata.name).isCanonical()", "cidr, isCanonical"),
        ("duration(self.metadata.name).getMilliseconds() == 1500", "getMilliseconds of durations"),
    ],
)
async def test_rules_that_can_not_be_evaluated_are_admitted(client: Client, rule: str, names: str) -> None:
    rules = [{"rule": rule, "message": "an address"}]
    created = await client.create(CUSTOM_RESOURCE_DEFINITION, definition(schema={"x-kubernetes-validations": rules}))
    result = condition(created.tree, "RulesEvaluated")
    assert (result["status"], result["reason"]) == ("False", "NotSupported")
    assert result["message"].startswith(f"rules that need {names} are stored;")
    assert (await client.create(THING, body("no-address"))).name == "no-address"
    rules[0]["rule"] = "self.metadata.name != 'x'"
    mended = definition(schema={"x-kubernetes-validations": rules})
    mended["metadata"]["resourceVersion"] = created.resource_version
    replaced = await client.replace(CUSTOM_RESOURCE_DEFINITION, mended)
    assert "RulesEvaluated" not in [condition["type"] for condition in replaced.tree["status"]["conditions"]]


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
    async with asyncio.timeout(60):
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


async def test_a_pod_that_was_made_anew_is_not_evicted(client: Client) -> None:
    """The eviction was for the one before, of the same name."""
    pod = {"metadata": {"name": "p", "namespace": "default"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    seen = await client.create(POD, pod)
    await client.delete(POD, "p", "default")
    await client.create(POD, pod)
    with pytest.raises(Conflict):
        await client.evict(seen)


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
    events = await client.list(CORE_EVENT, "default", fields="involvedObject.name=p,reason=Happened")
    (core,) = [item.tree for item in events.items]
    assert (core["apiVersion"], core["message"], core["reportingComponent"]) == ("v1", "It happened.", "tester")
    assert "note" not in core
    assert (await client.list(CORE_EVENT, "default", fields="involvedObject.name=q")).items == []
