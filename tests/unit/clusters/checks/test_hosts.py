"""Servers of infrastructures are not where the manager is, by whatever name."""

from __future__ import annotations

import pytest

from espalier.clusters.report.checks.hosts import brief, resolved


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "169.254.1.1", "0.0.0.0", "::1", "::ffff:127.0.0.1", "2130706433"]
)
def test_own_addresses_are_no_infrastructure(host: str) -> None:
    with pytest.raises(OSError, match="a loopback, link-local or multicast address"):
        resolved(host, 443)


def test_an_address_elsewhere_is_connected_to_as_it_is() -> None:
    assert resolved("192.0.2.9", 443) == [("192.0.2.9", 443)]


def test_messages_of_others_fit_a_line() -> None:
    assert brief("a\n  b") == "a b"
    assert len(brief("x" * 1000)) == 303
