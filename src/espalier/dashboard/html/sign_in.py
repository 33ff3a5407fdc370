"""The page on which callers give their tokens."""

from __future__ import annotations

import htpy as h

from espalier.dashboard.html.parts import html, text

_LONGEST = 1000
"""Characters of a sentence."""


def sign_in(server: str, message: str, page: str, namespace: str) -> str:
    """A form for a token and a namespace. `message`: why it is shown; `page`: the path that is opened afterwards."""
    return html(
        h.html(lang="en")[
            h.head[
                h.meta(charset="utf-8"),
                h.meta(name="viewport", content="width=device-width, initial-scale=1"),
                h.meta(name="color-scheme", content="light dark"),
                h.title["Sign in · Espalier"],
                h.link(rel="icon", href="/static/icon.svg", type="image/svg+xml"),
                h.link(rel="stylesheet", href="/static/dashboard.css"),
            ],
            h.body[
                h.main("#main.sign-in")[
                    h.h1["Sign in to Espalier"],
                    h.p(".notice", role="alert")[text(message, _LONGEST)] if message else None,
                    h.p[
                        f"These pages show what you may read at API server {server}, and change nothing. Your token is "
                        "sent there with each request; a cookie of this browser keeps it until you sign out or close "
                        "the browser, and nothing else does."
                    ],
                    h.form(method="post", action="/login", autocomplete="off")[
                        h.input(type="hidden", name="page", value=page) if page else None,
                        h.label(for_="token")["Token"],
                        h.input("#token", type="password", name="token", required=True, autocomplete="off"),
                        h.p(".hint")["Such as that of ", h.code["kubectl create token NAME"]],
                        h.label(for_="namespace")["Namespace"],
                        h.input("#namespace", type="text", name="namespace", value=namespace, spellcheck="false"),
                        h.p(".hint")["Empty for all; needed if you may list clusters in one namespace only"],
                        h.button["Sign in"],
                    ],
                ]
            ],
        ]
    )
