"""The steps of a move. Each can be repeated: whatever was done is found in the objects, at the source and the target.

Until the source hands a cluster over, nobody acts on it at the target, and the move can be taken back. From then on
nobody acts on it at the source. So there are never two management clusters that act on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

import msgspec

from espalier.api.eksa.group import (
    MOVE_ANNOTATION,
    MOVED_FROM_ANNOTATION,
    PAUSED_ANNOTATION,
    PAUSED_BY_MOVE,
    SYSTEM_NAMESPACE,
)
from espalier.api.listing import first
from espalier.api.meta import Tree
from espalier.api.moves import BLOCK_MOVE, DELETE_FOR_MOVE
from espalier.api.resource import Key, Resource
from espalier.kube.client import PatchType
from espalier.kube.errors import AlreadyExists, NotFound
from espalier.kube.objects import Object, encode_json
from espalier.moving import objects
from espalier.moving import record as records
from espalier.moving.objects import CAPI_CLUSTER, CLUSTER, Item, Place
from espalier.moving.record import COPYING, HANDED_OVER, Record, next_epoch
from espalier.moving.sides import Inventory, Side

_T = TypeVar("_T")

_AT_ONCE = 8
"""Objects of a cluster that are written at the same time."""


class Refused(Exception):
    """A move that can't begin or go on; each text names the object, what was found, and what to do."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Judge(Protocol):
    """The knowledge of managers about clusters."""

    def named(self, at: Inventory, key: Key) -> Iterable[Place]:
        """The objects that a Cluster references, and the Secrets and ConfigMaps that these name."""

    def completing(self, at: Inventory, key: Key) -> Iterable[Place]:
        """The objects of the management cluster that a target gets if it has none of its own."""
        ...

    def obstacles(self, source: Inventory, target: Inventory, key: Key) -> Iterable[str]:
        """The reasons why a Cluster can't be moved now."""

    def management(self, at: Inventory) -> str:
        """The name of the management cluster."""

    @property
    def stamps(self) -> frozenset[str]:
        """The annotations that differ for a Cluster in each management cluster."""
        ...

    def settled(self, source: Inventory, target: Inventory, key: Key) -> tuple[Mapping[str, str], Tree]:
        """The annotations and the status fields with which a Cluster counts as reconciled at the target, as far as it
        is at the source.
        """
        ...


