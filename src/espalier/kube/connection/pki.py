"""Keys and certificates: a CA, and the certificates that it issues to servers and clients.

Keys are ECDSA P-256 (an RSA key costs a hundred times as much); an authority that others made may have an RSA key.
Every certificate carries the extensions that strict verifiers demand (RFC 5280: subject and authority key identifiers,
key usage, basic constraints).

With `rng` given, keys, serial numbers and signatures come from it alone, so that simulations are reproducible. That is
**for simulation only**: whoever knows the seed knows the keys. Without it the system's randomness is used.
"""

from __future__ import annotations

import ipaddress
import random
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

CLOCK_SKEW = timedelta(minutes=5)
"""Certificates are backdated by this, because clocks differ."""

_SigningKey: TypeAlias = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
_PublicKey: TypeAlias = ec.EllipticCurvePublicKey | rsa.RSAPublicKey

_P256_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551


@dataclass(frozen=True)
class KeyPair:
    """A certificate and its private key, both PEM. The key is never part of the printed form."""

    certificate: bytes
    key: bytes = field(repr=False)

    @cached_property
    def x509(self) -> x509.Certificate:
        """The parsed certificate."""
        with (
            warnings.catch_warnings()
        ):  # Cluster API gives its authorities the serial number 0, which RFC 5280 disallows
            warnings.simplefilter("ignore", CryptographyDeprecationWarning)
            return x509.load_pem_x509_certificate(self.certificate)

    @property
    def not_after(self) -> datetime:
        """The end of validity, aware, UTC."""
        return self.x509.not_valid_after_utc


