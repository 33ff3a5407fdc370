"""Calls of a gardenlet to the agents of its seed: both sides present certificates of the shoot's namespace."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from aiohttp import web

from espalier.cli.backups.etcd_agent_calls import posted, session
from espalier.etcdbackup.agent.serving import ServerFiles, secured
from espalier.kube.errors import Unreachable
from espalier.runtime.servers.serving import HttpServer
from espalier.shoots.secrets.persisted import Data
from tests.support.etcd.peer_secrets import PeerSecrets


def of_a_namespace() -> Data:
    """The files of its members' Secret."""
    made = PeerSecrets(now=datetime.now(UTC), rng=None)
    made.start()
    return made.secrets[made.wanted]


async def test_certificates_of_another_shoot_are_refused(tmp_path: Path) -> None:
    """Another shoot of the same seed has certificates, too: of its own authority."""
    own, other = of_a_namespace(), of_a_namespace()
    for name, content in own.items():
        (tmp_path / name).write_bytes(content)
    asked = []

    async def initiated(request: web.Request) -> web.Response:
        asked.append(await request.text())
        return web.Response(body=b"{}")

    routes = web.Application()
    routes.router.add_post("/copyop/initiate", initiated)
    context = secured(routes, ServerFiles(tmp_path / "tls.crt", tmp_path / "tls.key", tmp_path / "ca.crt"))
    server = HttpServer(routes, "127.0.0.1", 0, context=context)
    await server.start()
    place = f"127.0.0.1:{server.port}/copyop/initiate"
    try:
        async with session() as http:
            assert await posted(http, place, b"mine", own, server_name="localhost") == b"{}"
            for files in (other, {**other, "ca.crt": own["ca.crt"]}, {**own, "ca.crt": other["ca.crt"]}, None, {}):
                with pytest.raises(Unreachable):
                    await posted(http, place, b"foreign", files, server_name="localhost")
            with pytest.raises(Unreachable, match="certificate"):
                await posted(http, place, b"misled", own, server_name="elsewhere")
    finally:
        await server.stop()
    assert asked == ["mine"]
