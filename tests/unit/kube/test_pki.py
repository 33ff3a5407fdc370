"""An authority issues what strict verifiers accept, and in a simulation the same thing twice."""

from __future__ import annotations

import contextlib
import random
import ssl
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from cryptography.x509.verification import PolicyBuilder, Store

from espalier.kube.connection.pki import Authority, KeyPair

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority.create("kubernetes", now=NOW)


def policy(authority: Authority, at: datetime = NOW) -> PolicyBuilder:
    return PolicyBuilder().store(Store([authority.x509])).time(at)


def test_a_server_is_known_by_its_names_and_addresses(authority: Authority) -> None:
    server = authority.issue_server("kube-apiserver", names=["localhost", "127.0.0.1", "::1"], now=NOW)
    for subject in (
        x509.DNSName("localhost"),
        x509.IPAddress(ip_address("127.0.0.1")),
        x509.IPAddress(ip_address("::1")),
    ):
        chain = policy(authority).build_server_verifier(subject).verify(server.x509, [])
        assert chain[-1] == authority.x509
    with pytest.raises(x509.verification.VerificationError):
        policy(authority).build_server_verifier(x509.DNSName("elsewhere")).verify(server.x509, [])


def test_a_client_carries_user_and_groups(authority: Authority) -> None:
    client = authority.issue_client("jane", groups=["system:masters", "ops"], now=NOW)
    usage = client.x509.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(usage) == [ExtendedKeyUsageOID.CLIENT_AUTH]
    subject = client.x509.subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == ["jane"]
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == ["system:masters", "ops"]
    with pytest.raises(x509.ExtensionNotFound):
        client.x509.extensions.get_extension_for_class(x509.SubjectAlternativeName)


def strict_handshake(authority: Authority, directory: Path) -> ssl.SSLObject:
    """The server's end after a handshake of a server and a client of the authority, both strict."""
    now = datetime.now(UTC)
    pairs = {
        ssl.PROTOCOL_TLS_SERVER: authority.issue_server("s", names=["s.test"], now=now),
        ssl.PROTOCOL_TLS_CLIENT: authority.issue_client("jane", now=now),
    }
    wires = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = []
    for protocol, pair in pairs.items():
        file = directory / "pair.pem"
        file.write_bytes(pair.certificate + pair.key)
        context = ssl.SSLContext(protocol)
        context.load_cert_chain(file)
        context.load_verify_locations(cadata=authority.certificate.decode())
        context.verify_mode = ssl.CERT_REQUIRED
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        server = protocol is ssl.PROTOCOL_TLS_SERVER
        incoming, outgoing = wires if server else wires[::-1]
        ends.append(
            context.wrap_bio(incoming, outgoing, server_side=server, server_hostname=None if server else "s.test")
        )
    for end in (*ends[::-1], *ends[::-1], ends[0]):
        with contextlib.suppress(ssl.SSLWantReadError):
            end.do_handshake()
    return ends[0]


def test_strict_verifiers_accept_both_sides(tmp_path: Path) -> None:
    peer = strict_handshake(Authority.create("kubernetes", now=datetime.now(UTC)), tmp_path).getpeercert()
    assert peer is not None
    assert peer["subject"] == ((("commonName", "jane"),),)


def test_certificate_does_not_outlive_its_authority(authority: Authority) -> None:
    assert authority.not_after == NOW + timedelta(days=3650)
    assert authority.issue_client("a", now=NOW, days=7).not_after == NOW + timedelta(days=7)
    assert authority.issue_client("a", now=NOW, days=9999).not_after == authority.not_after


def test_clocks_may_differ_by_some_minutes(authority: Authority) -> None:
    server = authority.issue_server("s", names=["s.test"], now=NOW)
    early = policy(authority, NOW - timedelta(minutes=4)).build_server_verifier(x509.DNSName("s.test"))
    assert early.verify(server.x509, [])


def test_a_kept_authority_goes_on_issuing(authority: Authority) -> None:
    again = Authority.load(authority.certificate, authority.key)
    server = again.issue_server("s", names=["s.test"], now=NOW)
    assert policy(authority).build_server_verifier(x509.DNSName("s.test")).verify(server.x509, [])


def test_a_foreign_key_is_refused(authority: Authority) -> None:
    other = Authority.create("other", now=NOW)
    with pytest.raises(ValueError, match="does not belong"):
        Authority.load(authority.certificate, other.key)


def test_seed_repeats_the_environment() -> None:
    def env(rng: random.Random | None) -> tuple[KeyPair, ...]:
        authority = Authority.create("kubernetes", now=NOW, rng=rng)
        return authority, authority.issue_server("s", names=["s"], now=NOW), authority.issue_client("c", now=NOW)

    assert env(random.Random(7)) == env(random.Random(7))
    assert env(random.Random(7)) != env(random.Random(8))
    assert env(None) != env(None)


def test_a_key_is_never_printed(authority: Authority) -> None:
    assert b"PRIVATE" in authority.key
    assert "PRIVATE" not in repr(authority)


def foreign(now: datetime, key: rsa.RSAPrivateKey, identifier: x509.SubjectKeyIdentifier) -> Authority:
    """An authority that another program made."""
    own = Authority.create("kubernetes", now=now)
    builder = x509.CertificateBuilder().subject_name(own.x509.subject).issuer_name(own.x509.subject)
    builder = builder.public_key(key.public_key()).serial_number(1)
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=3650))
    for extension in own.x509.extensions:
        if isinstance(extension.value, x509.BasicConstraints | x509.KeyUsage):
            builder = builder.add_extension(extension.value, critical=extension.critical)
    for value in (identifier, x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)):
        builder = builder.add_extension(value, critical=False)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    return Authority.load(builder.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM), private)


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def test_an_authority_with_an_rsa_key_issues_as_well(rsa_key: rsa.RSAPrivateKey) -> None:
    """Cluster API makes such authorities."""
    authority = foreign(NOW, rsa_key, x509.SubjectKeyIdentifier.from_public_key(rsa_key.public_key()))
    server = authority.issue_server("kube-apiserver", names=["localhost"], now=NOW)
    policy(authority).build_server_verifier(x509.DNSName("localhost")).verify(server.x509, [])


def test_an_authority_may_identify_its_key_otherwise(rsa_key: rsa.RSAPrivateKey, tmp_path: Path) -> None:
    """Go 1.25 doesn't identify it by SHA-1, and OpenSSL finds an issuer by that identifier."""
    authority = foreign(datetime.now(UTC), rsa_key, x509.SubjectKeyIdentifier(bytes(range(20))))
    assert strict_handshake(authority, tmp_path).getpeercert()
