"""The networks of a cluster, and the addresses of its machines."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

from espalier.api.capi.cluster import Cluster
from espalier.api.meta import Tree


class Network(NamedTuple):
    """The networks inside a cluster."""

    pods: str = "192.168.0.0/16"
    services: str = "10.96.0.0/12"
    domain: str = "cluster.local"

    def service_address(self, number: int) -> str:
        """The service address with this number."""
        return str(ipaddress.ip_network(self.services)[number])


def network_of(cluster: Cluster) -> Network:
    """The networks that a Cluster asks for."""
    wanted = cluster.spec.cluster_network
    default = Network()
    if wanted is None:
        return default
    return Network(
        pods=next(iter(wanted.pods.cidr_blocks), default.pods) if wanted.pods else default.pods,
        services=next(iter(wanted.services.cidr_blocks), default.services) if wanted.services else default.services,
        domain=wanted.service_domain or default.domain,
    )


def machine_addresses(name: str, address: str) -> list[Tree]:
    """The addresses of a machine and of its node."""
    return [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": name}]
