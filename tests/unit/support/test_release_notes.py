"""Changes of release notes that name words of our code."""

from __future__ import annotations

from tests.support.release_notes import changes, vocabulary

NOTES = """
# v2
## Deprecation
- The flag `--drain-slowly` is gone.
- The field `spec.replicasAllowed` of Widget means something else.
- The kubelet is faster.
Text with `replicasAllowed`, which is no item.
## Feature
* A condition WidgetReady has reason TooManyWidgets.
# v1
- `replicasAllowed` came.
"""
WORDS = {"replicasAllowed": {"a.py"}, "drain-slowly": {"b.py"}, "TooManyWidgets": {"b.py", "a.py"}, "kubelet": {"c.py"}}


def test_items_that_name_our_words_are_found() -> None:
    results = {change.line: dict(change.words) for change in changes(NOTES, WORDS)}
    assert results == {
        4: {"drain-slowly": ("b.py",)},
        5: {"replicasAllowed": ("a.py",)},
        9: {"TooManyWidgets": ("a.py", "b.py")},
        11: {"replicasAllowed": ("a.py",)},
    }


def test_a_heading_bounds_what_is_looked_at() -> None:
    assert [change.line for change in changes(NOTES, WORDS, "v2")] == [4, 5, 9]
    assert [change.line for change in changes(NOTES, WORDS, "Deprecation")] == [4, 5]
    assert list(changes(NOTES, WORDS, "v3")) == []


def test_words_of_our_code_are_texts_and_fields() -> None:
    words = vocabulary()
    assert "upgrades/node/cluster_configuration.py" in words["NodeLocalCRISocket"]
    assert "workerNodeGroupConfigurations" in words
    assert "api/eksa/parts/kubelet.py" in words["defaultPodSysctls"]
