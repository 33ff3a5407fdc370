"""Connects to stores of backups without credentials (`Connect`): does the network of this machine reach them?"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from pathlib import Path
from urllib.parse import unquote, urlsplit

TIMEOUT = 10.0
NEXT_ADDRESS = 0.25
"""Seconds until the next address of a name is tried beside the first."""


async def over_network(place: str) -> str:
    """Open a connection, with TLS where the URL says so, and close it. A folder has to be there."""
    split = urlsplit(place)
    if split.scheme == "file":
        return await to_folder(Path(unquote(split.path)))
    is_secure = split.scheme == "https"
    try:
        async with asyncio.timeout(TIMEOUT):
            port = split.port or (443 if is_secure else 80)
            _, writer = await asyncio.open_connection(split.hostname, port, happy_eyeballs_delay=NEXT_ADDRESS)
            try:
                if is_secure:
                    await writer.start_tls(_any_certificate(), server_hostname=split.hostname)
            finally:
                writer.transport.abort()  # nothing was sent that has to arrive
    except (OSError, UnicodeError) as error:
        return _words(error)
    return ""


async def to_folder(folder: Path) -> str:
    """The same for a folder."""
    try:
        async with asyncio.timeout(TIMEOUT):  # one of a network may hang
            is_there = await asyncio.to_thread(folder.is_dir)
    except OSError as error:  # a TimeoutError is one; others: it may not be read, its name is too long
        return _words(error)
    return "" if is_there else "there is no such folder"


def _any_certificate() -> ssl.SSLContext:
    """The authority of the store may be in its credentials, which nobody has here. Nothing is sent, so nothing can be
    read by who else may answer; agents verify it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _words(error: Exception) -> str:
    """A cause, without the addresses in which it differs from one attempt to the next."""
    match error:
        case TimeoutError():
            return f"no answer within {TIMEOUT:g} s"
        case socket.gaierror() | UnicodeError():
            return "its name can't be resolved"
        case ssl.SSLError():
            return f"the TLS handshake failed ({error.reason or 'without a reason'})"
        case OSError(errno=int(number)):
            return os.strerror(number).lower()
        case _:  # each of several addresses failed in its own way
            return "no connection"
