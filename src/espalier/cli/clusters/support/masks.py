"""Masks of texts in a support bundle: values that are known to be private, and what looks like a credential."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator

HIDDEN = "(hidden)"

_LEAST = 8
"""Characters of a private word that is looked for in texts: shorter ones occur everywhere."""
_LONGEST = 4096
"""Characters of a secret that is looked for, and of a line of text: the rest of a longer line is left out."""
_WORD = re.compile(rf"[A-Za-z0-9_+\-]{{{_LEAST},}}")
_PUBLIC = re.compile(
    r"(?i)true|false|null|none|[0-9._:+\-]+z?|v?\d+(\.\d+)+[\w.\-+]*|\d{4}-\d\d-\d\d[t0-9:.z+\-]*|sha256"
    r"|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{8}"
)
"""Words that tell nothing: numbers, versions, times, uids."""
_NAME = (
    r"[\w.\-]{0,60}(?:passw|passphrase|token|secret|credential|private[_\-]?key|api[_\-]?key|access[_\-]?key"
    r"|authorization)[\w.\-]{0,60}"
)
_KEYWORDS = ("passw", "passphrase", "token", "secret", "credential", "key", "authorization")
"""In lower case, one of these is in every name of `_NAME`."""
_HARMLESS = re.compile(r"(?i)(name|namespace|ref|ttl|expiration|timeout)$")
_ASSIGNED = re.compile(
    rf"(?i)(?P<name>{_NAME})(?P<sign>\\*[\"']?\s*[:=]\s*(?:(?:bearer|basic)\s+)?)"
    r"(?:(?P<quote>\\*[\"'])(?P<quoted>.*?)(?:(?<!\\)(?P=quote)|$)|(?P<value>[^\s\"'\\,;&}\]]+))"
)
_FLAG = re.compile(rf"(?i)(--?{_NAME} +)(?!-)(\S+)")
_SCHEME = re.compile(r"(?i)\b(bearer|basic) (?!token\b|auth\b)[A-Za-z0-9._~+/=\-]{6,}")
_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
_PEM_END = re.compile(r"\A(?:(?!.*-----BEGIN )[^\n]*\n){1,99}?[^\n]*-----END [A-Z0-9 ]+-----")
"""The end of a PEM block whose beginning is in what was cut off before."""
_JWT = re.compile(r"\bey[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{4,}(\.[A-Za-z0-9_\-]*)?")
_USER_OF_URL = re.compile(r"(?<=://)[^/\s@\"']+@")
_BOOTSTRAP_TOKEN = re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b")
_AWS_KEY = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b")
_LONG = re.compile(r"(?<!sha256:)\b(?=[A-Za-z0-9+/=_\-]*\d)[A-Za-z0-9+/=_\-]{40,}")


class Masks:
    """Hides private values in texts: `secrets` wherever they are, `private` if they look like no plain word.

    What is in `public` (names of objects, versions) stays. Base64 of a secret is hidden as well.
    """

    def __init__(self, *, secrets: Iterable[str] = (), private: Iterable[str] = (), public: Iterable[str] = ()) -> None:
        shown = set(public)
        shown |= {word for text in shown for word in _WORD.findall(text)}
        self._words: set[str] = set()
        self._phrases: set[str] = set()
        for value in secrets:
            self._add_secret(value, shown)
        for value in private:
            self._words |= {word for word in _WORD.findall(value) if _stands_out(word)} - shown
        self._ordered: list[str] = []

    def text(self, text: str) -> str:
        """The text with what is private replaced by `(hidden)`, and long lines cut."""
        if len(self._ordered) != len(self._phrases):
            self._ordered = sorted(self._phrases, key=len, reverse=True)
        text = _PEM_END.sub(HIDDEN, text)
        for phrase in self._ordered:
            if phrase in text:
                text = text.replace(phrase, HIDDEN)
        return "\n".join(self._line(line) for line in _PEM.sub(HIDDEN, text).split("\n"))

    def _line(self, text: str) -> str:
        if len(text) > _LONGEST:
            text = f"{text[:_LONGEST]} (and {len(text) - _LONGEST} characters)"
        lowered = text.lower()
        if any(word in lowered for word in _KEYWORDS):  # few lines have one, and these patterns take their time
            text = _ASSIGNED.sub(_assigned, text)
            text = _FLAG.sub(rf"\1{HIDDEN}", text)
        if "bearer " in lowered or "basic " in lowered:
            text = _SCHEME.sub(rf"\1 {HIDDEN}", text)
        if "@" in text:
            text = _USER_OF_URL.sub(f"{HIDDEN}@", text)
        for pattern in (_JWT, _BOOTSTRAP_TOKEN, _AWS_KEY):
            text = pattern.sub(HIDDEN, text)
        text = _WORD.sub(lambda word: HIDDEN if word[0] in self._words else word[0], text)
        return _LONG.sub(_long, text)

    def _add_secret(self, value: str, shown: set[str]) -> None:
        lines = [line.strip() for line in value.splitlines()]
        if len(lines) > 1:  # a file: its lines have plain words, too
            self._words |= {word for word in _WORD.findall(value) if _stands_out(word)} - shown
            return
        text = "".join(lines)
        if not _LEAST - 2 <= len(text) <= _LONGEST or text in shown or _PUBLIC.fullmatch(text):
            return
        for form in (text, base64.b64encode(text.encode()).decode().rstrip("=")):
            if _WORD.fullmatch(form):
                self._words.add(form)
            else:
                self._phrases.add(form)


def _assigned(match: re.Match[str]) -> str:
    """A name and its value, which is hidden unless the name is that of a name, like `secretName`."""
    if _HARMLESS.search(match["name"]):
        return match[0]
    quote = match["quote"] or ""
    return f"{match['name']}{match['sign']}{quote}{HIDDEN}{quote}"


def _long(match: re.Match[str]) -> str:
    """A long run of characters without an end in sight, if it is encoded, and no path or name in words."""
    text = match[0]
    mixed = re.search("[a-z]", text) and re.search("[A-Z]", text)
    return HIDDEN if mixed or re.fullmatch("[0-9a-f]{40,}", text) else text


def _stands_out(word: str) -> bool:
    """True for a word that no sentence has by itself: with digits among letters, capitals inside, or very long."""
    if _PUBLIC.fullmatch(word):
        return False
    has_digits = bool(re.search(r"\d", word)) and bool(re.search("[A-Za-z]", word))
    has_capitals = bool(re.search("[a-z][A-Z]|[A-Z][a-z].*[A-Z]", word)) or (word.isupper() and len(word) > 11)
    return has_digits or has_capitals or (len(word) > 15 and "-" not in word)


def decoded(data: object) -> Iterator[str]:
    """The texts in `data` of a Secret."""
    for value in data.values() if isinstance(data, dict) else ():
        try:
            yield base64.b64decode(str(value), validate=True).decode()
        except ValueError:
            continue
