"""The agent's HTTP server, with certificates that are renewed on disk while it runs."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import structlog

log = structlog.get_logger(__name__)

RELOAD = 30.0
"""Seconds between two looks at the files."""


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """Paths of PEM files: what the server shows, and whose certificates clients must show (None: nobody's)."""

    certificate: Path
    key: Path
    client_authority: Path | None = None

    def context(self) -> ssl.SSLContext:
        """A context with what the files hold now. Raises `ValueError` for what can't be read or does not fit."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._load(context)
        if self.client_authority is not None:
            try:
                context.load_verify_locations(self.client_authority)
            except OSError as error:
                raise ValueError(f"{self.client_authority}: {error.strerror or error}") from None
            context.verify_mode = ssl.CERT_REQUIRED
        return context

    async def reloading(self, context: ssl.SSLContext) -> NoReturn:
        """Load the certificate again when its files change, until cancelled. One that does not fit is left alone."""
        known = self._changed()
        while True:
            await asyncio.sleep(RELOAD)
            if (now := self._changed()) == known:
                continue
            try:
                self._load(context)
            except ValueError as error:
                log.warning("the new certificate is not used", error=str(error))
            else:
                known = now
                log.info("the certificate was loaded again")

    def _load(self, context: ssl.SSLContext) -> None:
        try:
            # A context forgets its key when it is given a certificate that does not fit: tried elsewhere first.
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key)
            context.load_cert_chain(self.certificate, self.key)
        except (OSError, ssl.SSLError) as error:
            raise ValueError(f"{self.certificate} and {self.key}: {error}") from None

    def _changed(self) -> tuple[int, ...]:
        try:
            return tuple(path.stat().st_mtime_ns for path in (self.certificate, self.key))
        except OSError:
            return ()
