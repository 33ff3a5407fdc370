"""Patches do what their standards say (the examples of RFC 7386), and strategic ones what Kubernetes says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from espalier.apiserver.builtin import builtin
from espalier.apiserver.fields import patches
from espalier.apiserver.fields.json_patch import json_patch
from espalier.kube.errors import BadRequest, Invalid, ServerFailure

POD_SPEC = builtin.node("io.k8s.api.core.v1.PodSpec")
DEPLOYMENT_SPEC = builtin.node("io.k8s.api.apps.v1.DeploymentSpec")
META = builtin.node(builtin.OBJECT_META)


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": [1]}, {"a": [{"b": None, "c": {"d": None}}, None]}, {"a": [{"c": {}}, None]}),
        ({}, {"a": [[{"b": None}]]}, {"a": [[{}]]}),
    ],
)
def test_merge_patch(target: Any, patch: Any, result: Any) -> None:
    assert patches.merge(target, patch) == result


CONTAINERS: list[dict[str, Any]] = [
    {"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]},
    {"name": "b", "image": "2"},
]


@pytest.mark.parametrize(
    ("patch", "containers"),
    [
        ([{"name": "a", "image": "9"}], [{**CONTAINERS[0], "image": "9"}, CONTAINERS[1]]),
        ([{"name": "c", "image": "3"}], [*CONTAINERS, {"name": "c", "image": "3"}]),
        ([{"name": "a", "$patch": "delete"}], [CONTAINERS[1]]),
        ([{"name": "a", "$patch": "replace", "image": "5"}], [{"name": "a", "image": "5"}, CONTAINERS[1]]),
        ([{"$patch": "replace"}, {"name": "z"}], [{"name": "z"}]),
        ([{"name": "b", "image": None}], [CONTAINERS[0], {"name": "b"}]),
    ],
)
def test_lists_are_merged_by_their_key(patch: list[Any], containers: list[Any]) -> None:
    assert patches.strategic({"containers": CONTAINERS}, {"containers": patch}, POD_SPEC) == {"containers": containers}


def test_lists_of_values_merge_where_the_schema_says() -> None:
    assert patches.strategic({"finalizers": ["a"]}, {"finalizers": ["b", "a"]}, META) == {"finalizers": ["a", "b"]}
    dropped = {"$deleteFromPrimitiveList/finalizers": ["a"]}
    assert patches.strategic({"finalizers": ["a", "b"]}, dropped, META) == {"finalizers": ["b"]}
    assert patches.strategic({"nodeSelector": {"a": "1"}}, {"nodeSelector": {"b": "2"}}, POD_SPEC) == {
        "nodeSelector": {"a": "1", "b": "2"}
    }


def test_retained_keys_are_all_that_is_left() -> None:
    old = {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}
    patch = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    assert patches.strategic(old, patch, DEPLOYMENT_SPEC) == {"strategy": {"type": "Recreate"}}


def test_an_order_is_kept() -> None:
    patch = {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b", "image": "7"}]}
    result = patches.strategic({"containers": CONTAINERS}, patch, POD_SPEC)
    assert [(container["name"], container["image"]) for container in result["containers"]] == [("b", "7"), ("a", "1")]


def test_an_item_without_its_key_is_refused() -> None:
    with pytest.raises(ServerFailure, match=r"map\[image:x\] does not contain declared merge key: name"):
        patches.strategic({"containers": CONTAINERS}, {"containers": [{"image": "x"}]}, POD_SPEC)


@pytest.mark.parametrize("patch", [{"op": "add"}, [1]])
def test_an_invalid_json_patch_is_a_bad_request(patch: Any) -> None:
    with pytest.raises(BadRequest):
        json_patch({"a": 1}, json.dumps(patch).encode())


@pytest.mark.parametrize("patch", [[{"op": "jump", "path": "/a"}], [{"path": "/a"}]])
def test_a_step_that_is_none_is_invalid_as_upstream(patch: Any) -> None:
    with pytest.raises(Invalid):
        json_patch({"a": 1}, json.dumps(patch).encode())


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/b"},
        {"op": "replace", "path": "/a/b", "value": 1},
    ],
)
def test_a_json_patch_that_does_not_fit_is_invalid(operation: dict[str, Any]) -> None:
    with pytest.raises(Invalid):
        json_patch({"a": 1}, json.dumps([operation]).encode())


def test_json_patch_is_limited_as_by_kube_apiserver() -> None:
    operations = [{"op": "add", "path": "/a", "value": number} for number in range(10_000)]
    assert json_patch({}, json.dumps(operations).encode()) == {"a": 9_999}
    with pytest.raises(BadRequest, match=r"maximum operations in a JSON patch is 10000, got 10001"):
        json_patch({}, json.dumps([*operations, operations[0]]).encode())
