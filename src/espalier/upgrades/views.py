"""Views of nodes and pods of workload clusters: decoded only so far."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from espalier.api.core import Taint
from espalier.api.meta import ObjectMeta, Observed

LOST = ("ContainerStatusUnknown", "Unknown")
"""Reasons of containers that ended with their node, or with its container runtime: kubelet's, and containerd's."""

SHUT_DOWN = ("Terminated", "NodeShutdown")
"""Reasons of pods that a kubelet ended, or did not take, for its node was being shut down."""


class Statement(Observed, frozen=True):
    """The deciding part of a condition."""

    type: str
    status: str
    message: str = ""
    last_transition_time: str = ""


class NodeInfo(Observed, frozen=True):
    """The kubelet as it describes itself."""

    kubelet_version: str = ""


class NodeSpec(Observed, frozen=True):
    """True if pods may come."""

    unschedulable: bool = False
    taints: list[Taint] = []


class NodeStatus(Observed, frozen=True):
    """The report of the kubelet."""

    conditions: list[Statement] = []
    node_info: NodeInfo = NodeInfo()
    allocatable: dict[str, str | int | float] = {}


class Node(Observed, frozen=True):
    """A node."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        """True if its kubelet says that it is."""
        return _holds(self.status.conditions, "Ready")

    @property
    def not_ready_since(self) -> datetime | None:
        """Since when its kubelet says that it is not, or says nothing; None when it is ready, or nobody knows."""
        found = next((one for one in self.status.conditions if one.type == "Ready"), None)
        if found is None or found.status == "True" or not found.last_transition_time:
            return None
        return datetime.fromisoformat(found.last_transition_time)

    @property
    def takes_pods(self) -> bool:
        """True if pods that tolerate nothing could come."""
        barred = any(taint.effect != "PreferNoSchedule" for taint in self.spec.taints)
        return self.is_ready and not self.spec.unschedulable and not barred


class Terminated(Observed, frozen=True):
    """How a container ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""

    @property
    def is_lost(self) -> bool:
        """True if nobody knows how it ended: it was gone, or of an earlier boot, when the kubelet looked."""
        return self.reason in LOST


class Waiting(Observed, frozen=True):
    """Why a container has not begun."""

    reason: str = ""
    message: str = ""


class ContainerState(Observed, frozen=True):
    """One of three."""

    waiting: Waiting | None = None
    running: dict[str, Any] | None = None
    terminated: Terminated | None = None


class ContainerStatus(Observed, frozen=True):
    """A container."""

    name: str
    state: ContainerState = ContainerState()


class Variable(Observed, frozen=True):
    """A variable of a container's environment."""

    name: str
    value: str = ""


class Container(Observed, frozen=True):
    """A container, as it was asked for."""

    name: str
    image: str = ""
    env: list[Variable] = []


class PodSpec(Observed, frozen=True):
    """Where a pod runs, and what."""

    node_name: str = ""
    init_containers: list[Container] = []
    containers: list[Container] = []


class PodStatus(Observed, frozen=True):
    """The report of the kubelet."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[Statement] = []
    init_container_statuses: list[ContainerStatus] = []
    container_statuses: list[ContainerStatus] = []


class Pod(Observed, frozen=True):
    """A pod."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def is_ready(self) -> bool:
        """True if it serves."""
        return _holds(self.status.conditions, "Ready")

    @property
    def has_ended(self) -> bool:
        """True if nothing of it runs, or ever will."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_lost(self) -> bool:
        """True if it went down with its node: it failed, and no program in it did."""
        ended = [one for one in (state.terminated for state in self.states.values()) if one is not None]
        is_cut_off = self.status.reason in SHUT_DOWN or any(one.is_lost for one in ended)
        return self.status.phase == "Failed" and is_cut_off

    @property
    def has_begun(self) -> bool:
        """True if any of its containers has run."""
        states = [status.state for status in (*self.status.init_container_statuses, *self.status.container_statuses)]
        return any(state.running is not None or state.terminated is not None for state in states)

    def variable(self, name: str) -> str:
        """The value of a variable of its first container that has it; empty without one."""
        containers = (*self.spec.init_containers, *self.spec.containers)
        return next((one.value for container in containers for one in container.env if one.name == name), "")

    @property
    def images(self) -> set[str]:
        """The images of all containers."""
        return {container.image for container in (*self.spec.init_containers, *self.spec.containers)}

    @property
    def states(self) -> dict[str, ContainerState]:
        """States of containers by name; of those without one, that nothing is known."""
        statuses = (*self.status.init_container_statuses, *self.status.container_statuses)
        known = {status.name: status.state for status in statuses}
        containers = (*self.spec.init_containers, *self.spec.containers)
        return {container.name: known.get(container.name, ContainerState()) for container in containers}


def _holds(conditions: list[Statement], type_: str) -> bool:
    return any(condition.type == type_ and condition.status == "True" for condition in conditions)
