"""Rules about how machines are upgraded: where they stand, or by rolling."""

from __future__ import annotations

from collections.abc import Iterator

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa import sentences
from espalier.api.eksa.rollouts import ControlPlaneUpgradeRolloutStrategy, WorkerNodesUpgradeRolloutStrategy
from espalier.api.violations import Violation

Strategy = ControlPlaneUpgradeRolloutStrategy | WorkerNodesUpgradeRolloutStrategy


def violations(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """What goes with one way of upgrading alone is given with that."""
    control_plane = spec.control_plane_configuration
    strategies: list[tuple[str, Strategy | None]] = [
        ("spec.controlPlaneConfiguration", control_plane.upgrade_rollout_strategy if control_plane else None),
        *(
            (f"spec.workerNodeGroupConfigurations[{index}]", group.upgrade_rollout_strategy)
            for index, group in enumerate(spec.worker_node_group_configurations)
        ),
    ]
    for index, group in enumerate(spec.worker_node_group_configurations):
        own = group.upgrade_rollout_strategy
        if group.autoscaling_configuration is not None and own is not None and own.type == "InPlace":
            field = f"spec.workerNodeGroupConfigurations[{index}].upgradeRolloutStrategy.type"
            yield Violation(field, "InPlace", "RollingUpdate", sentences.AUTOSCALED_IN_PLACE)
    has_external_etcd = spec.external_etcd_configuration is not None
    for place, strategy in strategies:
        if strategy is not None:
            yield from _strategy(f"{place}.upgradeRolloutStrategy", strategy, has_external_etcd=has_external_etcd)


def _strategy(field: str, strategy: Strategy, *, has_external_etcd: bool) -> Iterator[Violation]:
    is_in_place = strategy.type == "InPlace"
    if strategy.fallback is not None and not is_in_place:
        yield Violation(f"{field}.fallback", strategy.fallback, "nothing", sentences.NO_FALLBACK)
    if is_in_place and has_external_etcd:
        yield Violation(f"{field}.type", "InPlace", "RollingUpdate", sentences.EXTERNAL_ETCD_IN_PLACE)
    is_of_workers = isinstance(strategy, WorkerNodesUpgradeRolloutStrategy)
    if is_in_place and not is_of_workers and strategy.rolling_update is not None:
        yield Violation(f"{field}.rollingUpdate", "limits", "nothing", sentences.SECOND_ROLLOUT)
    if is_of_workers and strategy.type == "RollingUpdate" and strategy.rolling_update is None:
        yield Violation(f"{field}.rollingUpdate", "nothing", "", sentences.NO_LIMITS)
