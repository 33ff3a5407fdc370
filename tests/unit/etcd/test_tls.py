"""TLS with client certificates that are renewed in their files, and what is wrong with files that can't be used."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import grpc
import pytest

from espalier.etcd import connection
from espalier.etcd.client import Client, connect
from espalier.etcd.credentials import LARGEST_FILE, CertificateError, TlsFiles
from espalier.etcd.errors import Unavailable
from espalier.kube.connection.pki import Authority
from tests.support.etcd.etcd_members import Member, RangeContext, running

NOW = datetime.now(UTC)
SERVERS = Authority.create("servers", now=NOW, rng=random.Random(1))
CLIENTS = Authority.create("clients", now=NOW, rng=random.Random(2))


class Recognizing(Member):
    """Answers with the common name of the client's certificate."""

    async def _range(self, request, context: RangeContext):  # type: ignore[no-untyped-def]
        self.name = context.auth_context()["x509_common_name"][0].decode()  # type: ignore[index]
        return await super()._range(request, context)


def write(files: TlsFiles, user: str) -> None:
    pair = CLIENTS.issue_client(user, now=NOW)
    assert files.certificate_authority
    assert files.certificate
    assert files.key
    files.certificate_authority.write_bytes(SERVERS.certificate)
    files.certificate.write_bytes(pair.certificate)
    files.key.write_bytes(pair.key)


@pytest.fixture
def files(tmp_path: Path) -> TlsFiles:
    made = TlsFiles(tmp_path / "ca.crt", tmp_path / "client.crt", tmp_path / "client.key")
    write(made, "first")
    return made


@pytest.fixture
async def member() -> AsyncIterator[Member]:
    pair = SERVERS.issue_server("etcd", names=["localhost", "127.0.0.1"], now=NOW)
    credentials = grpc.ssl_server_credentials(
        [(pair.key, pair.certificate)], CLIENTS.certificate, require_client_auth=True
    )
    member = Recognizing("127.0.0.1:0", credentials=credentials)
    async with running(member):
        yield member


async def user(client: Client) -> str:
    pair = await client.get(b"k")
    assert pair is not None
    return pair.value.decode()


async def test_client_and_server_check_their_certificates(member: Member, files: TlsFiles) -> None:
    async with connect(f"https://127.0.0.1:{member.port}", tls=files) as client:
        assert await user(client) == "first"
    async with connect(f"127.0.0.1:{member.port}", tls=files) as client:  # TLS is what the settings mean
        assert await user(client) == "first"


async def test_renewed_files_disturb_no_running_calls(
    member: Member, files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_CERTIFICATE_CHECK_PERIOD", 0.0)
    async with connect(f"https://127.0.0.1:{member.port}", tls=files) as client:
        assert await user(client) == "first"
        write(files, "second")
        assert set(await asyncio.gather(*(user(client) for _ in range(5)))) == {"second"}


async def test_files_being_exchanged_leave_the_former(
    member: Member, files: TlsFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_CERTIFICATE_CHECK_PERIOD", 0.0)
    async with connect(f"https://127.0.0.1:{member.port}", tls=files) as client:
        assert await user(client) == "first"
        assert files.key
        files.key.write_bytes(CLIENTS.issue_client("second", now=NOW).key)  # the certificate comes a moment later
        assert await user(client) == "first"


@pytest.mark.soak
async def test_foreign_authority_or_name_is_not_spoken_to(member: Member, files: TlsFiles) -> None:
    assert files.certificate_authority
    url = f"https://127.0.0.1:{member.port}"
    async with connect(url, tls=replace(files, server_name="etcd.example.org"), timeout=3) as client:
        with pytest.raises(Unavailable, match="Hostname Verification Check failed"):
            await client.get(b"k")
    files.certificate_authority.write_bytes(CLIENTS.certificate)
    async with connect(url, tls=files, timeout=3) as client:
        with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
            await client.get(b"k")
    assert member.asked == []


async def test_server_may_have_name_that_is_not_its_address(files: TlsFiles, tmp_path: Path) -> None:
    pair = SERVERS.issue_server("etcd", names=["etcd.example.org"], now=NOW)
    credentials = grpc.ssl_server_credentials(
        [(pair.key, pair.certificate)], CLIENTS.certificate, require_client_auth=True
    )
    member = Recognizing(f"unix:{tmp_path}/etcd", credentials=credentials)
    settings = replace(files, server_name="etcd.example.org")
    async with running(member), connect(f"unixs://{tmp_path}/etcd", tls=settings) as client:
        assert await user(client) == "first"


async def test_missing_file_is_named_and_used_later(member: Member, files: TlsFiles) -> None:
    assert files.certificate
    files.certificate.unlink()
    async with connect(f"https://127.0.0.1:{member.port}", tls=files) as client:
        with pytest.raises(Unavailable, match=r"client\.crt can't be read: No such file"):
            await client.get(b"k")
        write(files, "late")
        assert await user(client) == "late"


def test_each_problem_of_a_file_is_reported(files: TlsFiles) -> None:
    assert files.certificate_authority
    assert files.key
    files.key.write_bytes(CLIENTS.issue_client("other", now=NOW).key)
    with pytest.raises(CertificateError, match=r"the key in .*client\.key does not belong to the certificate"):
        files.read()
    files.key.write_bytes(b"no key")
    with pytest.raises(CertificateError, match=r"client\.key holds no PEM key"):
        files.read()
    files.certificate_authority.write_bytes(b"no certificate")
    with pytest.raises(CertificateError, match=r"ca\.crt holds no PEM certificate"):
        files.read()
    files.certificate_authority.write_bytes(b"x" * (LARGEST_FILE + 1))
    with pytest.raises(CertificateError, match=r"ca\.crt has more than 1048576 bytes"):
        files.read()
    with pytest.raises(ValueError, match="needs its key"):
        TlsFiles(certificate=files.certificate)
