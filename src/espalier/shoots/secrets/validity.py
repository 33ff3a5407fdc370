"""How long certificates are valid, and when they are renewed."""

from __future__ import annotations

from datetime import datetime
from functools import lru_cache

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from espalier.kube.connection.pki import KeyPair
from espalier.shoots.secrets.persisted import Data

DAYS = 90.0
"""Validity of derived certificates; they are renewed when a third of it is left."""


def is_fresh(data: Data | None, key: str, authority: bytes | None, now: datetime) -> bool:
    """True if the certificate exists, has a third of its validity left, and is signed by the authority."""
    if data is None or key not in data:
        return False
    valid = validity(data[key], authority)
    return valid is not None and valid[1] - now > (valid[1] - valid[0]) / 3


@lru_cache(maxsize=4096)
def validity(certificate: bytes, authority: bytes | None) -> tuple[datetime, datetime] | None:
    """The validity period of a certificate; None for what is none, or one that the authority did not sign.

    Cached, because each reconcile of a shoot asks for it for all its certificates.
    """
    try:
        x509 = KeyPair(certificate, b"").x509
        if authority is not None:
            x509.verify_directly_issued_by(KeyPair(authority, b"").x509)
    except (ValueError, TypeError, InvalidSignature):
        return None
    return x509.not_valid_before_utc, x509.not_valid_after_utc


@lru_cache(maxsize=4096)
def is_pair(certificate: bytes, key: bytes) -> bool:
    """True if the private key belongs to the certificate; False for what is neither. Cached as `validity` is."""
    try:
        return load_pem_private_key(key, None).public_key() == KeyPair(certificate, b"").x509.public_key()
    except (ValueError, TypeError, UnsupportedAlgorithm):
        return False
