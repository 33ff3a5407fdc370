"""The formats of strings that kube-apiserver checks in schemas of custom kinds, with its tolerance.

It ignores other formats; those of cards, books and persons are ignored here as well. `tests/contracts/test_formats.py`
compares.
"""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from collections.abc import Callable, Mapping
from datetime import date

_HOST = re.compile(r"(?:[A-Za-z0-9\-_.~!$&'()*+,;=<>\"]|[^\x00-\x7f]|%[89A-Fa-f][0-9A-Fa-f])*")
_USER = re.compile(r"(?:[A-Za-z0-9\-._:~!$&'()*+,;=@]|%[0-9A-Fa-f]{2})*")
_ATOM = r"[^\x00-\x20()<>@,;:\\\".\[\]\x7f]+"
_QUOTED = r'"(?:[^"\\\x00-\x1f]|\\[^\x00-\x1f])*"'
_ADDRESS = rf"(?:{_ATOM}(?:\.{_ATOM})*|{_QUOTED})@(?:{_ATOM}(?:\.{_ATOM})*|\[[^\[\]\\\x00-\x20]*\])"
_NAME = rf"(?:{_ATOM}|{_QUOTED})(?:[ \t.]+(?:{_ATOM}|{_QUOTED}))*[ \t]*"
_EMAIL = re.compile(rf"[ \t]*(?:{_ADDRESS}|(?:{_NAME})?<{_ADDRESS}>)[ \t]*")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_TIME = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](.[0-9]+)?(z|[+-][0-9]{2}:[0-9]{2})")
_AMOUNT = re.compile(r"(?<![0-9])[0-9]+\s*([A-Za-zµ]+)")
_GO_DURATION = re.compile(r"[+-]?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)")
_UNITS = (
    {"d", "day", "days", "w", "wk", "week", "weeks", "ms", "milli", "millis", "millisecond", "milliseconds"}
    | {"ns", "nano", "nanos", "nanosecond", "nanoseconds", "us", "µs", "micro", "micros", "microsecond", "microseconds"}
    | {"s", "sec", "secs", "second", "seconds", "m", "min", "mins", "minute", "minutes", "h", "hr", "hour", "hours"}
)


def _pattern(text: str) -> Callable[[str], bool]:
    compiled = re.compile(text, re.ASCII)
    return lambda value: compiled.fullmatch(value) is not None


def _is_uri(text: str) -> bool:
    """A URI, or an absolute path, as in a request of HTTP."""
    if not text or any(character < " " or character == "\x7f" for character in text):
        return False
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*:", text)
    rest = (text[scheme.end() :] if scheme else text).partition("?")[0]
    if not rest.startswith("/"):
        return scheme is not None or text == "*"
    if scheme and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        return _is_authority(authority) and not _BAD_ESCAPE.search(slash + path)
    return not _BAD_ESCAPE.search(rest)


def _is_authority(text: str) -> bool:
    user, at, host = text.rpartition("@")
    if at and not _USER.fullmatch(user):
        return False
    if host.startswith("["):
        address, closed, port = host[1:].partition("]")
        return bool(closed) and re.fullmatch(r"(:[0-9]*)?", port) is not None and _ip(address.partition("%25")[0]) == 6
    name, colon, port = host.rpartition(":")
    return _HOST.fullmatch(name if colon else host) is not None and (
        not colon or re.fullmatch("[0-9]*", port) is not None
    )


def _is_hostname(text: str) -> bool:
    """Names with a dot end in letters. One without may end in a hyphen, and have no other."""
    *labels, last = text.split(".")
    if len(text.encode()) > 255 or any(len(label.encode()) > 63 for label in (*labels, last)):
        return False
    if not labels:
        first, hyphen, more = last[:1], last[1:2] == "-", last[2:] if last[1:2] == "-" else last[1:]
        return _is_name(first) and (not more or _is_name(more)) and len(more) <= 62 and (hyphen or bool(first))
    is_top = len(last) >= 2 and all(unicodedata.category(character).startswith("L") for character in last)
    return is_top and all(
        _is_name(label.replace("-", "")) and not label.startswith("-") and not label.endswith("-") for label in labels
    )


