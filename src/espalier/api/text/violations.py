"""Violations as messages: the field, what was found, what is allowed, what to do, and where."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from espalier.api.text import paths
from espalier.api.text.printable import quoted
from espalier.api.text.redaction import HIDDEN, is_secret

LONGEST_FOUND = 60
_LONGEST_FIELD, _LONGEST_LIST, _LONGEST_MESSAGE = 300, 200, 1500
"""Lengths of a violation's parts in a sentence. All of them can contain user input: fields as keys of maps, messages
as names of objects."""


class Violation(msgspec.Struct, frozen=True):
    """An invalid field. `found` and `allowed` are for people; `message` also says what to do."""

    field: str
    found: str
    allowed: str
    message: str

    def __str__(self) -> str:
        return f"{quoted(self.field, _LONGEST_FIELD)}: {self.sentence}" if self.field else self.sentence

    @property
    def sentence(self) -> str:
        """The message with what was found and is allowed: one line, escaped for terminals and limited in length."""
        parts = [quoted(self.message, _LONGEST_MESSAGE)]
        if self.found:
            parts.append(f"found {HIDDEN if _is_secret(self.field) else quoted(self.found, _LONGEST_LIST)}")
        if self.allowed:
            parts.append(f"allowed: {quoted(self.allowed, _LONGEST_MESSAGE)}")
        return "; ".join(parts)

    @classmethod
    def of(cls, field: str, sentence: str) -> Violation:
        """The violation of such a sentence, as API servers return it."""
        parts = _SENTENCE.fullmatch(sentence)
        return (
            cls(field, parts["found"] or "", parts["allowed"] or "", parts["message"])
            if parts
            else cls(field, "", "", sentence)
        )


_SENTENCE = re.compile(r"(?P<message>.*?)(?:; found (?P<found>.*?))?(?:; allowed: (?P<allowed>.*))?", re.DOTALL)


class Problem(msgspec.Struct, frozen=True):
    """A problem in a manifest, with its place. Lines and columns count from 1; 0 if unknown."""

    source: str
    violation: Violation
    line: int = 0
    column: int = 0
    subject: str = ""
    """The object, as `Kind name`, if the file does not identify it."""

    def __str__(self) -> str:
        place = ":".join(str(part) for part in (self.source, self.line, self.column) if part)
        return ": ".join(part for part in (place, self.subject, str(self.violation)) if part)


class ManifestError(Exception):
    """Unusable manifests; `problems` are all problems that were found."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)


def _is_secret(field: str) -> bool:
    return is_secret(paths.parsed(field) or (field,))  # the whole text if it is not a path


def nearest_name(name: str, known: Sequence[str]) -> str | None:
    """The known name most similar to `name`, regardless of case; None if none is similar."""
    import difflib  # noqa: PLC0415  what is right needs it never

    by_lower = {candidate.lower(): candidate for candidate in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7)
    return by_lower[near[0]] if near else None


def shown(value: Any) -> str:
    """A value as written, truncated if it is long."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_FOUND else text[: LONGEST_FOUND - 1] + "…"
