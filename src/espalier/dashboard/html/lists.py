"""Pages of all objects of a kind: a table, counts that filter it, and a field for words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import htpy as h

from espalier.api.text.listing import counted
from espalier.dashboard.feed import Feed
from espalier.dashboard.html.page import made
from espalier.dashboard.html.parts import Node, html, icon
from espalier.dashboard.models.health import WORDS, Health

RANKS = {health: rank for rank, health in enumerate(Health)}
"""The order of states in a column."""


def table(columns: Sequence[tuple[str, str]], name: str, place: str, rows: Node, *, filtered: bool) -> h.Element:
    """A table that is sorted in the browser, and may be filtered there. Roles are explicit: its layout is a grid."""
    return h.table(
        role="table",
        class_=f"rows many {name}",
        data_rows=place,
        data_filtered="" if filtered else None,
        aria_label=name.capitalize(),
    )[
        h.thead(role="rowgroup")[
            h.tr(role="row")[
                (
                    h.th(role="columnheader", scope="col", aria_sort="none", class_=column)[
                        h.button(type="button", data_column=str(index))[title]
                    ]
                    for index, (column, title) in enumerate(columns)
                )
            ]
        ],
        h.tbody(role="rowgroup", id=place)[rows],
    ]


def chips(by_health: Mapping[Health, int], others: Sequence[tuple[str, str, int]]) -> str:
    """Counts, each of which filters the table: of states, and `others`, as flags of rows, words and numbers."""
    shown: list[tuple[str, str, int, Node]] = [
        (str(health), WORDS[health], by_health[health], icon(health)) for health in Health
    ]
    shown += [(flag, word, number, None) for flag, word, number in others]
    return html(
        h.div("#summary.chips", role="group", aria_label="Show only")[
            (
                h.button(
                    type="button",
                    class_=f"chip {flag}",
                    data_flag=flag,
                    aria_pressed="false",
                    disabled=not number,
                )[shape, h.span[word], h.b[str(number)]]
                for flag, word, number, shape in shown
            )
        ]
    )


def page_of_all(title: str, noun: str, total: int | None, feed: Feed, *tables: Node, hint: str) -> Sequence[Node]:
    """All below the frame. `total`: None if it is not known; `hint`: what words in the field may be about."""
    return (
        h.h1[title],
        h.div(".tools")[
            h.div("#summary-place")[made(feed.of("summary-place"))],
            h.label(".filter")[
                h.span["Filter"],
                h.input(
                    "#filter",
                    type="search",
                    autocomplete="off",
                    spellcheck="false",
                    placeholder=hint,
                    aria_keyshortcuts="/",
                ),
            ],
            h.span("#count", role="status", data_noun=noun)[counted(total, noun) if total is not None else ""],
        ],
        h.div("#notice-place")[made(feed.of("notice-place"))],
        *tables,
    )
