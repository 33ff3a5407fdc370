"""Actions of users on a cluster."""

from __future__ import annotations

from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from tests.journeys.sweep.history import Act, History, annotate
from tests.journeys.sweep.remedies import delete_and_ask_again


async def scale(h: History) -> str:
    count = h.rng.choice((1, 2, 3))
    await h.ask(workers=count)
    return f"scale to {count}"


async def upgrade(h: History) -> str:
    await h.ask(version="1.36")
    return "upgrade to 1.36"


async def label(h: History) -> str:
    await h.ask(label=h.rng.choice(("", "a", "b")), taint=h.rng.choice(("", "x")))
    return f"labels and taints: {h.wish.label!r} {h.wish.taint!r}"


async def group(h: History) -> str:
    await h.ask(second=not h.wish.second)
    return f"second group: {h.wish.second}"


async def pause(h: History) -> str:
    await annotate(h, {PAUSED_ANNOTATION: "true"})
    return "pause the Cluster"


async def go_on(h: History) -> str:
    await annotate(h, {PAUSED_ANNOTATION: None})
    return "have the Cluster go on"


USERS: dict[str, Act] = {
    "scale": scale,
    "upgrade": upgrade,
    "label": label,
    "group": group,
    "pause": pause,
    "go on": go_on,
    "delete and ask again": delete_and_ask_again,
}
