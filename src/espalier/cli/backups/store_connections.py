"""Connects to stores of backups without credentials (`Connect`), to find out whether this machine's network reaches
them."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import threading
from concurrent.futures import Future
from pathlib import Path
from urllib.parse import unquote, urlsplit

from espalier.kube.connection.tls import unverified_context

TIMEOUT = 10.0
NEXT_ADDRESS = 0.25
"""Seconds until the next address of a name is tried in parallel."""

_looking: dict[Path, Future[bool | OSError]] = {}
"""Checks by folder that have not returned: there is only one at a time. Its thread ends with the process."""


async def over_network(place: str) -> str:
    """Open a connection, with TLS if the URL says so, and close it. A folder must exist."""
    split = urlsplit(place)
    if split.scheme == "file":
        return await to_folder(Path(unquote(split.path)))
    if split.scheme not in ("http", "https"):
        return "it is neither an http, an https nor a file URL"
    is_secure = split.scheme == "https"
    try:
        async with asyncio.timeout(TIMEOUT):
            port = split.port or (443 if is_secure else 80)
            _, writer = await asyncio.open_connection(split.hostname, port, happy_eyeballs_delay=NEXT_ADDRESS)
            try:
                if is_secure:
                    # The authority of the store may be in its credentials, which nobody has here. Nothing is sent, so
                    # nothing can be read by who else may answer; agents verify it.
                    await writer.start_tls(unverified_context(), server_hostname=split.hostname)
            finally:
                writer.transport.abort()  # nothing was sent that must arrive
    except (OSError, UnicodeError) as error:
        return _words(error)
    return ""


async def to_folder(folder: Path) -> str:
    """The same for a folder. A network file system may hang, so each folder has its own thread, and nothing else waits
    for it.

    The event loop's own threads are needed for resolving names.
    """
    check = _looking.get(folder)
    if check is None or check.done():
        check = _looking[folder] = Future()
        threading.Thread(target=_check_folder, args=(folder, check), name=f"looking at {folder}", daemon=True).start()
    try:
        async with asyncio.timeout(TIMEOUT):
            is_folder = await asyncio.shield(asyncio.wrap_future(check))
    except TimeoutError as error:
        return _words(error)
    if isinstance(is_folder, OSError):
        return _words(is_folder)
    return "" if is_folder else "there is no such folder"


def _check_folder(folder: Path, check: Future[bool | OSError]) -> None:
    is_folder: bool | OSError
    try:
        is_folder = folder.is_dir()
    except OSError as error:  # no permission, or the name is too long
        is_folder = error
    if _looking.get(folder) is check:
        del _looking[folder]
    check.set_result(is_folder)


def _words(error: Exception) -> str:
    """A cause without addresses, which differ between attempts."""
    match error:
        case TimeoutError():
            return f"no answer within {TIMEOUT:g} s"
        case socket.gaierror() | UnicodeError():
            return "its name can't be resolved"
        case ssl.SSLError():
            return f"the TLS handshake failed ({error.reason or 'without a reason'})"
        case OSError(errno=int(number)):
            return os.strerror(number).lower()
        case _:  # each address failed in its own way
            return "no connection"
