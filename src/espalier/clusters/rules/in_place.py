"""Rules about upgrades in place."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.eksa import cluster as eksa
from espalier.api.violations import Violation


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """What is asked for of machines that are upgraded where they stand, and what goes with that alone."""
    control_plane = spec.control_plane_configuration
    strategies: list[tuple[str, str | None, str | None]] = []
    if control_plane is not None and control_plane.upgrade_rollout_strategy is not None:
        asked = control_plane.upgrade_rollout_strategy
        strategies.append(("spec.controlPlaneConfiguration", asked.type, asked.fallback))
    for index, group in enumerate(spec.worker_node_group_configurations):
        if group.upgrade_rollout_strategy is not None:
            given = group.upgrade_rollout_strategy
            strategies.append((f"spec.workerNodeGroupConfigurations[{index}]", given.type, given.fallback))
    for place, type_, fallback in strategies:
        field = f"{place}.upgradeRolloutStrategy"
        if fallback is not None and type_ != "InPlace":
            message = "a fallback is for machines that are upgraded in place; set type to InPlace, or remove it"
            yield Violation(f"{field}.fallback", fallback, "nothing", message)
        if type_ == "InPlace" and spec.external_etcd_configuration is not None:
            message = "etcd on machines of its own is not upgraded in place"
            yield Violation(f"{field}.type", "InPlace", "RollingUpdate", message)
