from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.realnodes.nspawn.system.addresses import AddressRange, BadRange, Occupied, RangeFull, clash

RANGE = AddressRange.parse("10.77.0.0/28")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("10.77.0.0", "/16 to /28"),
        ("10.77.0.1/24", "host bits"),
        ("8.8.8.0/24", "private"),
        ("127.0.0.0/16", "private"),
        ("10.0.0.0/8", "/16 to /28"),
        ("10.77.0.0/30", "/16 to /28"),
        ("fd00::/64", "private IPv4"),
        ("", "private IPv4"),
    ],
)
def test_unusable_range_is_named_with_a_usable(text: str, why: str) -> None:
    with pytest.raises(BadRange, match=f"(?s)node addresses '{text}'.*{why}"):
        AddressRange.parse(text)


@given(st.integers(min_value=0, max_value=13))
def test_nodes_get_different_addresses_until_the_end(count: int) -> None:
    taken: list[IPv4Address] = []
    for _ in range(count):
        taken.append(RANGE.free(taken))
    assert len({*taken, RANGE.bridge}) == count + 1
    assert all(address in RANGE.network for address in taken)
    if count == RANGE.network.num_addresses - 3:
        with pytest.raises(RangeFull, match=r"all 13 addresses of 10\.77\.0\.0/28 are in use"):
            RANGE.free(taken)


def test_returned_address_is_given_away_again() -> None:
    first = RANGE.free([])
    second = RANGE.free([first])
    assert RANGE.free([second]) == first


@pytest.mark.parametrize(
    ("network", "device", "clashes"),
    [
        ("10.77.0.0/24", "eth0", True),
        ("10.0.0.0/8", "tun0", True),
        ("10.77.0.8/32", "", True),
        ("10.78.0.0/24", "eth0", False),
        ("0.0.0.0/0", "eth0", False),
        ("10.77.0.0/28", "esp0", False),
    ],
)
def test_holders_of_addresses_of_the_range_are_found(network: str, device: str, clashes: bool) -> None:
    other = Occupied(IPv4Network(network), device)
    assert clash(RANGE, [other], own_bridge="esp0") == (other if clashes else None)
