"""The pages of shoots and seeds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from urllib.parse import quote

import htpy as h

from espalier.api.resource import Key
from espalier.dashboard.feed import Feed, Fragment
from espalier.dashboard.html.cluster import section as _section
from espalier.dashboard.html.lists import RANKS, chips, page_of_all, table
from espalier.dashboard.html.page import made
from espalier.dashboard.html.parts import Node, age, cell, html, labelled, state, text
from espalier.dashboard.models.garden import MOVING, Epoch, SeedRow, ShootPage, ShootRow, Task, Timeline, advice
from espalier.dashboard.models.health import Health

SHOOTS, SEEDS = "shoots", "seeds"
PLACE = "sections"
SECTIONS = ("head", "tasks", "timeline", "conditions", "epochs")
_LONG = 4000

SHOOT_COLUMNS = (
    ("health", "State"),
    ("name", "Shoot"),
    ("kubernetes", "Kubernetes"),
    ("seed", "Seed"),
    ("operation", "Operation"),
    ("disaster", "Ready for disaster"),
    ("since", "Since"),
    ("message", "Waits for"),
)
SEED_COLUMNS = (
    ("health", "State"),
    ("name", "Seed"),
    ("shoots", "Shoots"),
    ("coming", "Coming"),
    ("leaving", "Leaving"),
    ("renewed", "Lease"),
    ("backup", "Backup"),
    ("message", "Message"),
)


def path_of(key: Key) -> str:
    """The path of a shoot's page below the root."""
    return f"shoots/{quote(key.namespace, safe='')}/{quote(key.name, safe='')}"


def shoot_id(key: Key) -> str:
    """The id of a shoot's row."""
    return f"h/{key.namespace}/{key.name}"


def seed_id(name: str) -> str:
    """The id of a seed's row."""
    return f"e/{name}"


def shoot(row: ShootRow, root: str, now: datetime) -> Fragment:
    """The row of a shoot."""
    flags = [
        str(row.state.health),
        "moving" if row.state.word == MOVING else "",
        "exposed" if _is_exposed(row) else "",
    ]
    element = h.tr(role="row", id=shoot_id(row.key), data_flags=" ".join(filter(None, flags)))[
        cell("State", state(row.state), class_="health", sort=RANKS[row.state.health]),
        cell(
            "Shoot",
            h.a(href=root + path_of(row.key))[text(row.key.name)],
            h.span(".sub")[text(row.key.namespace)],
            class_="name",
            sort=f"{row.key.name}/{row.key.namespace}",
        ),
        cell("Kubernetes", text(row.kubernetes), sort=row.kubernetes),
        cell("Seed", _seed(row), sort=row.seed),
        cell(
            "Operation",
            text(row.operation),
            h.progress(max="100", value=str(row.progress), aria_label=f"{row.progress} %")
            if row.progress < 100 and row.operation
            else None,
            sort=row.operation,
        ),
        cell(
            "Ready for disaster",
            h.span(title=text(row.backups))[state(row.disaster)] if row.disaster else h.span(".muted")["–"],
            class_="disaster",
            sort=RANKS[row.disaster.health] if row.disaster else 9,
        ),
        cell("Since", age(row.since, now), sort=row.since),
        cell("Waits for", text(row.message), class_="message", sort=row.message or "~"),
    ]
    return Fragment(shoot_id(row.key), SHOOTS, html(element))


def _seed(row: ShootRow) -> Node:
    if not row.wanted:
        return text(row.seed)
    return [text(row.seed), h.span(".unseen")[" moves to "], h.span(aria_hidden="true")[" → "], h.b[text(row.wanted)]]


def seed(row: SeedRow, now: datetime) -> Fragment:
    """The row of a seed."""
    element = h.tr(role="row", id=seed_id(row.name), data_flags=str(row.state.health))[
        cell("State", state(row.state), class_="health", sort=RANKS[row.state.health]),
        cell("Seed", h.span(".strong")[text(row.name)], class_="name", sort=row.name),
        cell("Shoots", str(row.shoots), sort=row.shoots),
        cell("Coming", str(row.coming) if row.coming else h.span(".muted")["–"], sort=row.coming),
        cell("Leaving", str(row.leaving) if row.leaving else h.span(".muted")["–"], sort=row.leaving),
        cell("Lease", [age(row.renewed, now), " ago"] if row.renewed else "–", sort=row.renewed),
        cell("Backup", text(row.backup) or h.span(".warn")["none"], sort=row.backup),
        cell("Message", text(row.message), class_="message", sort=row.message or "~"),
    ]
    return Fragment(seed_id(row.name), SEEDS, html(element))


def summary(rows: Sequence[ShootRow]) -> str:
    """The counts of shoots, each of which filters the table."""
    exposed = sum(_is_exposed(row) for row in rows)
    others = [
        ("moving", "Moving", sum(row.state.word == MOVING for row in rows)),
        ("exposed", "Not ready for disaster", exposed),
    ]
    return chips(Counter(row.state.health for row in rows), others)


def _is_exposed(row: ShootRow) -> bool:
    return row.disaster is not None and row.disaster.health is not Health.READY


def content(feed: Feed, total: int | None) -> Sequence[Node]:
    """All of the page of shoots and seeds below the frame. `total`: None if it is not known."""
    return page_of_all(
        "Shoots",
        "shoot",
        total,
        feed,
        table(SHOOT_COLUMNS, "shoots", SHOOTS, made(feed.of(SHOOTS)), filtered=True),
        h.h2(".next")["Seeds"],
        h.div("#seeds-notice-place")[made(feed.of("seeds-notice-place"))],
        table(SEED_COLUMNS, "seeds", SEEDS, made(feed.of(SEEDS)), filtered=False),
        hint="name, seed, operation …",
    )


