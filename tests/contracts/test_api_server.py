"""What clients lean on in an API server: the embedded one, in memory and on disk, does as kube-apiserver does."""

from __future__ import annotations

import asyncio
import itertools
from contextlib import aclosing
from typing import Any

import msgspec
import pytest

from espalier.api.core import (
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    NAMESPACE,
    SECRET,
    SELF_SUBJECT_ACCESS_REVIEW,
)
from espalier.api.resource import Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Expired,
    Forbidden,
    Invalid,
    NotFound,
)
from espalier.kube.http import HttpTransport
from espalier.kube.objects import Object
from espalier.kube.watching import WatchEvent
from espalier.kube.wire import Request, Response
from tests.support.control_plane import PATIENCE

GROUP = "contract.example.com"
WIDGET = Resource(GROUP, "v1", "widgets", "Widget")
WIDGET_V2 = WIDGET._replace(version="v2")
Fields = dict[str, Any]

SPEC_SCHEMA: Fields = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "string", "enum": ["small", "large"]},
        "replicas": {"type": "integer", "minimum": 1, "maximum": 9, "default": 1},
        "name": {"type": "string", "pattern": "^[a-z]+$"},
        "label": {"type": "string", "maxLength": 5},
        "port": {"x-kubernetes-int-or-string": True},
        "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}, "maxItems": 3},
        "parts": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["id"],
            "items": {
                "type": "object",
                "required": ["id"],
                "properties": {"id": {"type": "string"}, "weight": {"type": "integer"}, "note": {"type": "string"}},
            },
        },
        "atoms": {"type": "array", "items": {"type": "integer"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "maybe": {"type": "string", "nullable": True},
        "nested": {"type": "object", "properties": {"on": {"type": "boolean", "default": True}}},
    },
}
STATUS_SCHEMA: Fields = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "replicas": {"type": "integer"},
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
            },
        },
    },
}


def version(name: str, *, storage: bool) -> Fields:
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": SPEC_SCHEMA, "status": STATUS_SCHEMA}}
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {
            "status": {},
            "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
        },
    }


def definition(plural: str = "widgets", kind: str = "Widget") -> Fields:
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [version("v1", storage=True), version("v2", storage=False)],
        },
    }


@pytest.fixture
async def widgets(client: Client, namespace: str) -> str:
    """A namespace in which Widgets can be made."""
    await client.apply(CUSTOM_RESOURCE_DEFINITION, definition())
    await established(client, f"widgets.{GROUP}")
    return namespace


async def established(client: Client, name: str) -> None:
    def is_so(event: WatchEvent) -> bool:
        conditions = event.object.tree.get("status", {}).get("conditions") or []
        return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)

    await until(client, CUSTOM_RESOURCE_DEFINITION, None, name, is_so)
    resource = definition_resource((await client.get(CUSTOM_RESOURCE_DEFINITION, name)).tree)
    async with asyncio.timeout(PATIENCE):
        # A real server tells of a kind a moment before it serves it, and tells nothing when it does.
        while (await client.raw(Request("GET", resource.path()))).status == 404:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


def definition_resource(tree: Fields) -> Resource:
    names = tree["spec"]["names"]
    return Resource(tree["spec"]["group"], "v1", names["plural"], names["kind"])


async def until(client: Client, resource: Resource, namespace: str | None, name: str, wanted: Any) -> Object:
    """The object of the first event about `name` that is as wanted; the world as it is counts as events."""
    async with (
        asyncio.timeout(PATIENCE),
        aclosing(client.watch(resource, namespace, resource_version="0", fields=f"metadata.name={name}")) as events,
    ):
        async for event in events:
            if event.type != "BOOKMARK" and wanted(event):
                return event.object
    raise AssertionError(f"the watch of {name} ended")


async def gone(client: Client, item: Object, resource: Resource) -> None:
    """Wait until an object is deleted."""
    try:
        current = await client.get(resource, item.name, item.namespace or None)
    except NotFound:
        return
    async with (
        asyncio.timeout(PATIENCE),
        aclosing(client.watch(resource, item.namespace or None, resource_version=current.resource_version)) as events,
    ):
        async for event in events:
            if event.type == "DELETED" and event.object.name == item.name:
                return


def widget(namespace: str, name: str, spec: Fields | None = None, **metadata: Any) -> Fields:
    return {
        "apiVersion": WIDGET.api_version,
        "kind": "Widget",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"size": "small", **(spec or {})},
    }


def config_map(namespace: str, name: str, data: dict[str, str] | None = None, **metadata: Any) -> Fields:
    return {"metadata": {"name": name, "namespace": namespace, **metadata}, "data": data or {}}


def causes(error: ApiError) -> set[tuple[str, str, str]]:
    assert error.status.details is not None
    return {(cause.reason, cause.field, cause.message) for cause in error.status.details.causes}


def owners(item: Object) -> dict[tuple[str, str, str], Fields]:
    """Fields by (manager, operation, subresource)."""
    return {
        (entry["manager"], entry["operation"], entry.get("subresource", "")): entry["fieldsV1"]
        for entry in item.tree["metadata"].get("managedFields", ())
    }


# Objects and their metadata.


async def test_a_new_object_gets_what_the_server_gives(client: Client, namespace: str) -> None:
    created = await client.create(CONFIG_MAP, config_map(namespace, "a", {"x": "1"}))
    metadata = created.tree["metadata"]
    assert len(metadata["uid"]) == 36
    assert metadata["creationTimestamp"].endswith("Z")
    assert "generation" not in metadata
    assert owners(created) == {("contract", "Update", ""): {"f:data": {".": {}, "f:x": {}}}}


async def test_names_can_be_generated(client: Client, namespace: str) -> None:
    body = {"metadata": {"generateName": "part-", "namespace": namespace}}
    first, second = await client.create(CONFIG_MAP, body), await client.create(CONFIG_MAP, body)
    assert first.name != second.name
    assert first.name.startswith("part-")
    assert len(first.name) == len("part-") + 5


