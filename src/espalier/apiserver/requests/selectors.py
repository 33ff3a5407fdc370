"""Label and field selectors of list, watch and deletecollection: parsed once, then matched with each object."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from espalier.apiserver.schema.metadata import name_part_problems, value_problems
from espalier.apiserver.schema.registry import ServedKind
from espalier.apiserver.wire.failures import bad_request
from espalier.kube.errors import ApiError
from espalier.kube.objects import Object

Term = Callable[[Mapping[str, str]], bool]

_TOKEN = re.compile(r"\s*(==|!=|[=!,()<>]|[^\s=!,()<>]+)")
_OPERATORS = frozenset({"==", "=", "!=", "<", ">"})
_SIGNS = _OPERATORS | set("!,()")
_MAX_CACHED = 1024
"""The maximum length of a cached selector: longer ones are not repeated."""

_FIELD_TERM = re.compile(r"(?P<path>[^=!,]+)(?P<operator>==|=|!=)(?P<value>(?:\\.|[^,\\])*)(?:,|$)")


@dataclass(frozen=True, slots=True)
class Selector:
    """The selection of a request. `name` is set when it can only match one object, which saves a search."""

    labels: tuple[Term, ...] = ()
    fields: tuple[Callable[[Object], bool], ...] = ()
    name: str | None = None

    @property
    def everything(self) -> bool:
        """True if the selector matches every object."""
        return not self.labels and not self.fields

    def selects(self, item: Object) -> bool:
        """True if an object is selected."""
        labels = item.head.metadata.labels
        return all(term(labels) for term in self.labels) and all(term(item) for term in self.fields)


EVERYTHING = Selector()


def selector_of(kind: ServedKind, query: Mapping[str, str]) -> Selector:
    """The selector of a request. Raises `BadRequest` when it can't be read, or names a field that is not selectable."""
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    if not labels and not fields:
        return EVERYTHING
    by_field, name = _fields(kind, fields)
    return Selector(parse_labels(labels), by_field, name)


def parse_labels(text: str) -> tuple[Term, ...]:
    """The terms of a label selector; all must hold. Raises `BadRequest`."""
    text = text.strip()
    return _parse_cached(text) if len(text) <= _MAX_CACHED else tuple(_label_terms(text))


@lru_cache(maxsize=1024)
def _parse_cached(text: str) -> tuple[Term, ...]:
    return tuple(_label_terms(text))


class _Tokens:
    """The signs and words of a selector, read once from left to right: time grows as the text does."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens = [(match[1], match.start(1)) for match in _TOKEN.finditer(text)]
        self._place = 0

    @property
    def next(self) -> str:
        """The next token; empty at the end."""
        return self._tokens[self._place][0] if self._place < len(self._tokens) else ""

    def take(self) -> str:
        """Consume the next token."""
        token = self.next
        self._place += 1
        return token

    def word(self) -> str:
        """Consume a word."""
        if not self.next or self.next in _SIGNS:
            raise self.unexpected()
        return self.take()

    def unexpected(self, expected: str = ", expected: identifier or end of selector") -> ApiError:
        """The error for an unexpected token."""
        rest = self._text[self._tokens[self._place][1] :] if self.next else ""
        shown = rest if len(rest) <= 100 else f"{rest[:100]}..."
        return bad_request(f"unable to parse requirement: found '{shown}'{expected}")


def _label_terms(text: str) -> Iterator[Term]:
    tokens = _Tokens(text)
    while tokens.next:
        yield _label_term(tokens)
        if tokens.next:
            if tokens.next != ",":
                raise tokens.unexpected()
            tokens.take()
            if not tokens.next:
                raise tokens.unexpected()


def _label_term(tokens: _Tokens) -> Term:
    if tokens.next == "!":
        tokens.take()
        absent = tokens.word()
        _check(absent)
        return lambda labels: absent not in labels
    key = tokens.word()
    if tokens.next in ("in", "notin"):
        within = tokens.take() == "in"
        values = _values(tokens)
        _check(key, *sorted(values))
        if within:
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if tokens.next not in _OPERATORS:
        _check(key)
        return lambda labels: key in labels
    operator = tokens.take()
    value = tokens.take() if tokens.next and tokens.next not in _SIGNS else ""
    _check(key, value)
    if operator in "<>":
        return _numeric(key, operator, value)
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


def _check(key: str, *values: str) -> None:
    """Raise `BadRequest` for an impossible label: with `!=`, a deletion would select everything."""
    problems = list(name_part_problems("key", key))
    for index, value in enumerate(values):
        problems += value_problems(f"values[{index}][{key}]", value)
    if problems:
        text = ", ".join(f"{problem.field}: {problem.message}" for problem in problems)
        raise bad_request(f"unable to parse requirement: {f'[{text}]' if len(problems) > 1 else text}")


def _values(tokens: _Tokens) -> frozenset[str]:
    """The values in brackets; omitted ones are empty."""
    if tokens.next != "(":
        raise tokens.unexpected(" expected: '('")
    tokens.take()
    values, value = set(), ""
    while tokens.next != ")":
        if tokens.next == ",":
            values.add(value)
            value = ""
            tokens.take()
        elif value:
            raise tokens.unexpected()
        else:
            value = tokens.word()
    tokens.take()
    return frozenset({*values, value})


def _numeric(key: str, operator: str, value: str) -> Term:
    try:
        bound = int(value)
    except ValueError:
        raise bad_request(
            f"unable to parse requirement: values: Invalid value: {value!r}: for 'Gt', 'Lt' operators, the value must "
            "be an integer"
        ) from None

    def holds(labels: Mapping[str, str]) -> bool:
        try:
            number = int(labels[key])
        except (KeyError, ValueError):
            return False
        return number > bound if operator == ">" else number < bound

    return holds


def _fields(kind: ServedKind, text: str) -> tuple[tuple[Callable[[Object], bool], ...], str | None]:
    terms: list[Callable[[Object], bool]] = []
    name: str | None = None
    position = 0
    while position < len(text):
        match = _FIELD_TERM.match(text, position)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{text[position:].partition(',')[0]}'")
        position = match.end()
        path, wanted = match["path"].strip(), re.sub(r"\\(.)", r"\1", match["value"])
        equal = match["operator"] != "!="
        terms.append(_field_term(kind, path, wanted, equal))
        if path == "metadata.name" and equal:
            name = wanted
    return tuple(terms), name


def _field_term(kind: ServedKind, path: str, wanted: str, equal: bool) -> Callable[[Object], bool]:
    if path == "metadata.name":
        return lambda item: (item.head.metadata.name == wanted) == equal
    if path == "metadata.namespace" and kind.resource.namespaced:
        return lambda item: (item.head.metadata.namespace == wanted) == equal
    if path not in kind.selectable:
        if kind.custom or kind.selectable:
            raise bad_request(f"field label not supported: {path}")
        known = '"metadata.name", "metadata.namespace"'
        raise bad_request(f'"{path}" is not a known field selector: only {known}')
    steps = kind.selectable[path].split(".")

    def holds(item: Object) -> bool:
        value: Any = item.tree
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        return (_text(value) == wanted) == equal

    return holds


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):  # an event's source: its component is meant
        return _text(value.get("component"))
    return str(value)
