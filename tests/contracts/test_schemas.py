"""Schemas of custom kinds, on the embedded API server as on kube-apiserver."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from espalier.api.core import (
    CUSTOM_RESOURCE_DEFINITION,
)
from espalier.api.resource import Resource
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import BadRequest, Invalid, NotFound, of_unknown_fields
from espalier.kube.transports.wire import Request
from tests.support.servers.widgets import (
    GROUP,
    SPEC_SCHEMA,
    WIDGET,
    WIDGET_V2,
    Fields,
    causes,
    definition,
    established,
    gone,
    widget,
)
from tests.support.waiting import eventually

pytestmark = pytest.mark.often("in_memory", "real")  # what is judged before it is stored is the same for all stores


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


async def test_unknown_fields_are_dropped_warned_or_refused(client: Client, widgets: str) -> None:
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


async def test_refusals_of_unknown_fields_are_told_apart(client: Client, widgets: str) -> None:
    """As by a definition of an earlier release: a writer of a status gives them up, and nothing else."""
    with pytest.raises(BadRequest) as refused:
        await client.create(WIDGET, widget(widgets, "a", {"colour": "red"}))
    assert of_unknown_fields(refused.value)
    await client.create(WIDGET, widget(widgets, "a", {}))
    for patch, expected in (({"colour": "red"}, True), ({"replicas": "many"}, False)):
        with pytest.raises(Invalid) as invalid:
            await client.patch(WIDGET, "a", widgets, patch={"spec": patch}, type=PatchType.MERGE)
        assert of_unknown_fields(invalid.value) is expected, patch
    unknown: Fields = {"spec": {"colour": "red", "replicas": 2}}
    with client.warning(lambda _text: None):
        written = await client.patch(WIDGET, "a", widgets, patch=unknown, type=PatchType.MERGE, field_validation="Warn")
    assert written.tree["spec"]["replicas"] == 2
    assert "colour" not in written.tree["spec"]


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


async def test_deleted_kind_goes_with_its_objects(client: Client, namespace: str) -> None:
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
    # A real server follows a changed definition a moment later, and does not say when.
    created = await eventually(lambda: client.create(resource, gadget), lambda _: True, despite=Invalid)
    await client.delete(CUSTOM_RESOURCE_DEFINITION, name)
    await gone(client, CUSTOM_RESOURCE_DEFINITION, name)
    with pytest.raises(NotFound):
        await client.get(resource, created.name, namespace)


async def test_changed_schema_counts_for_unchanged_values(client: Client, namespace: str) -> None:
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
    seen = await eventually(
        lambda: reported(client, resource, namespace, next(phases)), lambda seen: "colour" in seen
    )  # a real server needs a moment
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


@pytest.mark.parametrize(("before", "after"), [(1, True), ([1, 0], [True, False])])
async def test_equal_values_of_python_differ_by_type(
    client: Client, widgets: str, before: object, after: object
) -> None:
    field = "replicas" if before == 1 else "atoms"
    await client.create(WIDGET, widget(widgets, "a", {"size": "small", field: before}))
    with pytest.raises(Invalid, match="must be of type integer"):
        await client.patch(WIDGET, "a", widgets, patch={"spec": {field: after}}, type=PatchType.MERGE)


async def test_number_that_becomes_true_changes_its_owner(client: Client, widgets: str) -> None:
    before = await client.create(WIDGET, widget(widgets, "a", {"size": "small", "free": {"one": 1, "list": [0]}}))
    body = widget(widgets, "a", {"size": "small", "free": {"one": True, "list": [False]}})
    after = await client.apply(WIDGET, body, field_manager="another", force=True)
    assert after.metadata.generation == (before.metadata.generation or 0) + 1
    owned = {entry["manager"]: entry["fieldsV1"]["f:spec"] for entry in after.tree["metadata"]["managedFields"]}
    free: Fields = {"f:list": {}, "f:one": {}}
    assert owned.pop("another") == {"f:free": free, "f:size": {}}
    assert not any(fields.get("f:free", {}).keys() & free for fields in owned.values())


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
