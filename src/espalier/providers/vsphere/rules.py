"""Validation of Clusters on vSphere: by their spec, and together with what they link."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence
from contextlib import suppress

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.fields import Ref
from espalier.api.eksa.host_os import BOTTLEROCKET, REDHAT, UBUNTU
from espalier.api.violations import Violation
from espalier.kube.objects import Object
from espalier.providers.vsphere import addresses
from espalier.providers.vsphere.kinds import VSphereMachineConfig
from espalier.providers.vsphere.linked import datacenters, machine_configs, machines

_CP = "spec.controlPlaneConfiguration"
_GROUPS = "spec.workerNodeGroupConfigurations"
_KIND = VSphereMachineConfig.resource.kind


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Fields that are missing or refused."""
    yield from _endpoint(spec)
    for place, reference, _ in machines(spec):
        yield from _reference(f"{place}.machineGroupRef", reference)
    for index, group in enumerate(spec.worker_node_group_configurations):
        if len(group.failure_domains) > 1:
            field, found = f"{_GROUPS}[{index}].failureDomains", ", ".join(group.failure_domains)
            message = "machines of a group on vSphere are in one failure domain; make a group for each"
            yield Violation(field, found, "one failure domain", message)


def warnings(spec: eksa.ClusterSpec) -> Iterator[str]:
    """Fields that are accepted and have no effect."""
    control_plane = spec.control_plane_configuration
    if control_plane is not None and control_plane.skip_load_balancer_deployment:
        yield (
            f"{_CP}.skipLoadBalancerDeployment: kube-vip keeps the address of the API server on machines of the "
            "control plane; it is always there"
        )


def linked_violations(cluster: eksa.Cluster, children: Sequence[Object]) -> Iterator[Violation]:
    """What only shows together with the datacenter and machine configs."""
    spec, configs = cluster.spec, machine_configs(children)
    yield from _failure_domains(spec, children)
    yield from _operating_systems(spec, configs)
    for place, reference, role in machines(spec):
        config = configs.get(reference.name) if reference is not None else None
        if config is not None and config.spec.networks and role != "workers":
            message = "networks are for workers; name a machine config without"
            yield Violation(f"{place}.machineGroupRef.name", config.metadata.name, "", message)


def _endpoint(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    control_plane = spec.control_plane_configuration
    if control_plane is None:
        return
    host = control_plane.endpoint.host if control_plane.endpoint is not None else ""
    field, allowed = f"{_CP}.endpoint.host", "an IP address that no machine has"
    if not host:
        message = "say at which address the API server is reached; it must be in the network of the machines, and not "
        yield Violation(field, "nothing", allowed, f"{message}be given out by DHCP")
    elif (address := addresses.parsed(host)) is None:
        yield Violation(field, host, allowed, "kube-vip keeps an IP address on a machine of the control plane")
    elif addresses.is_local(address):
        yield Violation(field, host, allowed, "machines can't be reached there")
    else:
        yield from _in_networks(field, address, spec)


def _in_networks(field: str, address: addresses.Address, spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Pods and Services have their addresses to themselves; ranges that are none are refused elsewhere."""
    network = spec.cluster_network
    for name, ranges in (("pods", network.pods), ("services", network.services)) if network else ():
        for block in ranges.cidr_blocks if ranges else ():
            with suppress(ValueError):
                if address in ipaddress.ip_network(block, strict=False):
                    message = f"spec.clusterNetwork.{name} has {block}: addresses there are given to {name}"
                    yield Violation(field, str(address), "an address outside of the cluster's networks", message)


def _reference(field: str, reference: Ref | None) -> Iterator[Violation]:
    if reference is None:
        yield Violation(field, "nothing", _KIND, "say what the machines are like")
    elif reference.kind != _KIND:
        yield Violation(f"{field}.kind", reference.kind, _KIND, "not a kind of machine config for this datacenter")


def _failure_domains(spec: eksa.ClusterSpec, children: Sequence[Object]) -> Iterator[Violation]:
    for datacenter in datacenters(children).values():
        known = [domain.name for domain in datacenter.spec.failure_domains]
        for index, group in enumerate(spec.worker_node_group_configurations):
            for name in group.failure_domains:
                if name not in known:
                    message = f"VSphereDatacenterConfig {datacenter.metadata.name} has no such failure domain"
                    allowed = ", ".join(known) or "none"
                    yield Violation(f"{_GROUPS}[{index}].failureDomains", name, allowed, message)


def _operating_systems(spec: eksa.ClusterSpec, configs: dict[str, VSphereMachineConfig]) -> Iterator[Violation]:
    found = [
        (place, config.spec.os)
        for place, reference, _ in machines(spec)
        if reference is not None and (config := configs.get(reference.name)) is not None
    ]
    families = sorted({family for _, family in found})
    if len(families) > 1 and spec.external_etcd_configuration is not None:
        message = "with external etcd, all machines of a cluster have the same operating system"
        yield Violation("spec.externalEtcdConfiguration", ", ".join(families), "one osFamily", message)
    for place in (place for place, family in found if family == BOTTLEROCKET):
        message = "machines with Bottlerocket on vSphere are not made yet; name a machine config with another osFamily"
        yield Violation(f"{place}.machineGroupRef", BOTTLEROCKET, f"{UBUNTU}, {REDHAT}", message)
