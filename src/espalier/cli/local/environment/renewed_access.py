"""Renews the client certificate with which this machine reaches a management cluster of real nodes.

Cluster API replaces the certificate in the Secret of a cluster's kubeconfig long before it ends. The Secret is content
of the cluster, which others may write: only a certificate and its key are taken from it, and only if the authority
that is trusted already has signed them.
"""

from __future__ import annotations

from datetime import datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from espalier.kube.connection.kubeconfig import Kubeconfig
from espalier.kube.connection.pki import KeyPair

_LARGEST = 64 << 10
"""Bytes of a kubeconfig; one of a cluster has about 6 KiB."""


class NotRenewed(ValueError):
    """Why an offered kubeconfig is not used."""


def renewed(present: bytes, offered: bytes, now: datetime) -> bytes | None:
    """The present kubeconfig with the certificate and key of the offered one; None if that certificate is no newer.

    Server, authority and all else stay as they are. Raises `NotRenewed`, and `KubeconfigError` for what is none.
    """
    if len(offered) > _LARGEST:
        raise NotRenewed(f"found {len(offered)} bytes, allowed are {_LARGEST}")
    own = Kubeconfig.parse(present)
    access, other = own.context(), Kubeconfig.parse(offered, source="the Secret").context()
    if other.client_certificate is None or other.client_key is None:
        raise NotRenewed("it has no client certificate with its key")
    if access.client_certificate is None or access.certificate_authority is None:
        raise NotRenewed("the present kubeconfig has no client certificate or no authority")
    credentials = KeyPair(other.client_certificate, other.client_key)
    try:
        if credentials.not_after <= KeyPair(access.client_certificate, b"").not_after:
            return None
        certificate = credentials.x509
        certificate.verify_directly_issued_by(KeyPair(access.certificate_authority, b"").x509)
        key = load_pem_private_key(credentials.key, None).public_key()
    except InvalidSignature:
        raise NotRenewed("its certificate is not of the cluster's authority") from None
    except (ValueError, TypeError) as error:
        raise NotRenewed(f"its certificate or key can't be used: {error}") from None
    der = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if key.public_bytes(*der) != certificate.public_key().public_bytes(*der):
        raise NotRenewed("its key is not that of its certificate")
    if certificate.subject != KeyPair(access.client_certificate, b"").x509.subject:
        raise NotRenewed(f"its certificate is for {certificate.subject.rfc4514_string()}, another user")
    if certificate.not_valid_before_utc > now:
        raise NotRenewed(f"its certificate is valid from {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on")
    return own.as_user("kubernetes-admin", credentials).to_bytes()
