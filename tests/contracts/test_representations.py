"""Other forms of objects, held to kube-apiserver: the tables it prints, and the protobuf it writes."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any

import pytest

from espalier.api import core
from espalier.api.kinds import Column
from espalier.api.resource import Resource
from espalier.apiserver.builtin import builtin
from espalier.apiserver.builtin.tables import TableForm
from espalier.apiserver.schema.registry import ServedKind
from espalier.apiserver.wire import protobuf
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import ListMeta
from espalier.kube.transports.wire import Request
from tests.support.environments.control_plane import ControlPlane

pytestmark = pytest.mark.envtest

Tree = dict[str, Any]
EVENT = core.CORE_EVENT
THING = Resource("printing.example.org", "v1", "things", "Thing")
COLUMNS = (
    Column("Text", ".spec.text"),
    Column("Integer", ".spec.integer", "integer"),
    Column("Number", ".spec.number", "number"),
    Column("Boolean", ".spec.boolean", "boolean"),
    Column("Date", ".spec.date", "date"),
    Column("NoInteger", ".spec.text", "integer"),
    Column("Ready", '.status.conditions[?(@.type=="Ready")].status'),
    Column("Label", ".metadata.labels.a\\.b/c"),
    Column("List", ".spec.list", priority=1),
    Column("First", ".spec.list[*].x"),
    Column("Last", ".spec.list[-1].x"),
    Column("IntegerText", ".spec.integer"),
    Column("NumberText", ".spec.number"),
    Column("BooleanText", ".spec.boolean"),
    Column("Nothing", ".spec.nothing"),
    Column("Age", ".metadata.creationTimestamp", "date"),
)


def container(name: str, **state: Any) -> Tree:
    return {"name": name, "image": "", "imageID": "", "ready": False, "restartCount": 0, **state}


POD = {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"app": "x"}}, "spec": {"nodeSelector": {"b": "c", "a": "d"}, **POD}}
SELECTOR = {"matchLabels": {"app": "x"}}
EXPRESSIONS = {
    **SELECTOR,
    "matchExpressions": [
        {"key": "k", "operator": "NotIn", "values": ["b", "a"]},
        {"key": "app", "operator": "Exists"},
        {"key": "q", "operator": "DoesNotExist"},
    ],
}
OBJECTS: list[tuple[Resource, str, Tree, Tree]] = [
    (core.CONFIG_MAP, "settings", {"data": {"a": "b"}, "binaryData": {"c": "AAEC"}}, {}),
    (core.SECRET, "secret", {"data": {"a": "Yg=="}}, {}),
    (core.SERVICE_ACCOUNT, "robot", {}, {}),
    (core.LEASE, "lease", {"spec": {"holderIdentity": "me", "renewTime": "2026-11-21T10:00:00.123456Z"}}, {}),
    (
        core.SERVICE,
        "service",
        {"spec": {"selector": {"b": "c", "a": "d"}, "ports": [{"port": 80, "name": "a", "targetPort": "http"}]}},
        {},
    ),
    (core.SERVICE, "balanced", {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}}, {}),
    (core.SERVICE, "elsewhere", {"spec": {"type": "ExternalName", "externalName": "example.org"}}, {}),
    (core.DEPLOYMENT, "web", {"spec": {"replicas": 0, "selector": EXPRESSIONS, "template": TEMPLATE}}, {}),
    (core.REPLICA_SET, "web-1", {"spec": {"selector": SELECTOR, "template": TEMPLATE}}, {}),
    (core.STATEFUL_SET, "db", {"spec": {"serviceName": "db", "selector": SELECTOR, "template": TEMPLATE}}, {}),
    (
        core.DAEMON_SET,
        "agent",
        {"spec": {"selector": SELECTOR, "template": TEMPLATE}},
        {"numberReady": 1, "currentNumberScheduled": 2, "desiredNumberScheduled": 3, "numberMisscheduled": 0},
    ),
    (core.POD, "pending", {"spec": POD}, {}),
    (
        core.POD,
        "half",
        {"spec": POD},
        {
            "phase": "Running",
            "podIP": "10.1.1.1",
            "podIPs": [{"ip": "10.1.1.1"}],
            "containerStatuses": [
                container("a", ready=True, state={"running": {}}),
                container("b", restartCount=1, state={"terminated": {"exitCode": 0, "reason": "Completed"}}),
            ],
        },
    ),
    (
        core.POD,
        "crashing",
        {"spec": POD},
        {
            "phase": "Running",
            "containerStatuses": [
                container("a", restartCount=5, state={"waiting": {"reason": "CrashLoopBackOff"}}),
                container("b", restartCount=1, state={"terminated": {"exitCode": 137, "signal": 9}}),
            ],
        },
    ),
    (
        core.POD,
        "starting",
        {"spec": {**POD, "initContainers": [{"name": "i", "image": "i"}, {"name": "j", "image": "i"}]}},
        {
            "phase": "Pending",
            "initContainerStatuses": [
                container("i", ready=True, state={"terminated": {"exitCode": 0}}),
                container("j", state={"running": {}}),
            ],
        },
    ),
    (
        core.NODE,
        "printed-node",
        {"metadata": {"labels": {"node-role.kubernetes.io/worker": ""}}, "spec": {"unschedulable": True}},
        {
            "conditions": [{"type": "Ready", "status": "False"}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
            "nodeInfo": {"kubeletVersion": "v1.35.4", "kernelVersion": "6.1", "architecture": "amd64"}
            | dict.fromkeys(("bootID", "containerRuntimeVersion", "kubeProxyVersion", "machineID"), "")
            | dict.fromkeys(("operatingSystem", "osImage", "systemUUID"), ""),
        },
    ),
    (
        EVENT,
        "event",
        {
            "involvedObject": {"kind": "Pod", "name": "half", "fieldPath": "spec.containers{a}"},
            "reason": "Because",
            "message": " hello ",
            "type": "Normal",
            "source": {"component": "test", "host": "here"},
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-02T00:00:00Z",
            "count": 4,
        },
        {},
    ),
    (core.ROLE, "reader", {"rules": []}, {}),
    (
        core.ROLE_BINDING,
        "reads",
        {
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
            "subjects": [
                {"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"},
                {"kind": "ServiceAccount", "name": "robot", "namespace": "default"},
            ],
        },
        {},
    ),
    (core.CONTROLLER_REVISION, "agent-1", {"revision": 3, "data": {"spec": {}}}, {}),
]


@pytest.fixture
async def client(control_plane: ControlPlane) -> AsyncIterator[Client]:
    client = control_plane.client()
    yield client
    await client.close()


@pytest.fixture
async def namespace(client: Client) -> AsyncIterator[str]:
    """A namespace with one of each."""
    namespace = (await client.create(core.NAMESPACE, {"metadata": {"generateName": "printing-"}})).name
    for resource, name, fields, status in OBJECTS:
        within = namespace if resource.namespaced else None
        place = {"name": name, "namespace": within} if within else {"name": name}
        about = {"involvedObject": {**fields["involvedObject"], "namespace": namespace}} if resource == EVENT else {}
        if resource == core.POD:
            await client.apply(core.SERVICE_ACCOUNT, {"metadata": {"name": "default", "namespace": namespace}})
        await client.create(resource, {**fields, **about, "metadata": {**fields.get("metadata", {}), **place}})
        if status:
            change = {"status": status}
            await client.patch(resource, name, within, patch=change, type=PatchType.MERGE, subresource="status")
    yield namespace
    await client.delete(core.NODE, "printed-node")
    await client.delete(core.NAMESPACE, namespace)


async def read(client: Client, path: str, accept: str) -> bytes:
    response = await client.raw(Request("GET", path, headers={"accept": accept}))
    assert response.status == 200, response.body
    return response.body


def without_ages(cells: list[Any]) -> list[Any]:
    """The clock goes on between two looks; how ages are written is held to kubectl's words elsewhere."""
    return ["age" if isinstance(cell, str) and re.fullmatch(r"\d+[sm]", cell) else cell for cell in cells]