# One shoot


def id_of(name: str) -> str:
    """The id of a section."""
    return f"s{SECTIONS.index(name)}-{name}"


def section(name: str, title: str, *parts: Node, note: Node = None) -> str:
    """A section of a shoot's page."""
    return _section(name, title, *parts, note=note, id_=id_of(name))


def nothing(name: str) -> str:
    """A section that is not shown."""
    return html(h.section(id=id_of(name), hidden=True))


def head(page: ShootPage, now: datetime) -> str:
    """State and facts of a shoot."""
    row = page.row
    return html(
        h.section(id=id_of("head"), class_="section head")[
            h.div(".title")[
                h.h1[text(row.key.name)],
                state(row.state),
                h.span(".sub")["for ", age(row.since, now)] if row.since else None,
            ],
            h.dl(".facts")[
                labelled("Namespace", text(row.key.namespace)),
                labelled("Seed", _seed(row)),
                labelled("Kubernetes", text(row.kubernetes)),
                labelled("Operation", f"{text(row.operation)}, {row.progress} %" if row.operation else None),
                labelled(
                    "Ready for disaster",
                    [state(row.disaster), h.span(".sub")["checked ", age(row.checked, now), " ago"]]
                    if row.disaster is not None
                    else None,
                ),
                labelled("Technical ID", text(page.technical_id)),
            ],
            h.p(".waits")[text(row.backups, _LONG)] if row.backups else None,
            h.p(".waits")[text(row.message, _LONG)] if row.message else None,
            [h.p(".waits.warn")[text(error, _LONG)] for error in page.errors],
        ]
    )


def tasks(rows: Sequence[Task]) -> str:
    """The tasks of an operation that is not done."""
    if not rows:
        return nothing("tasks")
    done = sum(row.state == "done" for row in rows)
    shown = [row for row in rows if row.state in ("current", "failed")]
    return section(
        "tasks",
        "Tasks",
        h.ol(".steps.wide", aria_label=f"{done} of {len(rows)} tasks are done")[
            (
                h.li(class_=row.state, title=f"{row.name}: {row.state}")[
                    h.span(".unseen")[text(f"{row.name}: {row.state}")]
                ]
                for row in rows
            )
        ],
        h.ul(".drifts")[(h.li[h.span(".strong")[text(row.name)], ": ", text(row.message, 1000)] for row in shown)]
        if shown
        else None,
        note=f"{done} of {len(rows)} are done",
    )


def timeline(line: Timeline, now: datetime) -> str:
    """The moments of moves, and the gap of the API."""
    if not line.moments:
        return section(
            "timeline", "Moves", h.p(".muted")["No move has happened since the dashboard was started."], note=None
        )
    if line.lost_at:
        gap: Node = ["API gap: ", age(line.lost_at, now), " so far"]
    elif line.gap is not None:
        gap = f"API gap: {line.gap:g} s"
    else:
        gap = "no API gap"
    return section(
        "timeline",
        "Moves",
        h.ol(".timeline")[
            (
                h.li(class_=moment.kind)[age(moment.time, now), h.span[text(moment.text, 1000)]]
                for moment in line.moments
            )
        ],
        note=gap,
    )


def conditions(page: ShootPage, now: datetime) -> str:
    """The conditions and constraints, with what to do."""
    if not page.conditions:
        return section("conditions", "Conditions", h.p(".muted")["No gardenlet has reported any yet."])
    columns = ("Condition", "Status", "Since", "Message")
    rows = []
    for shown, condition in page.conditions:
        meaning, takes = advice(condition.reason) if condition.status != "True" else ("", "")
        rows.append(
            h.tr(role="row")[
                cell("Condition", h.span(".strong")[text(condition.type)], class_="name"),
                cell("Status", state(shown), class_="health"),
                cell("Since", age(condition.last_transition_time, now)),
                cell(
                    "Message",
                    h.code[text(condition.reason)] if condition.reason else None,
                    " ",
                    text(condition.message, _LONG),
                    h.span(".advice")[h.span(".takes")[takes], f": {meaning}"] if meaning else None,
                    class_="message",
                ),
            ]
        )
    element = h.table(role="table", class_="rows plain conditions", aria_labelledby="h-conditions")[
        h.thead(role="rowgroup")[
            h.tr(role="row")[(h.th(role="columnheader", scope="col")[column] for column in columns)]
        ],
        h.tbody(role="rowgroup")[rows],
    ]
    return section("conditions", "Conditions", element)


def epochs(rows: Sequence[Epoch], problem: str) -> str:
    """Which seeds had, and have, the shoot's etcd."""
    if problem:
        return section("epochs", "Ownership", h.p(".notice")[text(problem, _LONG)])
    if not rows:
        return nothing("epochs")
    return section(
        "epochs",
        "Ownership of etcd",
        h.ol(".epochs")[
            (
                h.li[
                    h.span(".strong")[f"epoch {row.number}"],
                    f": {row.seed}, ",
                    "started" if row.started else "not started",
                    h.span(".sub")[text(f"bucket {row.bucket}")],
                ]
                for row in rows
            )
        ],
    )


def sections(feed: Feed) -> Sequence[Node]:
    """All of a shoot's page below the frame."""
    return (h.div(f"#{PLACE}")[made(feed.of(PLACE))],)
