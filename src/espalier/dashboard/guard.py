"""Who may read the pages: whoever opened the address that the command printed to its own terminal.

The server listens on loopback, where every user of the machine and every page in a browser can send requests. So:

- a request must name this server in `Host`: a page whose name was rebound to 127.0.0.1 names another;
- the printed address has a random token; it is exchanged for a cookie, and is not in the address of any page;
- browsers send a cookie of 127.0.0.1 to every port of it, also to another user's program. So the cookie is limited to
  a path that is random as well, which that program can't guess;
- nothing is accepted but GET and HEAD.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import NamedTuple

from aiohttp import web

COOKIE = "espalier-dashboard"
_HTTP = 80
"""The port that browsers name neither in addresses nor in `Host`."""

HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every answer."""


class Refusal(NamedTuple):
    """Why a request is refused, in a sentence."""

    status: int
    message: str


class Guard:
    """The secrets of one run."""

    def __init__(self) -> None:
        self._token = secrets.token_urlsafe(32)
        self._cookie = secrets.token_urlsafe(32)
        self.root = f"/{secrets.token_urlsafe(16)}/"
        """The path that all pages are below."""

    def address(self, port: int) -> str:
        """The address that opens the dashboard: for the caller's eyes alone."""
        return f"http://127.0.0.1:{port}/?token={self._token}"

    def refusal(self, request: web.Request, port: int) -> Refusal | None:
        """Why a request is not answered; None for one that is."""
        if request.method not in ("GET", "HEAD"):
            return Refusal(405, f"found {request.method}, allowed are GET and HEAD: this page changes nothing")
        names = ("127.0.0.1", "localhost")
        hosts = {f"{name}:{port}" for name in names} | (set(names) if port == _HTTP else set())
        named = request.headers.getall("Host", [])
        if len(named) != 1 or named[0] not in hosts:
            return Refusal(421, f"the Host of the request is not this server: open http://127.0.0.1:{port}/")
        if (
            request.headers.get("Sec-Fetch-Site") == "cross-site"
            and request.headers.get("Sec-Fetch-Dest") != "document"
        ):
            return Refusal(403, "the request comes from a page of another site")
        return None

    def opens(self, request: web.Request) -> bool:
        """True if a request has the token of the printed address."""
        return _equal(request.query.get("token", ""), self._token)

    def knows(self, request: web.Request) -> bool:
        """True if a request has the cookie."""
        return request.path.startswith(self.root) and _equal(request.cookies.get(COOKIE, ""), self._cookie)

    def let_in(self, response: web.StreamResponse) -> None:
        """Give the cookie to whoever had the token."""
        response.set_cookie(COOKIE, self._cookie, path=self.root, httponly=True, samesite="Strict")


def _equal(given: str, secret: str) -> bool:
    return hmac.compare_digest(given.encode(errors="replace"), secret.encode())
