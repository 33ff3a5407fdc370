"""Variables in components of providers."""

from __future__ import annotations

import pytest

from espalier.api.trees import yaml_trees
from espalier.management.providers.variables import Substitution, Unset


def substituted(text: str, **values: str) -> object:
    substitution = Substitution(values)
    (tree,) = yaml_trees.trees(substitution.text(text), "a.yaml")
    return substitution.tree(tree)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("a: ${N}", {"N": "3"}, 3),
        ("a: '${N}'", {"N": "3"}, "3"),
        ("a: ${N:=7}", {}, 7),
        ("a: ${N:-7}", {}, 7),
        ("a: ${N=7}", {"N": ""}, 7),
        ("a: --level=${N:=0}", {"N": "5"}, "--level=5"),
        ("a: ${N:=}", {}, None),
        ('a: ${N=""}', {}, ""),
        ("a: '${N:=it''s}'", {}, "it's"),
        ("a: '${N}'", {"N": "it's: [a]\nb"}, "it's: [a]\nb"),
        ("a: ${N}", {"N": "x: y # z"}, "x: y # z"),
        ("a: ${N} and ${M}", {"N": "1: 2", "M": "3: 4"}, "1: 2 and 3: 4"),
        ("a: b # ${N}", {"N": "c"}, "b"),
        ("# ${N}, ${N/a/b}\na: b", {}, "b"),
        ("a: $N ${", {"N": "c"}, "$N ${"),
        ("a: $${N} ${N}", {"N": "c"}, "${N} c"),
        ("a: $${U:=x}", {}, "${U:=x}"),
        ("a: $$(N) $$ $$$ $$$$", {}, "$(N) $ $$ $$"),
        ("a: $$${N} $$$$${N}", {"N": "c"}, "$c $$c"),
        ("a: ${N}", {"N": "$$"}, "$$"),
    ],
)
def test_variables_get_their_values(text: str, values: dict[str, str], expected: object) -> None:
    """A value is never more than a part of one string, and a simple one is what it would be in its place."""
    assert substituted(text, **values) == {"a": expected}


def test_variables_are_substituted_in_keys_and_lists() -> None:
    assert substituted("${K}: ['${V}']", K="a: b", V="c: d") == {"a: b": ["c: d"]}


def test_all_variables_without_a_value_are_named() -> None:
    with pytest.raises(Unset) as error:
        substituted("a: ${B} ${B}\nc: ${D}\ne: ${F/x/y}\ng: ${B:=}")
    assert str(error.value).splitlines() == [
        "${B}: set variable B in the environment",
        "${D}: set variable D in the environment",
        "${F/x/y}: allowed are ${NAME} and ${NAME:=value}",
    ]
