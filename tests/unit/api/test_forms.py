"""The words of a message about a name allow exactly what its rule allows."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import pytest

from espalier.api.kinds import Rule
from espalier.api.meta import Part
from espalier.api.text import forms, patterns
from espalier.api.text.forms import Form
from espalier.clusters.observe.rules import content
from espalier.providers.kinds import KINDS

SIGNS = {"dashes": "-", "underscores": "_", "dots": ".", "slashes": "/"}
_LENGTHS = r"(?:(?:at most|(?P<least>\d+) to) (?P<most>\d+) )?"
_WORDS = re.compile(
    rf"{_LENGTHS}(?P<lower>lower-case )?letters, digits(?P<signs>(?:(?:,| and) (?:{'|'.join(SIGNS)}))+)"
    r"(?:, beginning and ending with (?P<both>[a-z ]+))?"
    r"(?:, beginning with (?P<first>[a-z ]+?))?(?:,? and ending with (?P<last>[a-z ]+))?"
)
TAILS = (", or nothing", "; a domain and a slash may precede")
"""Ends of texts about labels. Names with a domain are not generated."""

ELSEWHERE = ("absolute paths of", "with dots between them")
"""Parts of texts about more than one name."""


def allows(words: str, text: str) -> bool:
    """True if a reader of these words takes a text for allowed."""
    if not text:
        return words.endswith(", or nothing")
    match = _WORDS.fullmatch(re.sub("|".join(map(re.escape, TAILS)), "", words))
    assert match, f"no reader understands {words!r}"
    letters = "abcdefghijklmnopqrstuvwxyz" + ("" if match["lower"] else "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
    sets = {"a letter": letters, "a letter or digit": letters + "0123456789", "a letter or underscore": letters + "_"}
    inside = (
        letters + "0123456789" + "".join(SIGNS[sign] for sign in re.findall("[a-z]+", match["signs"]) if sign in SIGNS)
    )
    first, last = (sets[match["both"] or match[end] or ""] if match["both"] or match[end] else inside for end in ENDS)
    most = int(match["most"] or len(text))
    return (
        int(match["least"] or 1) <= len(text) <= most
        and set(text) <= set(inside)
        and text[0] in first
        and text[-1] in last
    )


ENDS = ("first", "last")


def texts(seed: str) -> Iterator[str]:
    """Names, and what is nearly one."""
    chance = random.Random(seed)
    yield ""
    for length in (1, 2, 3, 5, 16, 17, 32, 33, 35, 36, 63, 64, 65, 128, 129):
        yield "a" * length
        for _ in range(20):
            alphabet = chance.choice(["az09", "azAZ09", "az09-", "azAZ09-_.", "azAZ09-_./", "az09-_.é +"])
            yield "".join(chance.choice(alphabet) for _ in range(length))


def subclasses(cls: type[Part]) -> Iterator[type[Part]]:
    for subclass in cls.__subclasses__():
        yield subclass
        yield from subclasses(subclass)


def rules() -> Iterator[tuple[str, str]]:
    """Words and pattern of each rule of our kinds that tells of letters."""
    assert KINDS, "their modules are imported"
    for cls in subclasses(Part):
        for rule in getattr(cls, "validations", ()):
            if (
                isinstance(rule, Rule)
                and "letters" in rule.allowed
                and rule.allowed != forms.CLUSTER_NAME.words
                and not any(place in rule.allowed for place in ELSEWHERE)
            ):
                (pattern,) = set(re.findall(r"matches\('([^']+)'\)", rule.rule))
                yield rule.allowed, pattern


RULES = sorted(set(rules()))


@pytest.mark.parametrize(("words", "pattern"), RULES, ids=lambda item: item[:40])
def test_a_rule_refuses_what_its_words_forbid(words: str, pattern: str) -> None:
    differ = [text for text in texts(words) if "/" not in text or "domain" not in words]
    assert [text for text in differ if allows(words, text) != bool(re.fullmatch(pattern.strip("^$"), text))] == []


def test_the_rules_of_webhooks_too() -> None:
    for words, pattern in (
        (patterns.LABEL_VALUES, patterns.LABEL_VALUE),
        (patterns.LABEL_NAMES, patterns.LABEL_NAME),
        (forms.DNS_LABELS.words, forms.DNS_LABELS.pattern),
    ):
        test_a_rule_refuses_what_its_words_forbid(words, pattern)


def test_names_of_clusters_too() -> None:
    """Their length has messages of its own."""
    words = forms.CLUSTER_NAME.words
    assert [text for text in texts(words) if allows(words, text) == bool([*content.name_violations(text)])] == []


def test_there_are_such_rules() -> None:
    assert len(RULES) >= 10
    assert allows("at most 5 letters, digits and dashes", "Ab-1-")
    assert not allows(Form("-", longest=5).words, "Ab-1-")
