from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET

from espalier.api.text import paths

names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]*", fullmatch=True)
keys = st.from_regex(r"[a-z0-9]+(\.[a-z0-9]+)+(/[a-z-]+)?", fullmatch=True).filter(lambda key: not key.isdecimal())
steps = st.lists(names | keys | st.integers(min_value=0, max_value=999), max_size=6)


def test_paths_are_written_as_kubernetes_writes_them() -> None:
    assert paths.render(["spec", "workerNodeGroupConfigurations", 0, "count"]) == (
        "spec.workerNodeGroupConfigurations[0].count"
    )
    assert paths.render(["metadata", "labels", "example.com/team"]) == "metadata.labels[example.com/team]"
    assert paths.render([]) == ""


@pytest.mark.soak
@given(steps)
def test_a_written_path_reads_back_as_itself(path: list[paths.PathStep]) -> None:
    assert list(paths.parse(paths.render(path))) == path


@example(["]."])
@example(["].a", "b]["])
@given(st.lists(st.text(max_size=8) | st.integers(min_value=0, max_value=9), max_size=4))
def test_whatever_the_keys_the_path_can_be_read(path: list[paths.PathStep]) -> None:
    text = paths.render(path)
    assert paths.render(paths.parse(text)).count("[") <= text.count("[")


@pytest.mark.parametrize("text", ["a[", "a..b", "[a", "a]b"])
def test_text_that_is_no_path_is_refused_with_place(text: str) -> None:
    with pytest.raises(ValueError, match="see character"):
        paths.parse(text)


def test_trees_differ_by_values_and_complete_lists() -> None:
    before = {"a": {"b": 1, "c": 2}, "d": [1], "e": 0}
    after = {"a": {"b": 1, "f": 3}, "d": [1, 2], "e": 0}
    assert list(paths.differences(before, after, ("spec",))) == [
        (("spec", "a", "c"), 2, None),
        (("spec", "a", "f"), None, 3),
        (("spec", "d"), [1], [1, 2]),
    ]


def test_differences_tell_null_from_absent_if_asked() -> None:
    changes = paths.differences({"a": {"b": None}}, {"a": {}}, missing=UNSET)
    assert list(changes) == [(("a", "b"), None, UNSET)]
    assert not list(paths.differences({"a": {"b": None}}, {"a": {}}))
