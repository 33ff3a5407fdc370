"""Masks of texts in a support bundle: values that are known to be private, and what looks like a credential."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from espalier.cli.clusters.support import patterns
from espalier.cli.clusters.support.patterns import HIDDEN
from espalier.cli.clusters.support.values import LEAST, forms, stands_out

_LONGEST_LINE = 4096
"""Characters of a line of text: the rest of a longer line is left out."""
_WORD = re.compile(rf"[A-Za-z0-9_+\-]{{{LEAST},}}")
_NAME = re.compile(r"[a-z0-9.\-]{1,253}")
"""A name of an object, such as that of an Event, which has the form of a token of kubeadm."""
_STANDING_OUT = 8
"""Characters of a word that is private because it stands out: shorter ones are names and versions, too."""
_MOST_PARTS = 24
"""Parts of a word with hyphens whose combinations are looked for."""
_MOST_WORDS = 100_000
"""Words of a text that are remembered with their masks: logs repeat theirs."""


class Masks:
    """Hides private values in texts: `values` wherever they are, words of `private` if they look like no plain word.

    What is in `public` (names of objects, versions) stays. Other forms of a value, such as base64, are hidden as well.
    """

    def __init__(self, *, values: Iterable[str] = (), private: Iterable[str] = (), public: Iterable[str] = ()) -> None:
        names = set(public)
        self._names = {name for name in names if _NAME.fullmatch(name)}
        self._shown = names | {part for name in names for part in re.split("[/:@]", name)}
        self._shown |= {word for text in self._shown for word in _WORD.findall(text)}
        self._words: set[str] = set()
        self._standing_out: set[str] = set()
        self._masked: dict[str, str] = {}
        phrases: set[str] = set()
        for value in values:
            self._add(value, phrases)
        for text in private:
            self._standing_out |= {word for word in _WORD.findall(text) if _stands_out(word)} - self._shown
        self._phrases = sorted(phrases, key=len, reverse=True)
        self._starts = {phrase[:LEAST] for phrase in phrases}

    def text(self, text: str) -> str:
        """The text with what is private replaced by `(hidden)`, and long lines cut."""
        if text in self._names:
            return text
        for phrase in self._phrases_that_may_be_in(text):
            text = text.replace(phrase, HIDDEN)
        return "\n".join(self._line(line) for line in patterns.of_lines(text).split("\n"))

    def _phrases_that_may_be_in(self, text: str) -> list[str]:
        """Those whose first characters are, in one run over the text: there may be thousands of phrases."""
        windows = map("".join, zip(*(text[at:] for at in range(LEAST)), strict=False))
        starts = set(filter(self._starts.__contains__, windows))
        return [phrase for phrase in self._phrases if phrase[:LEAST] in starts]

    def _line(self, text: str) -> str:
        if len(text) > _LONGEST_LINE:
            text = f"{text[:_LONGEST_LINE]} (and {len(text) - _LONGEST_LINE} characters)"
        text = _WORD.sub(self._word, patterns.of_a_line(text))
        return patterns.encoded(text)

    def _word(self, match: re.Match[str]) -> str:
        word = match[0]
        if (masked := self._masked.get(word)) is None:
            if len(self._masked) >= _MOST_WORDS:
                self._masked.clear()
            masked = self._masked[word] = self._without_values(word)
        return masked

    def _without_values(self, word: str) -> str:
        if word in self._shown:
            return word
        if word in self._words or word in self._standing_out:
            return HIDDEN
        for start, end in _runs(word):
            if word[start:end] in self._words:
                return f"{self._without_values(word[:start])}{HIDDEN}{self._without_values(word[end:])}"
        return word

    def _add(self, value: str, phrases: set[str]) -> None:
        if value in self._shown or patterns.encoded(value) == HIDDEN:
            return
        for form in forms(value):
            if _WORD.fullmatch(form):
                self._words.add(form)
            else:
                phrases.add(form)


def _runs(word: str) -> Iterator[tuple[int, int]]:
    """The ends of the parts between hyphens in a word, and their combinations, the longest of each start first."""
    cuts = [match.start() for match in re.finditer(r"[_+\-]", word)][:_MOST_PARTS]
    if cuts:
        ends = [len(word), *reversed(cuts)]
        for start in (0, *(cut + 1 for cut in cuts)):
            for end in ends:
                if end - start >= LEAST:
                    yield start, end


def _stands_out(word: str) -> bool:
    return len(word) >= _STANDING_OUT and stands_out(word)
