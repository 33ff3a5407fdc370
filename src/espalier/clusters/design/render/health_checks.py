"""MachineHealthChecks: when machines are unhealthy and get replaced."""

from __future__ import annotations

from espalier.api.capi.machine import (
    HealthCheckRemediation,
    HealthChecks,
    MachineHealthCheck,
    MachineHealthCheckSpec,
    RemediationTrigger,
    UnhealthyNodeCondition,
)
from espalier.api.eksa.parts import health_checks
from espalier.api.eksa.parts.workers import WorkerNodeGroupConfiguration
from espalier.api.label_selectors import LabelSelector
from espalier.api.text.durations import seconds
from espalier.clusterapi.contract import CONTROL_PLANE_LABEL, DEPLOYMENT_NAME_LABEL
from espalier.clusters.design import names
from espalier.clusters.design.provider import RenderInput
from espalier.clusters.design.render.cluster import meta
from espalier.clusters.design.render_input import group_name

UNHEALTHY_MACHINE_TIMEOUT = "5m0s"
CONTROL_PLANE_MAX_UNHEALTHY = "100%"
WORKER_MAX_UNHEALTHY = "40%"


def control_plane_health_check(render_input: RenderInput) -> MachineHealthCheck:
    """The MachineHealthCheck of the control plane."""
    return _health_check(
        render_input,
        names.control_plane_health_check(render_input.name),
        {CONTROL_PLANE_LABEL: ""},
        render_input.control_plane.machine_health_check,
        CONTROL_PLANE_MAX_UNHEALTHY,
    )


def worker_health_check(render_input: RenderInput, group: WorkerNodeGroupConfiguration) -> MachineHealthCheck:
    """The MachineHealthCheck of a worker node group."""
    name = group_name(group)
    return _health_check(
        render_input,
        names.worker_health_check(render_input.name, name),
        {DEPLOYMENT_NAME_LABEL: names.machine_deployment(render_input.name, name)},
        group.machine_health_check,
        WORKER_MAX_UNHEALTHY,
    )


def _health_check(
    render_input: RenderInput,
    name: str,
    match_labels: dict[str, str],
    own: health_checks.MachineHealthCheck | None,
    max_unhealthy: int | str,
) -> MachineHealthCheck:
    """Each setting comes from the control plane or group, else from the cluster, else from EKS Anywhere's defaults."""
    layers = [layer for layer in (own, render_input.spec.machine_health_check) if layer is not None]
    usual = render_input.provider.node_startup_timeout
    startup = next((layer.node_startup_timeout for layer in layers if layer.node_startup_timeout), usual)
    unhealthy = next(
        (layer.unhealthy_machine_timeout for layer in layers if layer.unhealthy_machine_timeout),
        UNHEALTHY_MACHINE_TIMEOUT,
    )
    limit = next((layer.max_unhealthy for layer in layers if layer.max_unhealthy is not None), max_unhealthy)
    return MachineHealthCheck(
        metadata=meta(render_input, name),
        spec=MachineHealthCheckSpec(
            cluster_name=render_input.name,
            selector=LabelSelector(match_labels=match_labels),
            checks=HealthChecks(
                node_startup_timeout_seconds=seconds(startup),
                unhealthy_node_conditions=[
                    UnhealthyNodeCondition(type="Ready", status=status, timeout_seconds=seconds(unhealthy))
                    for status in ("Unknown", "False")
                ],
            ),
            remediation=HealthCheckRemediation(trigger_if=RemediationTrigger(unhealthy_less_than_or_equal_to=limit)),
        ),
    )