@dataclass
class Mover:
    """Moves clusters from `source` to `target`; `say` gets a sentence for each step."""

    source: Side
    target: Side
    judge: Judge
    say: Callable[[str], None]
    _limit: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))

    async def check(self, keys: Sequence[Key]) -> dict[Key, list[str]]:
        """The names of the objects that would be copied of each cluster. Raises `Refused`."""
        here, there = await self.source.read(), await self.target.read()
        self._check(here, there, keys)
        return {key: [item.name for item in self._members(here, there, key)] for key in keys}

    async def move(self, keys: Sequence[Key]) -> None:
        """Move these clusters, or go on. Raises `Refused`, before anything is written if it is a fault of the input."""
        here, there = await self.source.read(), await self.target.read()
        self._check(here, there, keys)
        copying = [key for key in keys if (await self._begun(here, key)).state == COPYING]
        if copying:
            here = await self.source.read()
            uids = self._copied_before(here, there)
            for key in copying:
                await self._copy(here, there, key, uids)
            here, there = await self.source.read(), await self.target.read()
            uids = self._copied_before(here, there)
            for key in copying:
                self._verify(here, there, key, uids)
            for key in copying:
                await self._settle(here, there, key)
                await self._hand_over(here, key)
                self.say(f"cluster {key}: handed over to the target")
        here, there = await self.source.read(), await self.target.read()
        for key in keys:
            await self._activate(here, there, key)
            await self._remove(here, there, key)
            self.say(f"cluster {key} is moved")

    async def take_back(self, keys: Sequence[Key]) -> None:
        """Delete the copies at the target, and let the source act again. Raises `Refused` after the hand-over."""
        here, there = await self.source.read(), await self.target.read()
        found = here.index.by_place
        problems = [text for key in keys if (text := self._cannot_return(found, key))]
        if problems:
            raise Refused(problems)
        for key in keys:
            record = self._record(found, key)
            if record is None:
                self.say(f"cluster {key} is not being moved")
                continue
            copies = there.index.by_place
            made = [copies[item.place] for item in self._members(here, there, key) if item.place in copies]
            made = [one for one in made if _mark_of(one.object) == record.mark]
            own = {one.object.metadata.uid: one for one in made}
            await self._delete(self.target, [one for one in made if not objects.is_shared(one, own)])
            await self._resume(self.source, found, key, record)
            self.say(f"cluster {key} stays at the source")

    def _check(self, here: Inventory, there: Inventory, keys: Sequence[Key]) -> None:
        if self.source.uid == self.target.uid:
            raise Refused(["the target is the source itself: give the kubeconfig of another management cluster"])
        found, copies = here.index.by_place, there.index.by_place
        problems: list[str] = []
        for key in keys:
            problems += self._obstacles(here, there, found, copies, key)
        if problems:
            raise Refused(list(dict.fromkeys(problems)))

    def _obstacles(
        self,
        here: Inventory,
        there: Inventory,
        found: Mapping[Place, Item],
        copies: Mapping[Place, Item],
        key: Key,
    ) -> Iterable[str]:
        item, copy = found.get(_place(CLUSTER, key)), copies.get(_place(CLUSTER, key))
        if item is None:
            is_there = copy is not None and self._came_from_here(copy.object)
            return (
                []
                if is_there
                else [f"Cluster {key} does not exist at the source: `espalier get clusters -A` lists them"]
            )
        record = _record_of(item.object)
        if record is not None and record.source != self.source.uid:
            return [f"Cluster {key} is being moved to this management cluster: go on with that move at its source"]
        if record is not None and record.target != self.target.uid:
            return [f"Cluster {key} is being moved to another target: go on with that move, or end it with --back"]
        if record is not None and record.state == HANDED_OVER:
            gone = f"Cluster {key} is handed over, and does not exist at the target: restore the target from a backup"
            return [] if copy is not None else [gone]
        members = self._members(here, there, key)
        problems = list(self.judge.obstacles(here, there, key)) if record is None else []
        problems += dict.fromkeys(
            f"kind {one.resource.group_resource} is not served at the target: install what defines it there"
            for one in members
            if one.resource.group and (one.resource.group, one.resource.kind) not in there.kinds
        )
        problems += dict.fromkeys(
            f"namespace {one.object.namespace} does not exist at the target: create it there"
            for one in members
            if one.object.namespace and one.object.namespace not in there.namespaces
        )
        for one in members:
            problems += self._obstacles_of(one, copies.get(one.place), record)
        return problems

    def _obstacles_of(self, one: Item, copy: Item | None, record: Record | None) -> Iterable[str]:
        if one.object.metadata.deletion_timestamp is not None:
            until = "wait until it is gone" if record is None else "take the move back with --back, which lets it go"
            yield f"{one.name} is being deleted: {until}"
        if BLOCK_MOVE in one.object.metadata.annotations:
            yield f"{one.name} has annotation {BLOCK_MOVE}: wait until its controller removes it"
        if objects.is_capi_cluster(one) and record is None and (one.object.tree.get("spec") or {}).get("paused"):
            yield f"{one.name}: spec.paused is true: set it to false, or end the other move"
        if copy is None:
            return
        if record is not None and _mark_of(copy.object) == record.mark:
            return
        is_own = not objects.is_cluster(one) and not objects.is_capi_cluster(one)
        if is_own and not objects.differences(_ownerless(one), copy.object, {}):
            return
        yield f"{one.name} exists at the target with other content: delete it there, or rename one of them"

    async def _begun(self, here: Inventory, key: Key) -> Record:
        """The record of the move, written first: from then on the source's manager leaves the cluster alone."""
        item = here.index.by_place.get(_place(CLUSTER, key))
        if item is None:
            return Record(0, self.source.uid, self.target.uid, HANDED_OVER)
        record = _record_of(item.object)
        if record is None:
            paused = item.object.metadata.annotations.get(PAUSED_ANNOTATION)
            record = Record(next_epoch(item.object), self.source.uid, self.target.uid, COPYING, paused)
            await self._annotate(
                self.source, item.object, {MOVE_ANNOTATION: record.text, PAUSED_ANNOTATION: PAUSED_BY_MOVE}
            )
            self.say(f"cluster {key}: paused at the source")
        if record.state == COPYING:
            await _pause(self.source, key, paused=True)
        return record

    def _copied_before(self, here: Inventory, there: Inventory) -> dict[str, str]:
        """The uids at the target, by those at the source, of what earlier moves from there have copied."""
        copies = there.index.by_place
        found = ((item.object, copies[item.place].object) for item in here.items if item.place in copies)
        return {one.metadata.uid: copy.metadata.uid for one, copy in found if self._came_from_here(copy)}

    async def _copy(self, here: Inventory, there: Inventory, key: Key, uids: dict[str, str]) -> None:
        """Copy the objects of a cluster. `uids`, those of the target by those of the source, grows."""
        record = self._required(here, key)
        copies = there.index.by_place
        members = self._members(here, there, key)
        for level in objects.levels(members):
            written = await asyncio.gather(
                *(self._limited(self._put(item, copies.get(item.place), uids, record)) for item in level)
            )
            uids |= dict(written)
        self.say(f"cluster {key}: {len(members)} objects copied")

    async def _put(self, item: Item, copy: Item | None, uids: Mapping[str, str], record: Record) -> tuple[str, str]:
        """Write one object at the target; returns its uids here and there."""
        client, uid = self.target.client, item.object.metadata.uid
        annotations: dict[str, str | None] = {}
        if objects.is_cluster(item):
            annotations = {MOVE_ANNOTATION: record.text, PAUSED_ANNOTATION: PAUSED_BY_MOVE}
        body = objects.copied(item, uids, record.mark, annotations)
        present = copy.object if copy is not None else None
        if present is None:
            try:
                present = await client.create(item.resource, body)
            except AlreadyExists:  # as an earlier request did, whose answer was lost
                present = await client.get(item.resource, item.object.name, item.object.namespace or None)
        if _mark_of(present) != record.mark:
            return uid, present.metadata.uid  # shared: it was there, with this content
        if objects.differences(item, present, uids, self.judge.stamps):
            body["metadata"] |= {"uid": present.metadata.uid, "resourceVersion": present.resource_version}
            present = await client.replace(item.resource, body)
        await self._finish(item, present)
        return uid, present.metadata.uid

    async def _finish(self, item: Item, present: Object) -> None:
        """Write what a creation doesn't: the status, and who owns which field."""
        client, key = self.target.client, present.key
        status = objects.status_there(item, present.metadata.generation)
        tree = present.tree
        if status is not None and objects.lacks(status["status"], tree.get("status")):
            await client.patch(
                item.resource,
                key.name,
                key.namespace or None,
                patch=status | {"metadata": {"uid": present.metadata.uid}},
                type=PatchType.MERGE,
                subresource="status",
            )
        fields = item.object.tree["metadata"].get("managedFields")
        if fields and fields != tree["metadata"].get("managedFields"):
            patch = {"metadata": {"uid": present.metadata.uid, "managedFields": fields}}
            await client.patch(item.resource, key.name, key.namespace or None, patch=patch, type=PatchType.MERGE)

    def _verify(self, here: Inventory, there: Inventory, key: Key, uids: Mapping[str, str]) -> None:
        """Raises `Refused` unless the target has everything that the source has now."""
        members, copies = self._members(here, there, key), there.index.by_place
        problems = []
        for item in members:
            copy = copies.get(item.place)
            is_marked = copy is not None and MOVED_FROM_ANNOTATION in copy.object.metadata.annotations
            wanted = item if is_marked else _ownerless(item)
            differing = (
                objects.differences(wanted, copy.object, uids, self.judge.stamps)
                if copy is not None
                else ["the object"]
            )
            if differing:
                where = first(differing, 3, of="fields")
                problems.append(f"{item.name}: {where} changed during the move: give the same command again, or --back")
        if problems:
            raise Refused(problems)

    async def _settle(self, here: Inventory, there: Inventory, key: Key) -> None:
        """Have the cluster count as reconciled at the target, as it did at the source."""
        annotations, status = self.judge.settled(here, there, key)
        copy = there.index.by_place[_place(CLUSTER, key)].object
        noted = copy.metadata.annotations
        if any(noted.get(name) != value for name, value in annotations.items()):
            await self._annotate(self.target, copy, annotations, versioned=False)
        if objects.lacks(status, copy.tree.get("status")):
            patch = {"status": status, "metadata": {"uid": copy.metadata.uid}}
            await self.target.client.patch(
                CLUSTER, key.name, key.namespace, patch=patch, type=PatchType.MERGE, subresource="status"
            )

    async def _hand_over(self, here: Inventory, key: Key) -> None:
        """The source lets go, unless the Cluster changed since it was compared."""
        item = here.index.by_place[_place(CLUSTER, key)]
        record = self._required(here, key)
        handed = msgspec.structs.replace(record, state=HANDED_OVER)
        await self._annotate(self.source, item.object, {MOVE_ANNOTATION: handed.text})

    async def _activate(self, here: Inventory, there: Inventory, key: Key) -> None:
        """Let the target act; nothing to do if it does already."""
        copies = there.index.by_place
        copy = copies.get(_place(CLUSTER, key))
        record = _record_of(copy.object) if copy is not None else None
        if record is None or self._record(here.index.by_place, key) is None:
            return
        await self._resume(self.target, copies, key, record)

    async def _resume(self, side: Side, found: Mapping[Place, Item], key: Key, record: Record) -> None:
        await _pause(side, key, paused=False)
        cluster = found[_place(CLUSTER, key)].object
        await self._annotate(side, cluster, {MOVE_ANNOTATION: None, PAUSED_ANNOTATION: record.paused}, versioned=False)

    async def _remove(self, here: Inventory, there: Inventory, key: Key) -> None:
        """Delete the objects at the source, which delete nothing else; what others use stays."""
        if _place(CLUSTER, key) not in here.index.by_place:
            return
        members = self._members(here, there, key)
        own = {item.object.metadata.uid: item for item in members}
        await self._delete(self.source, [item for item in members if not objects.is_shared(item, own)])

    async def _delete(self, side: Side, items: Sequence[Item]) -> None:
        for level in reversed(objects.levels(items)):
            last = [item for item in level if objects.is_cluster(item)]
            for part in ([item for item in level if not objects.is_cluster(item)], last):
                await asyncio.gather(*(self._limited(_delete_for_move(side, item)) for item in part))

    def _members(self, here: Inventory, there: Inventory, key: Key) -> list[Item]:
        name = self.judge.management(there)
        found = here.index.members(key, [*self.judge.named(here, key), *self._lacking(here, there, key)])
        return [_managed_by(item, name) if objects.is_cluster(item) and name else item for item in found]

    def _lacking(self, here: Inventory, there: Inventory, key: Key) -> Iterable[Place]:
        """The objects that the target has only if they were copied."""
        copies = there.index.by_place
        for place in self.judge.completing(here, key):
            if place not in copies or self._came_from_here(copies[place].object):
                yield place

    def _cannot_return(self, found: Mapping[Place, Item], key: Key) -> str:
        if _place(CLUSTER, key) not in found:
            return f"Cluster {key} does not exist at the source: if it was moved, move it back from the target"
        record = self._record(found, key)
        if record is None:
            return ""
        if record.target != self.target.uid or record.source != self.source.uid:
            return f"Cluster {key} is being moved between other management clusters: give their kubeconfigs"
        if record.state == HANDED_OVER:
            return f"Cluster {key} is handed over: let the move finish, then move it back from the target"
        return ""

    def _record(self, found: Mapping[Place, Item], key: Key) -> Record | None:
        item = found.get(_place(CLUSTER, key))
        return _record_of(item.object) if item is not None else None

    def _required(self, here: Inventory, key: Key) -> Record:
        record = self._record(here.index.by_place, key)
        if record is None:
            raise Refused([f"Cluster {key}: somebody removed annotation {MOVE_ANNOTATION}: give the command again"])
        return record

    def _came_from_here(self, copy: Object) -> bool:
        return _mark_of(copy).partition("/")[0] == self.source.uid

    async def _annotate(
        self, side: Side, found: Object, annotations: Mapping[str, str | None], *, versioned: bool = True
    ) -> Object:
        metadata: Tree = {"annotations": dict(annotations), "uid": found.metadata.uid}
        if versioned:
            metadata["resourceVersion"] = found.resource_version
        return await side.client.patch(
            CLUSTER, found.name, found.namespace, patch={"metadata": metadata}, type=PatchType.MERGE
        )

    async def _limited(self, awaitable: Awaitable[_T]) -> _T:
        async with self._limit:
            return await awaitable