async def compare_tables(client: Client, resource: Resource, path: str, columns: tuple[Column, ...] | None) -> None:
    plain = json.loads(await read(client, path, "application/json"))
    theirs = json.loads(await read(client, path, "application/json;as=Table;v=v1;g=meta.k8s.io"))
    assert plain["items"]
    kind = ServedKind(resource, "", "", "", "", columns=columns)
    items = [
        json.dumps({"apiVersion": resource.api_version, "kind": resource.kind, **item}).encode()
        for item in plain["items"]
    ]
    ours = json.loads(TableForm().list(kind, items, ListMeta(), datetime.now(UTC)))
    described = [
        [
            {name: column[name] for name in ("name", "type", "format", "priority")}
            for column in table["columnDefinitions"]
        ]
        for table in (ours, theirs)
    ]
    assert described[0] == described[1]
    for our_row, their_row in zip(ours["rows"], theirs["rows"], strict=True):
        assert without_ages(our_row["cells"]) == without_ages(their_row["cells"])
        assert our_row["object"]["kind"] == their_row["object"]["kind"]
        assert our_row["object"]["metadata"]["name"] == their_row["object"]["metadata"]["name"]


async def test_built_in_kinds_print_as_by_kube_apiserver(client: Client, namespace: str) -> None:
    for resource in dict.fromkeys(resource for resource, *_ in OBJECTS):
        await compare_tables(client, resource, resource.path(namespace), None)
    for resource in (core.NAMESPACE, core.EVENT, core.CLUSTER_ROLE, core.CLUSTER_ROLE_BINDING):
        await compare_tables(client, resource, resource.path(), None)


