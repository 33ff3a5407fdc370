"""Changes of objects, field by field, and what is never shown of them."""

from __future__ import annotations

import pytest

from espalier.api.meta import Tree
from espalier.api.text.redaction import HIDDEN
from espalier.clusters.effects.diff import FieldChange, field_changes


def changes(old: Tree, new: Tree, kind: str = "") -> list[FieldChange]:
    return list(field_changes({"spec": old}, {"spec": new}, kind))


def test_differing_fields_are_named_with_both_values() -> None:
    results = changes({"a": 1, "b": {"c": "x", "d": True}}, {"a": 2, "b": {"d": True}, "e": [1]})
    assert results == [
        FieldChange("spec.a", 1, 2),
        FieldChange("spec.b.c", "x", None),
        FieldChange("spec.e", None, [1]),
    ]


def test_diff_knows_list_items_by_their_names() -> None:
    groups = [{"name": "md-0", "count": 1}, {"name": "md-1", "count": 1}]
    fewer = [{"name": "md-1", "count": 3}]
    assert changes({"groups": groups}, {"groups": fewer}) == [
        FieldChange("spec.groups.md-0", {"name": "md-0", "count": 1}, None),
        FieldChange("spec.groups.md-1.count", 1, 3),
    ]
    assert changes({"ranges": ["a"]}, {"ranges": ["a", "b"]}) == [FieldChange("spec.ranges", ["a"], ["a", "b"])]


def test_status_names_and_bookkeeping_are_no_change() -> None:
    old = {"metadata": {"name": "a", "resourceVersion": "1", "labels": {"x": "1"}}, "status": {"ready": False}}
    new = {"metadata": {"name": "b", "resourceVersion": "2", "labels": {"x": "2"}}, "status": {"ready": True}}
    assert list(field_changes(old, new)) == [FieldChange("metadata.labels.x", "1", "2")]


@pytest.mark.parametrize(
    "spec",
    [
        {"password": "hunter2"},
        {"auth": {"bearerToken": "hunter2"}},
        {"files": [{"path": "/etc/a", "content": "key: hunter2"}]},
        {"users": [{"name": "root", "passwd": "hunter2"}]},
        {"proxy": "https://me:hunter2@proxy.example.com:3128"},
        {"proxy": {"httpProxy": "me:hunter2@proxy.example.com:3128"}},
        {"env": [{"name": "HTTPS_PROXY", "value": "hunter2@proxy.example.com:3128"}]},
        {"registry": {"clientSecret": "hunter2"}},
        {"preKubeadmCommands": ["curl https://me:hunter2@mirror.example.com"]},
        {"licenseToken": "hunter2"},
    ],
)
def test_possibly_secret_values_are_not_shown(spec: Tree) -> None:
    for old, new in (({}, spec), (spec, {})):
        results = changes(old, new)
        assert results
        assert "hunter2" not in repr(results)


def test_data_of_secrets_is_hidden_but_not_their_names() -> None:
    result = field_changes({"data": {"value": "aGV5"}}, {"data": {"value": "aG8="}}, "Secret")
    assert list(result) == [FieldChange("data.value", HIDDEN, HIDDEN)]
    assert changes({}, {"secretRef": {"name": "a"}}) == [FieldChange("spec.secretRef", None, {"name": "a"})]


@pytest.mark.parametrize(("text", "lines"), [("a", "1 line"), ("a\nb", "2 lines")])
def test_contents_of_files_differ_by_their_digests(text: str, lines: str) -> None:
    (change,) = changes({"files": [{"path": "/a", "content": text}]}, {"files": [{"path": "/a", "content": "other"}]})
    assert change.field == "spec.files[/a].content"
    assert change.old.startswith(f"({lines}, sha256 ")
    assert change.old != change.new


def test_change_inside_of_hidden_content_is_a_change() -> None:
    (change,) = changes({"token": "one"}, {"token": "two"})
    assert (change.old, change.new) == (HIDDEN, HIDDEN)
