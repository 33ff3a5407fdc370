"""The set of objects behind a cache."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from espalier.kube.objects import Object
from espalier.runtime.indexed import IndexedObjects


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
