"""Tables remember: any moment of their history can be read, whatever happened since."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.resource import Key
from espalier.apiserver.storage.store import HISTORY, MemoryStore
from espalier.kube.errors import Expired
from espalier.kube.objects import Object, encode_json

NAMES = st.sampled_from("abcd")
NAMESPACES = st.sampled_from(["", "n", "n-1", "o"])
WRITES = st.lists(st.tuples(st.booleans(), NAMESPACES, NAMES), max_size=40)


def put(store: MemoryStore, key: Key, *, deleted: bool = False) -> None:
    metadata = {"name": key.name, "namespace": key.namespace, "resourceVersion": str(store.revision + 1)}
    store.put("things", key, Object(encode_json({"metadata": metadata})), deleted=deleted)


@given(WRITES)
def test_every_moment_can_be_read_as_it_was(writes: list[tuple[bool, str, str]]) -> None:
    store = MemoryStore()
    table = store.table("things")
    moments = {store.revision: dict(table.objects)}
    for delete, namespace, name in writes:
        key = Key(namespace, name)
        if not delete or key in table.objects:
            put(store, key, deleted=delete)
        moments[store.revision] = dict(table.objects)
    for revision, objects in moments.items():
        assert [item.key for item in table.as_of(revision, None)] == sorted(objects)
        assert {item.key: item for item in table.as_of(revision, None)} == objects
        keys = [item.key for item in table.as_of(revision, "n")]
        assert keys == [key for key in sorted(objects) if key.namespace == "n"]
        behind = Key("n", "b")
        assert [item.key for item in table.as_of(revision, None, behind)] == [k for k in sorted(objects) if k > behind]


@given(WRITES)
def test_an_undone_write_never_happened(writes: list[tuple[bool, str, str]]) -> None:
    store = MemoryStore()
    table = store.table("things")
    for name in "abc":
        put(store, Key("", name))
    objects, keys = dict(table.objects), list(table.keys)
    before = len(table.history)
    for delete, namespace, name in writes:
        key = Key(namespace, name)
        if not delete or key in table.objects:
            put(store, key, deleted=delete)
    for change in reversed(table.history[before:]):
        table.undo(change)
    assert (table.objects, table.keys) == (objects, keys)


def test_the_history_is_bounded() -> None:
    store = MemoryStore()
    for _ in range(2 * HISTORY):
        put(store, Key("", "a"))
    table = store.table("things")
    assert len(table.history) < 2 * HISTORY
    with pytest.raises(Expired):
        table.after(2)
    assert table.after(store.revision) == 2 * HISTORY


def test_only_compacted_revisions_are_expired() -> None:
    store = MemoryStore()
    for name in "abc":
        put(store, Key("", name))
    store.compact(3)
    table = store.table("things")
    assert [change.key.name for change in table.history] == ["c"]
    assert table.after(3) == 2
    with pytest.raises(Expired):
        table.after(2)
    assert [item.name for item in table.as_of(3, None)] == ["a", "b"]


def test_followers_hear_of_changes_in_order() -> None:
    store = MemoryStore()
    revisions: list[int] = []
    store.follow(lambda change: revisions.append(change.revision))
    for name in "abc":
        put(store, Key("", name))
    assert revisions == [2, 3, 4]