async def test_failures_say_what_kube_apiserver_says(client: Client, widgets: str) -> None:
    await client.create(WIDGET, widget(widgets, "there"))
    with pytest.raises(NotFound) as missing:
        await client.get(WIDGET, "nowhere", widgets)
    assert str(missing.value) == f'widgets.{GROUP} "nowhere" not found'
    assert missing.value.status.details is not None
    assert (missing.value.status.details.kind, missing.value.status.details.group) == ("widgets", GROUP)
    with pytest.raises(NotFound, match=r'^configmaps "nowhere" not found$'):
        await client.get(CONFIG_MAP, "nowhere", widgets)
    with pytest.raises(AlreadyExists, match=f'^widgets.{GROUP} "there" already exists$'):
        await client.create(WIDGET, widget(widgets, "there"))
    with pytest.raises(NotFound, match=r'^namespaces "nowhere" not found$'):
        await client.create(CONFIG_MAP, config_map("nowhere", "a"))
    for body, message in (
        (
            {**widget(widgets, "a"), "apiVersion": f"{GROUP}/v9"},
            f"the API version in the data ({GROUP}/v9) does not match the expected API version ({GROUP}/v1)",
        ),
        (
            widget("elsewhere", "a"),
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ):
        response = await client.raw(
            Request("POST", WIDGET.path(widgets), {}, {"content-type": "application/json"}, msgspec.json.encode(body))
        )
        assert (response.status, msgspec.json.decode(response.body)["message"]) == (400, message)
    with pytest.raises(BadRequest, match=r"^the name of the object \(other\) does not match the name on the URL"):
        await client.patch(WIDGET, "there", widgets, patch={"metadata": {"name": "other"}}, type=PatchType.MERGE)


async def test_a_wrong_name_and_wrong_labels_are_refused(client: Client, namespace: str) -> None:
    body = config_map(namespace, "A_b", labels={"a b": "ok", "ok": "x y"})
    with pytest.raises(Invalid) as refused:
        await client.create(CONFIG_MAP, body)
    assert {(field, message.partition(":")[0]) for _, field, message in causes(refused.value)} == {
        ("metadata.name", "Invalid value"),
        ("metadata.labels", "Invalid value"),
    }
    assert "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters" in str(refused.value)


async def test_a_write_of_nothing_new_is_no_write(client: Client, widgets: str) -> None:
    created = await client.create(WIDGET, widget(widgets, "a"))
    replaced = await client.replace(WIDGET, created)
    patched = await client.patch(WIDGET, "a", widgets, patch={"spec": {"size": "small"}}, type=PatchType.MERGE)
    assert created.resource_version == replaced.resource_version == patched.resource_version


async def test_generation_counts_changes_of_what_is_desired(client: Client, widgets: str) -> None:
    assert (await client.create(WIDGET, widget(widgets, "a"))).metadata.generation == 1

    async def patched(patch: Fields, subresource: str | None = None) -> int:
        done = await client.patch(WIDGET, "a", widgets, patch=patch, type=PatchType.MERGE, subresource=subresource)
        return done.metadata.generation

    assert await patched({"metadata": {"labels": {"a": "b"}}}) == 1
    assert await patched({"status": {"phase": "Fine"}}, "status") == 1
    assert await patched({"spec": {"replicas": 2}}) == 2
    assert await patched({"spec": {"replicas": 3}}, "scale") in (0, 2, 3)  # a Scale has none of its own
    assert (await client.get(WIDGET, "a", widgets)).metadata.generation == 3


async def test_the_status_is_written_through_its_own_path_only(client: Client, widgets: str) -> None:
    created = await client.create(WIDGET, {**widget(widgets, "a"), "status": {"phase": "Invented"}})
    assert "status" not in created.tree
    both: Fields = {"spec": {"size": "large"}, "status": {"phase": "Known"}}
    main = await client.patch(WIDGET, "a", widgets, patch=both, type=PatchType.MERGE)
    assert (main.tree["spec"]["size"], "status" in main.tree) == ("large", False)
    both = {"spec": {"size": "small"}, "status": {"phase": "Known"}, "metadata": {"labels": {"a": "b"}}}
    status = await client.patch(WIDGET, "a", widgets, patch=both, type=PatchType.MERGE, subresource="status")
    assert (status.tree["spec"]["size"], status.tree["status"]) == ("large", {"phase": "Known"})


async def test_who_writes_on_an_old_version_is_told_so(client: Client, widgets: str) -> None:
    created = await client.create(WIDGET, widget(widgets, "a"))
    await client.patch(WIDGET, "a", widgets, patch={"spec": {"replicas": 2}}, type=PatchType.MERGE)
    sentence = "the object has been modified; please apply your changes to the latest version and try again"
    with pytest.raises(Conflict, match=f'^Operation cannot be fulfilled on widgets.{GROUP} "a": {sentence}$'):
        await client.replace(WIDGET, created)
    patch = {"metadata": {"resourceVersion": created.resource_version}, "spec": {"replicas": 3}}
    with pytest.raises(Conflict):
        await client.patch(WIDGET, "a", widgets, patch=patch, type=PatchType.MERGE)
    with pytest.raises(Invalid) as unversioned:
        await client.replace(WIDGET, widget(widgets, "a"))
    assert {field for _, field, _ in causes(unversioned.value)} == {"metadata.resourceVersion"}


async def test_a_dry_run_changes_nothing(client: Client, widgets: str) -> None:
    assert (await client.create(WIDGET, widget(widgets, "a"), dry_run=True)).tree["spec"]["replicas"] == 1
    with pytest.raises(NotFound):
        await client.get(WIDGET, "a", widgets)
    created = await client.create(WIDGET, widget(widgets, "a"))
    await client.delete(WIDGET, "a", widgets, dry_run=True)
    assert (await client.get(WIDGET, "a", widgets)).resource_version == created.resource_version


# Schemas.


async def test_each_broken_rule_is_named_with_its_field(client: Client, widgets: str) -> None:
    wrong: Fields = {
        "size": "huge",
        "replicas": 10,
        "name": "A",
        "label": "too long",
        "tags": ["a", "b", "c", "d"],
        "parts": [{"weight": "heavy"}],
        "port": True,
        "nested": [],
    }
    with pytest.raises(Invalid) as refused:
        await client.create(WIDGET, widget(widgets, "a", wrong))
    assert causes(refused.value) == {
        ("FieldValueNotSupported", "spec.size", 'Unsupported value: "huge": supported values: "small", "large"'),
        (
            "FieldValueInvalid",
            "spec.replicas",
            "Invalid value: 10: spec.replicas in body should be less than or equal to 9",
        ),
        ("FieldValueInvalid", "spec.name", "Invalid value: \"A\": spec.name in body should match '^[a-z]+$'"),
        ("FieldValueTooLong", "spec.label", "Too long: may not be more than 5 bytes"),
        ("FieldValueTooMany", "spec.tags", "Too many: 4: must have at most 3 items"),
        ("FieldValueRequired", "spec.parts[0].id", "Required value"),
        (
            "FieldValueTypeInvalid",
            "spec.parts[0].weight",
            'Invalid value: "string": spec.parts[0].weight in body must be of type integer: "string"',
        ),
        (
            "FieldValueTypeInvalid",
            "spec.port",
            'Invalid value: "boolean": spec.port in body must be of type integer,string: "boolean"',
        ),
        (
            "FieldValueTypeInvalid",
            "spec.nested",
            'Invalid value: "array": spec.nested in body must be of type object: "array"',
        ),
    }
    assert str(refused.value).startswith(f'Widget.{GROUP} "a" is invalid: [')


async def test_doubled_items_are_refused(client: Client, widgets: str) -> None:
    with pytest.raises(Invalid) as refused:
        await client.create(WIDGET, widget(widgets, "a", {"tags": ["a", "a"], "parts": [{"id": "x"}, {"id": "x"}]}))
    assert causes(refused.value) == {
        ("FieldValueDuplicate", "spec.tags[1]", 'Duplicate value: "a"'),
        ("FieldValueDuplicate", "spec.parts[1]", 'Duplicate value: {"id":"x"}'),
    }


async def test_a_missing_spec_is_named(client: Client, widgets: str) -> None:
    with pytest.raises(Invalid, match=f'^Widget.{GROUP} "a" is invalid: spec: Required value$'):
        await client.create(WIDGET, {"metadata": {"name": "a", "namespace": widgets}})


async def test_unknown_fields_are_dropped_told_of_or_refused(client: Client, widgets: str) -> None:
    body = {**widget(widgets, "a", {"colour": "red", "parts": [{"id": "x", "y": 1}]}), "extra": 1}

    async def create(level: str) -> tuple[int, Fields, str]:
        headers = {"content-type": "application/json"}
        query = {"fieldValidation": level, "dryRun": "All"}
        response = await client.raw(Request("POST", WIDGET.path(widgets), query, headers, msgspec.json.encode(body)))
        return response.status, msgspec.json.decode(response.body), response.headers.get("warning", "")

    status, answer, _ = await create("Strict")
    assert status == 400
    assert answer["message"] == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "extra", '
        'unknown field "spec.colour", unknown field "spec.parts[0].y"'
    )
    status, answer, warning = await create("Warn")
    assert (status, answer["spec"]) == (201, {"size": "small", "replicas": 1, "parts": [{"id": "x"}]})
    assert '299 - "unknown field \\"spec.colour\\""' in warning
    status, answer, warning = await create("Ignore")
    assert (status, "extra" in answer, warning) == (201, False, "")


