"""Places of API servers are compared in one spelling, whatever tenants write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.clusters.addresses import Place, place


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
def test_so_is_one_of_ipv6(text: str) -> None:
    assert place(text) == Place("fd00::10", "6443")


@pytest.mark.parametrize("text", ["api.example.com", "API.Example.COM", "api.example.com.", "api.example.com.:6443"])
def test_names_have_small_letters_and_no_dot_at_their_end(text: str) -> None:
    assert place(text) == Place("api.example.com", "6443")


def test_ports_tell_places_apart_and_nothing_is_no_place() -> None:
    assert place("192.0.2.10:8443") == Place("192.0.2.10", "8443")
    assert [place(text) for text in ("", " ", "[]", ".")] == [None] * 4


@given(st.ip_addresses(), st.integers(1, 65535))
def test_what_is_written_of_a_place_is_that_place(address: object, port: int) -> None:
    found = place(f"[{address}]:{port}")
    assert found is not None
    assert place(f"[{found.host}]:{found.port}") == found
    assert found.port == str(port)
