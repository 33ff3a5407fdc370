"""Of an object that keeps its rules, what a write leaves alone is asked about its change alone: all else was found."""

from __future__ import annotations

from typing import Any

from hypothesis import assume, given
from hypothesis import strategies as st

from espalier.apiserver.fields import patches
from espalier.apiserver.schema import rules
from espalier.kube.server_side_apply.structure import node_of

RULES = rules.VALIDATIONS
COUNT = {"type": "integer"}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            RULES: [{"rule": "!has(self.less) || !has(self.more) || self.less < self.more", "message": "more is more"}],
            "properties": {
                "less": {**COUNT, RULES: [{"rule": "self < 5"}]},
                "more": {**COUNT, RULES: [{"rule": "self > 2", "messageExpression": "string(oldSelf) + ' before'"}]},
                "grows": {**COUNT, RULES: [{"rule": "self > oldSelf"}]},
                "map": {"type": "object", "additionalProperties": {**COUNT, RULES: [{"rule": "self != 3"}]}},
                "list": {"type": "array", "items": {**COUNT, RULES: [{"rule": "self != 3"}]}},
                "keyed": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["id"],
                    "items": {
                        "type": "object",
                        "properties": {"id": COUNT, "n": {**COUNT, RULES: [{"rule": "self >= oldSelf"}]}},
                        RULES: [{"rule": "!has(self.n) || self.n != 3"}],
                    },
                },
            },
        },
        "status": {"type": "object", "properties": {"n": {**COUNT, RULES: [{"rule": "self != 3"}]}}},
    },
}
PLACE, NODE = rules.rule_node_of(SCHEMA), node_of(SCHEMA)

NUMBERS = st.integers(0, 6)
ITEMS = st.dictionaries(NUMBERS, NUMBERS, max_size=3).map(
    lambda numbers: [{"id": id_, "n": number} for id_, number in numbers.items()]
)
SPECS = st.fixed_dictionaries(
    {},
    optional={
        "less": NUMBERS,
        "more": NUMBERS,
        "grows": NUMBERS,
        "map": st.dictionaries(st.sampled_from("ab"), NUMBERS),
        "list": st.lists(NUMBERS, max_size=3),
        "keyed": ITEMS,
    },
)
OBJECTS = st.fixed_dictionaries({}, optional={"spec": SPECS, "status": st.fixed_dictionaries({"n": NUMBERS})})


@given(OBJECTS, OBJECTS)
def test_unchanged_object_breaks_rules_that_it_broke(old: dict[str, Any], patch: dict[str, Any]) -> None:
    assume(not list(rules.broken(PLACE, old, None, NODE)))
    new = patches.merge(old, patch)
    short = list(rules.broken(PLACE, new, old, NODE, settled=True))
    assert short == list(rules.broken(PLACE, new, old, NODE))


def test_it_is_asked_only_about_its_change() -> None:
    spec = {"less": 9, "grows": 1}
    broken = list(rules.broken(PLACE, {"spec": spec, "status": {"n": 3}}, {"spec": spec}, NODE, settled=True))
    assert [rule.cause.field for rule in broken] == ["spec.grows", "status.n"]
