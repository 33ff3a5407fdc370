"""Which machine is deleted first, in a scale-down or a rollout (Cluster API's order)."""

from __future__ import annotations

from espalier.api import conditions as condition_list
from espalier.api.capi.cluster import DELETE_MACHINE_ANNOTATION
from espalier.api.capi.machine import Machine

DELETE_FIRST = DELETE_MACHINE_ANNOTATION


def machine_set_order(machine: Machine) -> tuple[bool, bool, bool, str]:
    """Sort key within a MachineSet: annotated machines, those without a node, unhealthy ones, then by name."""
    return (
        DELETE_FIRST not in machine.metadata.annotations,
        machine.status.node_ref is not None,
        condition_list.is_true(machine.status.conditions, "Ready"),
        machine.metadata.name,
    )


def control_plane_order(machine: Machine) -> tuple[bool, bool]:
    """Sort key within a control plane, for machines sorted oldest first: annotated ones, then those not ready."""
    ready = (
        machine.status.node_ref is not None
        and machine.metadata.deletion_timestamp is None
        and condition_list.is_true(machine.status.conditions, "Ready")
    )
    return (DELETE_FIRST not in machine.metadata.annotations, ready)
