"""The server: TLS with client certificates, and addresses that can't be served."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import pytest_asyncio

from espalier.etcd.client import connect
from espalier.etcd.credentials import TlsFiles
from espalier.etcd.errors import Unavailable
from espalier.kube.connection.pki import Authority, KeyPair
from espalier.runtime.clock import SystemClock
from espalier.simulator.etcd.member import Member
from espalier.simulator.etcd.server import NotListening, ServerTls, serving
from espalier.simulator.etcd.storage import MemoryStorage


@pytest_asyncio.fixture
async def member() -> AsyncIterator[Member]:
    member = Member(MemoryStorage(), SystemClock(), random.Random(1))
    await member.start()
    yield member
    await member.close()


def _written(folder: Path, name: str, pair: KeyPair) -> tuple[Path, Path]:
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return certificate, key


@pytest.mark.soak
async def test_clients_of_the_authority_are_answered_only(member: Member, tmp_path: Path) -> None:
    now = datetime.now(UTC)
    ours, theirs = Authority.create("etcd", now=now), Authority.create("others", now=now)
    authority, _ = _written(tmp_path, "ca", ours)
    server = _written(tmp_path, "server", ours.issue_server("etcd", names=["localhost", "127.0.0.1"], now=now))
    mine = _written(tmp_path, "mine", ours.issue_client("client", now=now))
    foreign = _written(tmp_path, "foreign", theirs.issue_client("client", now=now))
    async with serving(member, "https://127.0.0.1:0", ServerTls(*server, authority)) as url:
        async with connect(url, tls=TlsFiles(authority, *mine)) as client:
            await client.put(b"a", b"1")
            assert [listed.client_urls for listed in await client.members()] == [(url,)]
        for wrong in (TlsFiles(authority), TlsFiles(authority, *foreign)):
            async with connect(url, tls=wrong, timeout=0.5) as client:
                with pytest.raises(Unavailable):
                    await client.get(b"a")


async def test_an_unsupported_request_is_named(member: Member) -> None:
    with pytest.raises(ValueError, match=r"can't listen on https://127.0.0.1:0; use .* or https:// with TLS"):
        async with serving(member, "https://127.0.0.1:0"):
            pass
    async with serving(member, "http://127.0.0.1:0") as url:
        with pytest.raises(NotListening, match=f"can't listen on {url}"):
            async with serving(member, url):
                pass
