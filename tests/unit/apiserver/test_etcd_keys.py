"""Keys and values of objects in etcd: those of kube-apiserver."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.resource import Key
from espalier.apiserver.builtin.builtin import KINDS
from espalier.apiserver.storage.etcd_keys import Keys, Place, UnreadableValue, stored_object

KEYS = Keys(KINDS)
NAME = st.from_regex(r"[a-z0-9]([a-z0-9.:-]{0,20}[a-z0-9])?", fullmatch=True)
TABLES = st.one_of(
    st.sampled_from(sorted(kind.table for kind in KINDS)),
    st.builds(
        "{}.{}.{}".format, st.sampled_from(["things", "pods", "services"]), NAME.filter(lambda n: "." not in n), NAME
    ),
)


@pytest.mark.parametrize(
    ("table", "key", "path"),
    [
        ("pods", Key("default", "a"), b"/registry/pods/default/a"),
        ("namespaces", Key("", "default"), b"/registry/namespaces/default"),
        ("nodes", Key("", "n"), b"/registry/minions/n"),
        ("services", Key("default", "a"), b"/registry/services/specs/default/a"),
        ("leases.coordination.k8s.io", Key("kube-system", "a"), b"/registry/leases/kube-system/a"),
        ("clusterroles.rbac.authorization.k8s.io", Key("", "system:a"), b"/registry/clusterroles/system:a"),
        (
            "customresourcedefinitions.apiextensions.k8s.io",
            Key("", "things.example.org"),
            b"/registry/apiextensions.k8s.io/customresourcedefinitions/things.example.org",
        ),
        ("things.example.org", Key("default", "a"), b"/registry/example.org/things/default/a"),
        ("things.example.org", Key("", "a"), b"/registry/example.org/things/a"),
    ],
)
def test_keys_are_those_of_kube_apiserver(table: str, key: Key, path: bytes) -> None:
    assert KEYS.of(table, key) == path
    assert KEYS.place(path) == Place(table, key)


@given(TABLES, st.one_of(st.just(""), NAME), NAME)
def test_every_object_has_a_key_of_its_own(table: str, namespace: str, name: str) -> None:
    key = Key(namespace, name)
    assert KEYS.place(KEYS.of(table, key)) == Place(table, key)


@given(st.binary(max_size=40))
def test_any_key_is_of_an_object_or_not(rest: bytes) -> None:
    place = KEYS.place(KEYS.prefix + rest)
    assert place is None or KEYS.of(place.table, place.key) == KEYS.prefix + rest


def test_tables_of_built_in_kinds_have_different_keys() -> None:
    paths = [KEYS.of(kind.table, Key("", "x")) for kind in KINDS]
    assert len(set(paths)) == len({kind.table for kind in KINDS})


def stored(value: bytes, revision: int = 7) -> str:
    item = stored_object(b"/registry/configmaps/default/a", Key("default", "a"), value, revision)
    assert item.resource_version == str(revision)
    return item.raw.decode()


def test_the_revision_is_put_into_the_metadata() -> None:
    value = (
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"},"data":{"metadata":"{"}}'
    )
    expected = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"7","name":"a"'
    assert stored(value).startswith(expected)


@pytest.mark.parametrize(
    "value",
    [
        b'{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"a","namespace":"default"},"data":{"k":"v"}}',
        b'{"data":{"k":"v"},"metadata":{"namespace":"default","name":"a"},"kind":"ConfigMap","apiVersion":"v1"}',
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"resourceVersion":"3","name":"a","namespace":"default"},"data":{"k":"v"}}',
        b'{"apiVersion": "v1", "kind":"ConfigMap", "metadata": {"name": "a", "namespace":"default"}, "data":{"k":"v"}}',
    ],
)
def test_objects_written_by_others_are_put_in_order(value: bytes) -> None:
    assert stored(value).startswith('{"apiVersion":"v1","kind":"ConfigMap","metadata":{')
    assert msgspec.json.decode(stored(value))["data"] == {"k": "v"}


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"k8s\0\n\x0f\n\x02v1\x12\tConfigMap",
        b"[]",
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{}}',
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"b","namespace":"default"}}',
        b'{"apiVersion":"v1","kind":"ConfigMap"}',
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"default"',
        b"[" * 100_000,
    ],
)
def test_a_value_that_is_no_object_of_its_key_is_named(value: bytes) -> None:
    with pytest.raises(UnreadableValue, match="/registry/configmaps/default/a"):
        stored(value)
