"""Plan of a node. Pure: from the state of the machine to the next step."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Bootstrap(StrEnum):
    """Progress of a node's bootstrap data."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class MachineStep(StrEnum):
    """The next step; each changes the observed state, so that an interrupted one is repeated."""

    WRITE_DOWN = "WriteDown"
    PREPARE = "Prepare"
    SWITCH_ON = "SwitchOn"
    CLEAR = "Clear"
    """Processes of the node run without its init: kill them and start the node again."""
    STAY_OFF = "StayOff"
    AWAIT_START = "AwaitStart"
    AWAIT_BOOTSTRAP = "AwaitBootstrap"
    SAY_FAILED = "SayFailed"
    PROVISION = "Provision"


@dataclass(frozen=True)
class ObservedNode:
    """The observed state of a desired node, and whether it was reported as ready before."""

    is_written_down: bool = False
    is_prepared: bool = False
    is_supervised: bool = False
    """systemd-nspawn runs."""
    has_processes: bool = False
    has_started: bool = False
    """The node's init process runs."""
    is_crashed: bool = False
    is_provisioned: bool = False
    bootstrap: Bootstrap = Bootstrap.RUNNING


def next_step(observed: ObservedNode) -> MachineStep:
    """The step that is due."""
    s = observed
    if not s.is_written_down:
        return MachineStep.WRITE_DOWN
    if s.is_crashed:
        return MachineStep.STAY_OFF
    if not s.is_supervised:
        if s.has_processes:
            return MachineStep.CLEAR
        return MachineStep.SWITCH_ON if s.is_prepared else MachineStep.PREPARE
    if not s.has_started:
        return MachineStep.AWAIT_START
    if s.is_provisioned:
        return MachineStep.PROVISION
    if s.bootstrap is Bootstrap.FAILED:
        return MachineStep.SAY_FAILED
    return MachineStep.PROVISION if s.bootstrap is Bootstrap.SUCCEEDED else MachineStep.AWAIT_BOOTSTRAP
