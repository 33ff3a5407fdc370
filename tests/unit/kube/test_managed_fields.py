"""Server-side apply obeys its laws whatever is applied by whom; and the differences it is built on are complete."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.kube import fields
from espalier.kube.errors import Conflict
from espalier.kube.objects import encode_json
from espalier.kube.server_side_apply import managed_fields
from espalier.kube.server_side_apply.field_set_diff import difference, fields_of
from espalier.kube.server_side_apply.managed_fields import Manager, Managers
from espalier.kube.server_side_apply.structure import node_of

NODE = node_of(
    {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "a": {"type": "string"},
                    "b": {"type": "string"},
                    "map": {"type": "object", "additionalProperties": {"type": "string"}},
                    "atomic": {"type": "array", "items": {"type": "string"}},
                    "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "items": {
                        "type": "array",
                        "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["id", "protocol"],
                        "items": {
                            "type": "object",
                            "properties": {
                                "id": {"type": "string"},
                                "protocol": {"type": "string", "default": "TCP"},
                                "x": {"type": "string"},
                                "y": {"type": "string"},
                            },
                        },
                    },
                },
            }
        },
    }
)
WORDS = st.sampled_from(["p", "q", "r"])
ITEM: st.SearchStrategy[dict[str, str]] = st.fixed_dictionaries(
    {"id": WORDS}, optional={"x": WORDS, "y": WORDS, "protocol": st.sampled_from(["TCP", "UDP"])}
)


def identity(item: Any) -> tuple[str, str]:
    return item["id"], item.get("protocol", "TCP")


SPEC = st.fixed_dictionaries(
    {},
    optional={
        "a": WORDS,
        "b": WORDS,
        "map": st.dictionaries(WORDS, WORDS, min_size=1),
        "atomic": st.lists(WORDS, min_size=1),
        "set": st.lists(WORDS, unique=True, min_size=1),
        "items": st.lists(ITEM, min_size=1, max_size=3, unique_by=identity),
    },
)
OBJECT = st.builds(lambda spec: {"spec": spec} if spec else {}, SPEC)
encode_sorted = msgspec.json.Encoder(order="sorted").encode
ME, YOU = Manager("me", "Apply", "v1"), Manager("you", "Apply", "v1")
EDITOR = Manager("editor", "Update", "v1")


def apply(
    live: dict[str, Any], config: dict[str, Any], owned: Managers, who: Manager = ME, *, force: bool = True
) -> tuple[dict[str, Any], Managers]:
    return managed_fields.apply(live, config, owned, who, NODE, "now", force=force)


def owned_by(owned: Managers, who: Manager) -> fields.FieldSet:
    return owned[who].fields if who in owned else {}


def ordered(value: Any) -> Any:
    """Lists that are sets or maps may come in any order, and a key with a default may be said or not."""
    if isinstance(value, list):
        filled = [{"protocol": "TCP", **item} if isinstance(item, dict) else item for item in value]
        return sorted(filled, key=encode_sorted)
    if isinstance(value, dict):
        return {name: part if name == "atomic" else ordered(part) for name, part in value.items()}
    return value


@given(OBJECT)
def test_an_object_does_not_differ_from_itself(tree: dict[str, Any]) -> None:
    assert difference(tree, tree, NODE) == ({}, {})


@given(OBJECT, OBJECT)
def test_a_difference_is_complete(old: dict[str, Any], new: dict[str, Any]) -> None:
    changed, removed = difference(old, new, NODE)
    if not changed and not removed:
        assert ordered(old) == ordered(new)
    before = fields_of(old, NODE, containers=True)
    after = fields_of(new, NODE, containers=True)
    assert fields.difference(fields.union(fields.without_below(before, removed), changed), after) == {}
    back = difference(new, old, NODE)
    assert set(fields.paths(removed)) <= set(fields.paths(back.changed))


@given(OBJECT)
def test_apply_to_nothing_creates_exactly_its_fields(config: dict[str, Any]) -> None:
    result, owned = apply({}, config, {})
    assert result == config
    assert owned[ME].fields == fields_of(config, NODE, containers=False)


@given(OBJECT, OBJECT, OBJECT)
def test_applying_twice_is_applying_once(first: dict[str, Any], other: dict[str, Any], config: dict[str, Any]) -> None:
    live, owned = apply({}, first, {})
    live, owned = apply(live, other, owned, YOU)
    once = apply(live, config, owned)
    assert apply(*(once[0], config, once[1])) == once


@given(OBJECT, OBJECT)
def test_alone_one_gets_exactly_what_one_applies(first: dict[str, Any], second: dict[str, Any]) -> None:
    live, owned = apply({}, first, {})
    result, _ = apply(live, second, owned)
    assert ordered({"spec": {}, **result}) == ordered({"spec": {}, **second})


@given(OBJECT, OBJECT)
def test_fields_owned_by_others_survive_my_leaving(mine: dict[str, Any], yours: dict[str, Any]) -> None:
    live, owned = apply({}, mine, {})
    live, owned = apply(live, yours, owned, YOU)
    left, after = apply(live, {}, owned)
    assert ordered({"spec": {}, **left}) == ordered({"spec": {}, **yours})
    assert owned_by(after, YOU) == owned_by(owned, YOU)


@given(OBJECT, OBJECT)
def test_unforced_apply_conflicts_or_loses_nothing(mine: dict[str, Any], yours: dict[str, Any]) -> None:
    live, owned = apply({}, mine, {})
    forced, taken = apply(live, yours, owned, YOU, force=True)
    if owned_by(taken, ME) == owned_by(owned, ME):
        assert apply(live, yours, owned, YOU, force=False) == (forced, taken)
        return
    with pytest.raises(Conflict) as conflict:
        apply(live, yours, owned, YOU, force=False)
    assert conflict.value.status.details is not None
    lost = fields.difference(owned_by(owned, ME), owned_by(taken, ME))
    assert {managed_fields.path_text(path) for path in fields.paths(lost)} == {
        cause.field for cause in conflict.value.status.details.causes
    }


@given(OBJECT, OBJECT)
def test_update_owns_what_it_changed_and_nothing_else(old: dict[str, Any], new: dict[str, Any]) -> None:
    live, owned = apply({}, old, {})
    after = managed_fields.update(live, new, owned, EDITOR, NODE, "now")
    changed, _ = difference(live, new, NODE)
    assert owned_by(after, EDITOR) == changed
    ours = owned_by(after, ME)
    assert fields.intersection(ours, changed) == {}
    assert fields.difference(ours, fields_of(new, NODE, containers=True)) == {}


@given(OBJECT, OBJECT)
def test_managed_fields_say_all_of_it(mine: dict[str, Any], yours: dict[str, Any]) -> None:
    live, owned = apply({}, mine, {})
    _, owned = apply(live, yours, owned, YOU)
    entries = managed_fields.encode(owned)
    written = {manager: entry for manager, entry in owned.items() if entry.fields}
    encoded = encode_json(entries)
    assert managed_fields.decode(encoded) == managed_fields.decode(msgspec.json.decode(encoded)) == written


def test_many_who_update_become_ancient() -> None:
    live: dict[str, Any] = {}
    owned: Managers = {}
    for index in range(30):
        new = {"spec": {"map": {f"k{number}": "v" for number in range(index + 1)}}}
        manager = Manager(f"editor-{index:02}", "Update", "v1")
        owned = managed_fields.update(live, new, owned, manager, NODE, f"2026-01-01T00:00:{index:02}Z")
        live = new
    assert len(owned) <= managed_fields.MAX_UPDATERS
    ancient = owned[Manager(managed_fields.ANCIENT, "Update", "v1")].fields
    assert ("f:spec", "f:map", "f:k0") in fields.paths(ancient)
    assert Manager("editor-29", "Update", "v1") in owned


def test_first_apply_on_unmanaged_meets_its_makers() -> None:
    live = {"spec": {"a": "p"}}
    with pytest.raises(Conflict, match=r'conflict with "before-first-apply" using v1: \.spec\.a'):
        apply(live, {"spec": {"a": "q"}}, {}, force=False)


def test_kubectl_takes_over_nothing_of_deep_annotation() -> None:
    nested = '{"a":' * 5000 + "1" + "}" * 5000
    live = {"metadata": {"annotations": {managed_fields.LAST_APPLIED: nested}}, "spec": {"a": "p"}}
    kubectl = Manager(managed_fields.KUBECTL, "Apply", "v1")
    new, owners = managed_fields.apply(live, {"spec": {"b": "q"}}, {}, kubectl, NODE, "now", force=False)
    assert new["spec"] == {"a": "p", "b": "q"}
    assert owners[kubectl].fields == fields_of({"spec": {"b": "q"}}, NODE, containers=False)
