"""Rules about the address of the API server, for providers with kube-vip."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from contextlib import suppress

from espalier.api.eksa import cluster as eksa
from espalier.api.text.violations import Violation
from espalier.clusters.design import addresses

FIELD = "spec.controlPlaneConfiguration.endpoint.host"
_ALLOWED = "an unused IP address"


def place(spec: eksa.ClusterSpec) -> addresses.Place | None:
    """The API server's endpoint; None if the Cluster sets none. A provider may accept a port with the host."""
    return addresses.place(spec.endpoint_host)


def is_shared(first: eksa.Cluster, other: eksa.Cluster) -> bool:
    """True if the API servers of two Clusters would have the same endpoint. In a namespace several may share a
    host, at different ports.
    """
    here, there = place(first.spec), place(other.spec)
    if here is None or there is None or here.host != there.host:
        return False
    return here == there or first.metadata.namespace != other.metadata.namespace


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """An address that is missing, or that machines can't reach."""
    host = spec.endpoint_host
    if spec.control_plane_configuration is None:
        return
    if not host:
        message = "set the address of the API server: in the machines' network, and outside of the ranges of DHCP"
        yield Violation(FIELD, "nothing", _ALLOWED, message)
    elif (address := addresses.parsed(host)) is None:
        yield Violation(FIELD, host, _ALLOWED, "kube-vip assigns it to a control plane machine, so it can't be a name")
    elif addresses.is_local(address):
        yield Violation(FIELD, host, _ALLOWED, "machines can't be reached there")


def overlaps(spec: eksa.ClusterSpec) -> Iterator[str]:
    """Warnings about an address in the ranges of pods or Services."""
    for violation, block in _in_networks(spec):
        yield f"{violation.field}: {violation.message}; found {violation.found} in {block}"


def warnings(spec: eksa.ClusterSpec) -> Iterator[str]:
    """A warning about a field without effect, where kube-vip can't be left out."""
    control_plane = spec.control_plane_configuration
    if control_plane is not None and control_plane.skip_load_balancer_deployment:
        yield (
            "spec.controlPlaneConfiguration.skipLoadBalancerDeployment: this provider ignores it and always deploys "
            "kube-vip, which assigns the address of the API server to a control plane machine"
        )


def in_networks(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """An address in the ranges of pods or Services. Invalid ranges are rejected elsewhere.

    EKS Anywhere refuses it for one provider alone: its default for pods contains the usual networks of homes.
    """
    for violation, _ in _in_networks(spec):
        yield violation


def _in_networks(spec: eksa.ClusterSpec) -> Iterator[tuple[Violation, str]]:
    endpoint = place(spec)
    address = addresses.parsed(endpoint.host) if endpoint is not None else None
    network = spec.cluster_network
    if address is None:
        return
    for name, ranges in (("pods", network.pods), ("services", network.services)) if network else ():
        for block in ranges.cidr_blocks if ranges else ():
            with suppress(ValueError):
                if address in ipaddress.ip_network(block, strict=False):
                    allowed = f"an address outside of {block}"
                    yield Violation(FIELD, str(address), allowed, _OVERLAPS[name]), block


_LATER = "choose another range or address now, for they can't be changed later"
_OVERLAPS = {
    "pods": (
        "spec.clusterNetwork.pods contains this address: where a pod or a node gets addresses around it, the API "
        f"server can't be reached; {_LATER}"
    ),
    "services": (
        "spec.clusterNetwork.services contains this address: once a Service gets it, the API server can't be reached "
        f"from nodes; {_LATER}"
    ),
}
