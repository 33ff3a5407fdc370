"""The controller of Shoots in a gardenlet.

Before anything else the Shoot is read live in the garden. A gardenlet that can't read it does nothing, and its seed's
extensions stop when their lease expires.
"""

from __future__ import annotations

from espalier.api.core import NAMESPACE
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.garden.backups import BackupEntry
from espalier.api.gardener.garden.project import Project, namespace_of
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.responsibility import seed_of
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.reasons import ControllerReason
from espalier.api.resource import Key
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object
from espalier.runtime.controllers.controller import RESYNC, Controller
from espalier.runtime.controllers.outcome import Fault, Outcome, Wait, fault_of
from espalier.runtime.controllers.reconciler import Reconciled, Reconciler, Report
from espalier.runtime.controllers.writer import NameTaken
from espalier.shoots.gardenlet.context import GardenletTools, Live
from espalier.shoots.gardenlet.observe import ShootObserver
from espalier.shoots.gardenlet.reconciling import status
from espalier.shoots.gardenlet.reconciling.steps import REPORTED, STEPS, Attempt
from espalier.shoots.gardenlet.tasks.backups import OWNER_LABEL


def controller(
    observer: ShootObserver, tools: GardenletTools, *, workers: int = 20, resync: float | None = RESYNC
) -> Controller:
    """The controller, with its watches: the garden's Shoots, and all their objects in the seed."""
    shoots_controller = Controller(
        "shoot", reconciler(observer, tools).reconcile, workers=workers, resync=resync, rng=tools.rng
    )
    shoots_controller.watch(observer.garden[Shoot.resource])
    shoots_controller.watch(
        observer.garden[Project.resource],  # technical IDs have its name
        lambda project: [
            shoot.key for shoot in observer.garden[Shoot.resource].list(namespace_of(project.decode(Project)))
        ],
        predicate=lambda old, new: old is None or new is None or old.tree.get("spec") != new.tree.get("spec"),
    )
    shoots_controller.watch(
        observer.garden[BackupEntry.resource],
        lambda shoot_object: (
            [Key(shoot_object.namespace, name)] if (name := shoot_object.metadata.labels.get(OWNER_LABEL)) else []
        ),
    )

    def of_namespace(object_: Object) -> list[Key]:
        return observer.claimants(object_.namespace or object_.name)

    for resource, cache in observer.seed.items():
        if resource.namespaced or resource == NAMESPACE:
            shoots_controller.watch(cache, of_namespace)
        elif resource == Cluster.resource:
            shoots_controller.watch(cache, of_namespace, predicate=_is_relevant)
    shoots_controller.watch(observer.pods, of_namespace, predicate=lambda old, new: old is None or new is None)
    for expiry in (tools.lease_waits, tools.handovers, tools.shoot_roles):
        expiry.subscribe(shoots_controller.enqueue)
    return shoots_controller


def reconciler(observer: ShootObserver, tools: GardenletTools) -> Reconciler[Attempt]:
    """The reconciler of the Shoots that this seed is responsible for, or has objects of."""

    def observe(shoot: Object) -> Attempt | None:
        is_ours = seed_of(shoot.decode(Shoot)) == tools.config.seed
        if not is_ours and not observer.is_here(observer.technical_id(shoot)):
            return None
        return Attempt(observer, tools, Live(shoot, None), tools.clock.now())

    shoots = Reconciled(
        Shoot.resource,
        observer.shoot,
        observe,
        lambda _attempt: STEPS,
        _report,
        errors=(KubeError, NameTaken, OwnershipError),
        failed=_failed,
    )
    expiries = tools.lease_waits, tools.handovers, tools.shoot_roles
    return Reconciler(shoots, tools.garden, forget=[expiry.forget for expiry in expiries])


def _report(attempt: Attempt, outcome: Outcome) -> Report | None:
    """The reason why no task could start. Step `advance` reports a flow's progress, before it removes a request."""
    if not isinstance(outcome, Wait | Fault) or outcome.reason not in REPORTED:
        return None
    shoot, now = attempt.object, attempt.tools.clock.now()
    reported = status.not_started(shoot, attempt.not_started, outcome.message, now)
    return Report(reported, before=shoot.decode(Shoot).status)


def _failed(error: Exception) -> Outcome:
    if isinstance(error, OwnershipError):
        advice = "restore it from a backup of the garden; nothing is done for the shoot until then"
        return Fault(
            ControllerReason.FLOW_NOT_STARTED, f"metadata.annotations[{metadata_keys.OWNERSHIP}]: {error}; {advice}"
        )
    return fault_of(error)


def _is_relevant(old: Object | None, new: Object | None) -> bool:
    """True if a Cluster is created or deleted, or its annotations change. Renewed leases do not count."""
    return old is None or new is None or old.metadata.annotations != new.metadata.annotations
