"""A table of patterns of credentials in texts, for those whose values are not known.

Each pattern is tried on the lines that have one of its words. None repeats what repeats, so the time is linear in the
length of a text; lines of limited length come here.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

from espalier.cli.clusters.support.values import CREDENTIAL, KEYS, NAMES_SOMETHING

HIDDEN = "(hidden)"

_NAME = (
    rf"(?P<name>(?:passw|passphrase|token|secret|credential|authorization|signature|session[_\-]?(?:id|key)|sessid"
    rf"|_session|{KEYS}|(?<![a-z])(?:pass|pwd|sig|session(?==))(?![a-z\-]))[\w.\-]{{0,60}})"
)
_VALUE = r"(?:(?P<quote>\\{0,8}[\"'])(?P<quoted>.*?)(?:(?<!\\)(?P=quote)|$)|(?P<value>[^\s\"'\\,;&}\]]+))"
_STATEMENTS = (
    r"(?:required|invalid|wrong|empty|missing|expired|incorrect|not|no|too|set|unset|unknown|ok|valid|the|a|an|in|only"
    r"|being|already|used|stored|read|taken|masked|hidden|correct|unchanged|created|needed|refused|rejected|mandatory)\b"
)
"""Words of sentences about passwords."""
_TIME = r"(?:\d{4}-\d\d-\d\dT[0-9:.]{8,20}(?:Z|[+\-]\d\d:\d\d) )?"
"""Before each line of the log of a container."""


@dataclass(frozen=True)
class Pattern:
    """A pattern of credentials in a line."""

    words: tuple[str, ...]
    """In lower case; a line without any of them has none. Empty: each line is searched."""
    regex: re.Pattern[str]
    shown: str | Callable[[re.Match[str]], str]
    """Written instead."""


def _of(words: str, regex: str, shown: str | Callable[[re.Match[str]], str], *, any_case: bool = True) -> Pattern:
    return Pattern(tuple(words.split()), re.compile(regex, re.IGNORECASE if any_case else 0), shown)


def _assigned(match: re.Match[str]) -> str:
    """A name and its value, which is hidden unless the name is that of a name, like `secretName`."""
    if NAMES_SOMETHING.search(match["name"]):
        return match[0]
    quote = match["quote"] or ""
    return f"{match['name']}{match['sign']}{quote}{HIDDEN}{quote}"


def _after_a_flag(match: re.Match[str]) -> str:
    is_credential = CREDENTIAL.search(match["name"]) and not NAMES_SOMETHING.search(match["name"])
    return f"{match['flag']}{HIDDEN}" if is_credential else match[0]


_CREDENTIALS = (
    "pass token secret credential authorization sig sess pwd -key _key ikey skey ekey nkey gkey tkey dkey rkey"
)
"""In lower case, one of these is in every name of `_NAME`."""
TABLE = (
    _of(  # the whole header: a cookie may have several values
        "cookie",
        r"((?:set-)?cookie2?(?:\\{0,8}[\"'])?\s{0,9}[:=]\s{0,9})(?:(\[?\\{0,8}[\"'])[^\"'\]]*|\[[^\]]*|.*)",
        rf"\1\2{HIDDEN}",
    ),
    _of(
        _CREDENTIALS,
        rf"{_NAME}(?P<sign>\\{{0,8}}[\"']?\s{{0,99}}[:=]\s{{0,99}}"
        rf"\[?(?:(?:bearer|basic|negotiate|ntlm|apikey|splunk)\s{{1,9}})?){_VALUE}",
        _assigned,
    ),
    _of(  # `password "two words"`; a Secret is named like that, so it is none of these
        "passw passphrase token pwd",
        r"(?P<name>(?:passw|passphrase|token|pwd)\w{0,60})(?P<sign>\s{1,9}(?:is\s{1,9})?)"
        r"(?P<quote>\\{0,8}[\"'`])(?P<quoted>.*?)(?:(?<!\\)(?P=quote)|$)",
        _assigned,
    ),
    _of(
        "passw passphrase token pwd",
        rf"((?:passw|passphrase|token|pwd)\w{{0,60}}\s{{1,9}}(?:is|was|are)\s{{1,9}})(?!{_STATEMENTS})[^\s\"',;]+",
        rf"\1{HIDDEN}",
    ),
    _of(
        _CREDENTIALS,
        r"(?P<flag>(?<![\w\-])--?(?P<name>[a-z][\w.\-]{0,99})(?: {1,9}(?!-)|[\"'], ?(?=[\"'])))"
        r"(?:\"[^\"]*\"?|'[^']*'?|[^\s\"',;]+)",
        _after_a_flag,
    ),
    _of(  # names and passwords of curl and others; not the numbers of a user and a group
        "-u --user --proxy-user",
        r"((?<![\w\-])(?:-u|--user|--proxy-user)[ =\"',]{0,4}(?!\d+:\d+\b)[^\s:\"'/]{1,200}:)[^\s\"']+",
        rf"\1{HIDDEN}",
    ),
    _of("sshpass", r"(\bsshpass\b[ \"',]{1,4}-p[ =\"',]{0,4})[^\s\"']+", rf"\1{HIDDEN}"),
    _of("login", r"(\blogin\b[^|;&]{0,200}?\s-p[ =]?)[^\s\"']+", rf"\1{HIDDEN}"),
    _of("auth", r"((?<![\w\-])auth\\{0,8}[\"']?\s{0,9}[:=]\s{0,9}\\{0,8}[\"']?)[A-Za-z0-9+/=_\-]{8,}", rf"\1{HIDDEN}"),
    _of("bearer basic", r"\b(bearer|basic) (?!token\b|auth\b)[A-Za-z0-9._~+/=\-]{6,}", rf"\1 {HIDDEN}"),
    _of("://", r"(?<=://)[^/\s@\"']{1,400}@", f"{HIDDEN}@"),
    _of("ey", r"\bey[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{4,}(\.[A-Za-z0-9_\-]*)?", HIDDEN, any_case=False),
    _of("", r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b", HIDDEN, any_case=False),  # tokens of kubeadm
    _of("akia asia", r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b", HIDDEN, any_case=False),
)

_PEM = re.compile(r"-----BEGIN [A-Z0-9 ]+-----.*?(?:-----END [A-Z0-9 ]+-----|\Z)", re.DOTALL)
_PEM_END = re.compile(r"-----END [A-Z0-9 ]{1,60}-----")
_MOST_PEM_LINES = 99
_NEXT_LINE = re.compile(
    rf"(?i)((?:passw|passphrase|token|secret|credential|pwd|{KEYS})[\w\-]{{0,60}}\\{{0,8}}[\"']?[ \t]{{0,99}}[:=]"
    rf"[ \t]{{0,99}}\r?\n{_TIME})(?:[ \t]{{1,99}}(?!- |[\w.\-]{{1,99}}:(?:\s|$))\S+"
    r"|(?![\w.\-]{1,99}:$)\S+(?=[ \t\r]*$))",
    re.MULTILINE,
)
"""A value in the line below its name: one that is indented, or alone; not a field of YAML."""
_LONG = re.compile(r"(?<!sha256:)\b[A-Za-z0-9+/=_\-]{32,}")
_LEAST_CHANGES = 0.35
"""Changes between capitals, other letters and digits for each character, from which a long word is encoded: half as
many are in words that are written together, and nearly twice as many in base64."""
_KINDS = str.maketrans(
    {chr(code): kind for first, last, kind in ("azl", "AZu", "09d") for code in range(ord(first), ord(last) + 1)}
)


def of_lines(text: str) -> str:
    """The text without private keys, and without values in the line below their name."""
    end = _PEM_END.search(text)
    if end and 0 < text.count("\n", 0, end.start()) <= _MOST_PEM_LINES and "-----BEGIN " not in text[: end.start()]:
        text = f"{HIDDEN}{text[end.end() :]}"  # its beginning is in what was cut off before
    text = _PEM.sub(HIDDEN, text)
    return _NEXT_LINE.sub(rf"\1{HIDDEN}", text)


def of_a_line(text: str) -> str:
    """The line without what the patterns of the table find."""
    lowered = text.lower()
    for pattern in TABLE:
        if not pattern.words or any(word in lowered for word in pattern.words):
            text = pattern.regex.sub(pattern.shown, text)
    return text


def encoded(text: str) -> str:
    """The text without long encoded values: base64 and hexadecimal digits."""
    return _LONG.sub(lambda match: HIDDEN if _is_encoded(match[0]) else match[0], text)


def _is_encoded(word: str) -> bool:
    if re.fullmatch(r"(?i)[0-9a-f]{32,}", word):
        return True
    if not (re.search("[a-z]", word) and re.search("[A-Z]", word)):
        return False
    kinds = word.translate(_KINDS)
    changes = sum(kind != following for kind, following in pairwise(kinds))
    return changes >= _LEAST_CHANGES * len(word)
