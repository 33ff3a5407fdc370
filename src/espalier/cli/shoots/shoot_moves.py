"""Moves of shoots: requested as a user does, and followed to their end."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from espalier.api import conditions as condition_list
from espalier.api.gardener.metadata_keys import FORCE_RESTORE
from espalier.api.gardener.operations import OperationState, OperationType
from espalier.api.gardener.shoot import READY_FOR_MIGRATION, Shoot
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.cli.kit.failures import Failure, Overdue
from espalier.cli.kit.follow import follow
from espalier.cli.kit.progress import Progress
from espalier.kube.client import Client, PatchType


async def move(client: Client, key: Key, destination: str, *, give_up_source: bool = False) -> None:
    """Request a move. Refusals of the garden's admission are raised."""
    if give_up_source:
        # After the seed, as admission takes nothing else together with a move.
        await _patch(client, key, {"spec": {"seedName": destination}})
        await _patch(client, key, {"metadata": {"annotations": {FORCE_RESTORE: "true"}}})
    else:
        await _patch(client, key, {"spec": {"seedName": destination}})


async def until_moved(client: Client, key: Key, destination: str, *, timeout: float, progress: Progress) -> Shoot:
    """The Shoot once it runs on its seed.

    Raises `Failure` when its operation is not tried again, or it is moved elsewhere, and `Overdue` after `timeout`
    seconds with what is waited for.
    """
    waiting = "waiting for the garden"
    try:
        async with asyncio.timeout(timeout), aclosing(follow(client, Shoot.resource, key)) as states:
            async for state in states:
                if state is None:
                    raise Failure(f"shoot {key} was deleted meanwhile")
                shoot = state.decode(Shoot)
                if shoot.spec.seed_name != destination:
                    raise Failure(f"shoot {key} was meanwhile moved to seed {shoot.spec.seed_name}")
                if has_settled(shoot):
                    return shoot
                if problem := failure(shoot):
                    raise Failure(f"shoot {key}: {problem}")
                waiting = pending_tasks(shoot)
                progress.wait(waiting)
    except TimeoutError:
        raise Overdue(
            f"shoot {key} is not on seed {destination} after {timeout:g} s: {waiting}. It continues in the background; "
            f"`espalier shoots flow {key.name} -n {key.namespace}` shows the progress"
        ) from None
    raise AssertionError("a follower never ends by itself")


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


async def _patch(client: Client, key: Key, patch: Tree) -> None:
    await client.patch(Shoot.resource, key.name, key.namespace, patch=patch, type=PatchType.MERGE)