async def test_defaults_come_and_nulls_go(client: Client, widgets: str) -> None:
    spec: Fields = {"replicas": None, "maybe": None, "free": {"a": None, "b": {"c": 1}}, "nested": {}, "name": None}
    created = await client.create(WIDGET, widget(widgets, "a", spec))
    assert created.tree["spec"] == {
        "size": "small",
        "replicas": 1,
        "maybe": None,
        "free": {"a": None, "b": {"c": 1}},
        "nested": {"on": True},
    }


async def test_both_versions_show_the_same_object(client: Client, widgets: str) -> None:
    created = await client.create(WIDGET, widget(widgets, "a", {"replicas": 4}))
    seen = await client.get(WIDGET_V2, "a", widgets)
    assert (seen.tree["apiVersion"], seen.metadata.uid) == (f"{GROUP}/v2", created.metadata.uid)
    await client.patch(WIDGET_V2, "a", widgets, patch={"spec": {"replicas": 5}}, type=PatchType.MERGE)
    listed = await client.list(WIDGET, widgets)
    assert [(each.tree["apiVersion"], each.tree["spec"]["replicas"]) for each in listed.items] == [(f"{GROUP}/v1", 5)]


async def test_a_changed_schema_counts_and_a_deleted_kind_goes_with_its_objects(client: Client, namespace: str) -> None:
    name, resource = f"gadgets.{GROUP}", Resource(GROUP, "v1", "gadgets", "Gadget")
    body = definition("gadgets", "Gadget")
    await client.apply(CUSTOM_RESOURCE_DEFINITION, body)
    await established(client, name)
    gadget = {"metadata": {"name": "a", "namespace": namespace}, "spec": {"size": "huge"}}
    with pytest.raises(Invalid):
        await client.create(resource, gadget)
    for each in body["spec"]["versions"]:
        schema = {**SPEC_SCHEMA["properties"]["size"], "enum": ["small", "large", "huge"]}
        properties = {**SPEC_SCHEMA["properties"], "size": schema}
        each["schema"]["openAPIV3Schema"]["properties"]["spec"] = {**SPEC_SCHEMA, "properties": properties}
    await client.apply(CUSTOM_RESOURCE_DEFINITION, body)
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                created = await client.create(resource, gadget)
                break
            except Invalid:
                await asyncio.sleep(0.05)  # a real server needs a moment
    crd = await client.get(CUSTOM_RESOURCE_DEFINITION, name)
    await client.delete(CUSTOM_RESOURCE_DEFINITION, name)
    await gone(client, crd, CUSTOM_RESOURCE_DEFINITION)
    with pytest.raises(NotFound):
        await client.get(resource, created.name, namespace)


