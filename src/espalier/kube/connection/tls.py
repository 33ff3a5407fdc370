"""TLS contexts that trust one authority: 24 KB and a millisecond each, where the system's store costs 800 KB and 26."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from espalier.kube.errors import KubeError

_SYSTEM_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that tell OpenSSL where the system's certificates are."""


class CertificateError(KubeError):
    """A certificate or key that was configured cannot be used."""


def client_context(
    certificate_authority: bytes | None,
    *,
    insecure_skip_tls_verify: bool = False,
    certificate: bytes | None = None,
    key: bytes | None = None,
) -> ssl.SSLContext:
    """A context for the client's side. All arguments are PEM; raises `CertificateError` when one cannot be used.

    Without an authority the system's are trusted. As with Go's verifier, any certificate that is trusted is an
    anchor, also one that is not self-signed.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if insecure_skip_tls_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif certificate_authority is None:
        context.load_default_certs()
    else:
        try:
            trust(context, certificate_authority)
        except (ssl.SSLError, ValueError) as error:
            raise CertificateError("the certificate authority is not a PEM certificate") from error
    if certificate is not None and key is not None:
        try:
            with _file(certificate.rstrip() + b"\n" + key) as path:
                # An encrypted key would make OpenSSL ask for its password at the terminal.
                context.load_cert_chain(path, password="")
        except ssl.SSLError as error:
            reason = "do not belong together" if error.reason == "KEY_VALUES_MISMATCH" else "are not usable PEM"
            raise CertificateError(f"the client certificate and its key {reason}") from error
    return context


def trust(context: ssl.SSLContext, certificates: bytes | str) -> None:
    """Trust certificates (PEM) with comments in any encoding between them, as Go's programs do. Raises `ssl.SSLError`
    or `ValueError` if there are none, or one can't be parsed.
    """
    text = certificates if isinstance(certificates, str) else certificates.decode("latin-1")
    # `ssl` raises TypeError for other text, whatever is between the certificates.
    ascii_text = text.encode("ascii", "replace").decode()
    context.load_verify_locations(cadata=ascii_text)


def unverified_context() -> ssl.SSLContext:
    """A context for the client's side that accepts any certificate, for probes that send no secrets."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


@contextmanager
def _file(content: bytes) -> Iterator[str]:
    """A path from which `content` can be read: `ssl` takes keys from files only.

    Where the system has it, the file lives in memory; elsewhere in a file that only this user can read, gone at once.
    """
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("client-key")
        try:
            os.write(descriptor, content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        import tempfile  # noqa: PLC0415  rarely needed, and loads much

        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name


@contextmanager
def without_system_certificates() -> Iterator[None]:
    """Patch the import of a library that creates unused TLS contexts: ours have explicit CAs.

    Reading the system's certificates takes longer than most commands.
    """
    saved = {name: os.environ.get(name) for name in _SYSTEM_CERTIFICATES}
    os.environ |= dict.fromkeys(_SYSTEM_CERTIFICATES, os.devnull)
    try:
        yield
    finally:
        for name, value in saved.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
