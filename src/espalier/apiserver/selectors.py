"""Label and field selectors of list, watch and deletecollection: parsed once, then asked for each object."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from espalier.apiserver.failures import bad_request
from espalier.apiserver.registry import ServedKind
from espalier.kube.objects import Object

Term = Callable[[Mapping[str, str]], bool]

_LABEL_TERM = re.compile(
    r"""\s*(?:
        !\s*(?P<absent>[^\s=!,()<>]+)
      | (?P<key>[^\s=!,()<>]+)\s*(?:
            (?P<operator>==|=|!=|<|>)\s*(?P<value>[^\s=!,()<>]*)
          | \s(?P<set>in|notin)\s*\(\s*(?P<values>[^()]*?)\s*\)
        )?
    )\s*(?P<end>,|$)""",
    re.VERBOSE,
)
_FIELD_TERM = re.compile(r"(?P<path>[^=!,]+)(?P<operator>==|=|!=)(?P<value>(?:\\.|[^,\\])*)(?:,|$)")


@dataclass(frozen=True, slots=True)
class Selector:
    """What a request selects. `name` is set when only one object can be meant: it need not be searched."""

    labels: tuple[Term, ...] = ()
    fields: tuple[Callable[[Object], bool], ...] = ()
    name: str | None = None

    @property
    def everything(self) -> bool:
        """Whether nothing is left out."""
        return not self.labels and not self.fields

    def selects(self, item: Object) -> bool:
        """Whether an object is among those selected."""
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


@lru_cache(maxsize=1024)
def parse_labels(text: str) -> tuple[Term, ...]:
    """The terms of a label selector; all must hold. Raises `BadRequest`."""
    terms: list[Term] = []
    position = 0
    text = text.strip()
    while position < len(text):
        match = _LABEL_TERM.match(text, position)
        if match is None or (match["end"] and match.end() == len(text)):
            found = text[position:]
            raise bad_request(f"unable to parse requirement: found '{found}', expected: identifier or end of selector")
        terms.append(_label_term(match))
        position = match.end()
    return tuple(terms)


def _label_term(match: re.Match[str]) -> Term:
    if (absent := match["absent"]) is not None:
        return lambda labels: absent not in labels
    key = match["key"]
    if match["set"] is not None:
        values = frozenset(value.strip() for value in match["values"].split(","))
        if match["set"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if (operator := match["operator"]) is None:
        return lambda labels: key in labels
    value = match["value"]
    if operator in "<>":
        return _numeric(key, operator, value)
    if operator == "!=":
        return lambda labels: labels.get(key) != value
    return lambda labels: labels.get(key) == value


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
