"""Places of API servers are compared in one spelling, whatever tenants write."""

from __future__ import annotations

import ipaddress
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.api.eksa.parts.hosts import LOCAL_HOSTS
from espalier.clusters.design.addresses import Place, is_local, parsed, place


@pytest.mark.parametrize(
    "text",
    [
        "192.0.2.10",
        " 192.0.2.10 ",
        "192.0.2.10:6443",
        "192.0.2.10:06443",
        "[192.0.2.10]",
        "[192.0.2.10]:6443",
        "192.0.2.10.",
        "::ffff:192.0.2.10",
        "[::FFFF:192.0.2.10]",
        "[::ffff:c000:20a]:6443",
    ],
)
def test_an_address_is_the_same_in_every_spelling(text: str) -> None:
    assert place(text) == Place("192.0.2.10", "6443")


@pytest.mark.parametrize("text", ["fd00::10", "FD00:0:0::10", "[fd00::10]", "[FD00::0010]:6443", "fd00::10%eth0"])
def test_an_ipv6_address_is_the_same_in_every_spelling(text: str) -> None:
    assert place(text) == Place("fd00::10", "6443")


@pytest.mark.parametrize("text", ["api.example.com", "API.Example.COM", "api.example.com.", "api.example.com.:6443"])
def test_names_are_lowercase_without_a_last_dot(text: str) -> None:
    assert place(text) == Place("api.example.com", "6443")


def test_ports_tell_places_apart() -> None:
    assert place("192.0.2.10:8443") == Place("192.0.2.10", "8443")
    assert [place(text) for text in ("", " ", "[]", ".")] == [None] * 4


@given(st.ip_addresses(), st.integers(1, 65535))
def test_written_address_reads_back_as_same_place(address: object, port: int) -> None:
    result = place(f"[{address}]:{port}")
    assert result is not None
    assert place(f"[{result.host}]:{result.port}") == result
    assert result.port == str(port)


LOCAL = re.compile(LOCAL_HOSTS.replace("[[]", r"\["))
"""In CEL, a bracket may stand in brackets."""
SPECIAL = ("127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32", "0.0.0.0/32", "198.51.100.0/24")


@given(st.one_of(*(st.ip_addresses(v=4, network=item) for item in SPECIAL), st.ip_addresses(v=4)))
def test_crds_and_controller_agree_on_what_is_local(address: ipaddress.IPv4Address) -> None:
    high, low = f"{address.packed.hex()[:4]}", f"{address.packed.hex()[4:]}"
    local = is_local(address)
    for text in (str(address), f"64:ff9b::{high}:{low}", f"64:ff9b:1::{address}", f"2002:{high}:{low}::1"):
        result = parsed(text)
        assert result is not None
        for spelled in {text, str(result)}:
            assert (is_local(result), LOCAL.fullmatch(spelled) is not None) == (local, local), spelled


@given(st.ip_addresses(v=6))
def test_they_agree_on_other_addresses_of_ipv6(address: ipaddress.IPv6Address) -> None:
    assert (LOCAL.fullmatch(str(address)) is not None) == is_local(address)
