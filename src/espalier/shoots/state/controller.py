"""The synchronization controller of a gardenlet: copies states of extension resources in its seed to ShootStates.

It uses watches: one write when states changed, none while a shoot is settled, even after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.gardener.extensions.extension import Extended
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.responsibility import restoring
from espalier.api.gardener.vocabulary.reasons import StateReason
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait
from espalier.shoots.state.document import Document, UnreadableShootState, revision_of
from espalier.shoots.state.kinds import kinds_of
from espalier.shoots.state.merging import SeedStates, Task, is_current, merged, task_of
from espalier.shoots.state.pieces import TruncatedState
from espalier.shoots.state.resource_states import state_of
from espalier.shoots.state.store import EpochOver, ShootStates, later_epoch_problem
from espalier.shoots.state.stored import StaleState
from espalier.shoots.technical_ids import BY_TECHNICAL_ID

_SYNC_RETRY = 0.5


class StateObserver:
    """The caches: the garden's Shoots and ShootStates, and the extension resources of every kind that the seed has.

    Kinds may be added at run time.
    """

    def __init__(self, shoots: Cache, states: Cache, seed: Caches) -> None:
        self.shoots = shoots
        self.states = states
        self.definitions = seed.of(CUSTOM_RESOURCE_DEFINITION)
        self._seed = seed
        self._resources: dict[type[Extended], Cache] = {}
        self._by_plural: set[str] = set()

    def watch(self, follow: Callable[[Cache], None]) -> None:
        """Call `follow` with the cache of each extension kind, once its CustomResourceDefinition exists."""

        def defined(_old: Object | None, new: Object | None, _first: bool) -> None:
            for kind in kinds_of(new) if new is not None else ():
                if kind.resource.plural not in self._by_plural:
                    self._by_plural.add(kind.resource.plural)
                    self._resources[kind] = self._seed.of(kind.resource, optional=True)
                    follow(self._resources[kind])

        self.definitions.subscribe(defined)

    @property
    def is_filled(self) -> bool:
        """True if all caches are synced: objects missing in them then do not exist."""
        return self.definitions.synced and all(cache.synced for cache in self._resources.values())

    def keys_of_resource(self, resource: Object) -> Iterable[Key]:
        """The Shoot of an extension resource."""
        return [shoot.key for shoot in self.shoots.by_index(BY_TECHNICAL_ID, resource.namespace)]

    def states_of(self, namespace: str) -> SeedStates:
        """The states in the namespace of a shoot."""
        states = tuple(state_of(resource, kind) for kind, resource in self.resources_of(namespace))
        return SeedStates(states, frozenset(kind.resource.kind for kind in self._resources))

    def resources_of(self, namespace: str) -> list[tuple[type[Extended], Object]]:
        """The extension resources in the namespace of a shoot, with their kinds."""
        return [
            (kind, resource)
            for kind, cache in sorted(self._resources.items(), key=lambda item: item[0].resource.plural)
            for resource in sorted(cache.list(namespace), key=lambda live: live.name)
        ]


class Sync:
    """Brings the ShootState of one shoot up to date."""

    def __init__(self, observer: StateObserver, store: ShootStates, seed: str) -> None:
        self._observer = observer
        self._store = store
        self._seed = seed

    async def reconcile(self, key: Key) -> Outcome:
        """Update the ShootState with one write if a state changed, else with none."""
        shoot_object = self._observer.shoots.get(key)
        if shoot_object is None:
            return Done()
        shoot = shoot_object.decode(Shoot)
        task = task_of(shoot, self._seed)
        if task is None or not shoot.status.technical_id:
            return Done()
        if not self._observer.is_filled:
            return Wait(StateReason.CACHE_NOT_SYNCED, "a kind of extension was installed just now", after=_SYNC_RETRY)
        states = self._observer.states_of(shoot.status.technical_id)
        cached = self._observer.states.get(key)
        if cached is not None and (problem := later_epoch_problem(cached, task.epoch)):
            return Wait(StateReason.EPOCH_OUTDATED, problem)
        # What is restored keeps its revision: the destination decides whether it is an older one.
        least = revision_of(shoot_object) if not restoring(shoot) else 0
        if (
            cached is None
            or revision_of(cached) < least
            or not is_current(cached.decode(ShootState).extensions, states, task.mode, task.epoch)
        ):
            try:
                await self._write(shoot_object, task, states, least)
            except EpochOver as error:
                return Wait(StateReason.EPOCH_OUTDATED, str(error))
            except (StaleState, UnreadableShootState, TruncatedState) as error:
                return Fault(StateReason.SHOOT_STATE_UNUSABLE, str(error))
        problems = [f"{state.key}: {state.problem}" for state in states.states if state.problem]
        if not problems:
            return Done()
        message = f"the shoot can't be restored in another seed: {'; '.join(problems)}"
        return Wait(StateReason.STATE_NOT_TRANSFERABLE, message)

    async def _write(self, shoot: Object, task: Task, states: SeedStates, revision: int) -> None:
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

        await self._store.change(shoot, task.epoch, edit, lambda: secrets, revision=revision)
        if unused:
            await self._store.sweep(shoot, used, task.epoch, unused)
