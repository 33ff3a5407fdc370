"""An embedded server over HTTP, for requests whose answers are compared with kube-apiserver's."""

from __future__ import annotations

import random
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from ssl import SSLContext, create_default_context

from espalier.apiserver.http import HttpShell
from espalier.apiserver.server import DEFAULT_VERSION, Server
from espalier.apiserver.storage.store import MemoryStore
from espalier.kube.connection.pki import Authority, KeyPair

HOST = "127.0.0.1"


def trusting(authority: bytes, client: KeyPair) -> SSLContext:
    context = create_default_context(cadata=authority.decode())
    with tempfile.NamedTemporaryFile() as file:
        file.write(client.certificate + client.key)
        file.flush()
        context.load_cert_chain(file.name)
    return context


@asynccontextmanager
async def embedded(version: str = DEFAULT_VERSION) -> AsyncIterator[tuple[str, SSLContext]]:
    now = datetime.now(UTC)
    authority = Authority.create("strange", now=now)
    server = Server(MemoryStore(), now=lambda: datetime.now(UTC), random=random.Random(1), version=version)
    serving = authority.issue_server("strange", names=[HOST], now=now)
    client = authority.issue_client("admin", groups=["system:masters"], now=now)
    shell = HttpShell(server, serving=serving, client_ca=authority.certificate)
    try:
        await server.start()
        await shell.start()
        yield shell.url, trusting(authority.certificate, client)
    finally:
        await shell.stop()
        await server.close()
