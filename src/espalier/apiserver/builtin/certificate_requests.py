"""The PKCS #10 requests in specs of CertificateSigningRequests."""

from __future__ import annotations

import base64
import binascii

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from espalier.api.meta import Tree

_REQUEST = "CERTIFICATE REQUEST"


def parsed(spec: Tree) -> x509.CertificateSigningRequest:
    """The PKCS #10 request of a spec. Raises `ValueError`."""
    try:
        pem = base64.b64decode(str(spec.get("request") or ""), validate=True)
    except binascii.Error as error:
        raise ValueError(f"not base64: {error}") from None
    if f"-----BEGIN {_REQUEST}-----".encode() not in pem:
        raise ValueError(f"PEM block type must be {_REQUEST}")
    request = x509.load_pem_x509_csr(pem)
    request.public_bytes(Encoding.DER)
    return request


def organizations(request: x509.CertificateSigningRequest) -> tuple[str, ...]:
    """The groups that a request is for."""
    return tuple(str(name.value) for name in request.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME))


def check_signature(spec: Tree) -> None:
    """Raise `ValueError` for a request that is unreadable, or that its key has not signed."""
    try:
        is_valid = parsed(spec).is_signature_valid
    except UnsupportedAlgorithm as error:
        raise ValueError(str(error)) from None
    if not is_valid:
        raise ValueError("the signature does not belong to its key")
