"""An object is its bytes; its head is decoded, the rest when somebody looks."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.meta import Head, Part
from espalier.api.resource import Key
from espalier.kube import objects
from espalier.kube.objects import Object, to_bytes

MANAGED = [{"manager": "m", "operation": "Apply", "fieldsType": "FieldsV1", "fieldsV1": {"f:data": {}}}]
TREE = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {
        "name": "a",
        "namespace": "ns",
        "resourceVersion": "7",
        "creationTimestamp": None,
        "labels": {"x": "y"},
        "managedFields": MANAGED,
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}],
    },
    "data": {"key": "value"},
}
RAW = msgspec.json.encode(TREE)


class Data(Part):
    data: dict[str, str] = msgspec.field(default_factory=dict)


def test_the_head_is_read_and_the_body_kept() -> None:
    object_ = Object(RAW)
    assert (object_.key, object_.kind, object_.resource_version) == (Key("ns", "a"), "ConfigMap", "7")
    assert object_.metadata.labels == {"x": "y"}
    assert object_.metadata.owner_references[0].name == "n"
    assert object_.metadata.managed_fields is not None
    assert msgspec.json.decode(object_.metadata.managed_fields) == MANAGED
    assert object_.raw is RAW
    assert object_.tree == TREE
    assert object_.decode(Data).data == {"key": "value"}


def test_no_managed_fields_are_none() -> None:
    assert Object(b'{"metadata":{"name":"a"}}').metadata.managed_fields is None
    assert Object(b"{}").metadata.managed_fields is None


def test_a_tree_may_be_changed_and_the_object_stays() -> None:
    object_ = Object(RAW)
    object_.tree["data"]["key"] = "other"
    assert object_.tree["data"]["key"] == "value"


def test_a_decoded_view_is_shared_for_the_same_bytes() -> None:
    view = Object(RAW).decode(Data)
    assert Object(bytes(bytearray(RAW))).decode(Data) is view
    assert Object(RAW).decode(Head).kind == "ConfigMap"
    changed = msgspec.json.encode({**TREE, "data": {"key": "other"}})
    assert Object(changed).decode(Data).data == {"key": "other"}


def test_no_more_views_are_remembered_than_fit() -> None:
    for number in range(objects.VIEWS + 10):
        assert Object(b'{"data":{"key":"%d"}}' % number).decode(Data).data == {"key": str(number)}
    assert objects._view.cache_info().currsize == objects.VIEWS


def test_objects_are_equal_when_their_bytes_are() -> None:
    assert Object(RAW) == Object(bytes(RAW))
    assert len({Object(RAW), Object(bytes(RAW))}) == 1
    assert Object(RAW) != Object(RAW + b" ")
    assert Object(RAW) != RAW


def test_a_tree_that_is_no_object_is_not_taken_for_one() -> None:
    with pytest.raises(msgspec.MsgspecError):
        Object(b'{"metadata":[]}')


@pytest.mark.parametrize("body", [TREE, RAW, Object(RAW)])
def test_anything_that_may_be_written_becomes_bytes(body: object) -> None:
    assert msgspec.json.decode(to_bytes(body)) == TREE  # type: ignore[arg-type]


def test_a_struct_becomes_bytes_and_a_head_is_repeated() -> None:
    assert to_bytes(Data({"a": "b"})) == b'{"data":{"a":"b"}}'
    assert repr(Object(RAW)) == "<ConfigMap ns/a@7>"
    assert Object(RAW, Head(kind="Other")).kind == "Other"
