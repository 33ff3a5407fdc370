"""Rules about numbers and durations: limits of Cluster API, and obvious mistakes."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator

from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.parts.fields import LARGEST_GROUP, MOST_CONTROL_PLANES
from espalier.api.eksa.parts.health_checks import COUNTABLE_DURATION, SHORTEST_STARTUP, MachineHealthCheck
from espalier.api.eksa.vocabulary import sentences
from espalier.api.kinds import LARGEST_INT32
from espalier.api.text.durations import seconds
from espalier.api.text.patterns import PERCENTAGE
from espalier.api.text.violations import Violation, shown


def sizes(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Numbers of machines that are obvious mistakes."""
    control_plane, etcd = spec.control_plane_configuration, spec.external_etcd_configuration
    sizes: list[tuple[str, int | None, int]] = [
        ("spec.controlPlaneConfiguration.count", control_plane.count if control_plane else None, MOST_CONTROL_PLANES),
        ("spec.externalEtcdConfiguration.count", etcd.count if etcd else None, MOST_CONTROL_PLANES),
    ]
    for index, group in enumerate(spec.worker_node_group_configurations):
        at = f"spec.workerNodeGroupConfigurations[{index}]"
        scaling, strategy = group.autoscaling_configuration, group.upgrade_rollout_strategy
        given = {"count": group.count}
        if scaling is not None:
            given["autoscalingConfiguration.minCount"] = scaling.min_count
            given["autoscalingConfiguration.maxCount"] = scaling.max_count
        if strategy is not None and strategy.rolling_update is not None:
            given["upgradeRolloutStrategy.rollingUpdate.maxSurge"] = strategy.rolling_update.max_surge
            given["upgradeRolloutStrategy.rollingUpdate.maxUnavailable"] = strategy.rolling_update.max_unavailable
        sizes += [(f"{at}.{name}", number, LARGEST_GROUP) for name, number in given.items()]
    for field, size, limit in sizes:
        if size is not None and size > limit:
            yield Violation(field, str(size), f"{limit} or less", sentences.TOO_MANY)


def autoscaling(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Limits of autoscalers that exclude every number of machines, or the given one."""
    for index, group in enumerate(spec.worker_node_group_configurations):
        scaling, at = group.autoscaling_configuration, f"spec.workerNodeGroupConfigurations[{index}]"
        if scaling is None:
            continue
        if scaling.min_count > scaling.max_count:
            allowed = f"at most {scaling.max_count}, which is maxCount"
            count = str(scaling.min_count)
            yield Violation(f"{at}.autoscalingConfiguration.minCount", count, allowed, sentences.NO_RANGE)
        elif group.count is not None and not scaling.min_count <= group.count <= scaling.max_count:
            allowed = f"{scaling.min_count} to {scaling.max_count}"
            yield Violation(f"{at}.count", str(group.count), allowed, sentences.COUNT_OUTSIDE)


def health_checks(spec: eksa.ClusterSpec) -> Iterator[Violation]:
    """Values of MachineHealthChecks that Cluster API would reject, or can't store."""
    control_plane = spec.control_plane_configuration
    of_control_plane = control_plane.machine_health_check if control_plane else None
    checks: list[tuple[str, MachineHealthCheck | None]] = [
        ("spec.machineHealthCheck", spec.machine_health_check),
        ("spec.controlPlaneConfiguration.machineHealthCheck", of_control_plane),
        *(
            (f"spec.workerNodeGroupConfigurations[{index}].machineHealthCheck", group.machine_health_check)
            for index, group in enumerate(spec.worker_node_group_configurations)
        ),
    ]
    for field, check in checks:
        if check is None:
            continue
        startup = yield from _seconds(f"{field}.nodeStartupTimeout", check.node_startup_timeout)
        if 0 < startup < SHORTEST_STARTUP:
            allowed = f"{SHORTEST_STARTUP}s or more, or 0s"
            yield Violation(f"{field}.nodeStartupTimeout", check.node_startup_timeout, allowed, sentences.STARTUP)
        yield from _seconds(f"{field}.unhealthyMachineTimeout", check.unhealthy_machine_timeout)
        if not _is_share(check.max_unhealthy):
            value, allowed = shown(check.max_unhealthy), "0 or more, or a percentage like 40%"
            yield Violation(f"{field}.maxUnhealthy", value, allowed, sentences.UNHEALTHY)


def _seconds(field: str, text: str) -> Generator[Violation, None, int]:
    """Yields violations of a duration, returns its seconds: 0 if it is invalid."""
    try:
        duration = seconds(text or "0s")
    except ValueError:
        yield Violation(field, text, "a duration like 10m0s", sentences.DURATION)
        return 0
    if duration > LARGEST_INT32 or not re.fullmatch(COUNTABLE_DURATION, text):
        yield Violation(field, text, f"at most {LARGEST_INT32}s", sentences.LONG)
    return duration


def _is_share(given: int | str | None) -> bool:
    """True if Cluster API accepts this as a number or percentage of machines."""
    if isinstance(given, str):
        return re.fullmatch(PERCENTAGE, given) is not None
    return given is None or 0 <= given <= LARGEST_INT32
