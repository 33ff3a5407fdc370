"""Moves of shoots: requested as a user does, and followed to their end."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import aclosing

from espalier.api.gardener.garden.seed import Seed
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary.metadata_keys import FORCE_RESTORE
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.api.text.listing import first
from espalier.cli.kit.failures import Failure, Overdue
from espalier.cli.kit.follow import follow
from espalier.cli.kit.printing.progress import Progress
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Forbidden, NotFound
from espalier.shoots.garden.operations import failure, has_settled, pending_tasks


def no_seed(name: str, existing: Iterable[str]) -> Failure:
    """The failure of a command that names a seed that there is not."""
    return Failure(f"there is no seed {name!r}; existing: {first(sorted(existing), 20) or 'none'}")


async def check_seed(client: Client, name: str) -> None:
    """Raises `Failure` with the existing seeds if there is none of this name; not for people who may not list them."""
    try:
        existing = {seed.name for seed in (await client.list(Seed.resource)).items}
    except (Forbidden, NotFound):
        return
    if name not in existing:
        raise no_seed(name, existing)


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


async def _patch(client: Client, key: Key, patch: Tree) -> None:
    await client.patch(Shoot.resource, key.name, key.namespace, patch=patch, type=PatchType.MERGE)
