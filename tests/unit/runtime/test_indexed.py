"""The set of objects behind a cache."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime.caches.indexed import IndexedObjects


def machine(name: str) -> Object:
    owner = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "roses", "uid": "u-1"}
    metadata: dict[str, Any] = {"name": name, "namespace": "greenhouse", "resourceVersion": "7"}
    metadata["labels"] = {"cluster.x-k8s.io/cluster-name": "roses"}
    metadata["annotations"] = {"cluster.x-k8s.io/cloned-from-groupkind": f"template of {name}"}
    metadata["finalizers"] = ["machine.cluster.x-k8s.io"]
    metadata["ownerReferences"] = [owner]
    return Object(msgspec.json.encode({"apiVersion": "v1beta2", "kind": "Machine", "metadata": metadata}))


def words_in_common(object_: Object) -> list[str]:
    metadata = object_.metadata
    owner = metadata.owner_references[0]
    return [
        object_.head.api_version,
        object_.kind,
        object_.namespace,
        *metadata.labels,
        *metadata.labels.values(),
        *metadata.annotations,
        *metadata.finalizers,
        *(owner.api_version, owner.kind, owner.name, owner.uid),
    ]


def test_strings_that_objects_share_are_stored_once() -> None:
    objects = IndexedObjects()
    for name in ("a", "b"):
        objects.put(machine(name))
    first, other = objects.list()
    assert all(word is same for word, same in zip(words_in_common(first), words_in_common(other), strict=True))


def test_kind_and_version_of_an_object_are_kept() -> None:
    objects = IndexedObjects()
    objects.put(machine("a"))
    (stored,) = objects.list()
    assert stored == machine("a")
    assert stored.head == machine("a").head


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["a", "bb", "a-longer-name"]), st.integers(0, 50))))
def test_its_size_is_that_of_what_it_holds(changes: list[tuple[bool, str, int]]) -> None:
    """However objects came, were replaced and went."""
    objects = IndexedObjects()
    for is_put, name, padding in changes:
        object_ = machine(name)
        object_.raw += b" " * padding
        if is_put:
            objects.put(object_)
        else:
            objects.remove(object_.key)
        assert objects.size == sum(len(held.raw) for held in objects.list())


def managed(name: str, entries: bytes) -> Object:
    """An object whose managedFields were cut out of its JSON."""
    object_ = machine(name)
    object_.metadata.managed_fields = msgspec.Raw(entries)
    return object_


def test_an_object_is_the_same_after_it_was_packed() -> None:
    objects = IndexedObjects(ready=1)
    names = [f"machine-{number}" for number in range(5)]
    for name in names:
        objects.put(managed(name, f'[{{"manager":"of {name}"}}]'.encode()))
    for read in ([objects.get(Key("greenhouse", name)) for name in names], objects.list()):
        assert [object_ and object_.raw for object_ in read] == [machine(name).raw for name in names]
        entries = [bytes(object_.metadata.managed_fields) for object_ in read if object_]
        assert entries == [f'[{{"manager":"of {name}"}}]'.encode() for name in names]


@pytest.mark.parametrize(("kind", "left"), [("Secret", 1), ("ConfigMap", 0)])
def test_nothing_of_a_removed_object_is_held(kind: str, left: int) -> None:
    """Of a Secret not even while the set has others."""
    objects = IndexedObjects(ready=0)
    secret = {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, "data": {"password": "cGVydmlua2xl"}}
    objects.put(Object(msgspec.json.encode(secret)))
    assert b"cGVydmlua2xl" in objects.list()[0].raw
    for number in range(left):
        objects.put(Object(msgspec.json.encode({**secret, "metadata": {"name": f"b{number}"}, "data": {}})))
    objects.remove(Key("", "a"))
    assert not any(b"cGVydmlua2xl" in (part or b"") for part in vars(objects._packing).values())


def test_objects_that_are_used_are_not_unpacked_again() -> None:
    objects = IndexedObjects(ready=2)
    for name in ("a", "b", "c", "d"):
        objects.put(machine(name))
    first = objects.get(Key("greenhouse", "a"))
    objects.get(Key("greenhouse", "b"))
    assert objects.get(Key("greenhouse", "a")) is first
    objects.list()
    assert objects.get(Key("greenhouse", "a")) is first


@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "remove", "get", "list", "index"]), st.integers(0, 6), st.integers(0, 50)),
        max_size=60,
    ),
    st.integers(0, 4),
)
def test_packing_changes_nothing_that_is_read(changes: list[tuple[str, int, int]], ready: int) -> None:
    """The same changes, reads and results as in a set that packs nothing."""
    by_length = {"length": lambda object_: [str(len(object_.raw))]}
    packing, plain = IndexedObjects(ready), IndexedObjects(1000)
    for objects in (packing, plain):
        objects.add_indexes(by_length)
    for act, number, padding in changes:
        object_ = machine(f"m{number}")
        object_.raw += b" " * padding
        results: list[object] = []
        for objects in (packing, plain):
            match act:
                case "put":
                    results.append(objects.put(Object(object_.raw)))
                case "remove":
                    results.append(objects.remove(object_.key))
                case "get":
                    results.append(objects.get(object_.key))
                case "list":
                    results.append(objects.list("greenhouse"))
                case _:
                    results.append(objects.by_index("length", str(len(object_.raw))))
        assert results[0] == results[1]
        assert packing.list() == plain.list()
        assert (packing.keys, packing.size, len(packing)) == (plain.keys, plain.size, len(plain))
