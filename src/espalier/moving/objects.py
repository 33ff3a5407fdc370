"""The objects of a move: which belong to a cluster, in which order, and what is written of them. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

from espalier.api.capi import cluster as capi
from espalier.api.definitions.reference import ConditionProse
from espalier.api.eksa import cluster as eksa
from espalier.api.eksa.vocabulary import reasons
from espalier.api.eksa.vocabulary.group import (
    MOVE_ANNOTATION,
    MOVED_FROM_ANNOTATION,
    PAUSED_ANNOTATION,
    SYSTEM_NAMESPACE,
)
from espalier.api.identity import owner_of
from espalier.api.meta import Tree
from espalier.api.moves import BLOCK_MOVE
from espalier.api.resource import Key, Resource
from espalier.api.text import paths
from espalier.kube.objects import Object

Place = tuple[str, str, Key]
"""Group, kind, key: what an object is called in any management cluster."""

_OF_THE_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "selfLink",
    "generateName",
)
_OF_A_MANAGER = ("manager", "operation", "apiVersion", "subresource")
_SUM = "childrenObservedGeneration"
MOVING: Annotated[
    str,
    ConditionProse(
        (reasons.CLUSTER,),
        "True: a move to another management cluster, or a restore from a folder, began here and has not ended; nobody "
        "acts on the cluster. Absent otherwise; not part of Ready, but for a management cluster that is handed over to "
        "be deleted. `espalier move` writes it, and `espalier create|delete cluster` of a management cluster.",
    ),
] = "Moving"
"""Condition of a Cluster on which nobody acts because of a move."""
_OF_THE_MOVE = (MOVE_ANNOTATION, MOVED_FROM_ANNOTATION, PAUSED_ANNOTATION)


class Item(NamedTuple):
    """An object of a management cluster, and how it is served."""

    resource: Resource
    object: Object
    has_status: bool
    """True if its status is written apart."""

    @property
    def place(self) -> Place:
        """Its place, in any management cluster."""
        return self.resource.group, self.resource.kind, self.object.key

    @property
    def name(self) -> str:
        """Kind and key, for messages."""
        return f"{self.resource.group_resource if self.resource.group else self.resource.kind} {self.object.key}"


CLUSTER, CAPI_CLUSTER = eksa.Cluster.resource, capi.Cluster.resource


def is_cluster(item: Item) -> bool:
    """True for a Cluster of EKS Anywhere."""
    return (item.resource.group, item.resource.kind) == (CLUSTER.group, CLUSTER.kind)


def is_capi_cluster(item: Item) -> bool:
    """True for a Cluster of Cluster API."""
    return (item.resource.group, item.resource.kind) == (CAPI_CLUSTER.group, CAPI_CLUSTER.kind)


def unfit(item: Item, *, is_moving: bool = False) -> Iterable[str]:
    """The reasons why an object can't be copied now; `is_moving` once the move paused its cluster."""
    if item.object.metadata.deletion_timestamp is not None:
        until = "take the move back with --back, which lets it go" if is_moving else "wait until it is gone"
        yield f"{item.name} is being deleted: {until}"
    if BLOCK_MOVE in item.object.metadata.annotations:
        yield f"{item.name} has annotation {BLOCK_MOVE}: wait until its controller removes it"
    if is_capi_cluster(item) and not is_moving and (item.object.tree.get("spec") or {}).get("paused"):
        yield f"{item.name}: spec.paused is true: set it to false, or end the other move"


class Index:
    """Objects of a management cluster, found without going through all of them."""

    def __init__(self, items: Iterable[Item]) -> None:
        self.by_place: dict[Place, Item] = {}
        self._by_label: dict[str, list[Item]] = {}
        self._owned: dict[str, list[Item]] = {}
        for item in items:
            self.by_place[item.place] = item
            if is_cluster(item):
                continue
            name = item.object.metadata.labels.get(capi.CLUSTER_NAME_LABEL)
            if name is not None and item.object.namespace in (SYSTEM_NAMESPACE, ""):
                self._by_label.setdefault(name, []).append(item)
            for owner in item.object.metadata.owner_references:
                self._owned.setdefault(owner.uid, []).append(item)

    def members(self, key: Key, named: Iterable[Place]) -> list[Item]:
        """The objects of a cluster, owners before what they own: the Cluster, what is `named` by it, what was made for
        it in Cluster API, and all that these own.

        Of Clusters with one name, each has those that were made for it.
        """
        made = self.by_place.get((CAPI_CLUSTER.group, CAPI_CLUSTER.kind, Key(SYSTEM_NAMESPACE, key.name)))
        is_ours = made is not None and owner_of(made.object.metadata.labels) == key
        places = [(CLUSTER.group, CLUSTER.kind, key), *named]
        new = [self.by_place[place] for place in places if place in self.by_place]
        for item in self._by_label.get(key.name, ()):
            owner = owner_of(item.object.metadata.labels)
            if owner == key or (owner is None and is_ours):
                new.append(item)
        members: dict[str, Item] = {}
        while new:
            item = new.pop()
            uid = item.object.metadata.uid
            if uid not in members:
                members[uid] = item
                new += self._owned.get(uid, ())
        return [item for level in levels(list(members.values())) for item in level]