async def test_a_changed_schema_counts_for_what_a_write_leaves_as_it_was(client: Client, namespace: str) -> None:
    name, resource = f"gizmos.{GROUP}", Resource(GROUP, "v1", "gizmos", "Gizmo")
    body = definition("gizmos", "Gizmo")
    await client.apply(CUSTOM_RESOURCE_DEFINITION, body)
    await established(client, name)
    spec = {"size": "small", "label": "abc", "nested": {"on": True}, "parts": [{"id": "a", "note": "old"}]}
    await client.create(resource, {"metadata": {"name": "a", "namespace": namespace}, "spec": spec})
    untouched = await client.create(resource, {"metadata": {"name": "b", "namespace": namespace}, "spec": spec})
    phases = map(str, itertools.count())
    await reported(client, resource, namespace, next(phases))

    part = {"type": "object", "required": ["id"], "properties": {"id": {"type": "string"}}}
    changed = {
        "label": {"type": "string", "maxLength": 2},
        "nested": {"type": "object", "properties": {"off": {"type": "boolean", "default": False}}},
        "parts": {**SPEC_SCHEMA["properties"]["parts"], "items": part},
        "colour": {"type": "string", "default": "green"},
    }
    for each in body["spec"]["versions"]:
        properties = {**SPEC_SCHEMA["properties"], **changed}
        each["schema"]["openAPIV3Schema"]["properties"]["spec"] = {**SPEC_SCHEMA, "properties": properties}
    await client.apply(CUSTOM_RESOURCE_DEFINITION, body)
    async with asyncio.timeout(PATIENCE):
        while True:
            seen = await reported(client, resource, namespace, next(phases))
            if "colour" in seen:
                break
            await asyncio.sleep(0.05)  # a real server needs a moment
    wanted = {"size": "small", "replicas": 1, "label": "abc", "nested": {"off": False}, "parts": [{"id": "a"}]}
    assert seen == {**wanted, "colour": "green"}
    assert await reported(client, resource, namespace, next(phases)) == seen

    nothing: Fields = {"spec": {"size": "small"}}
    brought = await client.patch(resource, "b", namespace, patch=nothing, type=PatchType.MERGE)
    assert brought.tree["spec"] == seen
    assert brought.metadata.generation == untouched.metadata.generation
    assert brought.resource_version != untouched.resource_version
    assert await client.patch(resource, "b", namespace, patch=nothing, type=PatchType.MERGE) == brought
    await client.delete(CUSTOM_RESOURCE_DEFINITION, name)


async def reported(client: Client, resource: Resource, namespace: str, phase: str) -> Fields:
    """The spec after a write of the status."""
    patch = {"status": {"phase": phase}}
    written = await client.patch(resource, "a", namespace, patch=patch, type=PatchType.MERGE, subresource="status")
    spec: Fields = written.tree["spec"]
    return spec


async def test_a_definition_that_makes_no_sense_is_refused(client: Client) -> None:
    wrong = definition("gizmos", "Gizmo")
    wrong["metadata"]["name"] = f"other.{GROUP}"
    for each in wrong["spec"]["versions"]:
        each["storage"] = True
    with pytest.raises(Invalid) as refused:
        await client.create(CUSTOM_RESOURCE_DEFINITION, wrong)
    fields = {field for _, field, _ in causes(refused.value)}
    assert {"metadata.name", "spec.versions"} <= fields


# Patches.


async def test_json_patches_apply_wholly_or_not_at_all(client: Client, widgets: str) -> None:
    await client.create(WIDGET, widget(widgets, "a", {"tags": ["a"]}))
    patched = await client.patch(
        WIDGET,
        "a",
        widgets,
        patch=[
            {"op": "test", "path": "/spec/size", "value": "small"},
            {"op": "add", "path": "/spec/tags/-", "value": "b"},
            {"op": "replace", "path": "/spec/size", "value": "large"},
        ],
        type=PatchType.JSON,
    )
    assert patched.tree["spec"] == {"size": "large", "replicas": 1, "tags": ["a", "b"]}
    with pytest.raises(Invalid, match=r"^the server rejected our request due to an error in our request"):
        await client.patch(
            WIDGET,
            "a",
            widgets,
            patch=[
                {"op": "remove", "path": "/spec/tags"},
                {"op": "test", "path": "/spec/size", "value": "small"},
            ],
            type=PatchType.JSON,
        )
    assert (await client.get(WIDGET, "a", widgets)).resource_version == patched.resource_version


