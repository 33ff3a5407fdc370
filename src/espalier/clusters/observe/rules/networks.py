"""Rules about the networks of a cluster."""

from __future__ import annotations

import ipaddress
from collections.abc import Generator, Iterator, Sequence
from typing import TypeAlias

from espalier.api.eksa.parts.network import FAMILIES as _FAMILY
from espalier.api.eksa.parts.network import LONGEST_SERVICE_PREFIX, CiliumConfig, ClusterNetwork
from espalier.api.eksa.vocabulary import sentences
from espalier.api.text.violations import Violation

Range: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_NO_SERVICES = [ipaddress.ip_network(block) for block in ("127.0.0.0/8", "224.0.0.0/4", "::1/128", "ff00::/8")]
_NO_PODS = [*_NO_SERVICES, *(ipaddress.ip_network(block) for block in ("169.254.0.0/16", "fe80::/10"))]
"""Loopback and multicast addresses. Kubernetes accepts no link-local addresses in the endpoints of a Service either."""

_DEFAULT_NODE_MASK = {4: 24, 6: 64}


def violations(network: ClusterNetwork | None) -> Iterator[Violation]:
    """CIDRs that do not suit each other, and anything but exactly one CNI."""
    field = "spec.clusterNetwork"
    if network is None:
        yield Violation(field, "nothing", "", sentences.NO_NETWORK)
        return
    pods = yield from _range(f"{field}.pods.cidrBlocks", network.pods.cidr_blocks if network.pods else [])
    services = yield from _range(
        f"{field}.services.cidrBlocks", network.services.cidr_blocks if network.services else []
    )
    if pods and services and pods.version != services.version:
        yield Violation(f"{field}.services.cidrBlocks", str(services), _FAMILY[pods.version], sentences.ONE_FAMILY)
    elif pods and services and pods.overlaps(services):
        message = "pods and services need separate ranges"
        yield Violation(f"{field}.services.cidrBlocks", str(services), f"a range outside of {pods}", message)
    if services and services.prefixlen > LONGEST_SERVICE_PREFIX[services.version]:
        allowed = f"/{LONGEST_SERVICE_PREFIX[services.version]} or a shorter prefix"
        yield Violation(f"{field}.services.cidrBlocks", str(services), allowed, sentences.FEW_SERVICES)
    if pods:
        yield from _node_mask(pods, network)
    yield from _cni(network)


def _node_mask(pods: Range, network: ClusterNetwork) -> Iterator[Violation]:
    given = network.nodes.cidr_mask_size if network.nodes else None
    mask = _DEFAULT_NODE_MASK[pods.version] if given is None else given
    if not pods.prefixlen < mask <= min(pods.prefixlen + 16, pods.max_prefixlen):
        yield Violation(
            "spec.clusterNetwork.nodes.cidrMaskSize",
            str(mask),
            f"{pods.prefixlen + 1} to {min(pods.prefixlen + 16, pods.max_prefixlen)}",
            sentences.NODE_MASK,
        )


def _cni(network: ClusterNetwork) -> Iterator[Violation]:
    config = network.cni_config
    chosen = [name for name in ("cilium", "kindnetd") if config and getattr(config, name) is not None]
    if network.cni:
        if chosen:
            yield Violation("spec.clusterNetwork.cni", network.cni, "", sentences.CNI_TWICE)
        elif network.cni not in ("cilium", "cilium-enterprise", "kindnetd"):
            yield Violation("spec.clusterNetwork.cni", network.cni, "cilium, kindnetd", sentences.CNI_UNKNOWN)
    elif len(chosen) != 1:
        names = " and ".join(chosen) or "nothing"
        yield Violation("spec.clusterNetwork.cniConfig", names, "cilium or kindnetd", sentences.ONE_CNI)
    if config and config.cilium:
        yield from _cilium(config.cilium)


def _cilium(cilium: CiliumConfig) -> Iterator[Violation]:
    field = "spec.clusterNetwork.cniConfig.cilium"
    if cilium.routing_mode == "direct" and not cilium.ipv4_native_routing_cidr:
        yield Violation(f"{field}.ipv4NativeRoutingCIDR", "nothing", "", sentences.NATIVE_RANGE)
    for version, name, given in (
        (4, "ipv4NativeRoutingCIDR", cilium.ipv4_native_routing_cidr),
        (6, "ipv6NativeRoutingCIDR", cilium.ipv6_native_routing_cidr),
    ):
        if given and not _is_range(given, version):
            yield Violation(f"{field}.{name}", given, _FAMILY[version], sentences.RANGE)
    if cilium.skip_upgrade and cilium.policy_enforcement_mode:
        mode = cilium.policy_enforcement_mode
        yield Violation(f"{field}.policyEnforcementMode", mode, "", sentences.CILIUM_IS_YOURS)


def _is_range(text: str, version: int) -> bool:
    try:
        return ipaddress.ip_network(text, strict=False).version == version
    except ValueError:
        return False


def _range(field: str, blocks: Sequence[str]) -> Generator[Violation, None, Range | None]:
    """Yields violations, returns the range if it is valid."""
    if len(blocks) != 1:
        yield Violation(field, ", ".join(blocks) or "nothing", "a range like 192.168.0.0/16", sentences.ONE_RANGE)
        return None
    try:
        network = ipaddress.ip_network(blocks[0])
    except ValueError as error:
        sentence = str(error) if "host bits" in str(error) else sentences.RANGE
        yield Violation(f"{field}[0]", blocks[0], "a range like 192.168.0.0/16", sentence)
        return None
    for special in _NO_PODS if field.endswith("pods.cidrBlocks") else _NO_SERVICES:
        if network.version == special.version and network.overlaps(special):
            message = f"nodes do not route packets to {special}"
            yield Violation(f"{field}[0]", blocks[0], "a range like 192.168.0.0/16", message)
            return None
    return network
