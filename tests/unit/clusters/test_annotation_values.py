"""Messages for people who misspell the value of an annotation."""

from __future__ import annotations

import pytest

from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.meta import Tree
from tests.support.objects.observed_clusters import datacenter, example
from tests.support.servers.admission_reviews import ask


def annotated(**annotations: str) -> Tree:
    tree = example()[0]
    tree["metadata"]["annotations"] = annotations
    return tree


@pytest.mark.parametrize(
    ("annotation", "value", "warning"),
    [
        (
            metadata_keys.DRIFT_ANNOTATION,
            "fix",
            "metadata.annotations[anywhere.eks.amazonaws.com/drift]: found fix, "
            "allowed are report, correct, correct-machines",
        ),
        (
            metadata_keys.PATCHES_ANNOTATION,
            "short-lived-tokens,long-lived-bugs",
            "metadata.annotations[anywhere.eks.amazonaws.com/patches]: this manager has no patch long-lived-bugs; "
            "it has short-lived-tokens",
        ),
    ],
)
def test_an_unknown_annotation_value_is_warned_of(annotation: str, value: str, warning: str) -> None:
    assert ask(annotated(**{annotation: value}), None, datacenter()).warnings == (warning,)
    assert ask(annotated(**{annotation: value}), annotated(), datacenter()).warnings == (warning,)


def test_known_annotation_values_give_no_warning() -> None:
    wish = {metadata_keys.DRIFT_ANNOTATION: "correct", metadata_keys.PATCHES_ANNOTATION: "short-lived-tokens"}
    assert ask(annotated(**wish), None, datacenter()).warnings == ()
