"""A backup of clusters: their objects as they all were at one moment. Nothing is paused, and nothing written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION
from espalier.api.resource import Key
from espalier.api.text.listing import counted
from espalier.moving import objects
from espalier.moving.copies import Judge, place_of
from espalier.moving.objects import CLUSTER, Item, Place
from espalier.moving.sides import Inventory, Side

_READINGS = 6
"""Readings of the management cluster until a cluster counts as one that changes all the time."""


@dataclass(frozen=True)
class Taken:
    """Objects of clusters, with those of the management cluster by which they are judged."""

    clusters: Sequence[Key]
    items: Sequence[Item]
    left_out: Mapping[Key, str]
    """The reasons, by cluster."""


async def take(side: Side, judge: Judge, keys: Sequence[Key], say: Callable[[str], None]) -> Taken:
    """The objects of these clusters. Each cluster is taken as it was between two readings that do not differ."""
    taken: dict[Place, Item] = {}
    done: list[Key] = []
    pending, reasons = list(keys), dict.fromkeys(keys, "its objects change all the time: try again later")
    before = await side.read()
    for _ in range(_READINGS - 1):
        now = await side.read()
        changing = []
        for key in pending:
            if problems := list(_unfit(now, judge, key)):
                reasons[key] = "; ".join(problems)
                continue
            members = _members(now, judge, key)
            if _versions(members) != _versions(_members(before, judge, key)):
                changing.append(key)
                continue
            taken |= {item.place: item for item in members}
            done.append(key)
            del reasons[key]
            say(f"cluster {key}: {counted(len(members), 'object')} read")
        before, pending = now, changing
        if not pending:
            break
    items = before.index.by_place
    context = {place: items[place] for place in judge.context(before) if place in items}
    return Taken(done, list((context | taken).values()), reasons)


def _unfit(at: Inventory, judge: Judge, key: Key) -> Iterable[str]:
    cluster = at.index.by_place.get(place_of(CLUSTER, key))
    if cluster is None:
        return [f"Cluster {key} does not exist: `espalier get clusters -A` lists them"]
    if MOVE_ANNOTATION in cluster.object.metadata.annotations:
        return [
            f"Cluster {key} is being moved: let the move finish, or take it back with --back; if it is being restored, "
            "with `espalier move --from-folder`"
        ]
    return [*judge.unsettled(at, key), *(text for member in _members(at, judge, key) for text in objects.unfit(member))]


def _members(at: Inventory, judge: Judge, key: Key) -> list[Item]:
    return at.index.members(key, [*judge.named(at, key), *judge.completing(at, key)])


def _versions(members: Iterable[Item]) -> dict[str, str]:
    return {item.object.metadata.uid: item.object.resource_version for item in members}