def deployment(namespace: str) -> Fields:
    containers = [
        {"name": "web", "image": "web:1", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        {"name": "log", "image": "log:1"},
    ]
    return {
        "metadata": {"name": "d", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": containers}},
        },
    }


async def test_strategic_patches_merge_lists_by_their_keys(client: Client, namespace: str) -> None:
    created = await client.create(DEPLOYMENT, deployment(namespace))
    assert (created.tree["spec"]["replicas"], created.metadata.generation) == (1, 1)
    web: Fields = {"name": "web", "env": [{"name": "A", "$patch": "delete"}, {"name": "C", "value": "3"}]}
    patch = {"spec": {"template": {"spec": {"containers": [web]}}}}
    patched = await client.patch(DEPLOYMENT, "d", namespace, patch=patch, type=PatchType.STRATEGIC)
    containers = {each["name"]: each for each in patched.tree["spec"]["template"]["spec"]["containers"]}
    assert sorted(containers) == ["log", "web"]
    assert containers["web"]["image"] == "web:1"
    assert sorted(each["name"] for each in containers["web"]["env"]) == ["B", "C"]


async def test_a_custom_kind_knows_no_strategic_patch(client: Client, widgets: str) -> None:
    await client.create(WIDGET, widget(widgets, "a"))
    with pytest.raises(ApiError) as refused:
        await client.patch(WIDGET, "a", widgets, patch={"spec": {}}, type=PatchType.STRATEGIC)
    assert refused.value.status.code == 415


async def test_built_in_kinds_have_their_rules(client: Client, namespace: str) -> None:
    secret = {"metadata": {"name": "s", "namespace": namespace}, "stringData": {"a": "plain"}}
    created = await client.create(SECRET, secret)
    assert (created.tree["type"], created.tree["data"]) == ("Opaque", {"a": "cGxhaW4="})
    assert "stringData" not in created.tree
    await client.create(CONFIG_MAP, {**config_map(namespace, "fixed", {"a": "1"}), "immutable": True})
    with pytest.raises(Invalid, match="field is immutable when `immutable` is set"):
        await client.patch(CONFIG_MAP, "fixed", namespace, patch={"data": {"a": "2"}}, type=PatchType.MERGE)
    unselected = deployment(namespace)
    unselected["spec"]["template"]["metadata"]["labels"] = {"app": "other"}
    with pytest.raises(Invalid) as refused:
        await client.create(DEPLOYMENT, unselected)
    assert {field for _, field, _ in causes(refused.value)} == {"spec.template.metadata.labels"}
    with pytest.raises(BadRequest, match="cannot be handled as a Deployment: json: cannot unmarshal string into Go"):
        await client.create(DEPLOYMENT, {**unselected, "spec": {**unselected["spec"], "replicas": "two"}})


async def test_scale_is_a_view_of_any_scalable_kind(client: Client, widgets: str) -> None:
    await client.create(WIDGET, widget(widgets, "a", {"replicas": 2}))
    scale = await client.get(WIDGET, "a", widgets, subresource="scale")
    assert (scale.kind, scale.tree["spec"], scale.tree["status"]) == ("Scale", {"replicas": 2}, {"replicas": 0})
    patch = {"spec": {"replicas": 5}}
    await client.patch(WIDGET, "a", widgets, patch=patch, type=PatchType.MERGE, subresource="scale")
    seen = await client.get(WIDGET, "a", widgets)
    assert seen.tree["spec"] == {"size": "small", "replicas": 5}
    assert owners(seen)["contract", "Update", "scale"] == {"f:spec": {"f:replicas": {}}}


# Server-side apply.


async def test_applied_fields_belong_to_their_manager(client: Client, widgets: str) -> None:
    parts = [{"id": "a", "weight": 1}]
    body = widget(widgets, "a", {"tags": ["x"], "parts": parts, "atoms": [1]}, labels={"l": "1"})
    applied = await client.apply(WIDGET, body, field_manager="first")
    assert owners(applied) == {
        ("first", "Apply", ""): {
            "f:metadata": {"f:labels": {"f:l": {}}},
            "f:spec": {
                "f:size": {},
                "f:tags": {'v:"x"': {}},
                "f:parts": {'k:{"id":"a"}': {".": {}, "f:id": {}, "f:weight": {}}},
                "f:atoms": {},
            },
        }
    }
    assert (await client.apply(WIDGET, body, field_manager="first")).resource_version == applied.resource_version


async def test_an_apply_with_a_version_that_nothing_has_only_creates(client: Client, widgets: str) -> None:
    """What is written so never overwrites what the writer has not seen, forced or not."""
    unseen = {"resourceVersion": "1"}
    body = widget(widgets, "a", labels={"l": "1"})
    made = await client.apply(WIDGET, body | {"metadata": body["metadata"] | unseen}, field_manager="first")
    assert made.resource_version != "1"
    assert list(owners(made)) == [("first", "Apply", "")]
    for manager in ("first", "second"):
        with pytest.raises(Conflict, match="the object has been modified"):
            await client.apply(WIDGET, body | {"metadata": body["metadata"] | unseen}, field_manager=manager)
    assert (await client.get(WIDGET, "a", widgets)).resource_version == made.resource_version


async def test_an_apply_with_a_uid_changes_that_object_and_no_other(client: Client, widgets: str) -> None:
    body = widget(widgets, "a")
    made = await client.apply(WIDGET, body, field_manager="first")
    named = {**body["metadata"], "uid": made.metadata.uid}
    again = await client.apply(WIDGET, body | {"metadata": named}, field_manager="first")
    assert (again.resource_version, owners(again)) == (made.resource_version, owners(made))
    other = {**body["metadata"], "uid": "00000000-0000-0000-0000-000000000000"}
    with pytest.raises(Invalid) as refusal:
        await client.apply(WIDGET, body | {"metadata": other}, field_manager="first")
    assert {field for _, field, _ in causes(refusal.value)} == {"metadata.uid"}
    await client.delete(WIDGET, "a", widgets)
    with pytest.raises(Conflict, match="no existing object was found"):
        await client.apply(WIDGET, body | {"metadata": named}, field_manager="first")


async def test_a_secret_is_replaced_only_by_one_of_its_type(client: Client, namespace: str) -> None:
    """Whoever may not read can so tell his own from those of others."""
    metadata = {"name": "s", "namespace": namespace}
    mine: Fields = {"metadata": metadata, "type": "example.com/mine", "data": {"value": "YQ=="}}
    with pytest.raises(NotFound):
        await client.replace(SECRET, mine)
    await client.create(SECRET, {"metadata": metadata, "data": {"value": "Yg=="}})
    with pytest.raises(Invalid) as refusal:
        await client.replace(SECRET, mine)
    assert {field for _, field, _ in causes(refusal.value)} == {"type"}
    assert "Opaque" not in str(refusal.value)
    await client.delete(SECRET, "s", namespace)
    await client.create(SECRET, mine)
    replaced = await client.replace(SECRET, mine | {"data": {"value": "Yw=="}})
    assert replaced.tree["data"] == {"value": "Yw=="}


async def test_what_another_manager_owns_is_a_conflict_until_forced(client: Client, widgets: str) -> None:
    body = widget(widgets, "a", {"parts": [{"id": "a", "weight": 1}]}, labels={"l": "1"})
    await client.apply(WIDGET, body, field_manager="first")
    other = widget(widgets, "a", {"size": "large", "parts": [{"id": "a", "weight": 2}]}, labels={"l": "2"})
    with pytest.raises(Conflict) as conflict:
        await client.apply(WIDGET, other, field_manager="second", force=False)
    assert causes(conflict.value) == {
        ("FieldManagerConflict", field, 'conflict with "first"')
        for field in (".metadata.labels.l", ".spec.size", '.spec.parts[id="a"].weight')
    }
    assert str(conflict.value).startswith('Apply failed with 3 conflicts: conflicts with "first":\n- .')
    forced = await client.apply(WIDGET, other, field_manager="second", force=True)
    assert forced.tree["spec"]["size"] == "large"
    assert owners(forced)["first", "Apply", ""] == {
        "f:spec": {"f:parts": {'k:{"id":"a"}': {".": {}, "f:id": {}}}},
    }
    with pytest.raises(Conflict, match=r'^Apply failed with 1 conflict: conflict with "second": .spec.size$'):
        await client.apply(WIDGET, widget(widgets, "a"), field_manager="third", force=False)


async def test_equal_values_are_shared_and_go_with_their_last_owner(client: Client, widgets: str) -> None:
    tags = {"tags": ["both"]}
    await client.apply(WIDGET, widget(widgets, "a", tags), field_manager="first", force=False)
    await client.apply(WIDGET, widget(widgets, "a", tags), field_manager="second", force=False)
    left = await client.apply(WIDGET, widget(widgets, "a"), field_manager="first", force=False)
    assert left.tree["spec"]["tags"] == ["both"]
    left = await client.apply(WIDGET, widget(widgets, "a"), field_manager="second", force=False)
    assert "tags" not in left.tree["spec"]


async def test_a_list_item_stays_as_long_as_anybody_owns_part_of_it(client: Client, widgets: str) -> None:
    await client.apply(WIDGET, widget(widgets, "a", {"parts": [{"id": "x", "weight": 1}]}), field_manager="first")
    noted = widget(widgets, "a", {"parts": [{"id": "x", "note": "n"}, {"id": "y"}]})
    await client.apply(WIDGET, noted, field_manager="second")
    left = await client.apply(WIDGET, widget(widgets, "a"), field_manager="first")
    assert left.tree["spec"]["parts"] == [{"id": "x", "note": "n"}, {"id": "y"}]
    left = await client.apply(WIDGET, widget(widgets, "a"), field_manager="second")
    assert "parts" not in left.tree["spec"]


async def test_other_writes_take_over_what_they_change(client: Client, widgets: str) -> None:
    await client.apply(WIDGET, widget(widgets, "a", {"replicas": 2, "name": "n"}), field_manager="first")
    patch: Fields = {"spec": {"replicas": 3, "name": None}}
    patched = await client.patch(WIDGET, "a", widgets, patch=patch, type=PatchType.MERGE)
    assert owners(patched) == {
        ("first", "Apply", ""): {"f:spec": {"f:size": {}}},
        ("contract", "Update", ""): {"f:spec": {"f:replicas": {}}},
    }
    with pytest.raises(Conflict, match=f'^Apply failed with 1 conflict: conflict with "contract" using {GROUP}/v1: '):
        await client.apply(WIDGET, widget(widgets, "a", {"replicas": 2}), field_manager="first", force=False)


async def test_the_status_is_applied_apart(client: Client, widgets: str) -> None:
    await client.apply(WIDGET, widget(widgets, "a"), field_manager="first")
    condition = {"type": "Ready", "status": "True"}
    body = {"metadata": {"name": "a", "namespace": widgets}, "status": {"conditions": [condition]}}
    applied = await client.apply(WIDGET, body, field_manager="reporter", subresource="status")
    assert applied.tree["status"] == {"conditions": [condition]}
    assert owners(applied)["reporter", "Apply", "status"] == {
        "f:status": {"f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:type": {}, "f:status": {}}}}
    }
    again = await client.apply(WIDGET, widget(widgets, "a"), field_manager="first")
    assert (again.resource_version, again.tree["status"]) == (applied.resource_version, applied.tree["status"])