@dataclass(frozen=True)
class Authority(KeyPair):
    """A certificate authority: a key pair that signs others."""

    rng: random.Random | None = field(default=None, repr=False, compare=False)

    @classmethod
    def create(
        cls, common_name: str, *, now: datetime, days: float = 3650, rng: random.Random | None = None
    ) -> Authority:
        """A new self-signed authority, valid for `days` from `now`."""
        key = _new_key(rng)
        subject = _subject(common_name)
        not_after = now + timedelta(days=days)
        builder = _builder(key.public_key(), subject=subject, issuer=subject, now=now, not_after=not_after, rng=rng)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=True), critical=True)
        identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key())
        builder = builder.add_extension(identifier, critical=False)
        return cls(*_pems(builder, key, key, rng), rng=rng)

    @classmethod
    def load(cls, certificate: bytes, key: bytes, rng: random.Random | None = None) -> Authority:
        """An existing authority. Raises `ValueError` if key and certificate do not match."""
        authority = cls(certificate, key, rng)
        if authority._private_key.public_key() != authority.x509.public_key():
            raise ValueError("the private key does not belong to the certificate of the authority")
        return authority

    def issue_server(self, common_name: str, *, names: Sequence[str], now: datetime, days: float = 365) -> KeyPair:
        """A server's key pair. `names` are the DNS names and IP addresses under which it is reached."""
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        return self._issue(_subject(common_name), (ExtendedKeyUsageOID.SERVER_AUTH,), alternatives, now, days)

    def issue_peer(self, common_name: str, *, names: Sequence[str], now: datetime, days: float = 365) -> KeyPair:
        """The key pair of a server that is also a client of its like. `names` as for `issue_server`."""
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        usages = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
        return self._issue(_subject(common_name), usages, alternatives, now, days)

    def issue_client(
        self, common_name: str, *, groups: Sequence[str] = (), now: datetime, days: float = 365
    ) -> KeyPair:
        """A client's key pair: Kubernetes takes the common name as user and the organizations as groups."""
        return self._issue(_subject(common_name, groups), (ExtendedKeyUsageOID.CLIENT_AUTH,), None, now, days)

    def sign_client(self, request: bytes, *, now: datetime, seconds: float) -> bytes:
        """The client certificate (PEM) for a PKCS #10 request (PEM), with its subject, as kube-controller-manager
        signs requests. Raises `ValueError` for what is no request, or is not signed by its own key.
        """
        parsed = x509.load_pem_x509_csr(request)
        public_key = parsed.public_key()
        if not parsed.is_signature_valid or not isinstance(public_key, _PublicKey):
            raise ValueError("the request is not signed by its own elliptic curve or RSA key")
        validity = timedelta(seconds=seconds)
        builder = self._leaf(public_key, parsed.subject, (ExtendedKeyUsageOID.CLIENT_AUTH,), None, now, validity)
        return _sign(builder, self._private_key, self.rng)

    @cached_property
    def _identifier(self) -> x509.AuthorityKeyIdentifier:
        # OpenSSL finds an issuer by the identifier in its certificate, which isn't SHA-1 if Go 1.25 made that.
        try:
            identifier = self.x509.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
        except x509.ExtensionNotFound:
            return x509.AuthorityKeyIdentifier.from_issuer_public_key(self._private_key.public_key())
        return x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)

    @cached_property
    def _private_key(self) -> _SigningKey:
        key = load_pem_private_key(self.key, password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
            raise ValueError("the authority's private key is neither an elliptic curve key nor an RSA key")
        return key

    def _issue(
        self,
        subject: x509.Name,
        usages: tuple[x509.ObjectIdentifier, ...],
        names: x509.SubjectAlternativeName | None,
        now: datetime,
        days: float,
    ) -> KeyPair:
        key = _new_key(self.rng)
        builder = self._leaf(key.public_key(), subject, usages, names, now, timedelta(days=days))
        return KeyPair(*_pems(builder, key, self._private_key, self.rng))

    def _leaf(
        self,
        public_key: _PublicKey,
        subject: x509.Name,
        usages: tuple[x509.ObjectIdentifier, ...],
        names: x509.SubjectAlternativeName | None,
        now: datetime,
        validity: timedelta,
    ) -> x509.CertificateBuilder:
        # A chain is valid no longer than its authority; saying so keeps renewal from waiting too long.
        not_after = min(now + validity, self.not_after)
        builder = _builder(
            public_key,
            subject=subject,
            issuer=self.x509.subject,
            now=now,
            not_after=not_after,
            rng=self.rng,
        )
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(_key_usage(signs_certificates=False), critical=True)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        builder = builder.add_extension(self._identifier, critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        return builder


def new_request(common_name: str, groups: Sequence[str] = ()) -> KeyPair:
    """A new key, and in place of a certificate the PKCS #10 request for a client's: user and groups, PEM."""
    key = _new_key(None)
    request = x509.CertificateSigningRequestBuilder().subject_name(_subject(common_name, groups))
    return KeyPair(request.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM), _key_pem(key))


def _builder(
    public_key: _PublicKey,
    *,
    subject: x509.Name,
    issuer: x509.Name,
    now: datetime,
    not_after: datetime,
    rng: random.Random | None,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number() if rng is None else rng.getrandbits(158) + 1)
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(not_after)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public_key), critical=False)
    )


def _pems(
    builder: x509.CertificateBuilder,
    key: ec.EllipticCurvePrivateKey,
    signer: _SigningKey,
    rng: random.Random | None,
) -> tuple[bytes, bytes]:
    return _sign(builder, signer, rng), _key_pem(key)


def _sign(builder: x509.CertificateBuilder, signer: _SigningKey, rng: random.Random | None) -> bytes:
    certificate = builder.sign(signer, hashes.SHA256(), ecdsa_deterministic=True if rng is not None else None)
    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _new_key(rng: random.Random | None) -> ec.EllipticCurvePrivateKey:
    if rng is None:
        return ec.generate_private_key(ec.SECP256R1())
    return ec.derive_private_key(rng.randrange(1, _P256_ORDER), ec.SECP256R1())


def _subject(common_name: str, groups: Sequence[str] = ()) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
