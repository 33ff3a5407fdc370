"""The page of one cluster: each section is a fragment."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import htpy as h

from espalier.api.text.listing import counted
from espalier.dashboard.feed import Feed
from espalier.dashboard.html.page import made
from espalier.dashboard.html.parts import Node, age, cell, html, labelled, state, text, until
from espalier.dashboard.models.cluster import (
    ConditionRow,
    EventRow,
    MachineRow,
    ObjectRow,
    Obstacle,
    Progress,
    UpgradeStep,
    health_of,
)
from espalier.dashboard.models.fleet import ClusterRow, skew_of
from espalier.dashboard.models.health import Health, State
from espalier.dashboard.models.plans import Plan

PLACE = "sections"
SECTIONS = ("head", "progress", "machines", "conditions", "plan", "drift", "events", "objects")
"""In the order in which they stand. The ids of fragments have a number before them, as they are sorted by it."""
_LONG = 4000
_MOST_LINES = 400
_MOST_FIELDS = 60


def id_of(section: str) -> str:
    """The id of a section."""
    return f"s{SECTIONS.index(section)}-{section}"


def section(name: str, title: str, *content: Node, note: Node = None, id_: str = "") -> str:
    """A section with its heading; its content may be empty."""
    return html(
        h.section(id=id_ or id_of(name), class_=f"section {name}", aria_labelledby=f"h-{name}")[
            h.h2(id=f"h-{name}")[title, " " if note else None, h.span(".note")[note] if note else None], content
        ]
    )


def nothing(name: str) -> str:
    """A section that is not shown."""
    return html(h.section(id=id_of(name), hidden=True))


def head(row: ClusterRow, paused: str, message: str, obstacle: Obstacle | None, now: datetime) -> str:
    """State and facts of a cluster, and what it waits for."""
    skew, holds = skew_of(row)
    support = row.support
    ends = f"support {'ended' if support.is_over else 'until'} {support.ends}" if support.ends else ""
    return html(
        h.section(id=id_of("head"), class_="section head")[
            h.div(".title")[
                h.h1[text(row.key.name)],
                state(row.state),
                h.span(".sub")["for ", age(row.since, now)] if row.since else None,
                h.span(".tag")["management cluster"] if row.is_management else None,
                h.span(".tag")["paused"] if row.is_paused else None,
            ],
            h.dl(".facts")[
                labelled("Namespace", text(row.key.namespace)),
                labelled("Provider", text(row.provider)),
                labelled(
                    "Kubernetes", [text(row.kubernetes), _warned(ends, support.is_due)] if row.kubernetes else None
                ),
                labelled("Release", [text(row.release), _warned(skew, holds)] if row.release else None),
                labelled("Machines", f"{row.control_planes} control plane, {row.workers} workers"),
                labelled("Age", age(row.created, now)),
            ],
            h.p(".waits")[h.code[text(row.reason)] if row.reason else None, " ", text(message, _LONG)]
            if message
            else None,
            h.p(".waits")[
                "Blocked by ", h.b[text(f"{obstacle.kind} {obstacle.name}")], ": ", text(obstacle.message, _LONG)
            ]
            if obstacle is not None
            else None,
            h.p(".waits")[text(paused, _LONG)] if paused else None,
        ]
    )


def _warned(words: str, is_warning: bool) -> Node:
    return h.span(class_="sub warn" if is_warning else "sub")[words] if words else None


def progress(shown: Progress | None, now: datetime) -> str:
    """How far a change is, how long it took and will take."""
    if shown is None:
        return nothing("progress")
    return section(
        "progress",
        "Progress",
        h.progress(max=str(shown.total), value=str(shown.done), aria_label=shown.words),
        h.p[
            shown.words,
            [" · ", age(shown.began, now), " so far"] if shown.began else None,
            [" · about ", until(shown.ends, now), " left"] if shown.ends else None,
            f", {shown.assumption}" if shown.assumption else None,
        ],
    )


def _table(name: str, columns: Sequence[str], rows: Sequence[Node]) -> h.Element:
    return h.table(role="table", class_=f"rows plain {name}", aria_labelledby=f"h-{name}")[
        h.thead(role="rowgroup")[
            h.tr(role="row")[(h.th(role="columnheader", scope="col")[column] for column in columns)]
        ],
        h.tbody(role="rowgroup")[rows],
    ]


def machines(rows: Sequence[MachineRow], more: int, notice: str, now: datetime) -> str:
    """The machines, each with its steps while it is upgraded in place."""
    content: list[Node] = [h.p(".notice")[text(notice, _LONG)]] if notice else []
    if rows:
        content.append(
            _table(
                "machines",
                ("State", "Machine", "Group", "Version", "Since", "Message"),
                [_machine(row, now) for row in rows],
            )
        )
    elif not notice:
        content.append(h.p(".muted")["There are no machines."])
    if more:
        content.append(h.p(".muted")[f"{counted(more, 'more machine')} are not shown."])
    return section("machines", "Machines", *content, note=str(len(rows) + more) if rows else None)


def _machine(row: MachineRow, now: datetime) -> Node:
    return h.tr(role="row")[
        cell("State", state(row.state), class_="health"),
        cell("Machine", h.span(".strong")[text(row.name)], class_="name"),
        cell("Group", text(row.group)),
        cell(
            "Version",
            text(row.version),
            h.span(".sub")["→ ", text(row.target)] if row.target and row.target != row.version else None,
        ),
        cell("Since", age(row.since or row.created, now)),
        cell("Message", _steps(row.steps) if row.steps else None, text(row.message), class_="message"),
    ]


def _steps(steps: Sequence[UpgradeStep]) -> Node:
    done = sum(step.state == "done" for step in steps)
    return h.ol(".steps", aria_label=f"{done} of {len(steps)} steps are done")[
        (
            h.li(class_=step.state, title=f"{step.text}: {step.state}")[h.span(".unseen")[f"{step.text}: {step.state}"]]
            for step in steps
        )
    ]


def conditions(rows: Sequence[ConditionRow], now: datetime) -> str:
    """The conditions in words, with what to do."""
    if not rows:
        return section("conditions", "Conditions", h.p(".muted")["No manager has reported any yet."])
    return section(
        "conditions",
        "Conditions",
        _table("conditions", ("Condition", "Status", "Since", "Message"), [_condition(row, now) for row in rows]),
    )


def _condition(row: ConditionRow, now: datetime) -> Node:
    return h.tr(role="row")[
        cell("Condition", h.span(".strong")[text(row.type)], class_="name"),
        cell("Status", state(State(health_of(row), text(row.status))), class_="health"),
        cell("Since", age(row.since, now)),
        cell(
            "Message",
            h.code[text(row.reason)] if row.reason else None,
            " ",
            text(row.message, _LONG),
            h.span(".advice")[h.span(".takes")[row.takes], f": {row.meaning}"] if row.meaning else None,
            class_="message",
        ),
    ]


def plan(shown: Plan | None) -> str:
    """The plan of the cluster as it is, as `espalier plan` writes it."""
    if shown is None:
        return section("plan", "Plan", h.p(".muted")["The plan is being made."])
    if shown.problem:
        return section("plan", "Plan", h.p(".notice")[text(shown.problem, _LONG)])
    lines = shown.lines[:_MOST_LINES]
    more = len(shown.lines) - len(lines)
    return section(
        "plan",
        "Plan",
        h.pre(tabindex="0", role="region", aria_label="Plan")[(_line(line) for line in lines)],
        h.p(".muted")[f"{counted(more, 'more line')}: see `espalier plan`."] if more else None,
        note=_note(shown),
    )


def _note(shown: Plan) -> str:
    if shown.stops:
        return "it stops until somebody acts"
    return "nothing would change" if shown.is_empty else "the manager does this next"


_SIGNS = {"+": "plus", "~": "change", "-": "minus", "!": "stop"}


def _line(line: str) -> Node:
    sign = line.strip()[:2]
    name = _SIGNS.get(sign[0]) if len(sign) == 2 and sign[1] == " " else None
    shown = text(line, 2000)
    return [h.span(class_=name)[shown] if name else shown, "\n"]


def drift(shown: Plan | None, notice: str) -> str:
    """Drift, field by field."""
    if notice:
        return section("drift", "Drift", h.p(".notice")[text(notice, _LONG)])
    if shown is None or shown.problem or not shown.drift:
        return nothing("drift")
    valued = {str(change): change for change in shown.drifted}
    items = []
    for what in shown.drift:
        name, _, fields = what.partition(": ")
        change = valued.get(name)
        items.append(
            h.li[
                h.span(".strong")[text(name if fields else what)],
                h.dl(".fields")[
                    (
                        h.div[
                            h.dt[text(field.field)],
                            h.dd[
                                h.del_[_value(field.old)],
                                h.span(".unseen")[", rendered as "],
                                h.span(aria_hidden="true")[" → "],
                                h.ins[_value(field.new)],
                            ],
                        ]
                        for field in change.fields[:_MOST_FIELDS]
                    )
                ]
                if change is not None and change.fields
                else h.ul(".fields")[(h.li[text(field)] for field in fields.split(", ")[:_MOST_FIELDS])]
                if fields
                else None,
            ]
        )
    return section(
        "drift", "Drift", h.ul(".drifts")[items], note="as it is → as it is rendered; left unchanged by the manager"
    )


def _value(value: Any) -> str:
    if value is None:
        return "nothing"
    return text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 300)


def events(rows: Sequence[EventRow], notice: str, now: datetime) -> str:
    """The last events of the Cluster."""
    if notice:
        return section("events", "Events", h.p(".notice")[text(notice, _LONG)])
    if not rows:
        return section("events", "Events", h.p(".muted")["There are no events of the last hour."])
    return section(
        "events",
        "Events",
        _table("events", ("Age", "Type", "Reason", "Event"), [_event(row, now) for row in rows]),
    )


def _event(row: EventRow, now: datetime) -> Node:
    times = f" ({row.times} times)" if row.times > 1 else ""
    kind = State(Health.FAILING, "Warning") if row.type == "Warning" else None
    return h.tr(role="row")[
        cell("Age", age(row.time, now)),
        cell("Type", state(kind) if kind else text(row.type), class_="health"),
        cell("Reason", h.code[text(row.reason)], class_="name"),
        cell("Event", text(row.message, 1000), times, class_="message"),
    ]


def objects(rows: Sequence[ObjectRow], more: int, notices: Sequence[str], now: datetime) -> str:
    """All objects of the cluster, as `espalier describe cluster --all` shows them."""
    return section(
        "objects",
        "Objects",
        (h.p(".notice")[text(notice, _LONG)] for notice in notices),
        h.details(data_key="objects")[
            h.summary[counted(len(rows) + more, "object")],
            _table("objects", ("Object", "Version", "State", "Since", "Message"), [_object(row, now) for row in rows]),
            h.p(".muted")[f"{counted(more, 'more object')} are not shown."] if more else None,
        ],
    )


def _object(row: ObjectRow, now: datetime) -> Node:
    return h.tr(role="row")[
        cell(
            "Object",
            h.span(class_=f"depth d{min(row.depth, 8)}")[h.span(".sub")[text(row.kind)], text(row.name)],
            class_="name",
        ),
        cell("Version", text(row.version)),
        cell("State", state(row.state) if row.state is not None else None, class_="health"),
        cell("Since", age(row.since, now)),
        cell("Message", text(row.message), class_="message"),
    ]


def content(feed: Feed) -> Sequence[Node]:
    """All below the frame."""
    return (h.div(f"#{PLACE}")[made(feed.of(PLACE))],)
