"""Watches."""

from __future__ import annotations

from tests.contracts.edge_cases.requests import MAPS, ODDITIES, get

_WATCH = "watch=true&timeoutSeconds=1"
"""Of what is refused, and of what gets no event."""

_EVENT = "timeoutSeconds=60"
"""Of what gets one: a busy server may take its time."""

WATCHES = (
    get("a match of a watch", f"{MAPS}?{_WATCH}&resourceVersion=1&resourceVersionMatch=NotOlderThan"),
    get("initial events without a match", f"{MAPS}?{_WATCH}&sendInitialEvents=true"),
    get("a watch from what is no version", f"{MAPS}?{_WATCH}&resourceVersion=some"),
    get("a watch that goes on", f"{MAPS}?{_WATCH}&continue=abc"),
    get("a watch from the far future", f"{MAPS}?{_WATCH}&resourceVersion=999999999"),
    get(
        "a watch that lists the far future",
        f"{MAPS}?watch=true&{_EVENT}&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=999999999&allowWatchBookmarks=true",
        event=True,
    ),
    get("a custom watch from the far future", f"{ODDITIES}?{_WATCH}&resourceVersion=999999999"),
    get("a watch from long ago", f"{ODDITIES}?watch=true&{_EVENT}&resourceVersion=1", event=True),
    get(
        "a watch that is neither yes nor no",
        f"{MAPS}?watch=maybe&{_EVENT}&fieldSelector=metadata.name=here",
        event=True,
    ),
)
