"""Validation of Clusters on Nutanix: their spec alone, and together with referenced objects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.host_os import UBUNTU
from espalier.api.text.quantities import amount
from espalier.api.text.violations import Violation
from espalier.clusters.design.cluster_objects.linked_objects import of_kind
from espalier.clusters.design.cluster_objects.machine_groups import (
    WORKERS,
    kubernetes_versions,
    machine_groups,
    names_version,
    references_to,
    without_failure_domains,
)
from espalier.clusters.design.render_input import group_name
from espalier.clusters.observe.rules import connections
from espalier.clusters.observe.rules.control_planes import endpoint
from espalier.kube.objects import Object
from espalier.providers.nutanix import node_addresses
from espalier.providers.nutanix.kinds import LEAST_DISK, LEAST_MEMORY, NutanixDatacenterConfig, NutanixMachineConfig
from espalier.providers.nutanix.references import credentials_of, other_version
from espalier.providers.nutanix.render import credentials_name

_KIND = NutanixMachineConfig.resource.kind

DEFAULTS = {_KIND: {"osFamily": UBUNTU}}


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Fields that are missing or rejected."""
    yield from endpoint.violations(spec)
    yield from references_to(_KIND, spec)
    yield from without_failure_domains(
        spec,
        "on Nutanix, failure domains list their worker node groups; remove the field, and add the group to "
        "workerMachineGroups of failure domains in the NutanixDatacenterConfig",
    )


def warnings(spec: eksa.ClusterSpec) -> Iterator[str]:
    """Fields that are accepted and have no effect, and an address of the API server that may be taken."""
    yield from endpoint.warnings(spec)
    yield from endpoint.overlaps(spec)


def linked_violations(cluster: eksa.Cluster, children: Sequence[Object]) -> Iterator[Violation]:
    """Violations that need the datacenter and machine configs."""
    for datacenter in of_kind(NutanixDatacenterConfig, children).values():
        yield from _datacenter(cluster, datacenter)
    configs = of_kind(NutanixMachineConfig, children)
    for config in configs.values():
        yield from _sizes(config)
        image = config.spec.image
        for version in kubernetes_versions(cluster.spec, config.metadata.name):
            if image.type == "name" and image.name and not names_version(image.name, version):
                field = f"{_KIND} {config.metadata.name}: spec.image"
                yield Violation(field, "", "", other_version(image.name, version))
    for group in machine_groups(cluster.spec):
        config_of_group = configs.get(group.reference.name) if group.reference is not None else None
        if config_of_group is not None and config_of_group.spec.gpus and group.role != WORKERS:
            message = "only workers can have GPUs; use a machine config without"
            yield Violation(f"{group.field}.machineGroupRef.name", config_of_group.metadata.name, "", message)


def _datacenter(cluster: eksa.Cluster, config: NutanixDatacenterConfig) -> Iterator[Violation]:
    spec_field, spec = f"{config.kind} {config.metadata.name}: spec", config.spec
    if credentials_of(spec) == credentials_name(cluster.metadata.name):
        message = "this Secret is generated for the cluster; keep the credentials in another one"
        yield Violation(f"{spec_field}.credentialRef.name", credentials_of(spec), "the name of another Secret", message)
    if spec.additional_trust_bundle and not connections.is_certificates(spec.additional_trust_bundle):
        message = "not certificates; give those of the authorities that signed the certificate of Prism Central"
        yield Violation(f"{spec_field}.additionalTrustBundle", "", "certificates in PEM format", message)
    groups = [group_name(group) for group in cluster.spec.worker_node_group_configurations]
    for index, domain in enumerate(spec.failure_domains):
        for place, name in enumerate(domain.worker_machine_groups):
            if name not in groups:
                message = f"Cluster {cluster.metadata.name} has no such worker node group"
                yield Violation(
                    f"{spec_field}.failureDomains[{index}].workerMachineGroups[{place}]",
                    name,
                    ", ".join(groups) or "none",
                    message,
                )
    yield from _excluded(f"{spec_field}.ccmExcludeNodeIPs", spec.ccm_exclude_node_ips)


def _excluded(field: str, excluded: Sequence[str]) -> Iterator[Violation]:
    number = 0
    for index, range_ in enumerate(excluded):
        try:
            number += node_addresses.count([range_])
        except ValueError as error:
            yield Violation(f"{field}[{index}]", range_, "ranges that start with the lower address", str(error))
    if number > node_addresses.MOST:
        message = "each address is listed separately; exclude smaller ranges"
        yield Violation(field, f"{number} addresses", f"at most {node_addresses.MOST} addresses", message)


def _sizes(config: NutanixMachineConfig) -> Iterator[Violation]:
    spec = config.spec
    for name, size, least in (
        ("memorySize", spec.memory_size, LEAST_MEMORY),
        ("systemDiskSize", spec.system_disk_size, LEAST_DISK),
    ):
        if amount(str(size)) < amount(least):
            field = f"{config.kind} {config.metadata.name}: spec.{name}"
            yield Violation(field, str(size), f"{least} or more", "too small to run Kubernetes")
