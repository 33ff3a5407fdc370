"""The operation of a shoot, as people follow it: whether it is over, has failed, or what it waits for. Pure."""

from __future__ import annotations

from espalier.api import conditions as condition_list
from espalier.api.gardener.garden.shoot import READY_FOR_MIGRATION, Shoot
from espalier.api.gardener.vocabulary.operations import OperationState, OperationType


def has_settled(shoot: Shoot) -> bool:
    """True if the shoot is healthy on its desired seed."""
    last = shoot.status.last_operation
    is_done = last is not None and last.finished and last.type != OperationType.MIGRATE
    return bool(shoot.spec.seed_name) and shoot.spec.seed_name == shoot.status.seed_name and is_done


def failure(shoot: Shoot) -> str:
    """Why the shoot's operation has failed for good; empty while it is retried."""
    last = shoot.status.last_operation
    if last is None or last.state != OperationState.FAILED:
        return ""
    errors = "; ".join(f"{error.task_id}: {error.description}" for error in shoot.status.last_errors)
    advice = "fix that, then annotate it with gardener.cloud/operation=retry"
    return f"{last.type} has failed: {errors or last.description}; {advice}"


def pending_tasks(shoot: Shoot) -> str:
    """The tasks that the shoot waits for, in one line."""
    last = shoot.status.last_operation
    ready = condition_list.get(shoot.status.constraints, READY_FOR_MIGRATION)
    if ready is not None and ready.status != "True":
        return f"{ready.reason}: {ready.message}"
    if last is None:
        return "waiting for its gardenlet"
    if shoot.spec.seed_name != shoot.status.seed_name and last.finished:
        return f"waiting for seed {shoot.status.seed_name} to start"
    return f"{last.type} {last.progress} %: {last.description.partition('; ')[0]}"