async def _pause(side: Side, key: Key, *, paused: bool) -> None:
    patch = {"spec": {"paused": True if paused else None}}
    try:
        found = await side.client.get(CAPI_CLUSTER, key.name, SYSTEM_NAMESPACE)
        if bool(found.tree["spec"].get("paused")) is paused:
            return
        await side.client.patch(CAPI_CLUSTER, key.name, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)
    except NotFound:
        return


async def _delete_for_move(side: Side, item: Item) -> None:
    """In two requests: the annotation, with which nobody acts on the deletion, and the deletion."""
    name, namespace, uid = item.object.name, item.object.namespace or None, item.object.metadata.uid
    metadata = {"annotations": {DELETE_FOR_MOVE: ""}, "finalizers": [], "uid": uid}
    is_marked = DELETE_FOR_MOVE in item.object.metadata.annotations and not item.object.metadata.finalizers
    try:
        if not is_marked:
            await side.client.patch(item.resource, name, namespace, patch={"metadata": metadata}, type=PatchType.MERGE)
        await side.client.delete(item.resource, name, namespace, uid=uid)
    except NotFound:
        return


def _managed_by(item: Item, name: str) -> Item:
    tree = item.object.tree
    if (tree["spec"].get("managementCluster") or {}).get("name") == name:
        return item
    tree["spec"]["managementCluster"] = {"name": name}
    return item._replace(object=Object(encode_json(tree)))


def _ownerless(item: Item) -> Item:
    tree = item.object.tree
    for name in ("ownerReferences", "finalizers"):
        tree["metadata"].pop(name, None)
    return item._replace(object=Object(encode_json(tree)))


def _record_of(found: Object) -> Record | None:
    try:
        return records.record_of(found)
    except msgspec.MsgspecError as error:
        where = f"Cluster {found.key}: annotation {MOVE_ANNOTATION} was edited ({error})"
        raise Refused([f"{where}: restore it, or remove it at the source if the target has no such Cluster"]) from None


def _mark_of(copy: Object) -> str:
    return copy.metadata.annotations.get(MOVED_FROM_ANNOTATION, "")


def _place(resource: Resource, key: Key) -> Place:
    return resource.group, resource.kind, key
