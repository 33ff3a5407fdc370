"""The agent's HTTP server, with certificates that are renewed on disk while it runs."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

import structlog
from aiohttp import web

log = structlog.get_logger(__name__)

HEALTH = "/healthz"
"""Answered without a client certificate, because kubelets have none."""
RELOAD = 30.0
"""Seconds between two checks of the files."""


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """Paths of PEM files: the server's certificate and key, and the authority of client certificates (None: clients
    need none). With an authority, only `HEALTH` is answered without one; see `secured`."""

    certificate: Path
    key: Path
    client_authority: Path | None = None

    def context(self) -> ssl.SSLContext:
        """A context with the present content of the files. Raises `ValueError` if they can't be read or do not
        match."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_TICKET  # a resumed session has no client certificate
        try:
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise ValueError(f"{self.certificate} and {self.key}: {error}") from None
        if self.client_authority is not None:
            try:
                context.load_verify_locations(self.client_authority)
            except OSError as error:
                raise ValueError(f"{self.client_authority}: {error.strerror or error}") from None
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    async def reloading(self, context: ssl.SSLContext) -> NoReturn:
        """Reload the files for new connections when they change, until cancelled. Files that do not match are
        ignored."""
        known = self._changed()
        while True:
            await asyncio.sleep(RELOAD)
            if (now := self._changed()) == known:
                continue
            try:
                renewed = self.context()
            except ValueError as error:
                log.warning("keeping the old certificates", error=str(error))
            else:
                known = now
                # Authorities can't be removed from a context: handshakes get the new context instead.
                context.sni_callback = partial(_use_renewed, renewed)
                log.info("reloaded certificates")

    def _changed(self) -> tuple[int, ...]:
        files = (self.certificate, self.key, self.client_authority)
        try:
            return tuple(path.stat().st_mtime_ns for path in files if path is not None)
        except OSError:
            return ()


def secured(routes: web.Application, files: ServerFiles | None) -> ssl.SSLContext | None:
    """The context of a server of these routes, which from now on ask for a client certificate; None without TLS. Raises
    `ValueError`."""
    if files is None:
        return None
    if files.client_authority is not None:
        routes.middlewares.insert(0, _require_certificate)
    return files.context()


@web.middleware
async def _require_certificate(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    if request.path != HEALTH and not request.get_extra_info("peercert"):
        raise web.HTTPForbidden(text="present a certificate of the authority that --client-ca names\n")
    return await handler(request)


def _use_renewed(renewed: ssl.SSLContext, handshake: ssl.SSLObject, _name: str | None, _before: ssl.SSLContext) -> None:
    handshake.context = renewed