async def test_only_known_fields_can_be_applied(client: Client, widgets: str) -> None:
    with pytest.raises(ApiError, match=r"\.spec\.colour: field not declared in schema$"):
        await client.apply(WIDGET, widget(widgets, "a", {"colour": "red"}), field_manager="first")
    headers = {"content-type": "application/apply-patch+yaml"}
    path = WIDGET.path(widgets, "a")
    response = await client.raw(Request("PATCH", path, {}, headers, msgspec.json.encode(widget(widgets, "a"))))
    assert response.status == 422
    assert "fieldManager: Required value: is required for apply patch" in response.body.decode()


async def test_lists_of_built_in_kinds_are_applied_by_their_keys(client: Client, namespace: str) -> None:
    await client.apply(DEPLOYMENT, {"apiVersion": "apps/v1", "kind": "Deployment", **deployment(namespace)})
    added = {"name": "extra", "image": "extra:1"}
    body = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": namespace},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}},
            "template": {"spec": {"containers": [added, {"name": "log", "image": "log:1"}]}},
        },
    }
    applied = await client.apply(DEPLOYMENT, body, field_manager="sidecar", force=False)
    names = [each["name"] for each in applied.tree["spec"]["template"]["spec"]["containers"]]
    assert sorted(names) == ["extra", "log", "web"]
    containers = owners(applied)["sidecar", "Apply", ""]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert sorted(containers) == ['k:{"name":"extra"}', 'k:{"name":"log"}']


# Lists and watches.


