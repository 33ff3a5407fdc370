"""The pause of a Cluster while a command writes several objects of it, so that the manager acts on all of them at once.

It is the annotation with which users pause clusters, with a value of its own. It outlives the command: if that is ended
in the middle, the Cluster stays paused, its conditions say so, and the same command takes the pause over and goes on.
While it runs it renews the annotation, so that no other command takes it over. A pause of anybody else is left alone.
"""

from __future__ import annotations

import asyncio
import itertools
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import aclosing, asynccontextmanager, suppress
from typing import NamedTuple, TypeVar

from espalier.api import conditions
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION, PAUSED_BY_COMMAND
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.resource import Key
from espalier.cli.kit.failures import Failure
from espalier.cli.kit.follow import follow
from espalier.clusters.design import names
from espalier.clusters.observe.scope import read as read_cluster
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import ApiError, Conflict, KubeError, NotFound, ServerFailure

NOTICED_WITHIN = 3.0
"""Seconds for which the command waits until a manager reports the change: there may be none."""

RENEWED_EVERY = 2.0
"""Seconds after which a command that still writes changes the annotation."""

ABANDONED_AFTER = 10.0
"""Seconds without a change after which another command takes the pause over."""

GIVEN_UP_WITHIN = 5.0
"""Seconds for which a command that wrote nothing tries to end its pause."""

T = TypeVar("T")

_ATTEMPTS = 20
"""Attempts to change the annotation of an object whose status changes at the same time."""


class CommandPause:
    """A pause in which objects are written."""

    def __init__(self, client: Client, key: Key) -> None:
        self._client, self._key = client, key
        self._name = f"{PAUSED_BY_COMMAND}{secrets.token_hex(4)}"
        self._is_taken_over = False
        self.is_ours = True
        """False once somebody else has paused the Cluster, or ended the pause."""
        self.begun = 0
        """The number of writes of objects that were sent."""
        self.written = 0
        """The number of objects written so far."""

    async def write(self, writing: Awaitable[T]) -> T:
        """Write one object. Raises `Failure` if another command has taken the pause over."""
        if self._is_taken_over:
            if isinstance(writing, Coroutine):
                writing.close()
            raise Failure(f"{_taken_over(self._key)}; {self.written} of the objects were written by this one")
        self.begun += 1
        written = await writing
        self.written += 1
        return written

    def has_written(self, error: BaseException) -> bool:
        """True if an object may have been written before this error: what has no answer may be done."""
        is_refused = isinstance(error, ApiError) and error.status.code < ServerFailure.code
        return self.written > 0 or (self.begun > 0 and not is_refused)

    async def begin(self) -> None:
        """Pause the Cluster, unless somebody else has. Raises `Failure` if that is another command that still runs."""
        replaced = await self._replace(self._name, lambda present: present is None)
        if not replaced.is_done and _is_of_command(replaced.present):
            self.is_ours = False
            self._client.warn(
                f"cluster {self._key} is paused by another `espalier upgrade cluster`; waiting up to "
                f"{ABANDONED_AFTER:g} s to see whether that still runs"
            )
            present = await self._present_later(replaced.present)
            replaced = await self._replace(self._name, lambda value: value in (None, present))
            if not replaced.is_done and _is_of_command(replaced.present):
                raise Failure(_is_alive(self._key))
        self.is_ours = replaced.is_done

    async def renew(self) -> None:
        """Change the annotation again and again, which tells other commands that this one runs. Ends with the pause."""
        for number in itertools.count(1):
            await asyncio.sleep(RENEWED_EVERY)
            with suppress(KubeError):  # the next attempt may succeed
                replaced = await self._replace(f"{self._name}-{number}", self._is_own)
                if not replaced.is_done:
                    self.is_ours = False
                    self._is_taken_over = _is_of_command(replaced.present)
                    return

    async def end(self) -> None:
        """Remove the annotation, unless somebody else has changed it."""
        await self._replace(None, self._is_own)

    async def give_up(self) -> None:
        """The same if nothing was written; a warning if that fails."""
        try:
            async with asyncio.timeout(GIVEN_UP_WITHIN):
                await self.end()
        except (KubeError, TimeoutError):
            self._client.warn(_left(self._key, 0))

    async def _present_later(self, present: str | None) -> str | None:
        """The annotation once the other command has ended; the given one if it was not renewed. Raises `Failure` if it
        was.

        Only this process's clock counts: clocks of different machines may differ.
        """
        with suppress(TimeoutError):
            async with (
                asyncio.timeout(ABANDONED_AFTER),
                aclosing(follow(self._client, Cluster.resource, self._key)) as states,
            ):
                async for state in states:
                    value = state.metadata.annotations.get(PAUSED_ANNOTATION) if state is not None else None
                    if value != present and _is_of_command(value):
                        raise Failure(_is_alive(self._key))
                    if value != present:
                        return value
        return present

    def _is_own(self, present: str | None) -> bool:
        return present is not None and (present == self._name or present.startswith(f"{self._name}-"))

    async def _replace(self, value: str | None, may: Callable[[str | None], bool]) -> _Replaced:
        """Set the annotation, or remove it for None, if the present value `may` be replaced."""
        for attempt in range(_ATTEMPTS):
            try:
                cluster = await self._client.get(Cluster.resource, self._key.name, self._key.namespace)
                present = cluster.metadata.annotations.get(PAUSED_ANNOTATION)
                if not may(present):
                    return _Replaced(is_done=False, present=present)
                metadata = {"resourceVersion": cluster.resource_version, "annotations": {PAUSED_ANNOTATION: value}}
                patch = {"metadata": metadata}
                await self._client.patch(
                    Cluster.resource, self._key.name, self._key.namespace, patch=patch, type=PatchType.MERGE
                )
            except NotFound:  # deleted meanwhile
                return _Replaced(is_done=False, present=None)
            except Conflict:
                if attempt == _ATTEMPTS - 1:
                    raise
            else:
                return _Replaced(is_done=True, present=present)
        raise AssertionError("the last attempt returns or raises")


