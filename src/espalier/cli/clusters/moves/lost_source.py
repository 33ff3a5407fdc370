"""A question to a management cluster for which there are no credentials: it answers, or not."""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from espalier.kube.connection.tls import CertificateError, client_context

WAIT = 5.0
"""Seconds in which a living API server answers."""


async def answers(server: str, authority: str) -> bool:
    """True if a server with a certificate of this authority (PEM) answers at a URL. False proves nothing: the network
    may be cut.
    """
    parts = urlsplit(server)
    if parts.scheme != "https" or not parts.hostname or not authority:
        return False
    try:
        context = client_context(authority.encode())
        async with asyncio.timeout(WAIT):
            _, writer = await asyncio.open_connection(parts.hostname, parts.port or 443, ssl=context)
    except (OSError, ValueError, CertificateError):  # also of ssl, and TimeoutError
        return False
    writer.close()
    return True