def _is_name(text: str) -> bool:
    return bool(text) and all(
        (character.isascii() and character.isdigit()) or unicodedata.category(character)[0] in "LS"
        for character in text
    )


def _ip(text: str) -> int:
    """The version of an address; 0 for what is none. Numbers of an IPv4 address may begin with zeros."""
    if "%" in text:
        return 0
    if ":" not in text:
        text = ".".join(part.lstrip("0") or part[:1] for part in text.split("."))
    try:
        return ipaddress.ip_address(text).version
    except ValueError:
        return 0


def _is_cidr(text: str) -> bool:
    address, slash, length = text.partition("/")
    version = _ip(address)
    if not version or not slash or not re.fullmatch("[0-9]{1,9}", length):
        return False
    return int(length) <= (32 if version == 4 else 128)


def _is_date(text: str) -> bool:
    try:
        return re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text) is not None and bool(date.fromisoformat(text))
    except ValueError:
        return False


def _is_datetime(text: str) -> bool:
    day, _, time = text.lower().partition("t")
    return _is_date(day) and _TIME.fullmatch(time) is not None


def _is_duration(text: str) -> bool:
    """Go's duration, or any text with a number and a unit."""
    if _GO_DURATION.fullmatch(text):
        return True
    return any(match[1].lower() in _UNITS for match in _AMOUNT.finditer(text))


_HEX = "[0-9A-Fa-f]"
_COLOR = "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"


def _is_subdomain(text: str) -> bool:
    return (
        len(text) <= 253
        and re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", text) is not None
    )


def _uuid(version: str, variant: str) -> Callable[[str], bool]:
    return _pattern(f"{_HEX}{{8}}-?{_HEX}{{4}}-?{version}{_HEX}{{3}}-?{variant}{_HEX}{{3}}-?{_HEX}{{12}}")


CHECKS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": _pattern(f"{_HEX}{{24}}"),
    "byte": _pattern("(?=.)([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?"),
    "cidr": _is_cidr,
    "date": _is_date,
    "date-time": _is_datetime,
    "datetime": _is_datetime,
    "duration": _is_duration,
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "hexcolor": _pattern(f"#?({_HEX}{{3}}|{_HEX}{{6}})"),
    "hostname": _is_hostname,
    "ipv4": lambda text: "." in text and _ip(text) > 0,
    "ipv6": lambda text: ":" in text and _ip(text) > 0,
    "k8s-long-name": _is_subdomain,
    "k8s-short-name": _pattern(_LABEL),
    "mac": _pattern(
        f"{_HEX}{{12}}|{_HEX}{{16}}|{_HEX}{{40}}|{_HEX}{{2}}(:{_HEX}{{2}}){{5}}|{_HEX}{{2}}(-{_HEX}{{2}}){{5}}|{_HEX}{{4}}(\\.{_HEX}{{4}}){{2}}"
        f"|{_HEX}{{2}}(:{_HEX}{{2}}){{7}}|{_HEX}{{2}}(-{_HEX}{{2}}){{7}}|{_HEX}{{4}}(\\.{_HEX}{{4}}){{3}}"
        f"|{_HEX}{{2}}(:{_HEX}{{2}}){{19}}|{_HEX}{{2}}(-{_HEX}{{2}}){{19}}|{_HEX}{{4}}(\\.{_HEX}{{4}}){{9}}"
    ),
    "rgbcolor": _pattern(rf"rgb\(\s*{_COLOR}\s*,\s*{_COLOR}\s*,\s*{_COLOR}\s*\)"),
    "uri": _is_uri,
    "uuid": _uuid("[0-9A-Fa-f]", "[0-9A-Fa-f]"),
    "uuid3": _uuid("3", "[0-9A-Fa-f]"),
    "uuid4": _uuid("4", "[89ABab]"),
    "uuid5": _uuid("5", "[89ABab]"),
}
"""By format: whether a text has it."""
