"""The progress of a node's upgrade: conditions, from its pod and the conditions before. Pure.

A condition that is True stays True: a recreated pod continues from there and does not report those steps again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from espalier.api import conditions as condition_list
from espalier.api.conditions import condition as _condition
from espalier.api.eksa.vocabulary.condition_types import Satisfied
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition
from espalier.upgrades import names
from espalier.upgrades.node.containers import COPY, DRAIN, POD_CREATED, STEPS, UNCORDON, NodeStep
from espalier.upgrades.observed.views import ContainerState, Pod

LONGEST_MESSAGE = 2000
Steps = Sequence[NodeStep]

_IMAGE_ERRORS = ("ErrImage", "ImagePull", "InvalidImage", "CreateContainer")
"""Prefixes of reasons of waiting containers that need somebody to act."""


def conditions(
    before: Sequence[Condition], pod: Pod | None, drain_waits_for: str = "", *, steps: Steps = STEPS
) -> list[Condition]:
    """UpgraderPodCreated and a condition for each step; `drain_waits_for` are pods that block a drain.

    The step after the last finished step counts as running: that makes a single change per step, not a change for the
    end of a container and another for the start of the next.
    """
    states = pod.states if pod else {}
    if pod is not None and pod.is_lost:  # the next pod repeats an interrupted step
        states = {name: ContainerState() if _has_failed(state) else state for name, state in states.items()}
    step_conditions = [_pod_created(before, pod, steps)]
    is_next = pod is not None
    for step in steps:
        of_step = _of_step(before, step, states, is_next=is_next)
        if step is DRAIN and drain_waits_for and of_step.reason == DRAIN.doing:
            of_step = _condition(step.condition, "False", DRAIN.doing, f"waiting for pods: {drain_waits_for}")
        step_conditions.append(of_step)
        is_next = is_next and step_conditions[-1].status == "True"
    return step_conditions


def done(step_conditions: Sequence[Condition], steps: Steps = STEPS) -> frozenset[str]:
    """The conditions of the steps that are done."""
    return frozenset(step.condition for step in steps if condition_list.is_true(step_conditions, step.condition))


def are_all_done(step_conditions: Sequence[Condition], steps: Steps = STEPS) -> bool:
    """True if every step succeeded or was skipped."""
    return len(done(step_conditions, steps)) == len(steps)


def current(step_conditions: Sequence[Condition], steps: Steps = STEPS) -> tuple[NodeStep, Condition] | None:
    """The first step that is not done."""
    for step in steps:
        condition = condition_list.get(step_conditions, step.condition)
        if condition is not None and condition.status != "True":
            return step, condition
    return None


def seconds(step_conditions: Sequence[Condition], pod: Pod | None, now: datetime) -> float | None:
    """The duration of a node's upgrade; None unless one pod ran all steps, as the time between two pods is arbitrary.

    `step_conditions` are all done; a condition without a time counts as now.
    """
    began = pod.metadata.creation_timestamp if pod else None
    reached = [condition_list.get(step_conditions, step.condition) for step in STEPS]
    if not began or any(condition is None or "" < condition.last_transition_time < began for condition in reached):
        return None
    return (now - datetime.fromisoformat(began)).total_seconds()


def number(step: NodeStep, steps: Steps = STEPS) -> int:
    """The number of a step, starting with 1."""
    return steps.index(step) + 1


def failure(pod: Pod, steps: Steps = STEPS) -> tuple[NodeStep | None, str] | None:
    """The failed step with its container's last output; without a step, the reason of the pod's failure.

    None as well for a pod that went down with its node, as no step failed.
    """
    if pod.is_lost:
        return None
    states = pod.states
    for step in steps:
        state = states.get(step.container)
        if state is not None and state.terminated is not None and state.terminated.exit_code:
            return step, _last_output(state)
    if pod.status.phase == "Failed":
        return None, _cut(f"{pod.status.reason or 'Failed'}: {pod.status.message}".rstrip(": "))
    return None


def stuck(pod: Pod) -> str:
    """The reason why no container starts, if somebody must act; else empty."""
    for state in pod.states.values():
        waiting = state.waiting
        if waiting is not None and waiting.reason.startswith(_IMAGE_ERRORS):
            return _cut(f"{waiting.reason}: {waiting.message}".rstrip(": "))
    return ""


def retry_advice(node: str, node_upgrade: str, pod_name: str) -> str:
    """The advice after a failure."""
    return (
        f"fix the cause on node {node}, then run `espalier upgrades retry {node_upgrade}`, "
        f"or delete pod {names.UPGRADER_NAMESPACE}/{pod_name} in the workload cluster"
    )


def _pod_created(before: Sequence[Condition], pod: Pod | None, steps: Steps) -> Condition:
    if pod is not None:
        return _condition(
            POD_CREATED, "True", Satisfied.POD_CREATED, f"pod {pod.metadata.namespace}/{pod.metadata.name}"
        )
    present = condition_list.get(before, POD_CREATED)
    if present is not None and are_all_done(before, steps):
        return present
    return _condition(POD_CREATED, "False", Reason.WAITING, "the upgrader pod does not exist")


def _of_step(
    before: Sequence[Condition], step: NodeStep, states: dict[str, ContainerState], *, is_next: bool
) -> Condition:
    present = condition_list.get(before, step.condition)
    if present is not None and present.status == "True" and not (step is COPY and step.container in states):
        return present
    if step in (DRAIN, UNCORDON) and states and step.container not in states:
        return _condition(
            step.condition, "True", Satisfied.NOTHING_CAN_MOVE, "skipped: no other node can take the pods of this one"
        )
    state = states.get(step.container, ContainerState())
    if state.terminated is not None:
        if state.terminated.exit_code == 0:
            return _condition(step.condition, "True", Satisfied.DONE, _cut(state.terminated.message))
        return _condition(step.condition, "False", f"{step.doing}Failed", _last_output(state))
    if state.waiting is not None and state.waiting.message:
        return _condition(
            step.condition, "False", _cut(state.waiting.reason) or Reason.WAITING, _cut(state.waiting.message)
        )
    if is_next or state.running is not None:
        return _condition(step.condition, "False", step.doing, f"container {step.container} is running")
    return _condition(step.condition, "False", Reason.WAITING, f"container {step.container} has not started")


def _has_failed(state: ContainerState) -> bool:
    return state.terminated is not None and state.terminated.exit_code != 0


def _last_output(state: ContainerState) -> str:
    if state.terminated is None:
        return ""
    output = state.terminated.message.strip()[-LONGEST_MESSAGE:]
    reason = f"exit code {state.terminated.exit_code}"
    if state.terminated.reason not in ("", "Error"):
        reason = f"{_cut(state.terminated.reason)}, {reason}"
    return f"{reason}: {output}" if output else reason


def _cut(text: str) -> str:
    """A text from a workload cluster, truncated to fit into this status and those above it."""
    return text[:LONGEST_MESSAGE]