def levels(items: Sequence[Item]) -> list[list[Item]]:
    """The objects in groups: owners are in an earlier group than what they own. A circle of owners is one group."""
    left = {item.object.metadata.uid: item for item in items}
    groups: list[list[Item]] = []
    while left:
        free = [
            item
            for item in left.values()
            if not any(owner.uid in left for owner in item.object.metadata.owner_references)
        ] or list(left.values())
        groups.append(sorted(free, key=lambda item: (not is_cluster(item), item.place)))
        for item in free:
            del left[item.object.metadata.uid]
    return groups


def is_shared(item: Item, own: Mapping[str, Item]) -> bool:
    """True for an object that others than this cluster use, as far as its owners say: it stays at the source."""
    owners = item.object.metadata.owner_references
    is_made = capi.CLUSTER_NAME_LABEL in item.object.metadata.labels
    return not is_cluster(item) and not is_made and not (owners and all(owner.uid in own for owner in owners))


def copied(item: Item, uids: Mapping[str, str], mark: str, annotations: Mapping[str, str | None] | None = None) -> Tree:
    """The body to create at the target, where owners have the uids that `uids` gives for theirs; others are left out.

    A Cluster of Cluster API is paused. The status is part of the body where it is not written apart.
    """
    tree = item.object.tree
    metadata = {name: value for name, value in tree["metadata"].items() if name not in _OF_THE_SERVER}
    merged = metadata.get("annotations", {}) | {MOVED_FROM_ANNOTATION: mark} | dict(annotations or {})
    metadata["annotations"] = {name: value for name, value in merged.items() if value is not None}
    references = [owner | {"uid": uids[owner["uid"]]} for owner in owners(tree) if owner["uid"] in uids]
    metadata.pop("ownerReferences", None)
    if references:
        metadata["ownerReferences"] = references
    body = {**tree, "metadata": metadata}
    if item.has_status:
        body.pop("status", None)
    if is_capi_cluster(item):
        body["spec"] = {**body.get("spec", {}), "paused": True}
    return body


def status_there(item: Item, generation: int) -> Tree | None:
    """The status to write at the target, where the object has this generation: what was observed last is observed
    there, and what was outdated stays so. None without a status.
    """
    status = item.object.tree.get("status")
    if not item.has_status or not status:
        return None
    present = item.object.metadata.generation
    if is_capi_cluster(item):  # pausing raised the generation, and resuming will
        is_paused = bool((item.object.tree.get("spec") or {}).get("paused"))
        present, generation = present - is_paused, generation + 1

    def observed(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                name: (generation if inner >= present else 0)
                if name == "observedGeneration" and isinstance(inner, int)
                else observed(inner)
                for name, inner in value.items()
            }
        return [observed(inner) for inner in value] if isinstance(value, list) else value

    # A sum of generations: the target's are others.
    return {"status": {name: value for name, value in observed(status).items() if name != _SUM}}


def differences(
    item: Item, there: Object, uids: Mapping[str, str], without: Collection[str] = frozenset()
) -> list[str]:
    """Paths of what the source has and the target has not, or not so; what the target has besides is its own.

    Annotations `without` which they are compared differ between management clusters.
    """
    wanted, present = _comparable(item.object.tree, uids), _comparable(there.tree, None)
    wanted["annotations"] = {name: value for name, value in wanted["annotations"].items() if name not in without}
    return list(_lacking(wanted, present, ()))


def lacks(wanted: Any, present: Any) -> bool:
    """True if a value has not everything that is wanted."""
    return any(True for _ in _lacking(wanted, present, ()))


def _comparable(tree: Tree, uids: Mapping[str, str] | None) -> Tree:
    metadata = tree["metadata"]
    references = owners(tree)
    if uids is not None:
        references = [owner | {"uid": uids[owner["uid"]]} for owner in references if owner["uid"] in uids]
    remaining = {name: value for name, value in metadata.get("annotations", {}).items() if name not in _OF_THE_MOVE}
    rest = {name: value for name, value in tree.items() if name not in ("metadata", "status")}
    if rest["kind"] == CAPI_CLUSTER.kind and rest["apiVersion"].partition("/")[0] == CAPI_CLUSTER.group:
        rest["spec"] = {name: value for name, value in rest.get("spec", {}).items() if name != "paused"}
    labels, finalizers = metadata.get("labels", {}), sorted(metadata.get("finalizers", ()))
    by_uid = {owner["uid"]: owner for owner in references}
    return {**rest, "labels": labels, "annotations": remaining, "finalizers": finalizers, "ownerReferences": by_uid}


def _lacking(wanted: Any, present: Any, path: tuple[paths.PathStep, ...]) -> Iterable[str]:
    if isinstance(wanted, dict) and isinstance(present, dict):
        for name, value in wanted.items():
            yield from _lacking(value, present.get(name), (*path, name))
    elif isinstance(wanted, list) and isinstance(present, list) and len(wanted) == len(present):
        for index, (ours, theirs) in enumerate(zip(wanted, present, strict=True)):
            yield from _lacking(ours, theirs, (*path, index))
    elif wanted != present and wanted not in ({}, [], None):
        yield paths.render(path)


def owned(managed_fields: Sequence[Tree]) -> list[Tree]:
    """The entries of `managedFields`, by manager, without times: an API server leaves these as they are where nothing
    else differs.
    """
    entries = [{name: value for name, value in entry.items() if name != "time"} for entry in managed_fields]
    return sorted(entries, key=lambda entry: [str(entry.get(name, "")) for name in _OF_A_MANAGER])


def owners(tree: Tree) -> list[Tree]:
    """The owner references of an object."""
    references: list[Tree] = tree["metadata"].get("ownerReferences", [])
    return references
