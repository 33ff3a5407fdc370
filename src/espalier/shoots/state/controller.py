"""The synchronization controller of a gardenlet: states of extension resources in its seed, to ShootStates.

It follows watches: one write when states changed, none while a shoot is settled, also after a restart.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from espalier.api.gardener import SHOOT_EXTENSION_KINDS, metadata_keys
from espalier.api.gardener.extension import Extended
from espalier.api.gardener.shoot import Shoot
from espalier.api.gardener.shoot_state import ShootState
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.kube.objects import Object
from espalier.runtime.cache import Cache, Caches
from espalier.runtime.controller import RESYNC, Controller
from espalier.runtime.events import Recorder
from espalier.runtime.mapping import own_key
from espalier.runtime.outcome import Done, Fault, Outcome, Wait
from espalier.shoots.state.document import Document, UnreadableShootState, digested
from espalier.shoots.state.found import FoundState, state_of
from espalier.shoots.state.merging import Task, is_current, merged, task_of
from espalier.shoots.state.pieces import TruncatedState
from espalier.shoots.state.store import EpochOver, ShootStates
from espalier.shoots.state.stored import StaleState

BY_TECHNICAL_ID = "technical ID"
BY_NAMESPACE = "namespace"


def shoot_states(garden: Caches, seed: str) -> Cache:
    """The cache of the ShootStates that a seed keeps up to date, of states the digests."""
    return garden.of(ShootState.resource, labels=f"{metadata_keys.SEED}={seed}", transform=digested)


def technical_id(shoot: Object) -> Iterable[str]:
    """Index: the namespace of a shoot in its seed."""
    found = shoot.decode(Shoot).status.technical_id
    return (found,) if found else ()


@dataclass(frozen=True)
class Observer:
    """What is read: the garden's Shoots and ShootStates, and the seed's extension resources."""

    shoots: Cache
    states: Cache
    resources: Mapping[type[Extended], Cache]

    def keys_of_resource(self, resource: Object) -> Iterable[Key]:
        """The Shoot of an extension resource."""
        return [shoot.key for shoot in self.shoots.by_index(BY_TECHNICAL_ID, resource.namespace)]

    def found(self, namespace: str) -> list[FoundState]:
        """The states in the namespace of a shoot."""
        return [
            state_of(resource, kind)
            for kind, cache in self.resources.items()
            for resource in sorted(cache.list(namespace), key=lambda one: one.name)
        ]


def controller(
    *,
    garden: Client,
    garden_caches: Caches,
    seed_caches: Caches,
    seed: str,
    rng: random.Random,
    kinds: Sequence[type[Extended]] = SHOOT_EXTENSION_KINDS,
    recorder: Recorder | None = None,
    workers: int = 5,
    resync: float | None = RESYNC,
) -> Controller:
    """The controller, for the gardenlet of `seed`. `garden` and `garden_caches` reach the garden.

    `kinds`: others may be installed later than this was written; each with a `status.state` will do.
    """
    shoots = garden_caches.of(Shoot.resource, indexes={BY_TECHNICAL_ID: technical_id})
    states = shoot_states(garden_caches, seed)
    observer = Observer(shoots, states, {kind: seed_caches.of(kind.resource) for kind in kinds})
    sync = Sync(observer, ShootStates(garden, seed, states), seed, recorder)
    made = Controller("shootstate", sync.reconcile, workers=workers, resync=resync, rng=rng)
    made.watch(shoots, own_key)
    made.watch(states, own_key)
    for cache in observer.resources.values():
        made.watch(cache, observer.keys_of_resource)
    return made


class Sync:
    """Brings the ShootState of one shoot up to date."""

    def __init__(self, observer: Observer, store: ShootStates, seed: str, recorder: Recorder | None = None) -> None:
        self._observer = observer
        self._store = store
        self._seed = seed
        self._recorder = recorder

    async def reconcile(self, key: Key) -> Outcome:
        """One write if a state changed, none if not."""
        found = self._observer.shoots.get(key)
        if found is None:
            return Done()
        shoot = found.decode(Shoot)
        task = task_of(shoot, self._seed)
        if task is None or not shoot.status.technical_id:
            return Done()
        states = self._observer.found(shoot.status.technical_id)
        cached = self._observer.states.get(key)
        if cached is None or not is_current(cached.decode(ShootState).extensions, states, task.mode):
            try:
                await self._write(found, task, states)
            except EpochOver as error:
                return Wait("EpochOver", str(error))
            except (StaleState, UnreadableShootState, TruncatedState) as error:
                return Fault("ShootStateUnusable", str(error))
        return self._told(found, states)

    async def _write(self, shoot: Object, task: Task, states: Sequence[FoundState]) -> None:
        secrets: list[Tree] = []
        used: set[str] = set()
        unused: set[str] = set()

        def edit(document: Document) -> None:
            before, others = document.references, document.size_without_entries
            entries, secrets[:] = merged(document.entries, states, task, shoot.metadata.uid, others)
            document.set_entries(entries)
            used.clear()
            used.update(document.references)
            unused.update(before - used)

        await self._store.change(shoot, task.epoch, edit, lambda: secrets)
        if unused:
            await self._store.sweep(shoot, used, task.epoch)

    def _told(self, shoot: Object, states: Sequence[FoundState]) -> Outcome:
        problems = [f"{state.key}: {state.problem}" for state in states if state.problem]
        if not problems:
            return Done()
        message = f"the shoot can't be restored in another seed: {'; '.join(problems)}"
        if self._recorder is not None:
            self._recorder.event(shoot, "Warning", "StateNotCarried", message)
        return Wait("StateNotCarried", message)
