"""Contexts that trust certificates of an authority."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime

import pytest

from espalier.kube.connection.pki import Authority
from espalier.kube.connection.tls import CertificateError, client_context, trust


def certificate() -> bytes:
    return Authority.create("espalier", now=datetime.now(UTC)).certificate


@pytest.mark.parametrize("encoding", ["utf-8", "latin-1"])
def test_comments_between_certificates_are_skipped(encoding: str) -> None:
    """As in the bundles of operating systems, which name each authority above its certificate."""
    comments = ["# Entidade de Certificação\n".encode(encoding), "# Główny urząd\n".encode(encoding, "replace")]
    bundle = b"".join(comment + certificate() for comment in comments)
    assert len(client_context(bundle).get_ca_certs()) == 2


def test_text_of_a_field_may_have_comments() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust(context, f"# ÉTÉ\n{certificate().decode()}")
    assert len(context.get_ca_certs()) == 1


@pytest.mark.parametrize("content", [b"", b"# caf\xc3\xa9\n", b"\xff" * 80])
def test_an_authority_without_certificates_is_refused(content: bytes) -> None:
    with pytest.raises(CertificateError, match="not a PEM certificate"):
        client_context(content)
