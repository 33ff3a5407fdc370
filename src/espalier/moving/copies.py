"""Copies of clusters at a target: they are written, compared, and become what the target's manager acts on."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import msgspec

from espalier.api.eksa.vocabulary.group import (
    MOVE_ANNOTATION,
    MOVED_FROM_ANNOTATION,
    PAUSED_ANNOTATION,
    PAUSED_BY_MOVE,
    SYSTEM_NAMESPACE,
)
from espalier.api.meta import Tree
from espalier.api.moves import DELETE_FOR_MOVE
from espalier.api.resource import Key, Resource
from espalier.api.text.listing import first
from espalier.kube.client import PatchType
from espalier.kube.errors import AlreadyExists, NotFound
from espalier.kube.objects import Object, encode_json
from espalier.moving import objects
from espalier.moving import record as records
from espalier.moving.objects import CAPI_CLUSTER, CLUSTER, Item, Place
from espalier.moving.record import Record
from espalier.moving.sides import Inventory, Side

_T = TypeVar("_T")

_AT_ONCE = 8
"""Objects that are written at the same time."""


class Refused(Exception):
    """A move that can't begin or go on; each text names the object, what was found, and what to do."""

    def __init__(self, problems: Sequence[str], *, passes: bool = False) -> None:
        """`passes`: what managers still do may end the problems, so waiting can help."""
        super().__init__("; ".join(problems))
        self.problems = problems
        self.passes = passes


