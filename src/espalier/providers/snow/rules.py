"""Validation of Clusters on Snow: their spec alone, and together with referenced objects."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.host_os import BOTTLEROCKET
from espalier.api.text.violations import Violation
from espalier.clusters.design import addresses
from espalier.clusters.design.addresses import Address
from espalier.clusters.design.cluster_objects.linked_objects import of_kind
from espalier.clusters.design.cluster_objects.machine_groups import references_to, without_failure_domains
from espalier.clusters.observe.rules.control_planes import endpoint
from espalier.kube.objects import Object
from espalier.providers.snow.kinds import IPPool, SnowDatacenterConfig, SnowIPPool, SnowMachineConfig
from espalier.providers.snow.references import credentials_of
from espalier.providers.snow.render import credentials_name

_KIND = SnowMachineConfig.resource.kind
_LEAST_OF_BOTTLEROCKET = 25
"""GiB, as in EKS Anywhere."""


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Fields that are missing or rejected."""
    yield from endpoint.violations(spec)
    yield from endpoint.in_networks(spec)  # as in EKS Anywhere
    yield from references_to(_KIND, spec)
    yield from without_failure_domains(
        spec, "Snow has no failure domains; to use other devices, give the group its own machine config"
    )


def warnings(spec: eksa.ClusterSpec) -> Iterator[str]:
    """Fields that are accepted and have no effect."""
    yield from endpoint.warnings(spec)


def linked_violations(cluster: eksa.Cluster, children: Sequence[Object]) -> Iterator[Violation]:
    """Violations that need the datacenter, machine configs and IP pools."""
    name, configs = cluster.metadata.name, of_kind(SnowMachineConfig, children)
    for datacenter in of_kind(SnowDatacenterConfig, children).values():
        if credentials_of(datacenter.spec) == credentials_name(name):
            field = f"{datacenter.kind} {datacenter.metadata.name}: spec.identityRef.name"
            message = "this Secret is generated for the cluster; keep the credentials in another one"
            yield Violation(field, credentials_name(name), "the name of another Secret", message)
    for config in configs.values():
        if config.spec.os == BOTTLEROCKET:
            yield from _containers_volume(config)
    devices = _devices(configs)
    for device, field in devices.items():
        if addresses.parsed(device) == addresses.parsed(cluster.spec.endpoint_host):
            message = f"this is the address of a device ({field}); choose a free one"
            yield Violation(endpoint.FIELD, device, "a free address", message)
    for pool in of_kind(SnowIPPool, children).values():
        owners = [owner.name for owner in pool.metadata.owner_references if owner.kind == eksa.Cluster.resource.kind]
        if owners and owners[0] != name:
            message = f"Cluster {owners[0]} uses this pool, and machines of both would get the same addresses; use "
            yield Violation(f"{pool.kind} {pool.metadata.name}", name, owners[0], f"{message}another SnowIPPool")
        for index, pool_range in enumerate(pool.spec.pools):
            pool_field = f"{pool.kind} {pool.metadata.name}: spec.pools[{index}]"
            with suppress(ValueError):  # the rules of the CRD say so
                yield from _range(pool_field, pool_range, cluster.spec, devices)
        yield from _overlaps(pool)


def _containers_volume(config: SnowMachineConfig) -> Iterator[Violation]:
    volume = config.spec.containers_volume
    if volume is None or volume.size < _LEAST_OF_BOTTLEROCKET:
        field, size = f"{_KIND} {config.metadata.name}: spec.containersVolume", volume.size if volume else "nothing"
        message = "Bottlerocket needs a separate disk for images and containers"
        yield Violation(field, str(size), f"{_LEAST_OF_BOTTLEROCKET} GiB or more", message)


def _devices(configs: Mapping[str, SnowMachineConfig]) -> dict[str, str]:
    """Addresses of devices, each with the field that names it."""
    return {
        device: f"{_KIND} {name}: spec.devices[{index}]"
        for name, config in configs.items()
        for index, device in enumerate(config.spec.devices)
    }


