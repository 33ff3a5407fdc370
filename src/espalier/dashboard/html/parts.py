"""Elements that several pages have."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

import htpy as h

from espalier.api import conditions
from espalier.api.text.printable import printable, quoted
from espalier.api.text.spans import span
from espalier.dashboard.models.health import Health, State

SHAPES = {
    # Told apart without colour: a tick, a half circle, a triangle, two bars, an empty circle.
    Health.READY: "M3 8.5 6.5 12 13 4.5",
    Health.CHANGING: "M8 1.5a6.5 6.5 0 1 1 0 13 6.5 6.5 0 0 1 0-13Zm0 1.5v10A5 5 0 0 0 8 3Z",
    Health.FAILING: "M8 1.5 15 14H1L8 1.5Zm-.9 4.8.3 4h1.2l.3-4H7.1Zm.9 6.4a.8.8 0 1 0 0-1.6.8.8 0 0 0 0 1.6Z",
    Health.PAUSED: "M4 3h3v10H4ZM9 3h3v10H9Z",
    Health.UNKNOWN: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11Z",
}

Node: TypeAlias = h.Node


def sprite() -> h.Element:
    """The shapes, once for a page."""
    return h.svg(".sprite", width="0", height="0", aria_hidden="true", focusable="false")[
        (
            h.symbol(id=f"i-{health}", viewBox="0 0 16 16")[h.path(d=path, fill_rule="evenodd")]
            for health, path in SHAPES.items()
        )
    ]


def icon(health: Health) -> h.Element:
    """The shape of a state; the word stands beside it."""
    return h.svg(".icon", aria_hidden="true", focusable="false")[h.use(href=f"#i-{health}")]


def state(value: State) -> h.Element:
    """A state by shape, colour and word."""
    return h.span(class_=f"state {value.health}")[icon(value.health), h.span[text(value.word)]]


def age(moment: str, now: datetime) -> Node:
    """The time since a moment; the page keeps it up to date."""
    at = conditions.parse_timestamp(moment)
    if at is None:
        return None
    return h.time(datetime=moment, title=moment)[span((now - at).total_seconds())]


def until(moment: str, now: datetime) -> Node:
    """The time until a moment, kept up to date as well."""
    at = conditions.parse_timestamp(moment)
    if at is None:
        return None
    return h.time(datetime=moment, data_until="", title=moment)[span(max(0.0, (at - now).total_seconds()))]


def text(value: str, most: int = 400) -> str:
    """Text that anybody may have written: in one line, without what would steer its direction, and cut."""
    return quoted(value, most)


def html(element: h.Element) -> str:
    """The HTML of an element, as plain text: what is put into a page as HTML must say so (`page.made`).

    Wherever somebody's text stands in it, it steers neither direction nor terminals.
    """
    return printable("".join(element.iter_chunks()))


def labelled(name: str, value: Node) -> h.Element | None:
    """A fact with its name; nothing without a value."""
    if value is None or value == "":
        return None
    return h.div(".fact")[h.dt[name], h.dd[value]]


def cell(label: str, *content: Node, class_: str = "", sort: str | int | None = None) -> h.Element:
    """A cell of a table. `label` is shown where rows are cards; `sort` is what the column is sorted by."""
    return h.td(
        role="cell", class_=class_ or None, data_label=label, data_sort=None if sort is None else text(str(sort), 80)
    )[content]