class _Replaced(NamedTuple):
    is_done: bool
    present: str | None
    """The annotation before."""


@asynccontextmanager
async def paused(client: Client, key: Key) -> AsyncIterator[CommandPause]:
    """An existing Cluster is paused while the block runs, unless somebody else has paused it.

    If the block ends early after it may have written something, however it ends, the pause stays: only half of the
    change may be there. What to do is in the `Failure` that is raised instead of an error of the API server, and in a
    warning otherwise. If it has written nothing, the pause ends.

    Raises `Failure` if another command that still runs has paused the Cluster. One that has not renewed its pause for
    `ABANDONED_AFTER` was ended, and its pause is taken over.
    """
    pause = CommandPause(client, key)
    try:
        await pause.begin()
        renewing = asyncio.create_task(pause.renew())
        try:
            yield pause
        finally:
            renewing.cancel()
            await asyncio.wait({renewing})
        if pause.is_ours:
            await _noticed(client, key)
            await pause.end()
    except BaseException as error:
        if not pause.is_ours:
            raise
        if not pause.has_written(error):
            await pause.give_up()
            raise
        left = _left(key, pause.written)
        if isinstance(error, KubeError | Failure):
            raise Failure(f"{error}\n{left}") from error
        client.warn(left)
        raise


def _left(key: Key, written: int) -> str:
    return (
        f"{written} of the objects were written; cluster {key} is paused so that nothing is done with half of the "
        f"change: run the same command again, or remove annotation {PAUSED_ANNOTATION} to apply what was written"
    )


def _is_alive(key: Key) -> str:
    return (
        f"cluster {key} is paused by another `espalier upgrade cluster` that is writing a change; run this one again "
        f"when that has ended. If it hangs, end it: its pause is taken over {ABANDONED_AFTER:g} s later. To apply what "
        f"it has written so far, remove annotation {PAUSED_ANNOTATION}"
    )


def _taken_over(key: Key) -> str:
    return (
        f"another `espalier upgrade cluster` has taken over the pause of cluster {key}, because this one did not renew "
        f"it for {ABANDONED_AFTER:g} s"
    )


def _is_of_command(present: str | None) -> bool:
    return present is not None and present.startswith(PAUSED_BY_COMMAND)


async def _noticed(client: Client, key: Key) -> None:
    """Wait until a manager has seen the change.

    The condition Ready is False from then on, so whoever waits for it does not see the one from before the change.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(NOTICED_WITHIN), aclosing(follow(client, Cluster.resource, key)) as states:
            async for state in states:
                if state is None or not names.is_paused_by_command(state.metadata.annotations):
                    return
                ready = conditions.get(read_cluster(state).status.conditions, names.READY)
                if ready is not None and ready.reason == Reason.CHANGE_BEING_WRITTEN:
                    return
