"""The controller of Etcds: a StatefulSet for each, watched until it is ready, and deleted in order."""

from __future__ import annotations

from espalier.api.core import PERSISTENT_VOLUME_CLAIM
from espalier.api.etcd.timing import Timing
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.vocabulary.reasons import EtcdReason
from espalier.api.resource import Key
from espalier.kube.errors import Conflict, KubeError, NotFound
from espalier.kube.objects import Object
from espalier.runtime.caches.mapping import owners_of
from espalier.runtime.component import Host
from espalier.runtime.controllers.controller import RESYNC, Controller
from espalier.runtime.controllers.outcome import Outcome, Wait, fault_of, outdated
from espalier.runtime.controllers.reconciler import Reconciled, Reconciler, Report
from espalier.runtime.controllers.writer import NameTaken, Writer
from espalier.shoots.etcd import names
from espalier.shoots.etcd.observe import EtcdObserver
from espalier.shoots.etcd.status import status
from espalier.shoots.etcd.steps import EtcdContext, steps_of

NAME = "etcd"
FIELD_MANAGER = "etcd-druid"
AGAIN = 5.0
"""Seconds until a retry where an object of somebody else is in the way."""


def controller(host: Host, *, timing: Timing | None = None, workers: int = 10, resync: float = RESYNC) -> Controller:
    """The controller, with its watches. `timing` is passed on to the agents."""
    observer = EtcdObserver(host.caches)
    caches = {Etcd.resource: observer.etcds, **observer.owned, PERSISTENT_VOLUME_CLAIM: observer.claims}
    writer = Writer(host.client, caches, field_manager=FIELD_MANAGER)

    def observe(etcd: Object) -> EtcdContext:
        return EtcdContext(observer.observe(etcd), writer, etcd, timing)

    def report(ctx: EtcdContext, outcome: Outcome) -> Report:
        wanted = status(ctx.scope, outcome, host.manager.clock.now())
        return Report(wanted, before=ctx.scope.etcd.status)

    reconciled = Reconciled(Etcd.resource, observer.etcds.get, observe, steps_of, report, failed=_failed)
    reconciler = Reconciler(reconciled, writer, host.manager.recorder)
    etcds = Controller(NAME, reconciler.reconcile, workers=workers, resync=resync, rng=host.manager.rng)
    etcds.watch(observer.etcds)
    for cache in observer.owned.values():
        etcds.watch(cache, owners_of(Etcd.resource))
    etcds.watch(observer.claims, _etcd_of_claim)
    return etcds


def _etcd_of_claim(claim: Object) -> tuple[Key, ...]:
    instance = claim.metadata.labels.get(names.INSTANCE)
    return (Key(claim.namespace, instance),) if instance else ()


def _failed(error: KubeError | NameTaken) -> Outcome:
    match error:
        case NameTaken():  # an object of a deleted Etcd of this name, which will be deleted as well
            return Wait(
                EtcdReason.NAME_TAKEN, f"{error}; waiting until it is gone; delete it if it is not needed", after=AGAIN
            )
        case Conflict() | NotFound():
            return outdated(error)
        case _:
            return fault_of(error)
