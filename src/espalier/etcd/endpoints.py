"""Addresses of members, as etcd writes them: `https://10.0.0.1:2379`, `unix:///run/etcd.sock`."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

_SCHEMES = {"http": False, "https": True, "unix": False, "unixs": True}
_LONGEST_SOCKET = 107
"""The longest path of a unix socket on Linux, in bytes."""


@dataclass(frozen=True)
class Endpoint:
    """One address of one member."""

    url: str
    target: str
    """The address in gRPC's format."""
    tls: bool


def endpoint(url: str, *, tls: bool = False) -> Endpoint:
    """The endpoint of a URL; one without a scheme (`host:port`) uses TLS if there are TLS settings. Raises `ValueError`
    with the problem."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        scheme, rest = "https" if tls else "http", url
    if scheme not in _SCHEMES:
        raise ValueError(f"endpoint {url!r}: unknown scheme {scheme!r}; use one of {', '.join(_SCHEMES)}")
    if scheme.startswith("unix"):
        if not rest.startswith("/"):
            raise ValueError(f"endpoint {url!r}: a socket's path begins with a slash: {scheme}:///run/etcd.sock")
        if len(rest.encode()) > _LONGEST_SOCKET:
            raise ValueError(f"endpoint {url!r}: the path of a socket has at most {_LONGEST_SOCKET} bytes")
        return Endpoint(f"{scheme}://{rest}", f"unix:{rest}", _SCHEMES[scheme])
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise ValueError(f"endpoint {url!r}: {error}") from error
    if not host or port is None or parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise ValueError(f"endpoint {url!r}: write it as {scheme}://HOST:PORT")
    address = f"[{host}]" if ":" in host else host
    return Endpoint(f"{scheme}://{address}:{port}", f"dns:///{address}:{port}", _SCHEMES[scheme])
