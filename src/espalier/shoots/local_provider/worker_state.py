"""The state of a Worker follows its machines, even between two reconciles: a seed may be lost at any time.

It is written while the Worker is settled and this seed's. During a restore not all objects exist yet, and during a
migration they are deleted: then the state saved before is the valid one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.vocabulary.operations import OperationType
from espalier.api.resource import Key
from espalier.kube.objects import Object
from espalier.runtime.caches.cache import Cache
from espalier.runtime.caches.mapping import ToKeys
from espalier.runtime.component import Host
from espalier.runtime.controllers.controller import Controller
from espalier.runtime.controllers.outcome import Outcome
from espalier.runtime.controllers.reconciler import Reconciled, Reconciler, Report, replanned
from espalier.runtime.controllers.writer import Precondition, Writer
from espalier.shoots.extension import Leases, SavedState, StateTooLarge, operation_of
from espalier.shoots.extension.views import ExtensionObject
from espalier.shoots.local_provider.cloud import TYPE
from espalier.shoots.local_provider.machine_objects import WorkerState, state_of
from espalier.shoots.local_provider.worker import MachineViews

NAME = "local-worker-state"
SPACING = 1.0
"""Seconds between two writes for one Worker: machines change in bursts."""

_SETTLED = (OperationType.CREATE, OperationType.RECONCILE, OperationType.RESTORE)


@dataclass(frozen=True)
class _Observation:
    """The observation of a Worker."""

    object: Object


def controller(host: Host, views: MachineViews, leases: Leases) -> Controller:
    """The controller that keeps the states of Workers."""
    workers = host.caches.of(Worker.resource)
    writer = Writer(host.client, {Worker.resource: workers})
    codec = SavedState(WorkerState)

    def observe(worker: Object) -> _Observation | None:
        return _Observation(worker) if _is_settled(worker) and leases.of(worker.namespace).is_valid else None

    def report(observation: _Observation, _outcome: Outcome) -> Report | None:
        worker = observation.object
        try:
            state = codec.encode(state_of(views.of(worker.namespace)))
        except StateTooLarge:
            return None  # the next reconcile of the Worker reports it; the saved state stays
        if state == worker.decode(ExtensionObject).status.state:
            return None
        return Report({**worker.tree["status"], "state": state}, precondition=Precondition.VERSION)

    reconciler = Reconciler(Reconciled(Worker.resource, workers.get, observe, lambda _observation: (), report), writer)
    state_controller = Controller(NAME, replanned(reconciler.reconcile), spacing=SPACING, rng=host.manager.rng)
    state_controller.watch(workers)
    for cache in views.caches.values():
        state_controller.watch(cache, _workers_beside(workers))
    return state_controller


def _workers_beside(workers: Cache) -> ToKeys:
    def to_keys(object_: Object) -> Iterable[Key]:
        return [worker.key for worker in workers.list(object_.namespace)]

    return to_keys


def _is_settled(object_: Object) -> bool:
    extension = object_.decode(ExtensionObject)
    last = extension.status.last_operation
    is_due = operation_of(object_.metadata, last) is not None
    return extension.spec.type == TYPE and not is_due and last is not None and last.type in _SETTLED