def _overlaps(pool: SnowIPPool) -> Iterator[Violation]:
    """Violations for ranges that overlap with an earlier range."""
    before: list[tuple[Address, Address, int]] = []
    for index, range_ in enumerate(pool.spec.pools):
        first, last = addresses.parsed(range_.ip_start), addresses.parsed(range_.ip_end)
        if first is None or last is None:
            continue  # the rules of the CRD say so
        for start, end, other in before:
            if start.version == first.version and int(start) <= int(last) and int(first) <= int(end):
                message = f"overlaps with spec.pools[{other}], so two machines could get the same address"
                field = f"{pool.kind} {pool.metadata.name}: spec.pools[{index}]"
                yield Violation(field, f"{first} to {last}", f"addresses outside of {start} to {end}", message)
        before.append((first, last, index))


def clashes(own_objects: Sequence[Object], other_objects: Sequence[Object]) -> Iterator[str]:
    """Addresses that pools of two clusters share in one network.

    Two pools are in one network if the clusters share a device, or if both have devices in the subnet: the manager
    reaches these by their addresses. Other networks may be separate, with the same addresses.
    """
    own_devices, other_devices = (
        {address for device in _devices(of_kind(SnowMachineConfig, objects)) if (address := addresses.parsed(device))}
        for objects in (own_objects, other_objects)
    )
    other_ranges = [range_ for pool in of_kind(SnowIPPool, other_objects).values() for _, range_ in _ranges(pool)]
    for pool in of_kind(SnowIPPool, own_objects).values():
        for index, own_range in _ranges(pool):
            share_network = bool(own_devices & other_devices) or (
                any(map(own_range.has_in_network, own_devices)) and any(map(own_range.has_in_network, other_devices))
            )
            for other_range in other_ranges:
                if share_network and own_range.overlaps(other_range):
                    yield (
                        f"{pool.kind} {pool.metadata.name}: spec.pools[{index}]: found {own_range.first} to "
                        f"{own_range.last}, but machines of another cluster use "
                        f"{max(own_range.first, other_range.first, key=int)} to "
                        f"{min(own_range.last, other_range.last, key=int)}; use another SnowIPPool, with other "
                        "addresses"
                    )


class _Range(NamedTuple):
    """Addresses from the first to the last, of one IP version, and their network."""

    first: Address
    last: Address
    network: ipaddress.IPv4Network | ipaddress.IPv6Network

    def overlaps(self, other: _Range) -> bool:
        if self.first.version != other.first.version:
            return False
        return int(self.first) <= int(other.last) and int(other.first) <= int(self.last)

    def has_in_network(self, address: Address) -> bool:
        return address in self.network


def _ranges(pool: SnowIPPool) -> Iterator[tuple[int, _Range]]:
    """The valid ranges of a pool, each with its index."""
    for index, range_ in enumerate(pool.spec.pools):
        first, last = addresses.parsed(range_.ip_start), addresses.parsed(range_.ip_end)
        with suppress(ValueError):  # the rules of the CRD say so
            if first is not None and last is not None and first.version == last.version:
                yield index, _Range(first, last, ipaddress.ip_network(range_.subnet, strict=False))


def _range(pool_field: str, pool: IPPool, spec: eksa.ClusterSpec, devices: Mapping[str, str]) -> Iterator[Violation]:
    subnet = ipaddress.ip_network(pool.subnet, strict=False)
    for name, text in (("ipStart", pool.ip_start), ("ipEnd", pool.ip_end), ("gateway", pool.gateway)):
        if ipaddress.ip_address(text) not in subnet:
            yield Violation(f"{pool_field}.{name}", text, f"an address in {pool.subnet}", "it is not in the subnet")
    first, last = ipaddress.ip_address(pool.ip_start), ipaddress.ip_address(pool.ip_end)
    if first.version != last.version or int(first) >= int(last):
        allowed = f"an address after {pool.ip_start}"
        yield Violation(f"{pool_field}.ipEnd", pool.ip_end, allowed, "the range must end after it starts")
        return
    for field, text, reason in (
        (endpoint.FIELD, spec.endpoint_host, "a machine would get the address of the API server"),
        (f"{pool_field}.gateway", pool.gateway, "a machine would get the address of the gateway"),
        *((field, device, "a machine would get the address of the device") for device, field in devices.items()),
    ):
        address = addresses.parsed(text)
        if address is not None and address.version == first.version and int(first) <= int(address) <= int(last):
            yield Violation(field, text, f"an address outside of {first} to {last}", f"it is in {pool_field}: {reason}")
