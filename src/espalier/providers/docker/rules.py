"""Validation of Clusters on Docker: refused fields, and fields without effect."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.eksa import cluster as eksa
from espalier.api.text.violations import Violation
from espalier.clusters.design.cluster_objects.machine_groups import without_failure_domains

_MACHINE_GROUP = "machineGroupRef: Docker has no machine configs; the reference is ignored"


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Fields that are rejected."""
    if host := spec.endpoint_host:
        message = "the endpoint of a Docker cluster is its load balancer's; remove the field"
        yield Violation("spec.controlPlaneConfiguration.endpoint.host", host, "nothing", message)
    yield from without_failure_domains(spec, "Docker has no failure domains; remove the field")


def warnings(spec: eksa.ClusterSpec) -> Iterator[str]:
    """Fields that are accepted and have no effect."""
    control_plane = spec.control_plane_configuration
    if control_plane is not None and control_plane.machine_group_ref is not None:
        yield f"spec.controlPlaneConfiguration.{_MACHINE_GROUP}"
    if control_plane is not None and control_plane.skip_load_balancer_deployment:
        yield (
            "spec.controlPlaneConfiguration.skipLoadBalancerDeployment: "
            "Docker's load balancer is part of the infrastructure and is always created"
        )
    for index, group in enumerate(spec.worker_node_group_configurations):
        if group.machine_group_ref is not None:
            yield f"spec.workerNodeGroupConfigurations[{index}].{_MACHINE_GROUP}"
