from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.runtime.caches import selectors

LABELS = {"app": "web", "tier": "front", "example.com/team": "a", "empty": ""}


@pytest.mark.parametrize(
    ("text", "selected"),
    [
        ("", True),
        ("app=web", True),
        ("app==web", True),
        (" app = web , tier=front ", True),
        ("app=web,tier=back", False),
        ("app!=web", False),
        ("missing!=anything", True),
        ("empty=", True),
        ("app in (db, web)", True),
        ("app in (db)", False),
        ("app notin (db)", True),
        ("missing notin (x)", True),
        ("example.com/team", True),
        ("!example.com/team", False),
        ("!missing,app", True),
        ("inner", False),
    ],
)
def test_selectors_select_as_kubectl_does(text: str, selected: bool) -> None:
    assert selectors.parse(text)(LABELS) is selected


@pytest.mark.parametrize("text", ["app=web tier=front", "app in web", "=web", "app in (a", "a,,b", "a=b=c"])
def test_an_invalid_selector_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid label selector"):
        selectors.parse(text)


@given(st.dictionaries(st.from_regex("[a-z]{1,5}", fullmatch=True), st.from_regex("[a-z0-9]{0,5}", fullmatch=True)))
def test_a_selector_made_of_labels_selects_them(labels: dict[str, str]) -> None:
    assert selectors.parse(",".join(f"{key}={value}" for key, value in labels.items()))(labels)