async def test_selectors_select(client: Client, namespace: str) -> None:
    for name, labels in (("a", {"tier": "web", "n": "1"}), ("b", {"tier": "db"}), ("c", {})):
        await client.create(CONFIG_MAP, config_map(namespace, name, labels=labels))

    async def names(labels: str = "", fields: str = "") -> list[str]:
        own = f"{fields},metadata.name!=kube-root-ca.crt" if fields else "metadata.name!=kube-root-ca.crt"
        return [each.name for each in (await client.list(CONFIG_MAP, namespace, labels=labels, fields=own)).items]

    assert await names() == ["a", "b", "c"]
    assert await names("tier=web") == await names("tier==web") == await names("tier,tier!=db") == ["a"]
    assert await names("tier in (web, db)") == ["a", "b"]
    assert await names("tier notin (web)") == ["b", "c"]
    assert await names("!tier") == ["c"]
    assert await names("n>0") == ["a"]
    assert await names(fields="metadata.name=b") == ["b"]
    assert await names(fields="metadata.name!=b,metadata.namespace=" + namespace) == ["a", "c"]
    with pytest.raises(BadRequest, match=r'^"data.x" is not a known field selector: only "metadata.name", "metadata'):
        await names(fields="data.x=1")
    with pytest.raises(BadRequest):
        await names("a b")
    secret = {"metadata": {"name": "s", "namespace": namespace}, "type": "example.com/own"}
    await client.create(SECRET, secret)
    assert [each.name for each in (await client.list(SECRET, namespace, fields="type=example.com/own")).items] == ["s"]


async def test_pages_show_one_moment(client: Client, namespace: str) -> None:
    for name in "abcdef":
        await client.create(CONFIG_MAP, config_map(namespace, name))
    pages = []
    async for page in client.pages(CONFIG_MAP, namespace, limit=2, fields="metadata.name!=kube-root-ca.crt"):
        pages.append(page)
        if len(pages) == 1:
            await client.create(CONFIG_MAP, config_map(namespace, "bb"))
            await client.delete(CONFIG_MAP, "d", namespace)
    assert [each.name for page in pages for each in page.items] == list("abcdef")
    assert len({page.resource_version for page in pages}) == 1


async def test_a_watch_goes_on_where_the_list_ended(client: Client, namespace: str) -> None:
    await client.create(CONFIG_MAP, config_map(namespace, "before"))
    start = (await client.list(CONFIG_MAP, namespace)).resource_version
    await client.create(CONFIG_MAP, config_map(namespace, "a"))
    await client.patch(CONFIG_MAP, "a", namespace, patch={"data": {"x": "1"}}, type=PatchType.MERGE)
    await client.delete(CONFIG_MAP, "a", namespace)
    seen = []
    async with (
        asyncio.timeout(PATIENCE),
        aclosing(client.watch(CONFIG_MAP, namespace, resource_version=start)) as events,
    ):
        async for event in events:
            if event.object.name == "a":
                seen.append((event.type, event.object.resource_version))
            if event.type == "DELETED":
                break
    assert [kind for kind, _ in seen] == ["ADDED", "MODIFIED", "DELETED"]
    assert len({version for _, version in seen}) == 3


async def test_objects_enter_and_leave_a_selection(client: Client, namespace: str) -> None:
    start = (await client.list(CONFIG_MAP, namespace)).resource_version
    await client.create(CONFIG_MAP, config_map(namespace, "a"))
    for labels in ({"on": "yes"}, {"on": "yes", "more": "1"}, {"on": "no", "more": "1"}):
        await client.patch(CONFIG_MAP, "a", namespace, patch={"metadata": {"labels": labels}}, type=PatchType.MERGE)
    await client.create(CONFIG_MAP, config_map(namespace, "end", labels={"on": "yes"}))
    seen = []
    async with (
        asyncio.timeout(PATIENCE),
        aclosing(client.watch(CONFIG_MAP, namespace, resource_version=start, labels="on=yes")) as events,
    ):
        async for event in events:
            seen.append((event.type, event.object.name))
            if event.object.name == "end":
                break
    assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a"), ("ADDED", "end")]


async def test_a_watch_ends_with_its_time(client: Client, namespace: str) -> None:
    start = (await client.list(CONFIG_MAP, namespace)).resource_version
    async with asyncio.timeout(PATIENCE):
        types = [
            event.type async for event in client.watch(CONFIG_MAP, namespace, resource_version=start, timeout_seconds=1)
        ]
    assert set(types) <= {"ADDED", "BOOKMARK"}  # a real control plane puts an object of its own into each namespace


