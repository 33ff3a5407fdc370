"""IP addresses given by tenants."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

from espalier.api.eksa.parts.hosts import LOCAL_NAMES

API_PORT = "6443"

_WITH_PORT = re.compile(r"(\[[^][]*\]|[^][:]*):([0-9]{1,5})")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parsed(text: str) -> Address | None:
    """The address in a text; None for other text. An IPv4-mapped IPv6 address counts as the IPv4 address that is
    connected to.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


class Place(NamedTuple):
    """The endpoint of an API server, in one spelling for comparisons."""

    host: str
    port: str = API_PORT


def place(text: str) -> Place | None:
    """The place in a text: a host, or `HOST:PORT`. None without a host.

    Addresses are in their shortest form, without brackets and zones, and names in lower case without a final dot.
    """
    text = text.strip()
    host, port = text, API_PORT
    if parsed(text) is None and (match := _WITH_PORT.fullmatch(text)) is not None:
        host, port = match[1], str(int(match[2]))
    host = host.strip("[]").lower().rstrip(".")
    address = parsed(host)
    return Place(str(address) if address is not None else host, port) if host else None


def is_local(address: Address) -> bool:
    """True if the address means the machine itself, its link, or no single machine, also as a translator of addresses
    (NAT64, 6to4) would reach it.
    """
    target = _embedded(address) or address
    is_in_range = any(it.is_loopback or it.is_link_local or it.is_multicast for it in (address, target))
    return is_in_range or target.is_unspecified or target == _BROADCAST


def is_local_name(name: str) -> bool:
    """True if the name means the machine itself."""
    return _LOCAL_NAME.fullmatch(name.lower().rstrip(".")) is not None


def _embedded(address: Address) -> ipaddress.IPv4Address | None:
    """The IPv4 address for which one of IPv6 stands; None if it stands for itself."""
    if isinstance(address, ipaddress.IPv4Address):
        return None
    if any(address in network for network in _LAST_WORDS):
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.sixtofour


_LAST_WORDS = [ipaddress.IPv6Network(block) for block in ("::/96", "64:ff9b::/96", "64:ff9b:1::/48")]
"""Ranges of IPv4-compatible addresses and of NAT64."""
_BROADCAST = ipaddress.IPv4Address("255.255.255.255")
_LOCAL_NAME = re.compile(LOCAL_NAMES)