class Judge(Protocol):
    """The knowledge of managers about clusters."""

    def named(self, at: Inventory, key: Key) -> Iterable[Place]:
        """The objects that a Cluster references, and the Secrets and ConfigMaps that these name."""

    def completing(self, at: Inventory, key: Key) -> Iterable[Place]:
        """The objects of the management cluster that a target gets if it has none of its own."""
        ...

    def context(self, at: Inventory) -> Iterable[Place]:
        """The objects of the management cluster by which Clusters are judged, and which are not moved."""
        ...

    def unsettled(self, source: Inventory, key: Key) -> Iterable[str]:
        """The reasons at the source why a Cluster can't be copied now."""
        ...

    def obstacles(self, source: Inventory, target: Inventory, key: Key) -> Iterable[str]:
        """The reasons at the target why a Cluster can't be moved there."""

    def management(self, at: Inventory) -> str:
        """The name of the management cluster."""

    def is_record(self, at: Inventory, key: Key) -> bool:
        """True if a Cluster of this key is the record of the management cluster."""
        ...

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
class Copies:
    """Copies of what the management cluster with uid `source` has, at `target`.

    `here` and `there` are readings of the two.
    """

    source: str
    target: Side
    judge: Judge
    standing: Tree | None = None
    """Condition that the Clusters among the copies have until the target acts on them."""
    _limit: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_AT_ONCE))
    _members: tuple[Inventory, Inventory, dict[Key, list[Item]]] | None = None
    """Those of the last two readings."""

    def members(self, here: Inventory, there: Inventory, key: Key) -> list[Item]:
        """The objects of a cluster that the target gets, owners first."""
        if self._members is None or self._members[0] is not here or self._members[1] is not there:
            self._members = here, there, {}
        known = self._members[2]
        if key not in known:
            name = self.judge.management(there)
            members = here.index.members(key, [*self.judge.named(here, key), *self._lacking(here, there, key)])
            known[key] = [_there(item, name, self.standing) if objects.is_cluster(item) else item for item in members]
        return known[key]

    def obstacles(self, here: Inventory, there: Inventory, key: Key, record: Record | None) -> Iterable[str]:
        """The reasons why the target can't get these objects; `record` is that of a move which began."""
        members, present = self.members(here, there, key), there.index.by_place
        yield from dict.fromkeys(
            f"namespace {member.object.namespace} does not exist at the target: create it there"
            for member in members
            if member.object.namespace and member.object.namespace not in there.namespaces
        )
        for member in members:
            copy = present.get(member.place)
            if copy is None or (record is not None and mark_of(copy.object) == record.mark):
                continue
            is_own = not objects.is_cluster(member) and not objects.is_capi_cluster(member)
            if not is_own or objects.differences(_ownerless(member), copy.object, {}):
                yield f"{member.name} exists at the target with other content: delete it there, or rename one of them"

    def unserved(self, here: Inventory, there: Inventory, key: Key) -> Iterable[str]:
        """The kinds of these objects that the target does not serve, or not yet."""
        members = self.members(here, there, key)
        yield from dict.fromkeys(text for member in members if (text := _unserved(member.resource, there)))

    def uids(self, here: Inventory, there: Inventory) -> dict[str, str]:
        """The uids at the target, by those at the source, of what was copied from there before."""
        copies = there.index.by_place
        pairs = ((item.object, copies[item.place].object) for item in here.items if item.place in copies)
        return {original.metadata.uid: copy.metadata.uid for original, copy in pairs if self._is_copy(copy)}

    async def write(
        self, here: Inventory, there: Inventory, uids: dict[str, str], moved: Mapping[Key, Record]
    ) -> dict[Key, int]:
        """Copy the objects of clusters with the records of their moves; returns their numbers. `uids` grows."""
        copies = there.index.by_place
        members = {key: self.members(here, there, key) for key in moved}
        owned = {item.place: (item, moved[key]) for key, items in members.items() for item in items}
        for level in objects.levels([item for item, _ in owned.values()]):
            written = await self.all(
                self._put(item, copies.get(item.place), uids, owned[item.place][1]) for item in level
            )
            uids |= dict(written)
        return {key: len(items) for key, items in members.items()}

    def problems(self, here: Inventory, there: Inventory, key: Key, uids: Mapping[str, str]) -> Iterable[str]:
        """The differences between what the source has now and its copies."""
        copies = there.index.by_place
        for item in self.members(here, there, key):
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
                yield f"{item.name}: {where} changed during the move: give the same command again, or --back"

    async def settle(self, here: Inventory, there: Inventory, key: Key) -> None:
        """Have the cluster count as reconciled at the target, as it did at the source."""
        annotations, status = self.judge.settled(here, there, key)
        copy = there.index.by_place[place_of(CLUSTER, key)].object
        noted = copy.metadata.annotations
        if any(noted.get(name) != value for name, value in annotations.items()):
            await annotate(self.target, copy, annotations, versioned=False)
        if objects.lacks(status, copy.tree.get("status")):
            patch = {"status": status, "metadata": {"uid": copy.metadata.uid}}
            await self.target.client.patch(
                CLUSTER, key.name, key.namespace, patch=patch, type=PatchType.MERGE, subresource="status"
            )

    async def remove(self, here: Inventory, there: Inventory, key: Key, record: Record) -> None:
        """Delete the copies that a move made; what others may use by then stays."""
        copies = there.index.by_place
        made = [copies[item.place] for item in self.members(here, there, key) if item.place in copies]
        await self.delete(self.target, [item for item in made if mark_of(item.object) == record.mark])

    async def delete(self, side: Side, items: Sequence[Item]) -> None:
        """Delete objects of one side, owners last, so that nothing else goes. What others use, too, stays."""
        own = {item.object.metadata.uid: item for item in items}
        for level in reversed(objects.levels([item for item in own.values() if not objects.is_shared(item, own)])):
            last = [item for item in level if objects.is_cluster(item)]
            for part in ([item for item in level if not objects.is_cluster(item)], last):
                await self.all(_delete_for_move(side, item) for item in part)

    async def all(self, requests: Iterable[Coroutine[Any, Any, _T]]) -> list[_T]:
        """Await all of them, a few at once. Raises the first error, after the others have ended."""

        async def limited(request: Coroutine[Any, Any, _T]) -> _T:
            async with self._limit:
                return await request

        done = await asyncio.gather(*map(limited, requests), return_exceptions=True)
        for result in done:
            if isinstance(result, BaseException):
                raise result
        return [result for result in done if not isinstance(result, BaseException)]

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
            else:
                await self._finish(item, present)
                return uid, present.metadata.uid
        if not self._is_copy(present):
            return uid, present.metadata.uid  # shared: it was there, with this content
        if record.is_restore and mark_of(present) == record.mark_of_move and not objects.is_shared(item, {}):
            # Of a move that was killed: who takes that back must not delete what is restored.
            marked = {"annotations": {MOVED_FROM_ANNOTATION: record.mark}, "uid": present.metadata.uid}
            name, namespace = present.name, present.namespace or None
            patch = {"metadata": marked}
            present = await client.patch(item.resource, name, namespace, patch=patch, type=PatchType.MERGE)
        if objects.differences(item, present, uids, self.judge.stamps):
            # Owners that moved earlier are not at the source any more, and stay.
            owners = [owner for owner in objects.owners(present.tree) if owner["uid"] not in uids.values()]
            metadata = body["metadata"] | {"uid": present.metadata.uid, "resourceVersion": present.resource_version}
            metadata["annotations"] |= {MOVED_FROM_ANNOTATION: mark_of(present)}
            metadata["ownerReferences"] = [*metadata.get("ownerReferences", ()), *owners]
            present = await client.replace(item.resource, body | {"metadata": metadata})
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
        if fields and objects.owned(fields) != objects.owned(tree["metadata"].get("managedFields") or []):
            patch = {"metadata": {"uid": present.metadata.uid, "managedFields": fields}}
            await client.patch(item.resource, key.name, key.namespace or None, patch=patch, type=PatchType.MERGE)

    def _lacking(self, here: Inventory, there: Inventory, key: Key) -> Iterable[Place]:
        """The objects that the target has only if they were copied."""
        copies = there.index.by_place
        for place in self.judge.completing(here, key):
            if place not in copies or self._is_copy(copies[place].object):
                yield place

    def _is_copy(self, copy: Object) -> bool:
        return mark_of(copy).partition("/")[0] == self.source