async def test_a_list_can_be_watched_from_the_beginning(client: Client, namespace: str) -> None:
    await client.create(SECRET, {"metadata": {"name": "a", "namespace": namespace}})
    query = {
        "watch": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": "10",
    }
    stream = await client.transport.stream(Request("GET", SECRET.path(namespace), query))
    assert not isinstance(stream, Response)
    seen: list[Fields] = []
    async with asyncio.timeout(PATIENCE):
        async for document in stream:
            seen.append(msgspec.json.decode(document))
            if seen[-1]["type"] == "BOOKMARK":
                break
    await stream.close()
    assert [(each["type"], each["object"]["metadata"].get("name")) for each in seen] == [
        ("ADDED", "a"),
        ("BOOKMARK", None),
    ]
    assert seen[-1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


async def test_the_future_can_not_be_listed(client: Client, namespace: str) -> None:
    response = await client.raw(Request("GET", CONFIG_MAP.path(namespace), {"resourceVersion": "99999999"}))
    assert response.status == 504
    assert "Too large resource version: 99999999, current: " in response.body.decode()


# Deletion.


async def test_finalizers_hold_an_object_until_they_are_gone(client: Client, widgets: str) -> None:
    await client.create(WIDGET, widget(widgets, "a", finalizers=["example.com/wait"]))
    held = await client.delete(WIDGET, "a", widgets)
    assert held is not None
    assert held.metadata.deletion_timestamp is not None
    assert (held.metadata.deletion_grace_period_seconds, held.metadata.generation) == (0, 2)
    again = await client.delete(WIDGET, "a", widgets)
    assert again is not None
    assert again.resource_version == held.resource_version
    more = {"metadata": {"finalizers": ["example.com/wait", "example.com/more"]}}
    with pytest.raises(Invalid, match="no new finalizers can be added if the object is being deleted"):
        await client.patch(WIDGET, "a", widgets, patch=more, type=PatchType.MERGE)
    await client.patch(WIDGET, "a", widgets, patch={"metadata": {"finalizers": None}}, type=PatchType.MERGE)
    with pytest.raises(NotFound):
        await client.get(WIDGET, "a", widgets)


async def test_a_deletion_may_name_what_it_means(client: Client, widgets: str) -> None:
    created = await client.create(WIDGET, widget(widgets, "a"))
    with pytest.raises(Conflict, match=r"the UID in the precondition \(other\) does not match the UID in record"):
        await client.delete(WIDGET, "a", widgets, uid="other")
    with pytest.raises(Conflict, match=r"the ResourceVersion in the precondition \(1\) does not match"):
        await client.delete(WIDGET, "a", widgets, resource_version="1")
    assert await client.delete(WIDGET, "a", widgets, uid=created.metadata.uid) is None
    with pytest.raises(NotFound):
        await client.delete(WIDGET, "a", widgets)


async def test_a_whole_collection_can_be_deleted(client: Client, widgets: str) -> None:
    for name, labels in (("a", {"go": "yes"}), ("b", {"go": "yes"}), ("c", {})):
        await client.create(WIDGET, widget(widgets, name, labels=labels))
    response = await client.raw(Request("DELETE", WIDGET.path(widgets), {"labelSelector": "go=yes"}))
    assert [each["metadata"]["name"] for each in msgspec.json.decode(response.body)["items"]] == ["a", "b"]
    assert [each.name for each in (await client.list(WIDGET, widgets)).items] == ["c"]


async def family(client: Client, namespace: str) -> tuple[Object, Object]:
    """An owner and its dependent."""
    owner = await client.create(WIDGET, widget(namespace, "owner"))
    reference = {"apiVersion": WIDGET.api_version, "kind": "Widget", "name": "owner", "uid": owner.metadata.uid}
    references = [{**reference, "blockOwnerDeletion": True}]
    return owner, await client.create(CONFIG_MAP, config_map(namespace, "child", ownerReferences=references))


async def test_what_is_owned_goes_with_its_owner(client: Client, widgets: str) -> None:
    _, child = await family(client, widgets)
    assert await client.delete(WIDGET, "owner", widgets, propagation="Background") is None
    await gone(client, child, CONFIG_MAP)


async def test_an_owner_deleted_in_the_foreground_goes_last(client: Client, widgets: str) -> None:
    owner, child = await family(client, widgets)
    hold: Fields = {"metadata": {"finalizers": ["example.com/wait"]}}
    await client.patch(CONFIG_MAP, "child", widgets, patch=hold, type=PatchType.MERGE)
    waiting = await client.delete(WIDGET, "owner", widgets, propagation="Foreground")
    assert waiting is not None
    assert waiting.metadata.finalizers == ["foregroundDeletion"]
    await until(client, CONFIG_MAP, widgets, "child", lambda event: event.object.metadata.deletion_timestamp)
    assert (await client.get(WIDGET, "owner", widgets)).metadata.uid == owner.metadata.uid
    await client.patch(CONFIG_MAP, "child", widgets, patch={"metadata": {"finalizers": None}}, type=PatchType.MERGE)
    await gone(client, child, CONFIG_MAP)
    await gone(client, owner, WIDGET)


async def test_orphans_stay(client: Client, widgets: str) -> None:
    owner, _ = await family(client, widgets)
    await client.delete(WIDGET, "owner", widgets, propagation="Orphan")
    await gone(client, owner, WIDGET)
    child = await client.get(CONFIG_MAP, "child", widgets)
    assert child.metadata.owner_references == []


async def test_a_namespace_goes_with_all_that_is_in_it(client: Client, widgets: str) -> None:
    await client.create(WIDGET, widget(widgets, "a", finalizers=["example.com/wait"]))
    namespace = await client.get(NAMESPACE, widgets)
    await client.delete(NAMESPACE, widgets)
    terminating = await until(client, WIDGET, widgets, "a", lambda event: event.object.metadata.deletion_timestamp)
    assert (await client.get(NAMESPACE, widgets)).tree["status"]["phase"] == "Terminating"
    with pytest.raises(Forbidden, match=r"because it is being terminated$"):
        await client.create(CONFIG_MAP, config_map(widgets, "late"))
    await client.patch(WIDGET, "a", widgets, patch={"metadata": {"finalizers": None}}, type=PatchType.MERGE)
    await gone(client, terminating, WIDGET)
    await gone(client, namespace, NAMESPACE)


async def test_an_administrator_may_do_anything(client: Client) -> None:
    asked = {"resourceAttributes": {"verb": "delete", "resource": "secrets", "namespace": "kube-system"}}
    answer = await client.create(SELF_SUBJECT_ACCESS_REVIEW, {"spec": asked})
    assert answer.tree["status"]["allowed"] is True


async def test_a_moment_long_gone_is_expired(client: Client, widgets: str) -> None:
    if isinstance(client.transport, HttpTransport):
        version = "1"
    else:
        for index in range(5200):  # more than the history holds
            await client.patch(
                NAMESPACE, widgets, patch={"metadata": {"labels": {"n": str(index)}}}, type=PatchType.MERGE
            )
        version = "2"
    resource, namespace = (WIDGET, widgets) if version == "1" else (NAMESPACE, None)
    async with asyncio.timeout(PATIENCE):
        with pytest.raises(Expired, match=r"^too old resource version: "):
            async for _ in client.watch(resource, namespace, resource_version=version):
                pass
