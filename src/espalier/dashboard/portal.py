"""The pages behind the API server's authentication: served over TLS to whoever sends a token that it accepts.

The portal has no rights of its own, and judges no token: it sends that of the caller to the API server, which decides
(`sessions.py`). A browser gets the token there by a form, which a cookie keeps: `__Host-`, so that no other host or
path can set or read it; HttpOnly, Secure, SameSite=Strict; without an end of its own, so that it goes with the
browser. Programs and proxies send `Authorization: Bearer`. No other header of a request has a meaning: what names a
host, a user or a caller's address (`Host`, `X-Forwarded-*`, `Impersonate-*`) is neither used nor passed on.

Nothing is changed by a request, except the cookie; the two requests that do so must come from a page of the portal.
"""

from __future__ import annotations

import re
import ssl
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import structlog
from aiohttp import web

from espalier.api.text.printable import quoted
from espalier.dashboard.guard import HEADERS
from espalier.dashboard.html import page as frames
from espalier.dashboard.html.sign_in import sign_in
from espalier.dashboard.pages import plain, static
from espalier.dashboard.serving import ABSENT
from espalier.dashboard.sessions import Sessions, TooManySessions, root_of
from espalier.kube.connection.pki import KeyPair
from espalier.kube.errors import KubeError, Unauthorized
from espalier.kube.transports.serving import body_of
from espalier.runtime.servers.serving import HttpServer

COOKIE = "__Host-espalier-token"
LONGEST_TOKEN = 3900
"""Characters; browsers keep no cookie beyond 4096 with its name and attributes."""
LARGEST_FORM = 16 * 1024
"""Bytes."""

