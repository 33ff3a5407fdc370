"""Server-side apply, on the embedded API server as on kube-apiserver."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.core import (
    DEPLOYMENT,
    SECRET,
)
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import (
    ApiError,
    Conflict,
    Invalid,
    NotFound,
)
from espalier.kube.transports.wire import Request
from tests.support.servers.widgets import GROUP, WIDGET, Fields, causes, deployment, owners, widget


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


async def test_apply_with_an_unused_version_only_creates(client: Client, widgets: str) -> None:
    """Such a write never overwrites what the writer has not seen, forced or not."""
    unseen = {"resourceVersion": "1"}
    body = widget(widgets, "a", labels={"l": "1"})
    made = await client.apply(WIDGET, body | {"metadata": body["metadata"] | unseen}, field_manager="first")
    assert made.resource_version != "1"
    assert list(owners(made)) == [("first", "Apply", "")]
    for manager in ("first", "second"):
        with pytest.raises(Conflict, match="the object has been modified"):
            await client.apply(WIDGET, body | {"metadata": body["metadata"] | unseen}, field_manager=manager)
    assert (await client.get(WIDGET, "a", widgets)).resource_version == made.resource_version


async def test_apply_with_a_uid_changes_that_object_only(client: Client, widgets: str) -> None:
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


async def test_field_of_other_manager_conflicts_if_unforced(client: Client, widgets: str) -> None:
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


async def test_equal_values_go_with_their_last_owner(client: Client, widgets: str) -> None:
    tags = {"tags": ["both"]}
    await client.apply(WIDGET, widget(widgets, "a", tags), field_manager="first", force=False)
    await client.apply(WIDGET, widget(widgets, "a", tags), field_manager="second", force=False)
    left = await client.apply(WIDGET, widget(widgets, "a"), field_manager="first", force=False)
    assert left.tree["spec"]["tags"] == ["both"]
    left = await client.apply(WIDGET, widget(widgets, "a"), field_manager="second", force=False)
    assert "tags" not in left.tree["spec"]


async def test_list_item_stays_while_any_part_is_owned(client: Client, widgets: str) -> None:
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


async def test_lists_of_built_in_kinds_merge_by_their_keys(client: Client, namespace: str) -> None:
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
