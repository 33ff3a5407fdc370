"""Clusters from a backup, on a management cluster that replaces a lost one. Each step can be repeated.

Nobody acts on a restored cluster before all of its objects are there and compared: its Cluster has the record of a
move whose source is the lost management cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.resource import Key
from espalier.api.text.listing import counted
from espalier.moving import condition, copies
from espalier.moving.copies import Copies, Judge, Refused, mark_of, place_of, record_of
from espalier.moving.objects import CLUSTER, Item
from espalier.moving.record import Record, next_epoch
from espalier.moving.sides import Inventory, Side
from espalier.runtime.clock import SystemClock


@dataclass
class Restore:
    """Restores clusters to `target` from `items`, which the management cluster with uid `source` had. `infrastructure`
    is that of their machines, as a `Side` has it.

    `finished` are clusters that were restored there before; `finish` is called for each one that is, before anybody
    acts on it. `say` gets a sentence for each step.
    """

    source: str
    items: Sequence[Item]
    target: Side
    judge: Judge
    say: Callable[[str], None]
    infrastructure: str = ""
    finished: Collection[Key] = ()
    finish: Callable[[Key], None] = lambda _: None
    now: Callable[[], datetime] = lambda: SystemClock().now()
    _copies: Copies = field(init=False)

    def __post_init__(self) -> None:
        standing = condition.tree_of(condition.RESTORED, 1, self.now())
        self._copies = Copies(self.source, self.target, self.judge, standing)

    async def check(self, keys: Sequence[Key]) -> dict[Key, list[str]]:
        """The names of the objects that would be written of each cluster. Raises `Refused`."""
        there = await self.target.read()
        here = self._lost(there)
        self._check(here, there, keys)
        return {key: [item.name for item in self._copies.members(here, there, key)] for key in keys}

    async def restore(self, keys: Sequence[Key]) -> None:
        """Restore these clusters, or go on. Raises `Refused`, before anything is written if it is a fault of the
        input.
        """
        there = await self.target.read()
        here = self._lost(there)
        self._check(here, there, keys)
        left = [key for key in keys if not self._is_restored(here, there, key)]
        for key in keys:
            if key not in left:
                self.finish(key)
                self.say(f"cluster {key} is restored already")
        uids = self._copies.uids(here, there)
        records = {key: self._record(here, key) for key in left}
        for key, count in (await self._copies.write(here, there, uids, records)).items():
            self.say(f"cluster {key}: {counted(count, 'object')} written")
        there = await self.target.read()
        here = self._lost(there)
        uids = self._copies.uids(here, there)
        if problems := [text for key in left for text in self._copies.problems(here, there, key, uids)]:
            raise Refused(problems)
        await self._copies.all(self._settle(here, there, key) for key in left)

    async def take_back(self, keys: Sequence[Key]) -> None:
        """Delete what an interrupted restore has written. Raises `Refused` for clusters that the target acts on, or
        acted on before they were gone.
        """
        there = await self.target.read()
        here = self._lost(there)
        if problems := [text for key in keys for text in (*self._gone(there, key), *self._begun(there, key))]:
            raise Refused(problems)
        if acted := [key for key in keys if self._is_restored(here, there, key)]:
            raise Refused([f"Cluster {key} is restored, and acted on: nothing is taken back" for key in acted])
        for key in keys:
            await self._copies.remove(here, there, key, self._record(here, key))
            self.say(f"cluster {key} is not restored")

    async def _settle(self, here: Inventory, there: Inventory, key: Key) -> None:
        await self._copies.settle(here, there, key)
        await condition.report(self.target, key, None, self.now())
        self.finish(key)
        await copies.resume(self.target, there.index.by_place, key, self._record(here, key).paused)
        self.say(f"cluster {key} is restored")

    def _lost(self, there: Inventory) -> Inventory:
        """The objects of the lost management cluster, with the kinds of the target."""
        return Inventory(self.items, there.definitions, there.namespaces)

    def _check(self, here: Inventory, there: Inventory, keys: Sequence[Key]) -> None:
        problems: list[str] = []
        for key in keys:
            problems += self._obstacles(here, there, key)
        if problems:
            raise Refused(list(dict.fromkeys(problems)))

    def _obstacles(self, here: Inventory, there: Inventory, key: Key) -> Iterable[str]:
        if place_of(CLUSTER, key) not in here.index.by_place:
            return [f"Cluster {key} is not in the folder: its index lists those that are"]
        if self._is_restored(here, there, key):
            return []
        if problems := [*self._gone(there, key), *self._begun(there, key)]:
            return problems
        if self.source == self.target.uid and self._is_present(there, key):
            return [f"Cluster {key} still exists at the management cluster where it was copied: nothing to restore"]
        if unreached := self.target.unreached(self.infrastructure):
            return unreached
        record = self._record(here, key)
        return [
            *self.judge.obstacles(here, there, key),
            *self._copies.unserved(here, there, key),
            *self._copies.obstacles(here, there, key, record),
        ]

    def _is_restored(self, here: Inventory, there: Inventory, key: Key) -> bool:
        """True if the target acts on what was restored from here."""
        copy = there.index.by_place.get(place_of(CLUSTER, key))
        record = self._record(here, key)
        # A finished move made the same copies, and earlier builds gave those of a restore its mark.
        if copy is None or mark_of(copy.object) not in (record.mark, record.mark_of_move):
            return False
        return record_of(copy.object) is None

    def _gone(self, there: Inventory, key: Key) -> list[str]:
        """The reason why a cluster that was restored, and is not there any more, is left alone."""
        if key not in self.finished or place_of(CLUSTER, key) in there.index.by_place:
            return []
        return [
            f"Cluster {key} was restored here before, and is gone: it was moved to another management cluster, which "
            "acts on it, or deleted; if nobody acts on it, delete its entry from done in restores.json of the folder"
        ]

    def _begun(self, there: Inventory, key: Key) -> list[str]:
        """The reason why copies that something else has begun to write are left alone."""
        copy = there.index.by_place.get(place_of(CLUSTER, key))
        record = record_of(copy.object) if copy is not None else None
        if record is None:
            return []
        if not record.is_restore:
            return [
                f"Cluster {key} is being moved from this management cluster, or to it: give that `espalier move "
                "--to-kubeconfig` again at its source, or with --back; if its source is lost, restore to another "
                "management cluster"
            ]
        if (record.source, record.target) != (self.source, self.target.uid):
            return [
                f"Cluster {key} is being restored from the folder of another management cluster: give that `espalier "
                "move --from-folder` again, or with --back"
            ]
        return []

    def _is_present(self, there: Inventory, key: Key) -> bool:
        copy = there.index.by_place.get(place_of(CLUSTER, key))
        return copy is not None and record_of(copy.object) is None

    def _record(self, here: Inventory, key: Key) -> Record:
        cluster = here.index.by_place[place_of(CLUSTER, key)].object
        paused = cluster.metadata.annotations.get(PAUSED_ANNOTATION)
        return Record(next_epoch(cluster), self.source, self.target.uid, paused=paused, is_restore=True)
