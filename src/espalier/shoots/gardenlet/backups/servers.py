"""Servers that the status of another seed's bucket names, for providers that do not declare its fields.

The gardenlet of a seed writes the status of its bucket. The seed to which a shoot moves connects to what it names, with
credentials: a malicious gardenlet could have it connect anywhere. So each server in it must be one that operators have
named in the Seed, or one of the provider itself. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from espalier.api.text import paths
from espalier.api.text.printable import quoted

_NOT_ADDRESSES = frozenset({"apiVersion", "kind"})
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]*[a-z0-9])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9])?)*", re.ASCII)
_DOMAIN = re.compile(r"([a-z0-9_]([a-z0-9_-]*[a-z0-9])?\.)+[a-z][a-z0-9-]*[a-z0-9]\.?", re.ASCII)
_SERVER_FIELDS = ("address", "domain", "endpoint", "host", "proxy", "server", "uri", "url")
_SHOWN = 100


def untrusted(status: Any, config: Any, domains: Sequence[str], bucket: str, before: Any) -> list[str]:
    """The fields of a status with servers that are not trusted, each with what was found; empty if there are none.

    `config` is the configuration of the store in the Seed; `domains` are those of the provider's stores; `before` is
    the status that is in use already: neither a typo in a Seed nor its deletion may disconnect anybody.
    """
    named_hosts = {host for _, text in _texts(config) for host in hosts(text)}
    accepted = dict(_texts(before))
    untrusted_fields = []
    for path, text in _texts(status):
        is_metadata = len(path) == 1 and path[0] in _NOT_ADDRESSES
        if is_metadata or accepted.get(path) == text:
            continue
        named = hosts(text) or ([text] if text and _names_server(path) else [])
        untrusted_hosts = [
            host for host in named if host not in named_hosts and host != bucket and not _is_in(domains, host)
        ]
        if untrusted_hosts or ("@" in text and "://" in text):
            untrusted_fields.append(f"status.providerStatus.{paths.render(path)}: found {quoted(text, _SHOWN)}")
    return untrusted_fields


def hosts(text: str) -> list[str]:
    """The hosts that a text names: of a URL, an address with or without a port, or a domain name."""
    text = text.strip().lower()
    try:
        if "://" in text:
            host = urlsplit(text).hostname
            return [host] if host else []
        bare = urlsplit(f"//{text.lstrip('/')}")
        host, port = bare.hostname or "", bare.port
    except ValueError:  # brackets or a port that are none: some client may still take it for an address
        return [text]
    if _is_address(text) or _is_address(host):
        return [text if _is_address(text) else host]
    is_host = port is not None and _HOST.fullmatch(host) is not None
    return [host.rstrip(".")] if is_host or _DOMAIN.fullmatch(host) is not None else []


def _names_server(path: tuple[str | int, ...]) -> bool:
    """True if a field is for a server by its name: a single word in it is a host as well."""
    field = next((step.lower() for step in reversed(path) if isinstance(step, str)), "")
    return any(word in field for word in _SERVER_FIELDS)


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_in(domains: Sequence[str], host: str) -> bool:
    return any(host.endswith(f".{domain}") for domain in domains)


def _texts(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """All texts in a JSON value, with their paths; keys of objects count as well, as any may name a server."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield (*path, name, "(name)"), name
            yield from _texts(inner, (*path, name))
    elif isinstance(value, list):
        for place, inner in enumerate(value):
            yield from _texts(inner, (*path, place))
