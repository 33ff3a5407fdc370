"""The states of a pod's containers, and its status; pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from espalier.api.meta import Tree

LOST, LOST_REASON = 137, "ContainerStatusUnknown"
"""Exit code and reason of a container whose process ended together with the program that ran it: as kubelets report
containers that are gone after the node was down."""


@dataclass
class Container:
    """A container of a pod, and its state."""

    spec: Tree
    restarts: int = 0
    started: str = ""
    finished: str = ""
    code: int | None = None
    message: str = ""
    reason: str = ""
    """The reason of the termination, if it is another than Completed or Error."""
    waiting: str = "PodInitializing"
    last: Tree = field(default_factory=dict)
    """The container's state when it terminated last."""
    id: str = ""
    up: bool = False
    """True once the startup probe has passed."""
    ready: bool = False
    """True while the readiness probe passes."""

    @property
    def name(self) -> str:
        """The container's name."""
        return str(self.spec["name"])

    @property
    def succeeded(self) -> bool:
        """True if the container has terminated with exit code 0."""
        return self.code == 0

    def wait(self, reason: str, message: str = "") -> None:
        """Set the container to waiting, for a reason."""
        self.waiting, self.message, self.code, self.started = reason, message, None, ""

    def start(self, now: str, id_: str) -> None:
        """Set the container to running."""
        if self.code is not None:
            self.restarts += 1
        self.started, self.finished, self.code, self.message, self.waiting = now, "", None, "", ""
        self.reason = ""
        self.id = id_
        self.up = not self.spec.get("startupProbe")
        self.ready = self.up and not self.spec.get("readinessProbe")

    def end(self, now: str, code: int, message: str, reason: str = "") -> None:
        """Set the container to terminated."""
        self.finished, self.code, self.message, self.reason = now, code, message, reason
        self.last = self.state

    @property
    def serves(self) -> bool:
        """True if the container runs and is ready."""
        return self.ready and "running" in self.state

    @property
    def state(self) -> Tree:
        """As `containerStatuses[].state`."""
        if self.code is not None:
            ended: Tree = {
                "exitCode": self.code,
                "reason": self.reason or ("Completed" if self.code == 0 else "Error"),
                "startedAt": self.started or None,
                "finishedAt": self.finished or None,
                "containerID": self.id,
            }
            return {"terminated": ended | ({"message": self.message} if self.message else {})}
        if self.waiting:
            return {"waiting": {"reason": self.waiting} | ({"message": self.message} if self.message else {})}
        return {"running": {"startedAt": self.started}}

    def status(self, *, init: bool) -> Tree:
        """As one of `containerStatuses` or `initContainerStatuses`."""
        state = self.state
        return {
            "name": self.name,
            "image": self.spec.get("image", ""),
            "imageID": self.spec.get("image", ""),
            "containerID": self.id,
            "ready": self.succeeded if init else self.serves,
            "started": self.up and "running" in state,
            "restartCount": self.restarts,
            "state": state,
            "lastState": self.last if self.restarts else {},
        }


def container_from_status(spec: Tree, statuses: Sequence[Any], now: str) -> Container:
    """A container as an earlier process reported it. A running one has ended with that process: it becomes lost."""
    container = Container(spec)
    status = next((status for status in statuses if status.get("name") == spec["name"]), None)
    if status is None:
        return container
    container.restarts = status.get("restartCount", 0)
    container.id = status.get("containerID", "")
    state = status.get("state") or {}
    if ended := state.get("terminated"):
        container.started = ended.get("startedAt") or ""
        reason = LOST_REASON if ended.get("reason") == LOST_REASON else ""
        container.end(ended.get("finishedAt") or "", ended["exitCode"], ended.get("message", ""), reason)
        container.waiting = ""
    elif running := state.get("running"):
        container.started, container.waiting = running.get("startedAt") or "", ""
        container.end(now, LOST, "the process ended with the program that ran it", LOST_REASON)
    return container


@dataclass
class Pod:
    """The state of a running pod: its init containers, and its other containers."""

    inits: list[Container]
    mains: list[Container]
    restart_policy: str
    started: str
    address: str
    host_address: str

    @property
    def phase(self) -> str:
        """As `status.phase`."""
        if any(init.code and not self.should_restart(init, init=True) for init in self.inits):
            return "Failed"
        if not all(init.succeeded for init in self.inits):
            return "Pending"
        if any(main.code is None or self.should_restart(main) for main in self.mains):
            begun = any(main.started or main.code is not None for main in self.mains)
            return "Running" if begun else "Pending"
        return "Succeeded" if all(main.succeeded for main in self.mains) else "Failed"

    def should_restart(self, container: Container, *, init: bool = False) -> bool:
        """True if a container has terminated and the restart policy wants it to be restarted."""
        if container.code is None:
            return False
        if container.code == 0:
            return self.restart_policy == "Always" and not init
        return self.restart_policy != "Never"

    def status(self, before: Sequence[Any], now: str) -> Tree:
        """The whole status; `before` are the previous conditions."""
        initialized = all(init.succeeded for init in self.inits)
        ready = initialized and all(main.serves for main in self.mains)
        phase = self.phase
        facts = {
            "PodReadyToStartContainers": (True, ""),
            "Initialized": (initialized, "ContainersNotInitialized"),
            "Ready": (ready, "PodCompleted" if phase == "Succeeded" else "ContainersNotReady"),
            "ContainersReady": (ready, "PodCompleted" if phase == "Succeeded" else "ContainersNotReady"),
            "PodScheduled": (True, ""),
        }
        known = {condition.get("type"): condition for condition in before}
        conditions = []
        for type_, (holds, reason) in facts.items():
            status = "True" if holds else "False"
            same = known.get(type_, {}).get("status") == status
            since = known[type_].get("lastTransitionTime", now) if same else now
            condition = {"type": type_, "status": status, "lastProbeTime": None, "lastTransitionTime": since}
            conditions.append(condition if holds else {**condition, "reason": reason})
        status_: Tree = {
            "phase": phase,
            "startTime": self.started,
            "hostIP": self.host_address,
            "hostIPs": [{"ip": self.host_address}],
            "qosClass": "BestEffort",
            "conditions": conditions,
            "initContainerStatuses": [init.status(init=True) for init in self.inits],
            "containerStatuses": [main.status(init=False) for main in self.mains],
        }
        return status_ | ({"podIP": self.address, "podIPs": [{"ip": self.address}]} if self.address else {})