_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*")
"""RFC 6750, section 2.1: nothing that could end a header."""
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_PAGE = re.compile(r"/([a-z0-9][a-z0-9./-]{0,600})?")
"""Paths that are opened after a token was given: of this server, whatever they are."""
_LONGEST = 500
_HEADERS = {
    **HEADERS,
    "Content-Security-Policy": HEADERS["Content-Security-Policy"].replace("form-action 'none'", "form-action 'self'"),
    "Vary": "Cookie, Authorization",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Portal:
    """The server. Use `running`; connections are accepted once there is a certificate (`use`)."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._port = 0

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self._port

    def use(self, pair: KeyPair) -> None:
        """Serve new connections with this certificate."""
        with tempfile.NamedTemporaryFile() as file:  # the ssl module reads files only
            file.write(pair.certificate + pair.key)
            file.flush()
            self._context.load_cert_chain(file.name)

    @asynccontextmanager
    async def running(self, host: str, port: int) -> AsyncIterator[None]:
        """Serve within the block. Raises `OSError` if the address is in use."""
        application = web.Application(middlewares=[self._guarded], client_max_size=LARGEST_FORM)
        application.add_routes(
            [
                web.get("/login", self._form),
                web.post("/login", self._sign_in),
                web.post("/logout", self._sign_out),
                web.get("/static/{name}", self._static),
                web.get("/in/{namespace}/{path:.*}", self._answer),
                web.get("/{path:.*}", self._answer),
            ]
        )
        server = HttpServer(application, host, port, context=self._context)
        async with self._sessions.running():
            await server.start()
            self._port = server.port
            try:
                yield
            finally:
                self._sessions.end()
                await server.stop()

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            response = self._refusal(request) or await handler(request)
        except web.HTTPRedirection as redirect:
            response = redirect
        except web.HTTPException as error:
            message = ABSENT if error.status == 404 else (error.text or error.reason)
            response = plain("Not found" if error.status == 404 else error.reason, message, error.status)
        except TooManySessions as error:
            response = plain("Too many", str(error), 503)
        except KubeError as error:
            why = quoted(str(error), _LONGEST)
            response = plain("No answer", f"API server {self._sessions.server} can't be read: {why}.", 503)
        except Exception:
            structlog.get_logger("espalier.dashboard").exception("a request could not be answered")
            response = plain("Failed", "This request could not be answered; the log of the manager says why.", 500)
        if not response.prepared:
            response.headers.update(_HEADERS)
            if response.status == Unauthorized.code:
                response.headers["WWW-Authenticate"] = "Bearer"
        return response

    def _refusal(self, request: web.Request) -> web.Response | None:
        """The answer to a request that a page of another site caused, or that could change something."""
        site = request.headers.get("Sec-Fetch-Site")
        if request.method == "POST":
            origin = urlsplit(request.headers.get("Origin", ""))
            is_own = (
                site == "same-origin" if site else bool(origin.netloc) and origin.netloc == request.headers.get("Host")
            )
            return None if is_own else plain("Not allowed", "The form was not sent by a page of this server.", 403)
        if request.method not in ("GET", "HEAD"):
            return plain(
                "Not allowed", f"found {request.method}, allowed are GET and HEAD: nothing is changed here", 405
            )
        if site in ("cross-site", "same-site") and request.headers.get("Sec-Fetch-Dest") != "document":
            return plain("Not allowed", "The request comes from a page of another site.", 403)
        return None

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        namespace = request.match_info.get("namespace", "")
        if namespace and not _NAMESPACE.fullmatch(namespace):
            raise web.HTTPNotFound
        token = self._token(request)
        if token is None:
            return self._unknown(request, namespace)
        try:
            async with self._sessions.use(token, namespace) as pages:
                return await pages.answer(request, request.match_info["path"])
        except Unauthorized as error:
            return self._refused(request, namespace, error)

    def _token(self, request: web.Request) -> str | None:
        """The token of a request; None without one. Raises `HTTPUnauthorized` for what can't be one."""
        header = request.headers.getall("Authorization", [])
        if not header:
            token = request.cookies.get(COOKIE, "")
            return token if _TOKEN.fullmatch(token) else None
        scheme, _, token = header[0].partition(" ")
        if len(header) > 1 or scheme.lower() != "bearer" or not _TOKEN.fullmatch(token.strip()):
            raise web.HTTPUnauthorized(text="Authorization: allowed is one header `Bearer TOKEN`")
        return token.strip()

    def _unknown(self, request: web.Request, namespace: str) -> web.Response:
        page = _page(request)
        if page and request.headers.get("Sec-Fetch-Site") == "cross-site":
            # Browsers send no strict cookie with what a page of another site leads to; they do with what this one does.
            return web.Response(text=frames.plain("Espalier", "The page opens.", to=page), content_type="text/html")
        return self._sign_in_page("", page, namespace, 401)

    def _refused(self, request: web.Request, namespace: str, error: Unauthorized) -> web.Response:
        why = quoted(str(error), _LONGEST)
        message = f"The API server refuses your token, which may have ended: {why}. Sign in with another one."
        response = self._sign_in_page(message, _page(request), namespace, 401)
        response.del_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="Strict")
        return response

    def _sign_in_page(self, message: str, page: str, namespace: str, status: int) -> web.Response:
        text = sign_in(self._sessions.server, message, page, namespace)
        return web.Response(text=text, status=status, content_type="text/html")

    async def _form(self, _request: web.Request) -> web.StreamResponse:
        return self._sign_in_page("", "", "", 200)

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        """Exchange a token that the API server accepts for the cookie."""
        await body_of(request)
        form = await request.post()
        token, namespace, page = (str(form.get(name, "")).strip() for name in ("token", "namespace", "page"))
        page = page if _PAGE.fullmatch(page) else ""

        def again(message: str, status: int) -> web.Response:
            return self._sign_in_page(message, page, namespace if _NAMESPACE.fullmatch(namespace) else "", status)

        if len(token) > LONGEST_TOKEN:
            return again(
                f"Token: found {len(token)} characters, allowed are {LONGEST_TOKEN}, as browsers keep no larger "
                "cookie; have a proxy send it as header Authorization",
                400,
            )
        if not _TOKEN.fullmatch(token):
            return again("Token: found none, or characters that no bearer token has; copy all of it, in one line", 400)
        if namespace and not _NAMESPACE.fullmatch(namespace):
            return again(f"Namespace: found {quoted(namespace, 100)}, allowed is the name of one, such as team-a", 400)
        try:
            await self._sessions.user_of(token)
        except Unauthorized as error:
            return again(f"The API server refuses this token: {quoted(str(error), _LONGEST)}.", 401)
        response = web.Response(status=303, headers={"Location": root_of(namespace) if namespace else page or "/"})
        response.set_cookie(COOKIE, token, path="/", secure=True, httponly=True, samesite="Strict")
        return response

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        token = self._token(request)
        if token is not None:
            self._sessions.close(token)
        response = web.Response(status=303, headers={"Location": "/login"})
        response.del_cookie(COOKIE, path="/", secure=True, httponly=True, samesite="Strict")
        return response

    async def _static(self, request: web.Request) -> web.StreamResponse:
        return static(request.match_info["name"])


def _page(request: web.Request) -> str:
    """The path of a request, for a browser to open later; empty for one that is no page."""
    return request.path if _PAGE.fullmatch(request.path) and not request.path.startswith("/events") else ""
