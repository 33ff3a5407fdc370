"""The pause of a Cluster while a command writes several objects of it, so that the manager acts on all of them at once.

It is the annotation with which users pause clusters, with a value of its own. It outlives the command: if that is ended
in the middle, the Cluster stays paused, its conditions say so, and the same command takes the pause over and goes on.
A pause of anybody else is left alone.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager, suppress

from espalier.api import conditions
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.group import PAUSED_ANNOTATION, PAUSED_BY_COMMAND
from espalier.api.resource import Key
from espalier.cli.failures import Failure
from espalier.cli.follow import follow
from espalier.clusters import names
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Conflict, KubeError, NotFound

NOTICED_WITHIN = 3.0
"""Seconds for which the command waits until a manager reports the change: there may be none."""

_ATTEMPTS = 20
"""Attempts to change the annotation of an object whose status changes at the same time."""


class CommandPause:
    """A pause in which objects are written."""

    def __init__(self) -> None:
        self.written = 0
        """The number of objects written so far."""


@asynccontextmanager
async def paused(client: Client, key: Key) -> AsyncIterator[CommandPause]:
    """An existing Cluster is paused while the block runs, unless somebody else has paused it.

    If the block fails after it wrote something, the pause stays: only half of the change is there. Raises `Failure`
    then, with what to do; the same is a warning when it is interrupted.
    """
    value = f"{PAUSED_BY_COMMAND}{secrets.token_hex(4)}"
    pause, is_ours = CommandPause(), True
    try:
        is_ours = await _replace(client, key, value, _is_free)
        yield pause
        if is_ours:
            await _noticed(client, key)
            await _replace(client, key, None, lambda present: present == value)
    except KubeError as error:
        if not is_ours:
            raise
        if not pause.written:
            await _replace(client, key, None, lambda present: present == value)
            raise
        raise Failure(f"{error}\n{_left(key, pause.written)}") from error
    except asyncio.CancelledError:
        if is_ours:  # or about to be
            client.warn(_left(key, pause.written))
        raise


def _left(key: Key, written: int) -> str:
    return (
        f"{written} of the objects were written; cluster {key} is paused so that nothing is done with half of the "
        f"change: run the same command again, or remove annotation {PAUSED_ANNOTATION} to apply what was written"
    )


def _is_free(present: str | None) -> bool:
    return present is None or present.startswith(PAUSED_BY_COMMAND)


async def _replace(client: Client, key: Key, value: str | None, may: Callable[[str | None], bool]) -> bool:
    """Set the annotation, or remove it for None, if the present value `may` be replaced; False if it may not."""
    for attempt in range(_ATTEMPTS):
        try:
            found = await client.get(Cluster.resource, key.name, key.namespace)
            if not may(found.metadata.annotations.get(PAUSED_ANNOTATION)):
                return False
            metadata = {"resourceVersion": found.resource_version, "annotations": {PAUSED_ANNOTATION: value}}
            patch = {"metadata": metadata}
            await client.patch(Cluster.resource, key.name, key.namespace, patch=patch, type=PatchType.MERGE)
        except NotFound:  # deleted meanwhile
            return False
        except Conflict:
            if attempt == _ATTEMPTS - 1:
                raise
        else:
            return True
    raise AssertionError("the last attempt returns or raises")


async def _noticed(client: Client, key: Key) -> None:
    """Wait until a manager has seen the change.

    The condition Ready is False from then on, so whoever waits for it does not see the one from before the change.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(NOTICED_WITHIN), aclosing(follow(client, Cluster.resource, key)) as states:
            async for state in states:
                if state is None or not names.is_paused_by_command(state.metadata.annotations):
                    return
                ready = conditions.get(state.decode(Cluster).status.conditions, names.READY)
                if ready is not None and ready.reason == names.BEING_WRITTEN:
                    return
