"""The steps of a move. Each can be repeated: whatever was done is found in the objects, at the source and the target.

Until the source hands a cluster over, nobody acts on it at the target, and the move can be taken back. From then on
nobody acts on it at the source. So there are never two management clusters that act on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION, PAUSED_ANNOTATION, PAUSED_BY_MOVE
from espalier.api.resource import Key
from espalier.api.text.listing import counted
from espalier.moving import condition, copies, objects
from espalier.moving.condition import Standings
from espalier.moving.copies import Copies, Judge, Refused, annotate, place_of, record_of
from espalier.moving.objects import CLUSTER, Item, Place
from espalier.moving.record import COPYING, HANDED_OVER, Record, next_epoch
from espalier.moving.sides import Inventory, Side
from espalier.runtime.clock import SystemClock

__all__ = ["Judge", "Mover", "Refused"]

PAUSED_AS_RECORD = "true"
"""The value of the paused annotation of a management cluster's record: no manager acts on its own cluster."""
_BATCH = 50
"""Clusters whose objects are written together."""


@dataclass
class Mover:
    """Moves clusters from `source` to `target`; `say` gets a sentence for each step."""

    source: Side
    target: Side
    judge: Judge
    say: Callable[[str], None]
    now: Callable[[], datetime] = lambda: SystemClock().now()
    standings: Standings = condition.BY_MOVE
    _copies: Copies = field(init=False)

    def __post_init__(self) -> None:
        self._copies = Copies(self.source.uid, self.target, self.judge)

    async def check(self, keys: Sequence[Key]) -> dict[Key, list[str]]:
        """The names of the objects that would be copied of each cluster. Raises `Refused`."""
        here, there = await self.source.read(), await self.target.read()
        self._check(here, there, keys)
        return {key: [item.name for item in self._copies.members(here, there, key)] for key in keys}

    async def move(self, keys: Sequence[Key]) -> None:
        """Move these clusters, or go on. Raises `Refused`, before anything is written if it is a fault of the input."""
        here, there = await self.source.read(), await self.target.read()
        self._check(here, there, keys)
        begun = await self._copies.all(self._begun(here, key) for key in keys)
        copying = [key for key, record in zip(keys, begun, strict=True) if record.state == COPYING]
        if copying:
            here = await self.source.read()
            uids = self._copies.uids(here, there)
            for some in _batches(copying):
                records = {key: self._required(here, key) for key in some}
                for key, count in (await self._copies.write(here, there, uids, records)).items():
                    self.say(f"cluster {key}: {counted(count, 'object')} copied")
            here, there = await self.source.read(), await self.target.read()
            uids = self._copies.uids(here, there)
            problems = {key: list(self._copies.problems(here, there, key, uids)) for key in copying}
            if stopped := {key: texts for key, texts in problems.items() if texts}:
                await self._copies.all(
                    self._report(key, condition.refused(texts, self.standings.ways)) for key, texts in stopped.items()
                )
                raise Refused([text for texts in stopped.values() for text in texts], passes=True)
            await self._copies.all(self._settle(here, there, key) for key in copying)
        # What is there was read after it was copied, and nobody has acted since.
        for some in _batches(keys):
            await self._copies.all(self._activate(here, there, key) for key in some)
            present = [key for key in some if place_of(CLUSTER, key) in here.index.by_place]
            await self._copies.delete(
                self.source, [item for key in present for item in self._copies.members(here, there, key)]
            )
            for key in some:
                self.say(f"cluster {key} is moved")

    async def take_back(self, keys: Sequence[Key]) -> None:
        """Delete the copies at the target, and let the source act again. Raises `Refused` after the hand-over."""
        here, there = await self.source.read(), await self.target.read()
        items = here.index.by_place
        problems = [
            text for key in keys if (text := self._cannot_return(items, key) or self._is_elsewhere(items, there, key))
        ]
        if problems:
            raise Refused(problems)
        for key in keys:
            record = self._record(items, key)
            if record is None:
                self.say(f"cluster {key} is not being moved")
                continue
            await self._copies.remove(here, there, key, record)
            await self._report(key, None)
            await copies.resume(self.source, items, key, record.paused)
            self.say(f"cluster {key} stays at the source")

    def _check(self, here: Inventory, there: Inventory, keys: Sequence[Key]) -> None:
        if self.source.uid == self.target.uid:
            raise Refused(["the target is the source itself: give the kubeconfig of another management cluster"])
        passing: list[str] = []
        lasting: list[str] = []
        for key in keys:
            passing += self._unready(here, there, key)
            lasting += self._obstacles(here, there, key)
        if passing or lasting:
            raise Refused(list(dict.fromkeys([*passing, *lasting])), passes=not lasting)

    def _unready(self, here: Inventory, there: Inventory, key: Key) -> Iterable[str]:
        """The reasons that managers may end: changes in progress, and what is being installed at the target."""
        item = here.index.by_place.get(place_of(CLUSTER, key))
        if item is None:
            return []
        record = record_of(item.object)
        begun = (self.source.uid, self.target.uid, COPYING)
        if record is not None and (record.source, record.target, record.state) != begun:
            return []
        members = self._copies.members(here, there, key)
        problems = [text for member in members for text in objects.unfit(member, is_moving=record is not None)]
        if record is None:
            problems = [*self.judge.unsettled(here, key), *self.judge.obstacles(here, there, key), *problems]
        return [*problems, *self._copies.unserved(here, there, key)]

    def _obstacles(self, here: Inventory, there: Inventory, key: Key) -> Iterable[str]:
        """The reasons that stay until somebody does something."""
        place = place_of(CLUSTER, key)
        item, copy = here.index.by_place.get(place), there.index.by_place.get(place)
        if item is None:
            is_there = copy is not None and copies.mark_of(copy.object).partition("/")[0] == self.source.uid
            return (
                []
                if is_there
                else [f"Cluster {key} does not exist at the source: `espalier get clusters -A` lists them"]
            )
        record = record_of(item.object)
        if record is not None and record.is_restore:
            return [_being_restored(key)]
        if record is not None and record.source != self.source.uid:
            return [f"Cluster {key} is being moved to this management cluster: go on with that move at its source"]
        if record is not None and record.target != self.target.uid:
            return [f"Cluster {key} is being moved to another target: go on with that move, or end it with --back"]
        if record is not None and record.state == HANDED_OVER:
            gone = f"Cluster {key} is handed over, and does not exist at the target: restore the target from a backup"
            return [] if copy is not None else [gone]
        if record is None and (unreached := self.target.unreached(self.source.infrastructure)):
            return unreached
        return self._copies.obstacles(here, there, key, record)

    async def _begun(self, here: Inventory, key: Key) -> Record:
        """The record of the move, written first: from then on the source's manager leaves the cluster alone."""
        item = here.index.by_place.get(place_of(CLUSTER, key))
        if item is None:
            return Record(0, self.source.uid, self.target.uid, HANDED_OVER)
        record = record_of(item.object)
        if record is None:
            paused = item.object.metadata.annotations.get(PAUSED_ANNOTATION)
            record = Record(next_epoch(item.object), self.source.uid, self.target.uid, COPYING, paused)
            await annotate(self.source, item.object, {MOVE_ANNOTATION: record.text, PAUSED_ANNOTATION: PAUSED_BY_MOVE})
            self.say(f"cluster {key}: paused at the source")
        if record.state == HANDED_OVER:
            await self._report(key, self.standings.handed_over, ends_ready=self.standings.ends_ready)
        if record.state == COPYING:
            await self._report(key, self.standings.copying)
            await copies.pause(self.source, key, paused=True)
        return record

    async def _settle(self, here: Inventory, there: Inventory, key: Key) -> None:
        await self._copies.settle(here, there, key)
        await self._hand_over(here, key)
        self.say(f"cluster {key}: handed over to the target")

    async def _hand_over(self, here: Inventory, key: Key) -> None:
        """The source lets go, unless the Cluster changed since it was compared."""
        item = here.index.by_place[place_of(CLUSTER, key)]
        record = self._required(here, key)
        handed = msgspec.structs.replace(record, state=HANDED_OVER)
        await annotate(self.source, item.object, {MOVE_ANNOTATION: handed.text})
        await self._report(key, self.standings.handed_over, ends_ready=self.standings.ends_ready)

    async def _activate(self, here: Inventory, there: Inventory, key: Key) -> None:
        """Let the target act; nothing to do if it does already."""
        items = there.index.by_place
        copy = items.get(place_of(CLUSTER, key))
        record = record_of(copy.object) if copy is not None else None
        if record is None or self._record(here.index.by_place, key) is None:
            return
        paused = record.paused
        if self.judge.is_record(there, key):
            paused = PAUSED_AS_RECORD
        elif self.judge.is_record(here, key):
            paused = None
        await copies.resume(self.target, items, key, paused)

    async def _report(self, key: Key, standing: tuple[str, str] | None, *, ends_ready: bool = False) -> None:
        await condition.report(self.source, key, standing, self.now(), ends_ready=ends_ready)

    def _cannot_return(self, items: Mapping[Place, Item], key: Key) -> str:
        if place_of(CLUSTER, key) not in items:
            return f"Cluster {key} does not exist at the source: if it was moved, move it back from the target"
        record = self._record(items, key)
        if record is None:
            return ""
        if record.is_restore:
            return _being_restored(key)
        if record.target != self.target.uid or record.source != self.source.uid:
            return f"Cluster {key} is being moved between other management clusters: give their kubeconfigs"
        if record.state == HANDED_OVER:
            return f"Cluster {key} is handed over: let the move finish, then move it back from the target"
        return ""

    def _is_elsewhere(self, items: Mapping[Place, Item], there: Inventory, key: Key) -> str:
        """The reason not to let the source act again: the target has the cluster, and not by this move."""
        record, copy = self._record(items, key), there.index.by_place.get(place_of(CLUSTER, key))
        if record is None or copy is None or copies.mark_of(copy.object) == record.mark:
            return ""
        return (
            f"Cluster {key} is at the target, and not by this move: it was restored there from a folder, or created. "
            "Two management clusters would act on it: leave it paused here"
        )

    def _record(self, items: Mapping[Place, Item], key: Key) -> Record | None:
        item = items.get(place_of(CLUSTER, key))
        return record_of(item.object) if item is not None else None

    def _required(self, here: Inventory, key: Key) -> Record:
        record = self._record(here.index.by_place, key)
        if record is None:
            raise Refused([f"Cluster {key}: somebody removed annotation {MOVE_ANNOTATION}: give the command again"])
        return record


def _being_restored(key: Key) -> str:
    return (
        f"Cluster {key} is being restored to this management cluster: give that `espalier move --from-folder` again to "
        "go on, or with --back to delete what is there"
    )


def _batches(keys: Sequence[Key]) -> Iterable[Sequence[Key]]:
    return (keys[start : start + _BATCH] for start in range(0, len(keys), _BATCH))
