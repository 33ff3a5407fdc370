"""ShootStates as this gardenlet left them, for the controller that keeps them up to date.

They are not watched: lists and watches of ShootStates would show the keys of all shoots, and a seed may read only those
of its own. Nobody else writes the ShootState of a shoot while this seed has it, so the version last read or written is
current; otherwise a write gets a `Conflict`, and the ShootState is read again.
"""

from __future__ import annotations

from typing import cast

from espalier.api.gardener.shoot import Shoot
from espalier.api.gardener.shoot_state import ShootState
from espalier.api.resource import Key
from espalier.kube.client import Client
from espalier.kube.errors import Conflict, Forbidden, NotFound
from espalier.kube.objects import Object
from espalier.runtime.cache import Cache, Caches
from espalier.runtime.controller import Controller
from espalier.runtime.events import Recorder
from espalier.runtime.outcome import Done, Outcome, Wait
from espalier.runtime.sources import Source
from espalier.shoots.state.controller import Observer as Observed
from espalier.shoots.state.controller import Sync
from espalier.shoots.state.document import digested
from espalier.shoots.state.merging import task_of
from espalier.shoots.state.store import ShootStates
from espalier.shoots.technical_ids import BY_TECHNICAL_ID, technical_ids


class KnownStates(Source):
    """A source of ShootStates with digests instead of states; sends the key of each that was written."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[Key, Object] = {}

    def get(self, key: Key) -> Object | None:
        """The ShootState as last read or written; None if it never was."""
        return self._known.get(key)

    def wrote(self, object_: Object) -> None:
        """Record what was written or read."""
        self._known[object_.key] = digested(Object(object_.raw))
        self.send(object_.key)

    def forget(self, key: Key) -> None:
        """Drop a ShootState, so that it is read again when needed."""
        self._known.pop(key, None)


def controller(
    shoots: Cache,
    seed_caches: Caches,
    known: KnownStates,
    states: ShootStates,
    *,
    garden: Client,
    seed: str,
    recorder: Recorder | None,
) -> Controller:
    """The controller that keeps ShootStates up to date. It reads a ShootState once per shoot, and after a conflict."""
    shoots.add_indexes({BY_TECHNICAL_ID: technical_ids})
    observed = Observed(shoots, cast(Cache, known), seed_caches)
    sync = Sync(observed, states, seed, recorder)

    async def reconcile(key: Key) -> Outcome:
        shoot = shoots.get(key)
        task = task_of(shoot.decode(Shoot), seed) if shoot is not None else None
        if task is None:
            known.forget(key)
            return Done()
        try:
            if known.get(key) is None:
                known.wrote(await garden.get(ShootState.resource, key.name, key.namespace))
            return await sync.reconcile(key)
        except NotFound:
            return Wait("ShootStateMissing", "the flow creates it with the shoot's secrets", after=5)
        except Forbidden as refusal:
            return Wait("RightsMissing", f"the garden has not granted access yet: {refusal}", after=1)
        except Conflict as conflict:
            known.forget(key)
            return Wait("ObjectChanged", f"{conflict}", after=0.5)

    shoot_states = Controller("shootstate", reconcile, workers=5)
    shoot_states.watch(shoots)
    shoot_states.watch(observed.definitions, lambda _definition: ())
    observed.watch(lambda cache: shoot_states.watch(cache, observed.keys_of_resource))
    return shoot_states