async def test_custom_columns_print_as_by_kube_apiserver(client: Client) -> None:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    definition = {
        "metadata": {"name": THING.group_resource},
        "spec": {
            "group": THING.group,
            "scope": "Cluster",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": anything},
                    "additionalPrinterColumns": [
                        {"name": name, "jsonPath": path, "type": type_, "priority": priority}
                        for name, path, type_, _, priority in COLUMNS
                    ],
                }
            ],
        },
    }
    await client.apply(core.CUSTOM_RESOURCE_DEFINITION, definition)
    definitions = await client.list(core.CUSTOM_RESOURCE_DEFINITION)
    if not any(is_established(item.tree) for item in definitions.items if item.name == THING.group_resource):
        watch = client.watch(core.CUSTOM_RESOURCE_DEFINITION, resource_version=definitions.resource_version)
        async with aclosing(watch):
            async for event in watch:
                if event.object.name == THING.group_resource and is_established(event.object.tree):
                    break
    thing = THING._replace(namespaced=False)
    full = {
        "text": "text",
        "integer": 5,
        "number": 1.5,
        "boolean": True,
        "date": "2026-01-01T00:00:00Z",
        "list": [{"x": 1}, {"x": "two", "y": ["a", 3, True]}],
        "nothing": None,
    }
    status = {"conditions": [{"type": "Other", "status": "x"}, {"type": "Ready", "status": "True"}]}
    await client.apply(
        thing, {"metadata": {"name": "full", "labels": {"a.b/c": "label"}}, "spec": full, "status": status}
    )
    await client.apply(thing, {"metadata": {"name": "empty"}})
    await compare_tables(client, thing, thing.path(), COLUMNS)


def is_established(definition: Tree) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def meaning(value: Any) -> Any:
    """The meaning of a tree: without fields that are empty, which protobuf and JSON write at different times."""
    if isinstance(value, dict):
        fields = {name: meaning(part) for name, part in value.items()}
        return {name: part for name, part in fields.items() if part not in ({}, [], None, "", 0, False)}
    return [meaning(each) for each in value] if isinstance(value, list) else value


async def test_protobuf_is_read_as_kube_apiserver_writes_it(client: Client, namespace: str) -> None:
    seen = 0
    for kind in builtin.KINDS:
        if "list" not in kind.verbs:
            continue
        resource = kind.resource
        in_namespace = namespace if resource.namespaced else None
        for item in json.loads(await read(client, resource.path(in_namespace), "application/json"))["items"][:20]:
            path = resource.path(in_namespace, item["metadata"]["name"])
            plain = json.loads(await read(client, path, "application/json"))
            read_back = protobuf.tree_of(await read(client, path, protobuf.MEDIA_TYPE))
            assert meaning(read_back) == meaning(plain), path
            seen += 1
    assert seen > len(OBJECTS)
