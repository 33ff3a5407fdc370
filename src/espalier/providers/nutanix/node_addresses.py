"""Addresses to exclude from node addresses, listed one by one for the cloud controller of Nutanix."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Iterator
from itertools import islice

MOST = 4096
"""The maximum addresses: each is an entry of a ConfigMap."""


def count(excluded: Iterable[str]) -> int:
    """The number of addresses in addresses, ranges and networks. Raises `ValueError` for anything else."""
    return sum(last - first + 1 for first, last, _ in map(_ends, excluded))


def listed(excluded: Iterable[str]) -> Iterator[str]:
    """Each address, in order, at most `MOST`."""
    addresses = (str(kind(number)) for first, last, kind in map(_ends, excluded) for number in range(first, last + 1))
    return islice(addresses, MOST)


def _ends(text: str) -> tuple[int, int, type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address]]:
    if "/" in text:
        network = ipaddress.ip_network(text, strict=False)
        first, last = network[0], network[-1]
    else:
        begin, dash, end = text.partition("-")
        first = ipaddress.ip_address(begin)
        last = ipaddress.ip_address(end) if dash else first
    if first.version != last.version or int(first) > int(last):
        raise ValueError(f"{text} ends before it starts")
    return int(first), int(last), type(first)
