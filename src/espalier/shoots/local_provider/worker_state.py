"""The state of a Worker follows its machines, even between two reconciles: a seed may be lost at any time.

It is written while the Worker is settled and this seed's. While it is being restored, not all objects exist yet, and
once it must be migrated they may be going: the previously saved state is the valid one.
"""

from __future__ import annotations

from collections.abc import Iterable

from espalier.api.gardener.operations import OperationType
from espalier.api.gardener.worker import Worker
from espalier.api.resource import Key
from espalier.kube.errors import Conflict
from espalier.kube.objects import Object
from espalier.runtime.cache import Cache
from espalier.runtime.component import Host
from espalier.runtime.controller import Controller
from espalier.runtime.mapping import ToKeys
from espalier.runtime.outcome import Done, Outcome, outdated
from espalier.runtime.writer import Writer
from espalier.shoots.extension import Leases, SavedState, StateTooLarge, operation_of
from espalier.shoots.extension.views import ExtensionObject
from espalier.shoots.local_provider.cloud import TYPE
from espalier.shoots.local_provider.machine_objects import WorkerState, state_of
from espalier.shoots.local_provider.worker import MachineViews

NAME = "local-worker-state"
SPACING = 1.0
"""Seconds between two writes for one Worker: machines change in bursts."""

_SETTLED = (OperationType.CREATE, OperationType.RECONCILE, OperationType.RESTORE)


def controller(host: Host, views: MachineViews, leases: Leases) -> Controller:
    """The controller that keeps the states of Workers."""
    workers = host.caches.of(Worker.resource)
    writer = Writer(host.client, {Worker.resource: workers})
    codec = SavedState(WorkerState)

    async def reconcile(key: Key) -> Outcome:
        found = workers.get(key)
        if found is None or not _is_settled(found) or not leases.of(key.namespace).is_valid:
            return Done()
        present = found.decode(ExtensionObject).status.state
        try:
            state = codec.encode(state_of(views.of(key.namespace)))
        except StateTooLarge:
            return Done()  # told by the next reconcile of the Worker; the one that was saved stays
        if state != present:
            try:
                await writer.status(Worker.resource, found, {**found.tree["status"], "state": state})
            except Conflict as error:
                return outdated(error)
        return Done()

    made = Controller(NAME, reconcile, spacing=SPACING, rng=host.manager.rng)
    made.watch(workers)
    for cache in views.caches.values():
        made.watch(cache, _workers_beside(workers))
    return made


def _workers_beside(workers: Cache) -> ToKeys:
    def to_keys(found: Object) -> Iterable[Key]:
        return [worker.key for worker in workers.list(found.namespace)]

    return to_keys


def _is_settled(found: Object) -> bool:
    seen = found.decode(ExtensionObject)
    last = seen.status.last_operation
    is_due = operation_of(found.metadata, last) is not None
    return seen.spec.type == TYPE and not is_due and last is not None and last.type in _SETTLED
