"""States of extension resources that gardenlets do not render: of kinds that somebody has installed in seeds.

Whoever creates such a resource in the next seed creates it with `wait-for-state`; it gets its state here.
"""

from __future__ import annotations

from msgspec import Raw

from espalier.api.gardener import ownership
from espalier.api.gardener.extensions.extension import Extended
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.responsibility import requested_operation
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.reasons import StateReason
from espalier.kube.client import PatchType
from espalier.kube.objects import Object
from espalier.runtime.clock import Clock
from espalier.runtime.controllers.outcome import Done, Fault, Outcome, Wait
from espalier.runtime.controllers.writer import Precondition, Writer
from espalier.shoots.state import digests
from espalier.shoots.state.controller import StateObserver
from espalier.shoots.state.document import UnreadableShootState
from espalier.shoots.state.merging import RENDERED_KINDS
from espalier.shoots.state.pieces import TruncatedState
from espalier.shoots.state.resource_states import state_of
from espalier.shoots.state.store import ShootStates
from espalier.shoots.state.stored import StaleState, StoredState


class OtherKinds:
    """Gives waiting resources of these kinds their states, in the epoch of this seed alone, once it has started: then
    no extension of another seed acts any longer."""

    def __init__(self, observer: StateObserver, states: ShootStates, writer: Writer, seed: str, clock: Clock) -> None:
        self._observer, self._states, self._writer = observer, states, writer
        self._seed, self._clock = seed, clock

    async def reconcile(self, shoot: Object) -> Outcome:
        """Give all resources of a shoot that wait their states."""
        waiting = self._waiting(shoot)
        if not waiting or not self._is_started(shoot):
            return Done()
        problems: list[str] = []
        try:
            live = await self._states.read(shoot)
            stored = await self._states.stored(live) if live is not None else None
        except (StaleState, UnreadableShootState) as error:
            return Fault(StateReason.SHOOT_STATE_UNUSABLE, str(error))
        for kind, resource in waiting:
            try:
                if not await self._give(kind, resource, stored):
                    problems.append(f"{resource.kind} {resource.name} waits for its state, but the ShootState has none")
            except (StaleState, TruncatedState) as error:
                problems.append(f"{resource.kind} {resource.name}: {error}")
        if not problems:
            return Done()
        advice = "restore the ShootState, or remove the annotation: its extension then creates it anew"
        return Wait(StateReason.STATE_MISSING, f"{'; '.join(problems)}; {advice}")

    def _waiting(self, shoot: Object) -> list[tuple[type[Extended], Object]]:
        technical_id = shoot.decode(Shoot).status.technical_id
        return [
            (kind, resource)
            for kind, resource in self._observer.resources_of(technical_id)
            if kind.resource.kind not in RENDERED_KINDS
            and requested_operation(resource.metadata) == metadata_keys.WAIT_FOR_STATE
            and resource.metadata.deletion_timestamp is None
        ]

    def _is_started(self, shoot: Object) -> bool:
        try:
            current = ownership.parse(shoot.metadata.annotations.get(metadata_keys.OWNERSHIP)).current
        except OwnershipError:
            return False
        return current is not None and current.seed == self._seed and current.started

    async def _give(self, kind: type[Extended], resource: Object, stored: StoredState | None) -> bool:
        """Write the state first, then request the restore. False if there is none."""
        key = state_of(resource, kind).key
        state = stored.state_for(*key) if stored is not None else None
        if state is None:
            return False
        patched = await self._writer.client.patch(
            kind.resource,
            resource.name,
            resource.namespace,
            patch={"metadata": {"uid": resource.metadata.uid}, "status": {"state": Raw(state)}},
            type=PatchType.MERGE,
            subresource="status",
        )
        request = {
            metadata_keys.OPERATION: metadata_keys.RESTORE,
            metadata_keys.TIMESTAMP: self._clock.now().isoformat(),
            metadata_keys.GIVEN_STATE: digests.of_value(state),
        }
        patch = {"metadata": {"annotations": request}}
        await self._writer.merge(kind.resource, patched, patch, Precondition.UID)
        return True
