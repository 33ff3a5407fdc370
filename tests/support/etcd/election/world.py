"""States of the explored system: agents, guards, stores, copies, puts under way, and the garden's count of epochs.

All times are ticks from now, so that time does not tell states apart. States of the real machines and sync objects are
numbers that `Interned` gives: a state of the whole is a tuple of small numbers, which is cheap to hash and compare.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple


class Read(NamedTuple):
    """A read that a store has begun to answer."""

    began: int
    operation: int
    """As it was when the read began."""
    before: int
    """The answer of a stale store."""


class Snapshot(NamedTuple):
    """A final snapshot that is being taken and stored."""

    revision: int
    age: int
    complete: bool
    orphan: bool
    """Its agent has crashed; what is on its way to the store may still come to it."""


class Site(NamedTuple):
    """The owner of an epoch: its agent, the proxy of its etcd, and what its clients were told."""

    begun: bool = False
    agent: int = 0
    """0 while it does not run."""
    etcd: bool = False
    proxy: int = 0
    """Ticks for which clients pass."""
    cache: int = 0
    """Ticks for which its API server answers, with etcd or from memory."""
    shut: bool = False
    """The guard has yet to carry out the order to shut the proxy."""
    read: Read | None = None
    restored: int = 0
    acked: int = 0
    """The revision of the last write that a client knows of."""
    data: int = 0
    """The revision of the data directory: less than `acked` after it was lost and restored."""
    final: Snapshot | None = None
    connected: bool = False
    """An API server is connected to etcd. Of matter, as all below, only where API servers come and go."""
    ended: bool = False
    """Its API server has ended."""
    idle: int = 0
    """Ticks since one was connected, as its guard counts them."""


class Store(NamedTuple):
    """The container of an epoch."""

    operation: int = 0
    at_tick: int = 0
    """The operation as it was at the last tick, and at the tick before: a stale store answers with that."""
    before: int = 0
    marker: int = 0
    uploaded: int = 0
    """The revision of the last delta snapshot that was stored while its etcd served."""
    final: int = -1
    """The revision of the final snapshot, or -1."""
    collected: bool = False
    """The set from before the final snapshot was deleted."""


class Copying(NamedTuple):
    """A list of snapshots that is being copied."""

    revision: int
    final: bool


class Move(NamedTuple):
    """The way of an epoch to its data."""

    predecessor: int = 0
    """0 until the garden has counted to this epoch."""
    copier: int = 0
    """0 while it does not run."""
    read: Read | None = None
    checking: bool = False
    """The own marker is being read."""
    copying: Copying | None = None


class Put(NamedTuple):
    """A put on its way to a store."""

    origin: int
    """The epoch of an agent; its negative for the epoch of a copy."""
    epoch: int
    """Whose object it is."""
    content: int
    marker: bool
    version: int
    waiting: bool
    """Its origin still waits for an answer. If not, it comes to the store late, once more, or never."""


class World(NamedTuple):
    """A state of the whole. Epoch 1 is at index 0."""

    garden: int
    """The epoch to which the garden has counted."""
    sites: tuple[Site, ...]
    stores: tuple[Store, ...]
    moves: tuple[Move, ...]
    puts: tuple[Put, ...] = ()
    disturbed: bool = False
    """Something failed, crashed, or took longer than times allow."""
    drifted: int = 0
    """Ticks by which clocks of destinations have run ahead."""
    went_back: bool = False
    """A CopyOperation's status moved back in the store."""
    broken_copy: bool = False
    """A snapshot of a copy's list was deleted before it was copied."""


def with_site(world: World, at: int, site: Site) -> World:
    """The world with another state of a site."""
    return world._replace(sites=(*world.sites[:at], site, *world.sites[at + 1 :]))


def with_store(world: World, at: int, store: Store) -> World:
    """The world with another state of a store."""
    return world._replace(stores=(*world.stores[:at], store, *world.stores[at + 1 :]))


def with_move(world: World, at: int, move: Move) -> World:
    """The world with another state of a move."""
    return world._replace(moves=(*world.moves[:at], move, *world.moves[at + 1 :]))


def disturbed(world: World) -> World:
    """The world in which something failed, crashed or was late."""
    return world if world.disturbed else world._replace(disturbed=True)


def in_order(*puts: Put) -> tuple[Put, ...]:
    """Puts under way; which was first is of no matter."""
    return tuple(sorted(puts))


class Interned:
    """Numbers for values, from 1; 0 is None."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {None: 0}
        self._values: list[object] = [None]

    def number(self, value: Hashable) -> int:
        """The number of a value."""
        stored = self._numbers.get(value)
        if stored is None:
            stored = self._numbers[value] = len(self._values)
            self._values.append(value)
        return stored

    def __getitem__(self, number: int) -> object:
        return self._values[number]
