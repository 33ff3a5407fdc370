"""The page of all clusters."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote

import htpy as h

from espalier.api.resource import Key
from espalier.dashboard.feed import Feed, Fragment
from espalier.dashboard.html.lists import RANKS, chips, page_of_all, table
from espalier.dashboard.html.page import made
from espalier.dashboard.html.parts import Node, age, cell, html, icon, state, text
from espalier.dashboard.models.fleet import ClusterRow, Summary, Support, skew_of
from espalier.dashboard.models.health import Health

PLACE = "clusters"

COLUMNS = (
    ("health", "State"),
    ("name", "Cluster"),
    ("kubernetes", "Kubernetes"),
    ("release", "Release"),
    ("drift", "Drift"),
    ("machines", "Machines"),
    ("since", "Since"),
    ("message", "Waits for"),
)


def id_of(key: Key) -> str:
    """The id of a cluster's row."""
    return f"c/{key.namespace}/{key.name}"


def path_of(key: Key) -> str:
    """The path of a cluster's page below the root."""
    return f"clusters/{quote(key.namespace, safe='')}/{quote(key.name, safe='')}"


def fragment(row: ClusterRow, root: str, now: datetime) -> Fragment:
    """The row of a cluster."""
    return Fragment(id_of(row.key), PLACE, html(_row(row, root, now)))


def _row(row: ClusterRow, root: str, now: datetime) -> h.Element:
    flags = [
        str(row.state.health),
        "drifted" if row.drift else "",
        "support" if row.support.is_due else "",
        "behind" if row.behind > 0 else "",
    ]
    machines = row.control_planes + row.workers
    return h.tr(role="row", id=id_of(row.key), data_flags=" ".join(filter(None, flags)))[
        cell("State", state(row.state), class_="health", sort=RANKS[row.state.health]),
        cell(
            "Cluster",
            h.a(href=root + path_of(row.key))[text(row.key.name)],
            h.span(".sub")[
                text(row.key.namespace),
                f" · {text(row.provider)}" if row.provider else None,
                " · management" if row.is_management else None,
            ],
            h.span(".tag")["paused"] if row.is_paused else None,
            class_="name",
            sort=f"{row.key.name}/{row.key.namespace}",
        ),
        cell("Kubernetes", text(row.kubernetes), _support(row.support), class_="kubernetes", sort=row.kubernetes),
        cell("Release", text(row.release), _skew(row), class_="release", sort=row.release),
        cell("Drift", _drift(row.drift), class_="drift", sort={True: 0, None: 1, False: 2}[row.drift]),
        cell(
            "Machines",
            h.span(title=f"{row.control_planes} of the control plane, {row.workers} workers")[
                f"{row.control_planes} + {row.workers}" if machines else ""
            ],
            class_="machines",
            sort=machines,
        ),
        cell("Since", age(row.since or row.created, now), class_="since", sort=row.since or row.created),
        cell(
            "Waits for",
            h.code[text(row.reason)] if row.reason else None,
            " " if row.reason else None,
            text(row.message),
            class_="message",
            sort=f"{row.reason} {row.message}".strip() or "~",
        ),
    ]


def _support(support: Support) -> Node:
    if not support.ends:
        return None
    verb = "ended" if support.is_over else "ends" if support.is_due else "until"
    words = f"support {verb} " if support.is_due else "until "
    return h.span(class_="sub warn" if support.is_due else "sub")[words, h.span(".date")[text(support.ends)]]


def _skew(row: ClusterRow) -> Node:
    words, holds = skew_of(row)
    return h.span(class_="sub warn" if holds else "sub")[words] if words else None


def _drift(drift: bool | None) -> Node:
    if drift is None:
        return h.span(".muted", title="not compared")["–"]
    return h.span(".state.failing")[icon(Health.FAILING), h.span["Drifted"]] if drift else h.span(".muted")["none"]


def summary(counts: Summary) -> str:
    """The counts, each of which filters the table."""
    others = [
        ("drifted", "Drifted", counts.drifted),
        ("support", "Support ends", counts.support_due),
        ("behind", "Behind", counts.behind),
    ]
    return chips(counts.by_health, others)


def content(feed: Feed, total: int | None) -> Sequence[Node]:
    """All below the frame. `total`: None if it is not known."""
    return page_of_all(
        "Clusters",
        "cluster",
        total,
        feed,
        table(COLUMNS, "clusters", PLACE, made(feed.of(PLACE)), filtered=True),
        hint="name, version, reason …",
    )
