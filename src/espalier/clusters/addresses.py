"""IP addresses given by tenants."""

from __future__ import annotations

import ipaddress
import re
from typing import NamedTuple

API_PORT = "6443"

_WITH_PORT = re.compile(r"(\[[^][]*\]|[^][:]*):([0-9]{1,5})")

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parsed(text: str) -> Address | None:
    """The address in a text; None for other text. An IPv4-mapped IPv6 address counts as the IPv4 address that is
    connected to.
    """
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


class Place(NamedTuple):
    """The endpoint of an API server, in one spelling for comparisons."""

    host: str
    port: str = API_PORT


def place(text: str) -> Place | None:
    """The place in a text: a host, or `HOST:PORT`. None without a host.

    Addresses are in their shortest form, without brackets and zones, and names in lower case without a final dot.
    """
    given = text.strip()
    host, port = given, API_PORT
    if parsed(given) is None and (found := _WITH_PORT.fullmatch(given)) is not None:
        host, port = found[1], str(int(found[2]))
    host = host.strip("[]").lower().rstrip(".")
    address = parsed(host)
    return Place(str(address) if address is not None else host, port) if host else None


def is_local(address: Address) -> bool:
    """True if the address means the machine itself, its link, or no single machine."""
    return address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