def _unserved(resource: Resource, there: Inventory) -> str:
    """The reason why the target can't take objects of a kind; empty if it can."""
    if not resource.group:
        return ""
    versions = there.kinds.get((resource.group, resource.kind), frozenset())
    name = resource.group_resource
    if not versions:
        return f"kind {name} is not served at the target: install what defines it there"
    if resource.version in versions:
        return ""
    served = ", ".join(sorted(versions))
    return (
        f"kind {name} is not served as {resource.version} at the target, only as {served}: install there the version "
        "that the source has, or a later one"
    )


async def resume(side: Side, items: Mapping[Place, Item], key: Key, paused: str | None) -> None:
    """Let one side act on a cluster that a move paused, and leave it with this value of the paused annotation.

    `items` is a reading of that side.
    """
    await pause(side, key, paused=False)
    cluster = items[place_of(CLUSTER, key)].object
    await annotate(side, cluster, {MOVE_ANNOTATION: None, PAUSED_ANNOTATION: paused}, versioned=False)


async def pause(side: Side, key: Key, *, paused: bool) -> None:
    """Pause or resume what Cluster API does for a cluster."""
    patch = {"spec": {"paused": True if paused else None}}
    try:
        cluster = await side.client.get(CAPI_CLUSTER, key.name, SYSTEM_NAMESPACE)
        if bool(cluster.tree["spec"].get("paused")) is paused:
            return
        await side.client.patch(CAPI_CLUSTER, key.name, SYSTEM_NAMESPACE, patch=patch, type=PatchType.MERGE)
    except NotFound:
        return


async def annotate(
    side: Side, cluster: Object, annotations: Mapping[str, str | None], *, versioned: bool = True
) -> Object:
    """Annotate a Cluster; unless `versioned`, whatever else was written to it meanwhile."""
    metadata: Tree = {"annotations": dict(annotations), "uid": cluster.metadata.uid}
    if versioned:
        metadata["resourceVersion"] = cluster.resource_version
    return await side.client.patch(
        CLUSTER, cluster.name, cluster.namespace, patch={"metadata": metadata}, type=PatchType.MERGE
    )


def record_of(cluster: Object) -> Record | None:
    """The record on a Cluster. Raises `Refused` for one that was edited."""
    try:
        return records.record_of(cluster)
    except msgspec.MsgspecError as error:
        where = f"Cluster {cluster.key}: annotation {MOVE_ANNOTATION} was edited ({error})"
        raise Refused([f"{where}: restore it, or remove it at the source if the target has no such Cluster"]) from None


def mark_of(copy: Object) -> str:
    """Source and epoch of the move that made a copy; empty for other objects."""
    return copy.metadata.annotations.get(MOVED_FROM_ANNOTATION, "")


def place_of(resource: Resource, key: Key) -> Place:
    """The place of an object of a kind."""
    return resource.group, resource.kind, key


async def _delete_for_move(side: Side, item: Item) -> None:
    """In two requests: the annotation, with which nobody acts on the deletion, and the deletion. A Secret or ConfigMap
    without finalizers stands for nothing outside, so it needs no annotation.

    Cluster API adds its finalizer to paused objects, too, and may have done so in between: nobody can after that.
    """
    name, namespace, uid = item.object.name, item.object.namespace or None, item.object.metadata.uid
    patch = {"metadata": {"annotations": {DELETE_FOR_MOVE: ""}, "finalizers": [], "uid": uid}}
    is_marked = DELETE_FOR_MOVE in item.object.metadata.annotations or not item.resource.group
    try:
        if not is_marked or item.object.metadata.finalizers:
            await side.client.patch(item.resource, name, namespace, patch=patch, type=PatchType.MERGE)
        if await side.client.delete(item.resource, name, namespace, uid=uid) is not None:
            await side.client.patch(item.resource, name, namespace, patch=patch, type=PatchType.MERGE)
    except NotFound:
        return


def _there(item: Item, manager: str, standing: Tree | None) -> Item:
    """A Cluster as the target gets it: with the name of its management cluster, and how the move stands there."""
    tree = item.object.tree
    if manager:
        tree["spec"]["managementCluster"] = {"name": manager}
    status = tree.get("status") or {}
    others = [condition for condition in status.get("conditions") or () if condition.get("type") != objects.MOVING]
    if status.get("conditions") or standing is not None:
        tree["status"] = status | {"conditions": [*others, *([standing] if standing is not None else [])]}
    return item._replace(object=Object(encode_json(tree)))


def _ownerless(item: Item) -> Item:
    tree = item.object.tree
    for name in ("ownerReferences", "finalizers"):
        tree["metadata"].pop(name, None)
    return item._replace(object=Object(encode_json(tree)))
