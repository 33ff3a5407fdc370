"""Partial views of the nodes and pods of workload clusters."""

# ruff: noqa: RUF012  (msgspec copies empty defaults)

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.core import Taint
from espalier.api.meta import ObjectMeta, Observed

LOST_REASONS = ("ContainerStatusUnknown", "Unknown")
"""Reasons of containers that ended with their node or its container runtime: the kubelet's, and containerd's."""

SHUTDOWN_REASONS = ("Terminated", "NodeShutdown")
"""Reasons of pods that a kubelet ended or rejected because its node was shutting down."""


class ConditionView(Observed, frozen=True):
    """A condition, reduced to the fields that are used."""

    type: str
    status: str
    message: str = ""
    last_transition_time: str = ""


class NodeInfo(Observed, frozen=True):
    """The part of status.nodeInfo that is used."""

    kubelet_version: str = ""


class NodeSpec(Observed, frozen=True):
    """The fields that keep pods away from a node."""

    unschedulable: bool = False
    taints: list[Taint] = []


class NodeStatus(Observed, frozen=True):
    """The status of a node, as its kubelet reports it."""

    conditions: list[ConditionView] = []
    node_info: NodeInfo = NodeInfo()
    allocatable: dict[str, str | int | float] = {}


class Node(Observed, frozen=True):
    """A node."""

    metadata: ObjectMeta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def is_ready(self) -> bool:
        """True if its condition Ready is True."""
        return condition_list.is_true(self.status.conditions, "Ready")

    @property
    def not_ready_since(self) -> datetime | None:
        """The time since which its condition Ready is not True; None if it is ready, or the time is unknown."""
        ready = condition_list.get(self.status.conditions, "Ready")
        if ready is None or ready.status == "True":
            return None
        return condition_list.parse_timestamp(ready.last_transition_time)

    @property
    def takes_pods(self) -> bool:
        """True if pods without tolerations can be scheduled to it."""
        is_tainted = any(taint.effect != "PreferNoSchedule" for taint in self.spec.taints)
        return self.is_ready and not self.spec.unschedulable and not is_tainted


class Terminated(Observed, frozen=True):
    """The result of a container that ended."""

    exit_code: int = 0
    reason: str = ""
    message: str = ""

    @property
    def is_lost(self) -> bool:
        """True if its exit code is unknown: it was gone, or from an earlier boot, when the kubelet looked."""
        return self.reason in LOST_REASONS


class Waiting(Observed, frozen=True):
    """The reason why a container has not started."""

    reason: str = ""
    message: str = ""


class ContainerState(Observed, frozen=True):
    """The state of a container: one of three, or none if unknown."""

    waiting: Waiting | None = None
    running: dict[str, Any] | None = None
    terminated: Terminated | None = None


class ContainerStatus(Observed, frozen=True):
    """The status of a container."""

    name: str
    state: ContainerState = ContainerState()


class Variable(Observed, frozen=True):
    """A variable of a container's environment."""

    name: str
    value: str = ""


class Container(Observed, frozen=True):
    """A container of a pod's spec."""

    name: str
    image: str = ""
    env: list[Variable] = []


class PodSpec(Observed, frozen=True):
    """A pod's node and containers."""

    node_name: str = ""
    init_containers: list[Container] = []
    containers: list[Container] = []


class PodStatus(Observed, frozen=True):
    """The status of a pod, as its kubelet reports it."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[ConditionView] = []
    init_container_statuses: list[ContainerStatus] = []
    container_statuses: list[ContainerStatus] = []


class Pod(Observed, frozen=True):
    """A pod."""

    metadata: ObjectMeta
    spec: PodSpec = PodSpec()
    status: PodStatus = msgspec.field(default_factory=PodStatus)

    @property
    def is_ready(self) -> bool:
        """True if its condition Ready is True."""
        return condition_list.is_true(self.status.conditions, "Ready")

    @property
    def has_ended(self) -> bool:
        """True if it succeeded or failed."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_lost(self) -> bool:
        """True if it went down with its node: the pod failed, but none of its programs did."""
        ended = [state.terminated for state in self.states.values() if state.terminated is not None]
        is_cut_off = self.status.reason in SHUTDOWN_REASONS or any(result.is_lost for result in ended)
        return self.status.phase == "Failed" and is_cut_off

    @property
    def has_begun(self) -> bool:
        """True if any of its containers has started."""
        states = [status.state for status in (*self.status.init_container_statuses, *self.status.container_statuses)]
        return any(state.running is not None or state.terminated is not None for state in states)

    def variable(self, name: str) -> str:
        """The value of an environment variable, from the first container that has it; empty if none has."""
        containers = (*self.spec.init_containers, *self.spec.containers)
        return next((entry.value for container in containers for entry in container.env if entry.name == name), "")

    @property
    def images(self) -> set[str]:
        """The images of all containers."""
        return {container.image for container in (*self.spec.init_containers, *self.spec.containers)}

    @property
    def states(self) -> dict[str, ContainerState]:
        """The states of all containers by name; an empty state if unknown."""
        statuses = (*self.status.init_container_statuses, *self.status.container_statuses)
        states_by_name = {status.name: status.state for status in statuses}
        containers = (*self.spec.init_containers, *self.spec.containers)
        return {container.name: states_by_name.get(container.name, ContainerState()) for container in containers}

    @property
    def unfinished(self) -> str:
        """The first of its containers that has not succeeded; empty if all have."""
        if self.status.phase == "Succeeded":
            return ""
        ended = {name: state.terminated for name, state in self.states.items()}
        return next((name for name, result in ended.items() if result is None or result.exit_code), "")
