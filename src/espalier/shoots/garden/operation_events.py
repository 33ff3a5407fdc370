"""Events of shoots' operations: what began, failed, passed to another seed and ended, for `espalier shoots events`.

The garden records them, as it sees the statuses of all seeds: gardenlets need no right to write Events in projects.
What happens while no garden leads is not recorded.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress

from msgspec import ValidationError

from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.vocabulary.events import Event
from espalier.api.gardener.vocabulary.operations import LastOperation, OperationState, OperationType
from espalier.api.gardener.vocabulary.reasons import ShootReason
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Caches
from espalier.runtime.controllers.events import Recorder

_OVER = (OperationState.SUCCEEDED, OperationState.FAILED, OperationState.ABORTED)


class OperationEvents:
    """Records an Event for each change of a Shoot's operation."""

    def __init__(self, caches: Caches, recorder: Recorder) -> None:
        self._shoots, self._recorder = caches.of(Shoot.resource), recorder

    async def run(self) -> None:
        """Record until cancelled."""
        unsubscribe = self._shoots.subscribe(self._changed)
        try:
            await asyncio.Event().wait()
        finally:
            unsubscribe()

    def _changed(self, old: Object | None, new: Object | None, _first: bool) -> None:
        if old is not None and new is not None:
            with suppress(ValidationError):  # of a Shoot that can't be read, its controller tells
                self._compare(new, old.decode(Shoot), new.decode(Shoot))

    def _compare(self, new: Object, before: Shoot, after: Shoot) -> None:
        seed, wanted = after.status.seed_name, after.spec.seed_name
        if seed and wanted not in (seed, before.spec.seed_name):
            self._recorder.event(
                new, "Normal", Event.MOVE_REQUESTED, f"the shoot is to move from seed {seed} to seed {wanted}"
            )
        if is_seed_silent(after) and not is_seed_silent(before):
            message = f"the gardenlet of seed {seed} has stopped renewing its Lease"
            self._recorder.event(new, "Warning", Event.SEED_SILENT, message)
        last = after.status.last_operation
        if last is not None:
            self._advanced(new, before.status.last_operation, last, f"on seed {seed}")
        known = {(error.task_id, error.description) for error in before.status.last_errors}
        for error in after.status.last_errors:
            if last is not None and (error.task_id, error.description) not in known:
                task = f"{error.task_id}: " if error.task_id else ""
                self._recorder.event(
                    new, "Warning", Event.RECONCILE_ERROR, f"{last.type} on seed {seed}: {task}{error.description}"
                )

    def _advanced(self, shoot: Object, before: LastOperation | None, last: LastOperation, where: str) -> None:
        """Record the beginning or the end of an operation."""
        recorder, is_same = self._recorder, before is not None and before.type == last.type
        was_over = before is not None and before.state in _OVER
        if last.state not in _OVER and not (is_same and not was_over):
            begun = f"{last.type} begins {where}"
            match last.type:
                case OperationType.MIGRATE:
                    recorder.event(shoot, "Normal", Event.PREPARE_MIGRATION, begun)
                case OperationType.DELETE:
                    recorder.event(shoot, "Normal", Event.DELETING, begun)
                case _:
                    recorder.event(shoot, "Normal", Event.RECONCILING, begun)
        if is_same and was_over:
            return
        if last.state == OperationState.ABORTED:
            recorder.event(shoot, "Warning", Event.SEED_GIVEN_UP, last.description)
        if last.state == OperationState.SUCCEEDED:
            succeeded = f"{last.type} has succeeded {where}"
            match last.type:
                case OperationType.MIGRATE:
                    recorder.event(shoot, "Normal", Event.MIGRATION_PREPARED, last.description)
                case OperationType.DELETE:
                    recorder.event(shoot, "Normal", Event.DELETED, succeeded)
                case _:
                    recorder.event(shoot, "Normal", Event.RECONCILED, succeeded)


def is_seed_silent(shoot: Shoot) -> bool:
    """True if the garden says in the Shoot's conditions that its seed is silent: members of its project may not read
    that of the Seed."""
    return any(condition.reason == ShootReason.STATUS_UNKNOWN for condition in shoot.status.conditions)
