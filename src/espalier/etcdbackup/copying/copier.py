"""Runs a copy: waits for the final snapshot, copies in parallel, and verifies what it copies or finds in the target."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial

from espalier.api.text.listing import first
from espalier.etcdbackup.copying.plan import Choice, Copy, is_final, plan
from espalier.etcdbackup.snapshots import reading
from espalier.etcdbackup.snapshots.codecs import decoder, in_thread
from espalier.etcdbackup.snapshots.content import Trailer
from espalier.etcdbackup.snapshots.malformed import Malformed
from espalier.etcdbackup.snapshots.reading import Progress, read_inventory, silent
from espalier.etcdbackup.snapshots.sets import Inventory, StoredSnapshot
from espalier.etcdbackup.snapshots.verification import check
from espalier.etcdbackup.stores.errors import Corrupt, NotFound, Refused, StoreError, Unavailable
from espalier.etcdbackup.stores.store import Store
from espalier.runtime.clock import Clock

POLL = 15.0
"""Seconds between two checks for the final snapshot, as in etcd-backup-restore."""
PARALLEL = 4
"""Deltas that are copied at the same time. Each may hold parts of an upload in memory."""
ATTEMPTS, PAUSE = 3, 2.0
"""Attempts for each object, and seconds between them."""


class Damaged(Corrupt):
    """A snapshot of the source is damaged; nothing of it was stored."""

    def __init__(self, where: str, finding: str, stored: StoredSnapshot) -> None:
        super().__init__(where, finding, "it was not copied; have the source take a full snapshot")
        self.stored = stored


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of a copy."""

    copied: tuple[str, ...]
    """Names, in the target, of the objects that this run wrote."""
    present: tuple[str, ...]
    """Names of the objects that were there already and are intact."""
    size: int
    """Bytes that were written."""
    is_final: bool
    """The source's latest full snapshot is final: nothing was written to etcd after it."""
    reach: int | None
    """The revision to which the copy can be restored; None if the source is empty."""


async def wait_for_final(source: Store, *, timeout: float | None, notice: Callable[[str], None]) -> bool:
    """Wait until the latest full snapshot of a store is final. False if that takes longer than the time (in seconds).

    A store that is unavailable for a while is polled again. Raises `Refused`.
    """
    loop = asyncio.get_running_loop()
    deadline = None if timeout is None else loop.time() + timeout
    while True:
        try:
            if is_final(await read_inventory(source)):
                return True
            notice(f"waiting for the final snapshot in {source.where}")
        except Unavailable as error:
            notice(f"waiting for the final snapshot: {error}")
        seconds = POLL if deadline is None else min(POLL, deadline - loop.time())
        if seconds <= 0:
            return False
        await asyncio.sleep(seconds)


class Copier:
    """A copy from one store to another."""

    def __init__(
        self, source: Store, target: Store, clock: Clock, *, parallel: int = PARALLEL, progress: Progress = silent
    ) -> None:
        self._source = source
        self._target = target
        self._clock = clock
        self._parallel = parallel
        self._progress = progress
        self._copied: list[str] = []
        self._present: list[str] = []
        self._size = 0

    async def read_inventory(self) -> tuple[Inventory, Inventory]:
        """The contents of source and target. Raises `StoreError`."""
        return await read_inventory(self._source), await read_inventory(self._target)

    async def run(self, choice: Choice, *, is_listed: bool = False, without: Collection[str] = ()) -> Copied:
        """Copy what is selected and not there yet. After an interruption, run it again.

        `is_listed`: a list of the copied objects decides what is restored, whatever else the target has. `without`:
        keys of snapshots of the source that are left out.

        Raises `StoreError`: `Damaged` for an object of the source; `Refused` if the target has snapshots that a restore
        would prefer to the copy.
        """
        source, target = await self.read_inventory()
        source = source.without(without)
        planned = plan(source, target, choice, self._clock.now())
        if planned.conflicting and not is_listed:
            names = first([stored.name for stored in planned.conflicting], 3)
            finding = f"it holds {names}, which a restore would use instead of the copy"
            raise Refused(self._target.where, finding, "copy to an empty prefix, or delete them")
        for set_copy in planned.sets:
            await self._copy_all(set_copy.deltas)
            await self._copy_all((set_copy.full,))
        latest = source.latest
        reach = latest.reach if latest is not None else None
        return Copied(tuple(self._copied), tuple(self._present), self._size, is_final(source), reach)

    async def _copy_all(self, copies: Iterable[Copy]) -> None:
        waiting = iter(copies)

        async def work() -> None:
            for copy in waiting:
                await self._copy(copy)

        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(self._parallel):
                    group.create_task(work())
        except ExceptionGroup as errors:  # Python before 3.11.4 regroups what is raised in `except*`
            raise errors.exceptions[0] from None

    async def _copy(self, copy: Copy) -> None:
        name = str(copy.target)
        if copy.present is not None and not (await check(self._target, copy.present, self._progress)).problem:
            self._present.append(name)
            return
        for attempt in range(1, ATTEMPTS + 1):
            try:
                stored = await self._target.upload(copy.target.key, self._verified(copy.source))
                break
            except NotFound as error:
                raise Unavailable(error.where, "it was deleted during the copy", "copy again") from None
            except Refused:
                raise
            except StoreError:
                if attempt == ATTEMPTS:
                    raise
            await asyncio.sleep(PAUSE * attempt)
        self._copied.append(name)
        self._size += stored.size

    async def _verified(self, stored: StoredSnapshot) -> AsyncGenerator[bytes, None]:
        """The stored bytes, unchanged. Raises `Corrupt` at their end if their content has another hash; the target
        store then discards them."""
        unpacking, trailer = decoder(stored.snapshot.compression), Trailer(stored.snapshot.kind)

        def verify(chunk: bytes) -> None:
            for piece in unpacking.read(chunk):
                trailer.read(piece)
                if trailer.size > reading.LARGEST_FULL:
                    raise Malformed(f"its content has more than {reading.LARGEST_FULL} bytes")

        try:
            async with aclosing(self._source.stream(stored.key)) as chunks:
                async for chunk in chunks:
                    self._progress(len(chunk))
                    await in_thread(partial(verify, chunk), len(chunk))
                    yield chunk
            unpacking.finish()
            trailer.finish()
        except Malformed as error:
            where = f"{self._source.where}/{stored.key}"
            raise Damaged(where, str(error), stored) from None
