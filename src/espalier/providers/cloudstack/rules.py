"""Validation of Clusters on CloudStack: their spec alone, and together with referenced objects."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from espalier.api.eksa import cluster as eksa
from espalier.api.text.violations import Violation
from espalier.clusters.design import addresses
from espalier.clusters.design.cluster_objects.linked_objects import of_kind
from espalier.clusters.design.cluster_objects.machine_groups import (
    machine_groups,
    names_version,
    references_to,
    without_failure_domains,
)
from espalier.clusters.observe.rules.control_planes import endpoint
from espalier.kube.objects import Object
from espalier.providers.cloudstack import references
from espalier.providers.cloudstack.kinds import CloudStackMachineConfig

_KIND = CloudStackMachineConfig.resource.kind
_NUMBER = "0[xX][0-9A-Fa-f]*|[0-9]+"  # as the last label: resolvers take the name for an address
_NAME = re.compile(
    rf"(?=.{{1,253}}$)(?!(.*[.])?({_NUMBER})$)"
    "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?([.][A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*"
)
_ALLOWED = "HOST or HOST:PORT, where HOST is an unused IP address or a DNS name"


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Fields that are missing or rejected."""
    yield from _endpoint(spec)
    yield from references_to(_KIND, spec)
    yield from without_failure_domains(
        spec, "machines are spread across all availability zones of the datacenter config; remove the field"
    )


def _endpoint(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    if spec.control_plane_configuration is None:
        return
    host_and_port = spec.endpoint_host
    if not host_and_port:
        message = "set the address of the API server; DHCP must not assign it"
        yield Violation(endpoint.FIELD, "nothing", _ALLOWED, message)
        return
    try:
        parsed_endpoint = references.endpoint(spec)
    except ValueError:
        yield Violation(endpoint.FIELD, host_and_port, _ALLOWED, "neither a host nor a host with a port")
        return
    address = addresses.parsed(parsed_endpoint.host)
    if not 0 < parsed_endpoint.port < 65536:
        yield Violation(endpoint.FIELD, host_and_port, "ports from 1 to 65535", "not a valid port")
    elif address is None and not _NAME.fullmatch(parsed_endpoint.host):
        yield Violation(endpoint.FIELD, host_and_port, _ALLOWED, "neither an IP address nor a DNS name")
    elif addresses.is_local_name(parsed_endpoint.host) or (address is not None and addresses.is_local(address)):
        yield Violation(endpoint.FIELD, host_and_port, _ALLOWED, "machines can't be reached there")


def warnings(spec: eksa.ClusterSpec) -> Iterator[str]:
    """Fields that are accepted and have no effect, and an address of the API server that may be taken."""
    yield from endpoint.warnings(spec)
    yield from endpoint.overlaps(spec)


def linked_violations(cluster: eksa.Cluster, children: Sequence[Object]) -> Iterator[Violation]:
    """Violations that need the machine configs: templates of another Kubernetes version."""
    configs = of_kind(CloudStackMachineConfig, children)
    for group in machine_groups(cluster.spec):
        config = configs.get(group.reference.name) if group.reference is not None else None
        template = config.spec.template if config is not None else None
        if template is None or template.id or names_version(template.name, group.kubernetes_version):
            continue
        field = f"{_KIND} {group.reference.name if group.reference else ''}: spec.template.name"
        message = (
            f"machines of {group.field} run Kubernetes {group.kubernetes_version}; use a template with that version"
        )
        yield Violation(field, template.name, f"a name that contains {group.kubernetes_version}", message)
