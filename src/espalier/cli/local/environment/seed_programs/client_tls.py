"""TLS of an etcd's port in a simulated seed: whom the port admits, by the files in the pods at both ends.

Nothing is encrypted, and times are not compared: a simulated pod has the files with which it started.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from espalier.shoots.secrets.validity import validity


@dataclass(frozen=True)
class Files:
    """The certificate of one end, and the authorities that it trusts."""

    certificate: bytes
    trusted: bytes


@dataclass(frozen=True)
class ClientPort:
    """The port of an etcd for clients."""

    server: Files | None
    """None: without TLS."""
    takes_plain: bool

    def refusal(self, client: Files | None) -> str:
        """The reason why a connection with these files fails; empty if it does not. None: without TLS."""
        if client is None:
            return "" if self.takes_plain else "the port of etcd demands TLS"
        if self.server is None:
            return "the port of etcd has no TLS"
        if not _accepts(client.trusted, self.server.certificate):
            return "etcd's certificate is of an authority that its client does not trust"
        if not _accepts(self.server.trusted, client.certificate):
            return "the client's certificate is of an authority that etcd does not trust"
        return ""


@lru_cache(maxsize=256)
def _accepts(trusted: bytes, certificate: bytes) -> bool:
    authorities = (authority.public_bytes(Encoding.PEM) for authority in x509.load_pem_x509_certificates(trusted))
    return any(validity(certificate, authority) is not None for authority in authorities)
