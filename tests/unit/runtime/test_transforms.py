from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.kube.objects import Object
from espalier.runtime.caches.transforms import keep_managed_fields, metadata_only, strip_managed_fields

OURS = {"manager": "espalier", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}}}}
THEIRS = {"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:data": {"f:b": {}}}}

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def object_of(tree: Any, *, spaced: bool = False) -> Object:
    raw = msgspec.json.encode(tree)
    return Object(msgspec.json.format(raw, indent=2) if spaced else raw)


@pytest.mark.parametrize("spaced", [False, True])
@pytest.mark.parametrize("order", [["name", "managedFields"], ["managedFields", "name"], ["managedFields"]])
@given(rest=JSON, entries=st.lists(st.sampled_from([OURS, THEIRS])))
def test_exactly_the_managed_fields_go(rest: Any, entries: list[Any], order: list[str], spaced: bool) -> None:
    values = {"name": "a", "managedFields": entries}
    tree = {"kind": "K", "metadata": {key: values[key] for key in order}, "spec": rest, "template": {"metadata": {}}}
    stripped = strip_managed_fields(object_of(tree, spaced=spaced))
    del tree["metadata"]["managedFields"]
    assert stripped.tree == tree
    assert stripped.metadata.managed_fields is None


@pytest.mark.parametrize("spaced", [False, True])
def test_our_own_entry_stays(spaced: bool) -> None:
    tree = {"kind": "K", "metadata": {"managedFields": [THEIRS, OURS], "name": "a"}, "spec": {"managedFields": [1]}}
    reduced = keep_managed_fields("espalier")(object_of(tree, spaced=spaced))
    assert reduced.tree == tree | {"metadata": {"managedFields": [OURS], "name": "a"}}
    assert reduced.metadata.managed_fields is not None
    assert msgspec.json.decode(reduced.metadata.managed_fields) == [OURS]


def test_text_that_looks_like_managed_fields_stays() -> None:
    note = '"managedFields":[]'
    tree = {"metadata": {"annotations": {"note": note}, "managedFields": [], "name": "a"}}
    assert strip_managed_fields(object_of(tree)).tree == {"metadata": {"annotations": {"note": note}, "name": "a"}}


def test_counted_objects_keep_their_metadata() -> None:
    tree = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "managedFields": [OURS]}, "spec": {"x": "y"}}
    reduced = metadata_only(object_of(tree))
    assert reduced.tree == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


def test_equal_arguments_share_a_watch() -> None:
    assert keep_managed_fields("a", "b") is keep_managed_fields("a", "b")
