"""The frame of all pages: head, navigation, banner."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import htpy as h
from markupsafe import Markup

from espalier.dashboard.feed import Feed, Fragment
from espalier.dashboard.html.parts import Node, html, sprite, text

_LONGEST = 4000
"""Characters of a sentence."""


class Link(NamedTuple):
    """A page in the navigation; `path` is relative to the root."""

    path: str
    title: str


class Frame(NamedTuple):
    """The parts that all pages of a dashboard have in common."""

    root: str
    """The path of the dashboard, with a slash at its end."""
    server: str
    """The API server, as the kubeconfig names it."""
    scope: str
    """The namespaces that are shown."""
    links: tuple[Link, ...]
    user: str = ""
    """The user who has signed in, where pages are served to many."""


def page(frame: Frame, current: str, title: str, feed: Feed, events: str, *content: Node) -> str:
    """A page of the fragments of `feed`. `events` is the path where later changes of it come from."""
    return html(
        h.html(lang="en")[
            h.head[
                h.meta(charset="utf-8"),
                h.meta(name="viewport", content="width=device-width, initial-scale=1"),
                h.meta(name="color-scheme", content="light dark"),
                h.title[f"{title} · Espalier"],
                h.link(rel="icon", href=f"{frame.root}static/icon.svg", type="image/svg+xml"),
                h.link(rel="stylesheet", href=f"{frame.root}static/dashboard.css"),
                h.script(src=f"{frame.root}static/dashboard.js", type="module"),
            ],
            h.body(
                data_events=f"{frame.root}{events}",
                data_number=str(feed.number),
                data_ended="signed out: load this page again" if frame.user else None,
            )[
                h.a(".skip", href="#main")["Skip to the content"],
                sprite(),
                h.header(".top")[
                    h.span(".name")["Espalier"],
                    h.nav(aria_label="Pages")[
                        (
                            h.a(
                                href=frame.root + link.path,
                                aria_current="page" if link.path == current else None,
                            )[link.title]
                            for link in frame.links
                        )
                    ],
                    h.span(".where")[
                        h.span(".server", title=f"API server {frame.server}")[frame.server], h.span[frame.scope]
                    ],
                    _signed_in(frame.user) if frame.user else None,
                    h.span("#live", role="status")["connecting"],
                ],
                h.div("#banner-place", aria_live="polite")[made(feed.of("banner-place"))],
                h.main("#main", tabindex="-1")[content],
            ],
        ]
    )


def _signed_in(user: str) -> Node:
    return h.form(".signed-in", method="post", action="/logout")[
        h.span(".user", title="The user whose rights these pages have")[text(user)], h.button["Sign out"]
    ]


def made(fragments: Iterable[Fragment]) -> Node:
    """Fragments within a page: the one place where HTML is not escaped, as functions of this package made it."""
    return Markup("").join(Markup(fragment.html) for fragment in fragments)  # noqa: S704


def banner(message: str) -> Fragment:
    """A sentence above all of the page; nothing without one."""
    return Fragment("banner", "banner-place", html(h.p("#banner", hidden=not message)[text(message, _LONGEST)]))


def notice(message: str, *, id_: str = "notice", place: str = "notice-place") -> Fragment:
    """A sentence in the place of what can't be shown; nothing without one."""
    return Fragment(id_, place, html(h.p(".notice", id=id_, hidden=not message)[text(message, _LONGEST)]))


def plain(title: str, message: str, *, to: str = "") -> str:
    """A page that says one thing, without scripts; `to` is opened at once."""
    return html(
        h.html(lang="en")[
            h.head[
                h.meta(charset="utf-8"),
                h.meta(name="viewport", content="width=device-width, initial-scale=1"),
                h.meta(http_equiv="refresh", content=f"0; url={to}") if to else None,
                h.title[title],
                h.link(rel="icon", href=f"{to}static/icon.svg") if to.startswith("/") and to.endswith("/") else None,
            ],
            h.body[h.main[h.h1[title], h.p[message], h.p[h.a(href=to)["Open the dashboard"]] if to else None]],
        ]
    )
