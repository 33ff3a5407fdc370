"""IP addresses that tenants name."""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parsed(text: str) -> Address | None:
    """An address; None for another text. An IPv4 address in an IPv6 one is the former: it is what is connected to."""
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found


def is_local(address: Address) -> bool:
    """True if it stands for the machine itself, its link, or no single machine."""
    return address.is_loopback or address.is_link_local or address.is_multicast or address.is_unspecified
