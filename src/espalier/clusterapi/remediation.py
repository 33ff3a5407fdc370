"""Unhealthy machines: that they are to be replaced, and what a control plane notes of it, as Cluster API writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from espalier.api import conditions, json_trees
from espalier.api.capi.machine import Machine
from espalier.api.meta import Observed

FOR = "controlplane.cluster.x-k8s.io/remediation-for"
"""On a Machine: which one it takes the place of."""


class Remediation(Observed, frozen=True):
    """A machine was replaced because it was unhealthy."""

    machine: str = ""
    time: str = ""
    timestamp: str = ""
    """The same, in annotations."""
    retry_count: int = 0
    """How many machines before it took the place of an unhealthy one and did not become healthy either."""

    @property
    def at(self) -> str:
        """When."""
        return self.time or self.timestamp


def awaits_remediation(machine: Machine) -> bool:
    """True if a health check asks the machine's owner to replace it."""
    return conditions.is_false(machine.status.conditions, "OwnerRemediated")


def last(status: Mapping[str, Any] | None) -> Remediation | None:
    """`status.lastRemediation` of a KubeadmControlPlane; None when there is none that can be read."""
    try:
        return msgspec.convert(status, Remediation) if status else None
    except msgspec.ValidationError:
        return None


def noted(annotation: str | None) -> Remediation | None:
    """The same out of an annotation."""
    try:
        return json_trees.decode(annotation, Remediation) if annotation else None
    except msgspec.MsgspecError:
        return None
