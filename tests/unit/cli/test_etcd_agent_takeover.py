"""`espalier etcd-agent copy --epoch`: the destination's part of a migration, as it is started and asked."""

from __future__ import annotations

import asyncio
import re
import ssl
from pathlib import Path

import aiohttp
import pytest

from espalier.cli.backups import etcd_agent_takeover
from espalier.cli.kit.failures import Usage
from tests.support.etcd.agent_certificates import certificates

Captured = pytest.CaptureFixture[str]


async def test_it_answers_over_https_who_shows_a_certificate(tmp_path: Path, capsys: Captured) -> None:
    files, client = certificates(tmp_path)
    http_flags = etcd_agent_takeover.HttpFlags("127.0.0.1:0", files.certificate, files.key, files.client_authority)
    stores = etcd_agent_takeover.Stores(f"file://{tmp_path}/source", "", f"file://{tmp_path}/target", "")
    running = asyncio.ensure_future(etcd_agent_takeover.copy(stores, 2, 1, "shoot--a--b/1", None, http_flags))
    try:
        url = await address(running, capsys)
        known = ssl.create_default_context(cafile=client / "ca.crt")
        known.load_cert_chain(client / "client.crt", client / "client.key")
        async with aiohttp.ClientSession() as session, session.get(f"{url}/healthz", ssl=known) as answer:
            assert answer.status == 503
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def address(running: asyncio.Future[None], capsys: Captured) -> str:
    """The address that was told. Raises what ended the program before."""
    output = ""
    while not (match := re.search(r"listens on (https://\S+)", output)):
        if running.done():
            await running
        await asyncio.sleep(0)
        shown = capsys.readouterr()
        output += shown.out + shown.err
    return match[1]


def test_files_of_https_belong_together(tmp_path: Path) -> None:
    with pytest.raises(Usage, match="--server-cert and --server-key belong together"):
        etcd_agent_takeover.HttpFlags(certificate=tmp_path / "a").address()
    with pytest.raises(Usage, match="--client-ca needs --server-cert"):
        etcd_agent_takeover.HttpFlags(client_authority=tmp_path / "a").address()
