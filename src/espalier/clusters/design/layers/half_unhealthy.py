"""v0.26.0: unhealthy workers are replaced while at most half of their group is unhealthy.

The limit was 40 %, rounded down: none in a group of two, so workers of the smallest groups were never replaced.
"""

from __future__ import annotations

import semver

from espalier.api.eksa.cluster import ClusterSpec
from espalier.api.eksa.parts.health_checks import MachineHealthCheck
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.clusters.design.layers.layer import Layer
from espalier.clusters.design.layers.pieces import changed

LIMIT = "50%"


def limit_to_half(spec: ClusterSpec) -> ClusterSpec:
    """Set the limit for groups without `maxUnhealthy` in the group and in the cluster."""
    if spec.machine_health_check is not None and spec.machine_health_check.max_unhealthy is not None:
        return spec
    groups = [_with_limit(group) for group in spec.worker_node_group_configurations]
    return changed(spec, worker_node_group_configurations=groups)


def _with_limit(group: WorkerNodeGroupConfiguration) -> WorkerNodeGroupConfiguration:
    own = group.machine_health_check or MachineHealthCheck()
    if own.max_unhealthy is not None:
        return group
    return changed(group, machine_health_check=changed(own, max_unhealthy=LIMIT))


LAYER = Layer(
    name="half-unhealthy",
    since=semver.Version(0, 26, 0),
    why="Unhealthy workers are replaced while at most half of their group is unhealthy, instead of 40 %.",
    defaults=(limit_to_half,),
)
