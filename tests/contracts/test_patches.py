"""Patches, and built-in kinds with rules of their own, on the embedded API server as on kube-apiserver."""

from __future__ import annotations

import pytest

from espalier.api.core import (
    CONFIG_MAP,
    DEPLOYMENT,
    SECRET,
)
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import (
    ApiError,
    BadRequest,
    Invalid,
)
from tests.support.servers.widgets import WIDGET, Fields, causes, config_map, deployment, owners, widget


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


async def test_merge_patch_drops_null_fields_within_lists(client: Client, widgets: str) -> None:
    await client.create(WIDGET, widget(widgets, "a", {"free": {"l": [1]}}))
    patch = {"spec": {"free": {"l": [{"a": None, "b": {"c": None}}, None]}}}
    patched = await client.patch(WIDGET, "a", widgets, patch=patch, type=PatchType.MERGE)
    assert patched.tree["spec"]["free"] == {"l": [{"b": {}}, None]}


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
