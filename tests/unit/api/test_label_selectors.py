"""Label selectors match as in Kubernetes."""

from __future__ import annotations

import pytest

from espalier.api.label_selectors import LabelSelector, LabelSelectorRequirement


@pytest.mark.parametrize(
    ("labels", "is_selected"),
    [
        ({"role": "worker", "zone": "b"}, True),
        ({"role": "worker", "zone": "c"}, False),
        ({"role": "worker"}, False),
        ({"zone": "a"}, False),
    ],
)
def test_all_that_a_selector_asks_for_must_match(labels: dict[str, str], is_selected: bool) -> None:
    zone = LabelSelectorRequirement(key="zone", operator="In", values=["a", "b"])
    assert LabelSelector(match_labels={"role": "worker"}, match_expressions=[zone]).selects(labels) is is_selected


@pytest.mark.parametrize(
    ("operator", "values", "absent", "present"),
    [
        ("In", ["a"], False, True),
        ("NotIn", ["a"], True, False),
        ("NotIn", ["b"], True, True),
        ("Exists", [], False, True),
        ("DoesNotExist", [], True, False),
    ],
)
def test_operators_tell_absent_labels_apart(operator: str, values: list[str], absent: bool, present: bool) -> None:
    requirement = LabelSelectorRequirement(key="zone", operator=operator, values=values)
    assert (requirement.holds({}), requirement.holds({"zone": "a"})) == (absent, present)
