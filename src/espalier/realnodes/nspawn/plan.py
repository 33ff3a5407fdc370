"""Plan of a node. Pure: from the state of the machine to the next step."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Bootstrap(StrEnum):
    """Progress of a node's bootstrap data."""

    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Step(StrEnum):
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


def next_step(observed: ObservedNode) -> Step:
    """The step that is due."""
    s = observed
    if not s.is_written_down:
        return Step.WRITE_DOWN
    if s.is_crashed:
        return Step.STAY_OFF
    if not s.is_supervised:
        if s.has_processes:
            return Step.CLEAR
        return Step.SWITCH_ON if s.is_prepared else Step.PREPARE
    if not s.has_started:
        return Step.AWAIT_START
    if s.is_provisioned:
        return Step.PROVISION
    if s.bootstrap is Bootstrap.FAILED:
        return Step.SAY_FAILED
    return Step.PROVISION if s.bootstrap is Bootstrap.SUCCEEDED else Step.AWAIT_BOOTSTRAP
