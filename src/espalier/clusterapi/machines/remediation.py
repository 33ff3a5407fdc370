"""Unhealthy machines: conditions for remediation, and what a control plane records of it, in Cluster API's format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from espalier.api import conditions
from espalier.api.capi.machine import Machine
from espalier.api.meta import Observed
from espalier.api.trees import json_trees

REMEDIATION_FOR = "controlplane.cluster.x-k8s.io/remediation-for"
"""On a Machine: the machine that it replaces."""


class Remediation(Observed, frozen=True):
    """A machine was replaced because it was unhealthy."""

    machine: str = ""
    time: str = ""
    timestamp: str = ""
    """The time in annotations, whose format has another name for it."""
    retry_count: int = 0
    """The number of consecutive replacements before it that did not become healthy either."""

    @property
    def at(self) -> str:
        """The time."""
        return self.time or self.timestamp


def awaits_remediation(machine: Machine) -> bool:
    """True if a MachineHealthCheck asks the machine's owner to replace it."""
    return conditions.is_false(machine.status.conditions, "OwnerRemediated")


def last_remediation(status: Mapping[str, Any] | None) -> Remediation | None:
    """`status.lastRemediation` of a KubeadmControlPlane; None if it is absent or invalid."""
    try:
        return msgspec.convert(status, Remediation) if status else None
    except msgspec.ValidationError:
        return None


def from_annotation(annotation: str | None) -> Remediation | None:
    """A Remediation in an annotation; None if it is absent or invalid."""
    try:
        return json_trees.decode(annotation, Remediation) if annotation else None
    except msgspec.MsgspecError:
        return None
