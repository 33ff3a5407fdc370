"""Addresses of a local environment: a range for its bridge, one address for each node and each control plane. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv4Network, NetmaskValueError


class BadRange(ValueError):
    """The range is invalid; the message tells why, and what is allowed."""


class RangeFull(Exception):
    """Every address of the range is in use."""


@dataclass(frozen=True)
class AddressRange:
    """An IPv4 network, whose first address is the bridge's."""

    network: IPv4Network

    @classmethod
    def parse(cls, text: str) -> AddressRange:
        """Read `10.77.0.0/24`. Raises `BadRange`."""
        allowed = "a private IPv4 network of /16 to /28, such as 10.77.0.0/24"
        try:
            network = IPv4Network(text)
        except (AddressValueError, NetmaskValueError, ValueError) as error:
            raise BadRange(f"node addresses {text!r}: {error}; allowed: {allowed}") from None
        if not 16 <= network.prefixlen <= 28 or not network.is_private or network.is_loopback:
            raise BadRange(f"node addresses {text!r}: allowed is {allowed}")
        return cls(network)

    @property
    def bridge(self) -> IPv4Address:
        """The host's address on the bridge: the nodes' gateway."""
        return self.network[1]

    @property
    def hardware_address(self) -> str:
        """The bridge's own: locally administered, and of no other bridge with another range."""
        return bytes((0x02, 0x00, *self.bridge.packed)).hex(":")

    def with_length(self, address: IPv4Address) -> str:
        """As `ip address add` takes it."""
        return f"{address}/{self.network.prefixlen}"

    def free(self, taken: Iterable[IPv4Address]) -> IPv4Address:
        """The lowest address that is neither the bridge's nor taken. Raises `RangeFull`."""
        used = {self.bridge, *taken}
        for address in self.network.hosts():
            if address not in used:
                return address
        raise RangeFull(
            f"all {self.network.num_addresses - 3} addresses of {self.network} are in use: "
            "delete a cluster, or start a local environment with a wider range (--node-addresses)"
        )


@dataclass(frozen=True)
class Occupied:
    """A network that the machine has already, with its interface or route."""

    network: IPv4Network
    device: str


def clash(wanted: AddressRange, occupied: Iterable[Occupied], *, own_bridge: str) -> Occupied | None:
    """The first network that overlaps the range, except our own bridge and default routes."""
    for other in occupied:
        if other.device != own_bridge and other.network.prefixlen > 0 and other.network.overlaps(wanted.network):
            return other
    return None
