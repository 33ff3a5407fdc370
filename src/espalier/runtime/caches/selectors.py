"""Label selectors as in kubectl: `a=b`, `a!=b`, `a in (b,c)`, `a notin (b,c)`, `a`, `!a`, separated by commas."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

Matches = Callable[[Mapping[str, str]], bool]

_TERM = re.compile(
    r"""\s*(?:
        (?P<absent>!)\s*(?P<no>[^\s=!,()]+)
      | (?P<key>[^\s=!,()]+)(?:
            \s*(?P<operator>==|=|!=)\s*(?P<value>[^\s=!,()]*)
          | \s+(?P<set>in|notin)\s*\((?P<values>[^()]*)\)
        )?
    )\s*(?:,|$)""",
    re.VERBOSE,
)


@lru_cache(maxsize=1024)
def parse(text: str) -> Matches:
    """Parse a selector. Raises `ValueError` with the position of the error. An empty one selects everything."""
    terms: list[Matches] = []
    position = 0
    while position < len(text.rstrip()):
        match = _TERM.match(text, position)
        if match is None:
            raise ValueError(f"invalid label selector {text!r}: cannot parse {text[position:]!r}")
        terms.append(_term(match))
        position = match.end()
    if len(terms) == 1:
        return terms[0]
    return lambda labels: all(term(labels) for term in terms)


def _term(match: re.Match[str]) -> Matches:
    if match["absent"]:
        absent = match["no"]
        return lambda labels: absent not in labels
    key = match["key"]
    if match["set"]:
        values = frozenset(value.strip() for value in match["values"].split(","))
        if match["set"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if match["operator"]:
        value = match["value"]
        if match["operator"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    return lambda labels: key in labels
