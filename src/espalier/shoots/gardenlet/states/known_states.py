"""ShootStates as this gardenlet left them, for the controller that keeps them up to date.

They are not watched: lists and watches of ShootStates would show the keys of all shoots, and a seed may read only those
of its own. Somebody else may write one all the same, as a garden that is restored from a backup does. So its version is
compared with the one in the garden, periodically and whenever the shoot's flow reads it.
"""

from __future__ import annotations

import random
from typing import cast

from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.responsibility import restoring
from espalier.api.gardener.vocabulary.metadata_keys import STATE_REVISION
from espalier.api.gardener.vocabulary.reasons import StateReason
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.kube.client import Client, PatchType
from espalier.kube.errors import Conflict, Forbidden, NotFound
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache, Caches
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait
from espalier.runtime.controllers.sources import Expiry, Source
from espalier.runtime.controllers.writer import Writer
from espalier.shoots.gardenlet.states.other_kinds import OtherKinds
from espalier.shoots.state.controller import StateObserver, Sync
from espalier.shoots.state.document import digested, revision_of
from espalier.shoots.state.merging import task_of
from espalier.shoots.state.store import ShootStates
from espalier.shoots.technical_ids import BY_TECHNICAL_ID, technical_ids

VERSION = "version"
_PASSING = frozenset(
    {
        StateReason.RIGHTS_MISSING,
        StateReason.PLAN_OUTDATED,
        StateReason.CACHE_NOT_SYNCED,
    }
)
"""Reasons for which a ShootState is not up to date for a moment, or need not be."""


class KnownStates(Source):
    """A source of ShootStates with digests instead of states; sends the key of each that was written."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[Key, Object] = {}
        self._problems: dict[Key, str] = {}
        self.checks = Expiry()
        """When the version in the garden is due to be compared again."""

    def get(self, key: Key) -> Object | None:
        """The ShootState as last read or written; None if it never was."""
        return self._known.get(key)

    def wrote(self, object_: Object) -> None:
        """Record what was written or read."""
        self._known[object_.key] = digested(Object(object_.raw))
        self.send(object_.key)

    def saw(self, key: Key, object_: Object | None) -> None:
        """Compare what was read in the garden, None if there is none, with what is known. If it differs, the key is
        sent."""
        known = self._known.get(key)
        if known is None:
            return
        if object_ is None:
            self.forget(key)
            self.send(key)
        elif known.resource_version != object_.resource_version:
            self.wrote(object_)

    def forget(self, key: Key) -> None:
        """Drop a ShootState, so that it is read again when needed."""
        self._known.pop(key, None)

    def problem(self, key: Key) -> str:
        """The reason why the ShootState in the garden does not have what the seed has; empty if it has."""
        return self._problems.get(key, "")

    def report(self, key: Key, problem: str) -> None:
        """Record that reason. The key is sent if it is another one."""
        if problem == self.problem(key):
            return
        if problem:
            self._problems[key] = problem
        else:
            del self._problems[key]
        self.send(key)


def controller(
    shoots: Cache,
    seed_caches: Caches,
    known: KnownStates,
    states: ShootStates,
    *,
    garden: Client,
    writer: Writer,
    clock: Clock,
    seed: str,
    period: float,
    rng: random.Random,
) -> Controller:
    """The controller that keeps ShootStates up to date. It reads a ShootState once per shoot, and again if its version
    is another one, which it asks for every `period` seconds."""
    # `known` stands in for a cache of ShootStates: it has digests, because a seed could not hold all states.
    shoots.add_indexes({BY_TECHNICAL_ID: technical_ids})
    observed = StateObserver(shoots, cast(Cache, known), seed_caches)
    sync = Sync(observed, states, seed)
    others = OtherKinds(observed, states, writer, seed, clock)

    async def reconcile(key: Key) -> Outcome:
        shoot = shoots.get(key)
        task = task_of(shoot.decode(Shoot), seed) if shoot is not None else None
        if task is None:
            known.forget(key)
            known.checks.forget(key)
            known.report(key, "")
            return Done()
        outcome = await update(key)
        match outcome:
            case Wait(reason, message) | Fault(reason, message) if reason not in _PASSING:
                known.report(key, message)
            case _:
                known.report(key, "")
        return outcome

    async def report_revision(shoot: Object) -> None:
        """Report on the Shoot which ShootState the garden has, so that another seed restores no older one."""
        state = known.get(shoot.key)
        revision = revision_of(state) if state is not None else 0
        if revision <= revision_of(shoot) or restoring(shoot.decode(Shoot)):
            return
        patch: Tree = {"metadata": {"uid": shoot.metadata.uid, "annotations": {STATE_REVISION: str(revision)}}}
        await garden.patch(Shoot.resource, shoot.name, shoot.namespace, patch=patch, type=PatchType.MERGE)

    async def update(key: Key) -> Outcome:
        """Read the ShootState if it changed, and bring it up to date."""
        try:
            present, is_due = known.get(key), not known.checks.is_valid(key, VERSION)
            if present is not None and is_due:
                version = await garden.version(ShootState.resource, key.name, key.namespace)
                present = present if version == present.resource_version else None
            if present is None:
                known.wrote(await garden.get(ShootState.resource, key.name, key.namespace))
            if is_due:
                known.checks.keep(key, VERSION, period * (0.75 + rng.random() / 4))
            outcome, shoot = await sync.reconcile(key), shoots.get(key)
            if is_due and shoot is not None and isinstance(outcome, Done):
                await report_revision(shoot)
            return await others.reconcile(shoot) if isinstance(outcome, Done) and shoot is not None else outcome
        except NotFound:
            known.saw(key, None)
            return Wait(
                StateReason.SHOOT_STATE_MISSING, "there is no ShootState; the flow creates it with the secrets", after=5
            )
        except Forbidden as refusal:
            return Wait(StateReason.RIGHTS_MISSING, f"the garden has not granted access yet: {refusal}", after=1)
        except Conflict as conflict:
            known.forget(key)
            return Wait(StateReason.PLAN_OUTDATED, f"{conflict}", after=0.5)

    # Shoots, what was written, checks that are due, and extension resources of kinds that may come later.
    shoot_states = Controller("shootstate", reconcile, workers=5)
    shoot_states.watch(shoots)
    known.subscribe(shoot_states.enqueue)
    known.checks.subscribe(shoot_states.enqueue)
    shoot_states.watch(observed.definitions, lambda _definition: ())
    observed.watch(lambda cache: shoot_states.watch(cache, observed.keys_of_resource))
    return shoot_states
