"""Go templates in a tenant's workflow: what they may contain, so that they add no lines. Pure.

Tinkerbell parses the output of templates as YAML. An added line could be a task on any machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_FUNCTIONS = frozenset(
    [
        "and",
        "contains",
        "eq",
        "formatPartition",
        "ge",
        "gt",
        "hasPrefix",
        "hasSuffix",
        "index",
        "le",
        "len",
        "lt",
        "ne",
        "not",
        "or",
        "print",
        "printf",
    ]
)
"""Functions that never output a line break. Tinkerbell has functions that do, and may add more."""

_OPEN = frozenset(("if", "range", "with"))
_WORDS = _FUNCTIONS | _OPEN | {"else", "end", "true", "false", "nil"}

_PRINTF = "printf with its format"
ALLOWED = ", ".join(("fields of Hardware without userData", *sorted(_WORDS - {"printf"} | {_PRINTF})))
"""For messages."""

_MAKES_LINES = re.compile("[\\\\`\r\x85\u2028\u2029]|%[^%A-Za-z]*c|(?i:(user|vendor)_?data)")
"""Constants with escaped or real line breaks, characters by number, and tenants' data in Hardware."""

_TOKEN = re.compile(
    r"""[^"'`}]+ | "[^"\\]*(?:\\.[^"\\]*)*" | '[^'\\]*(?:\\.[^'\\]*)*' | `[^`]*` | \}(?!\})""", re.DOTALL | re.VERBOSE
)
"""Between the braces of a template: those in constants are ignored. No group is possessive: Python 3.11 before 3.11.5
matches these wrongly."""

_CONSTANT = re.compile('"[^"]*"')
_WORD = re.compile(r"(?<![\w.$])[^\W\d]\w*")
_COMMENT = re.compile(r"-?\s*/\*")
_FREE_FORMAT = re.compile(r'\bprintf\b(?!\s+"")')


def refused(text: str) -> str:
    """The first part of a text's templates that is not allowed; empty if all are."""
    depth = 0
    for template in _templates(text):
        if refused_part := _refused(template):
            return refused_part
        keyword = next(iter(_words(template)), "")
        depth += (keyword in _OPEN) - (keyword == "end")
        if depth < 0:
            return "end without a beginning in the same field"
    return "if, range or with without end" if depth else ""


def _refused(template: str) -> str:
    if match := _MAKES_LINES.search(template):
        return repr(match[0])
    if _COMMENT.match(template):
        return "a comment"  # quotes in it begin no constants
    code = _CONSTANT.sub('""', template)
    if "'" in code:
        return "a constant in '"  # in YAML, they are doubled
    if unknown := [word for word in _words(template) if word not in _WORDS]:
        return unknown[0]
    return "printf with a format that is not a constant" if _FREE_FORMAT.search(code) else ""


def _words(template: str) -> list[str]:
    """Keywords and functions; fields and variables are none."""
    return _WORD.findall(_CONSTANT.sub('""', template))


def _templates(text: str) -> Iterator[str]:
    """The content of braces, parsed as Go templates do. Braces without end count as a constant of several lines."""
    begin = text.find("{{")
    while begin >= 0:
        end = begin = begin + 2
        while token := _TOKEN.match(text, end):
            end = token.end()
        yield text[begin:end] if text.startswith("}}", end) else "`"
        begin = text.find("{{", end)
