"""Choice of a proxy for a request, by the environment variables and rules of Go programs.

The rules are those of golang.org/x/net/http/httpproxy, so that kubectl and Espalier take the same way.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from aiohttp import ClientHandlerType, ClientRequest, ClientResponse

_PORTS = {"http": 80, "https": 443}


def proxy_for(url: str, environment: Mapping[str, str]) -> str | None:
    """The proxy's URL for a request to `url`, None when it goes directly."""
    target = urlsplit(url)
    proxy = _variable(environment, f"{target.scheme}_proxy")
    host = target.hostname or ""
    if not proxy or _is_local(host):
        return None
    port = target.port or _PORTS[target.scheme]
    if any(_excludes(entry.strip().lower(), host, port) for entry in _variable(environment, "no_proxy").split(",")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


async def by_environment(request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
    """A middleware of aiohttp's sessions: each request, redirected ones too, goes the way of `proxy_for`.

    In place of `trust_env`, which reads no ranges in NO_PROXY, and adds a login of ~/.netrc to requests that have one.
    """
    from aiohttp import encode_basic_auth  # noqa: PLC0415  who has no session need not load it
    from yarl import URL  # noqa: PLC0415

    if proxy := proxy_for(str(request.url), os.environ):
        url = URL(proxy)
        login = {"Authorization": encode_basic_auth(url.user, url.password or "")} if url.user else {}
        request.update_proxy(url.with_user(None), None, login)
    return await handler(request)


def _variable(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name.upper()) or environment.get(name, "")


def _is_local(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _excludes(entry: str, host: str, port: int) -> bool:
    """True if one entry of NO_PROXY covers a host: `*`, an address, a network, a domain and what is below; `:port`."""
    if entry == "*":
        return True
    if not entry:
        return False
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return _covers_name(entry, host, port)
    try:
        return address in ipaddress.ip_network(entry, strict=False)
    except ValueError:
        name, wanted = _split_port(entry)
        return name.strip("[]") == host and wanted in {None, port}


def _covers_name(entry: str, host: str, port: int) -> bool:
    name, wanted = _split_port(entry)
    if wanted not in {None, port}:
        return False
    suffix = name.removeprefix("*")
    if suffix.startswith("."):
        return host.endswith(suffix)
    return host == suffix or host.endswith(f".{suffix}")


def _split_port(entry: str) -> tuple[str, int | None]:
    name, colon, port = entry.rpartition(":")
    return (name, int(port)) if colon and port.isascii() and port.isdigit() else (entry, None)
