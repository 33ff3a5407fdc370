"""Addresses that are no addresses of nodes: counted before they are listed."""

from __future__ import annotations

import pytest

from espalier.providers.nutanix.node_addresses import MOST, count, listed


def test_addresses_ranges_and_networks_are_listed() -> None:
    given = ["192.0.2.1", "192.0.2.5-192.0.2.6", "192.0.2.9/31", "fd00::1-fd00::2"]
    addresses = ["192.0.2.1", "192.0.2.5", "192.0.2.6", "192.0.2.8", "192.0.2.9", "fd00::1", "fd00::2"]
    assert list(listed(given)) == addresses
    assert count(given) == len(addresses)


def test_too_many_addresses_are_counted_and_not_listed() -> None:
    assert count(["fd00::/8", "10.0.0.0/8"]) == 2**120 + 2**24
    assert sum(1 for _ in listed(["10.0.0.0/8"])) == MOST


@pytest.mark.parametrize("text", ["a", "", "192.0.2.9-192.0.2.1", "192.0.2.1-fd00::1", "192.0.2.1-", "192.0.2.0/33"])
def test_invalid_addresses_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        count([text])
