"""Redaction of objects: one rule by path and one by value, for everything that people or logs see.

By path: a field is hidden if its name, or that of a parent, suggests a secret. By value: the value of such a field is
also hidden in sentences that quote it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import Any

from espalier.api.text import paths

HIDDEN = "(hidden)"
CUT = "…"
"""Marks the end of a truncated quotation."""

_SECRET = re.compile(r"(?i)passw|token|secret|credential|private-?_?key|encryption-?_?key|cakey")
_SECRET_VALUE = re.compile(r"(?i)\bauth\b|^(proxy-?)?authorization$")
"""Names whose own value may be secret; fields below them have their own names."""
_HARMLESS = re.compile(r"(?i)(name|ref|namespace|ttl|expiration|timeout)$")
"""Suffixes of names that refer to a secret without containing it: its name, or its lifetime."""
_SECRET_IN_SOME_KIND = re.compile(r"(?i)^(data|string_?data|kubeconfig)$")
"""Names whose value may be secret if the kind of the object is unknown."""
_CREDENTIALS = re.compile(r"(?<=://)[^/\s@]+@")
_PROXY = re.compile(r"(?i)^https?_?proxy$")
"""Names whose value is the address of a proxy, which may have a user and a password without a scheme before them."""
_SPOKEN = re.compile(
    r"(?i)(--[a-z0-9-]*(?:passw|token|secret|credential|private-key)[a-z0-9-]*=|\bbearer )(?!token\b)\S+"
)
"""Flags and headers in the middle of a text."""
_OBJECT = re.compile(r"\s*(\{\s*\"|\[\s*[\"{\[])")
"""The start of an object in a text (JSON in an annotation)."""
_CONTENTS = ("content", "passwd", "auditPolicyContent")
_DATA = ("data", "stringData")
_NAMED = ("name", "key")
_LONG = 240
_LEAST = 6
"""Minimum length of a value that is searched for in sentences: shorter ones, and plain words, match everywhere."""
_MOST_QUOTED = 2000
"""The maximum characters of a value that a sentence quotes."""
_FIELD_NAMES = 1024
"""The size of the cache of field names."""
_PLAIN = re.compile(r"(?i)true|false|null|none|[0-9.]+(ns|us|ms|s|m|h|d)?|([0-9]+h)?([0-9]+m)?([0-9]+s)?")


def is_secret(path: Iterable[paths.PathStep]) -> bool:
    """True if the value at a path may be secret, judged by the names in the path."""
    names = [step for step in path if isinstance(step, str)]
    if any(map(_is_of_secret, names)):
        return True
    return bool(names) and bool(_SECRET_VALUE.search(names[-1]))


@lru_cache(maxsize=_FIELD_NAMES)
def _is_of_secret(name: str) -> bool:
    return bool(_SECRET.search(name)) and not _HARMLESS.search(name)


def hides_all_below(name: str) -> bool:
    """True if all that a name has may be secret, whatever it is of: for logs, which have parts of anything."""
    return is_secret((name,)) or bool(_SECRET_IN_SOME_KIND.match(name))


def shown(path: tuple[paths.PathStep, ...], value: Any, *, kind: str = "") -> Any:
    """A value in a form that may be shown: without secrets, contents of files, and passwords in URLs."""
    if value is None or isinstance(value, bool):
        return value
    if kind == "Secret" and path[:1] and path[0] in _DATA:
        return HIDDEN
    if isinstance(value, dict):
        return {name: shown((*_below(path, value, name), name), inner, kind=kind) for name, inner in value.items()}
    if isinstance(value, list):
        return [shown((*path, index), inner, kind=kind) for index, inner in enumerate(value)]
    if isinstance(value, int | float):
        return value
    text = str(value)
    if is_secret(path):
        return HIDDEN
    is_content = bool(path) and path[-1] in _CONTENTS
    if is_content or len(text) > _LONG or _OBJECT.match(text):
        return digest_of(text)
    return concealed(text.replace(user, HIDDEN) if (user := _user_of_proxy(path, text)) else text)


def secrets_of(*trees: Any) -> frozenset[str]:
    """The values of fields that may be secret, to hide them in sentences."""
    return frozenset(value for tree in trees for value in _secrets((), tree) if _is_worth_looking_for(value))


def concealed(text: str, secrets: Collection[str] = ()) -> str:
    """A sentence without these values, and without passwords of URLs and flags."""
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    if CUT in text:
        text = _without_beginnings(text, secrets)
    return _SPOKEN.sub(rf"\1{HIDDEN}", _CREDENTIALS.sub(f"{HIDDEN}@", text))


def _without_beginnings(text: str, secrets: Collection[str]) -> str:
    """The same without the beginnings of secrets, where a quotation was cut within one."""
    *parts, last = text.split(CUT)
    for index, part in enumerate(parts):
        rest = part
        for secret in secrets:
            sizes = range(min(len(secret) - 1, _MOST_QUOTED), _LEAST - 1, -1)
            known = next((size for size in sizes if rest.endswith(secret[:size])), 0)
            if known:
                rest = rest[: len(rest) - known] + HIDDEN
        parts[index] = rest
    return CUT.join([*parts, last])


def all_concealed(value: Any, secrets: Collection[str]) -> Any:
    """The same for every text in a tree of maps and lists, except names of fields."""
    if isinstance(value, str):
        return concealed(value, secrets)
    if isinstance(value, dict):
        return {name: all_concealed(inner, secrets) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [all_concealed(inner, secrets) for inner in value]
    return value


def digest_of(text: str) -> str:
    """Placeholder of a hidden text: equal texts have equal digests."""
    lines = text.count("\n") + 1
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"({lines} {'line' if lines == 1 else 'lines'}, sha256 {digest})"


def _below(path: tuple[paths.PathStep, ...], item: dict[str, Any], field: str) -> tuple[paths.PathStep, ...]:
    """The path to a field of a map. For a pair of name and value, the last element is that name."""
    if field == "value":
        return (*path, *(item[key] for key in _NAMED if isinstance(item.get(key), str)))
    return path


def _secrets(path: tuple[paths.PathStep, ...], value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from _secrets((*_below(path, value, name), name), inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _secrets((*path, index), inner)
    elif isinstance(value, str) and is_secret(path):
        yield value
        yield from (line for line in value.splitlines() if line != value)
    elif isinstance(value, str) and (user := _user_of_proxy(path, value)):
        yield user


def _user_of_proxy(path: tuple[paths.PathStep, ...], value: str) -> str:
    """The user and password in the address of a proxy; empty if the value has none."""
    if not any(isinstance(step, str) and _PROXY.match(step) for step in path):
        return ""
    return value.rpartition("@")[0].rpartition("://")[2]


def _is_worth_looking_for(value: str) -> bool:
    return len(value) >= _LEAST and not _PLAIN.fullmatch(value)
