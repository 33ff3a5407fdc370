"""Every regular expression in a schema of ours has words, in which examples are what it allows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import pytest

from espalier.api.definitions.crd import crd_of
from espalier.api.eksa.parts import kubelet
from espalier.api.gardener import GARDEN_KINDS, SEED_KINDS
from espalier.api.kinds import KubeObject
from espalier.api.manifests.schema import Part
from espalier.api.text import patterns
from espalier.providers.kinds import CLUSTER_API_KINDS, EKSA_KINDS

KINDS: tuple[type[KubeObject], ...] = tuple(
    dict.fromkeys((*EKSA_KINDS, *CLUSTER_API_KINDS, *GARDEN_KINDS, *SEED_KINDS)),
)
EXAMPLE = re.compile(r"such as (.+)$")
SIGNS = re.compile(r"[\\^$]|[\[{(|]")
"""Signs of regular expressions that no words have."""


def patterns_in(schema: Any) -> Iterator[str]:
    """The patterns of a schema and of what is within it."""
    if isinstance(schema, dict):
        if isinstance(schema.get("pattern"), str):
            yield schema["pattern"]
        for part in schema.values():
            yield from patterns_in(part)
    if isinstance(schema, list):
        for part in schema:
            yield from patterns_in(part)


DECLARED = sorted({*patterns_in([crd_of(kind) for kind in KINDS]), *patterns_in(kubelet.SCHEMA)})


def is_allowed(pattern: str, text: str) -> bool:
    """True if a validator of JSON schemas takes it, as an API server does."""
    schema = {"type": "string", "pattern": pattern}
    return jsonschema_rs.Draft202012Validator(schema, pattern_options=jsonschema_rs.RegexOptions()).is_valid(text)


@pytest.mark.parametrize("pattern", DECLARED)
def test_a_pattern_of_a_kind_has_words(pattern: str) -> None:
    words = patterns.words(pattern)
    assert words is not None, "declare it in api/text/patterns.py"
    assert not SIGNS.search(words)
    assert is_allowed(pattern, "") == any(text in words for text in ("nothing", "one line of", "a path", "base64")) or (
        "not empty" in words
    )


@pytest.mark.parametrize("pattern", [item for item in DECLARED if "such as" in (patterns.words(item) or "")])
def test_examples_in_the_words_are_allowed(pattern: str) -> None:
    match = EXAMPLE.search(patterns.words(pattern) or "")
    assert match is not None
    for example in match[1].split(" or "):
        assert is_allowed(pattern, example), example


def test_a_part_of_a_spec_has_the_words_as_well() -> None:
    (violation,) = Part(kubelet.SCHEMA).violations({"nodeStatusUpdateFrequency": "10 s"}, "spec")
    assert violation.allowed == "a duration such as 90s or 1h30m"
