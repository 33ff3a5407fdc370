"""Certificates for connections to etcd, read from files, and read again when these change."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_pem_private_key

LARGEST_FILE = 1024 * 1024
"""Bytes. A certificate has 1 to 5 KB; a CA file may contain a few hundred of them."""


class CertificateError(Exception):
    """A certificate or key cannot be used; the message names the file."""


@dataclass(frozen=True)
class TlsFiles:
    """Paths of PEM files. Without an authority, gRPC's own are trusted; without a certificate, none is sent."""

    certificate_authority: Path | None = None
    certificate: Path | None = None
    key: Path | None = None
    server_name: str = ""
    """The name in the server's certificate, if it is not the endpoint's host (for a socket: localhost)."""

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.key is None):
            raise ValueError("a client certificate needs its key, and a key its certificate: give both files or none")

    @property
    def paths(self) -> tuple[Path, ...]:
        """All files."""
        return tuple(path for path in (self.certificate_authority, self.certificate, self.key) if path is not None)

    def read(self) -> TlsContent:
        """The current content of the files. Raises `CertificateError`; also for files that are being replaced."""
        return TlsContent(_read(self.certificate_authority), _read(self.certificate), _read(self.key)).checked(self)


@dataclass(frozen=True, repr=False)
class TlsContent:
    """The PEM content of the files."""

    certificate_authority: bytes | None
    certificate: bytes | None
    key: bytes | None

    def checked(self, files: TlsFiles) -> TlsContent:
        """The same, if gRPC can use it; gRPC would only report that it can't connect. Raises `CertificateError`."""
        if self.certificate_authority is not None:
            _certificate(self.certificate_authority, files.certificate_authority)
        if self.certificate is not None and self.key is not None:
            certificate = _certificate(self.certificate, files.certificate)
            try:
                key = load_pem_private_key(self.key, password=None)
            except (ValueError, TypeError) as error:
                raise CertificateError(f"{files.key} holds no PEM key without a password") from error
            if key.public_key() != certificate.public_key():
                raise CertificateError(f"the key in {files.key} does not belong to the certificate {files.certificate}")
        return self

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """Credentials of a gRPC channel."""
        return grpc.ssl_channel_credentials(self.certificate_authority, self.key, self.certificate)


def _certificate(pem: bytes, path: Path | None) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificate(pem)
    except ValueError as error:
        raise CertificateError(f"{path} holds no PEM certificate") from error


def _read(path: Path | None) -> bytes | None:
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise CertificateError(f"{path} can't be read: {error.strerror}") from error
    if len(content) > LARGEST_FILE:
        raise CertificateError(f"{path} has more than {LARGEST_FILE} bytes")
    return content
