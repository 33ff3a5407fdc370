"""The controller of Shoots in a gardenlet.

Before anything else the Shoot is read live in the garden. A gardenlet that can't read it does nothing, and its seed's
extensions stop when their lease expires.
"""

from __future__ import annotations

from espalier.api.core import NAMESPACE
from espalier.api.gardener.backups import BackupEntry
from espalier.api.gardener.cluster import Cluster
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.project import Project, namespace_of
from espalier.api.gardener.responsibility import seed_of
from espalier.api.gardener.shoot import Shoot
from espalier.api.resource import Key
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object
from espalier.runtime.controller import RESYNC, Controller
from espalier.runtime.outcome import Fault, Outcome, Wait, fault_of
from espalier.runtime.reconciler import Reconciled, Reconciler, Report
from espalier.runtime.writer import NameTaken
from espalier.shoots.gardenlet import status
from espalier.shoots.gardenlet.context import Live, Tools
from espalier.shoots.gardenlet.observe import Observer
from espalier.shoots.gardenlet.steps import NOT_BEGUN, REPORTED, STEPS, Attempt
from espalier.shoots.gardenlet.tasks.backups import OWNER_LABEL


def controller(observer: Observer, tools: Tools, *, workers: int = 20, resync: float | None = RESYNC) -> Controller:
    """The controller, with its watches: the garden's Shoots, and all their objects in the seed."""
    made = Controller("shoot", reconciler(observer, tools).reconcile, workers=workers, resync=resync, rng=tools.rng)
    made.watch(observer.garden[Shoot.resource])
    made.watch(
        observer.garden[Project.resource],  # of its name the technical IDs are made
        lambda found: [one.key for one in observer.garden[Shoot.resource].list(namespace_of(found.decode(Project)))],
        predicate=lambda old, new: old is None or new is None or old.tree.get("spec") != new.tree.get("spec"),
    )
    made.watch(
        observer.garden[BackupEntry.resource],
        lambda found: [Key(found.namespace, name)] if (name := found.metadata.labels.get(OWNER_LABEL)) else [],
    )

    def of_namespace(found: Object) -> list[Key]:
        key = observer.shoot_of(found.namespace or found.name)
        return [key] if key is not None else []

    for resource, cache in observer.seed.items():
        if resource.namespaced or resource == NAMESPACE:
            made.watch(cache, of_namespace)
        elif resource == Cluster.resource:
            made.watch(cache, of_namespace, predicate=_is_news)
    made.watch(observer.pods, of_namespace, predicate=lambda old, new: old is None or new is None)
    tools.lease_waits.subscribe(made.enqueue)
    return made


def reconciler(observer: Observer, tools: Tools) -> Reconciler[Attempt]:
    """The reconciler of the shoots that this seed has, or has something of."""

    def __init__(self, observer: Observer, tools: Tools) -> None:
        self._observer = observer
        self._tools = tools
        self._seed = tools.config.seed

    async def reconcile(self, key: Key) -> Outcome:
        """Do whatever can be done now for the shoot."""
        cached = self._observer.shoot(key)
        if cached is None:
            self._tools.lease_waits.forget(key)
            return Done()
        if not self._concerns(cached):
            return Done()
        began = self._tools.clock.now()
        try:
            found = await self._tools.garden.client.get(Shoot.resource, key.name, key.namespace)
        except NotFound:
            return Done()
        except KubeError as error:
            return Fault("GardenUnreachable", f"the Shoot can't be read in the garden: {error}")
        if message := self._observer.claims_another(found):
            return await self._claims(found, message)
        try:
            return await self._reconcile(Live(found, None), began)
        except OwnershipError as error:
            message = f"annotation of the Shoot with its ownership epochs: {error}"
            return await self._broken(found, OperationType.RECONCILE, message)

    async def _claims(self, found: Object, message: str) -> Outcome:
        """The objects here must not be touched, because they are another shoot's."""
        typed = found.decode(Shoot)
        if seed_of(typed) != self._seed:
            return Done()
        if typed.metadata.deletion_timestamp is not None and not typed.status.technical_id:
            await self._tools.garden.remove_finalizer(Shoot.resource, found, FINALIZER)  # nothing was made for it
            return Done()
        outcome = Wait("TechnicalIDTaken", message, after=60)
        return await self._broken(found, OperationType.RECONCILE, message, outcome)

    def _concerns(self, shoot: Object) -> bool:
        typed = shoot.decode(Shoot)
        return seed_of(typed) == self._seed or self._observer.is_here(self._observer.technical_id(shoot))

    async def _reconcile(self, live: Live, began: datetime) -> Outcome:
        scope = self._observer.scope(live, began)
        if seed_of(scope.shoot) != self._seed:
            return await self._leave(live, scope) if self._is_lost(scope) else Done()
        if scope.leftover_epoch is not None and scope.is_owner and scope.leftover_epoch < scope.epoch:
            return await self._leave(live, scope)  # of an earlier stay
        live.shoot = await self._begun(live.shoot, scope, began)
        scope = self._observer.scope(live, began)
        operation = self._operation(scope)
        if isinstance(operation, Fault):
            return await self._broken(live.shoot, OperationType.MIGRATE, operation.message, outcome=operation)
        if _is_over(live.shoot, operation):
            return Done()
        if order(live.shoot.metadata) in ORDERS:
            await self._order(live, operation)
        try:
            renews = clusters.may_renew(scope.shoot, self._seed)
            validity = self._tools.config.timing.lease_validity
            if scope.is_owner or scope.cluster is not None:
                await clusters.sync(self._tools.seed, scope, began if renews else None, validity)
        except (KubeError, NameTaken) as error:
            message = f"the Cluster can't be read or written in the seed, so nothing was started: {error}"
            return await self._broken(live.shoot, operation, message)
        live.state = await self._shoot_state(live.shoot)
        if operation is OperationType.RESTORE and scope.is_owner and live.state is not None:
            try:
                live.stored = await self._tools.states.claim(live.shoot, scope.epoch, live.state)
            except (EpochOver, StaleState, UnreadableShootState) as error:
                return await self._broken(live.shoot, operation, f"{error}")
        return await self._run(live, operation)

    def _is_lost(self, scope: Scope) -> bool:
        """True if this seed's objects of the shoot are useless: the garden has counted past their epoch."""
        return not scope.is_owner and scope.ownership.current is not None

    def _operation(self, scope: Scope) -> OperationType | Fault:
        shoot = scope.shoot
        operation = operation_of_shoot(shoot)
        if operation is OperationType.DELETE and restoring(shoot):
            return OperationType.RESTORE  # what is not here can't be deleted: first it has to be restored
        if operation is OperationType.MIGRATE and not migrating(shoot):
            if hands_over(scope):
                return Fault(
                    "HandedOver",
                    f"spec.seedName: found {shoot.spec.seed_name}, which has already handed over the shoot's etcd; "
                    "allowed: another seed. The move can't be reverted; move the shoot to another seed, then back",
                    terminal=True,
                )
            return OperationType.RESTORE  # taken back in time: what was migrated is restored here
        return operation

    async def _begun(self, shoot: Object, scope: Scope, now: datetime) -> Object:
        """The Shoot with its identity in the status and our finalizer."""
        garden = self._tools.garden
        if shoot.metadata.deletion_timestamp is None:
            shoot = await garden.add_finalizer(Shoot.resource, shoot, FINALIZER)
        typed = shoot.decode(Shoot)
        wanted = status.begun(shoot, self._seed, scope.technical_id, now)
        return await garden.status(Shoot.resource, shoot, wanted, Precondition.UID, before=typed.status)

    async def _shoot_state(self, shoot: Object) -> Object | None:
        """Read live: no cache has the content of all ShootStates."""
        try:
            return await self._tools.states.read(shoot)
        except (StaleState, Forbidden):
            return None
        return Attempt(observer, tools, Live(found, None), tools.clock.now())

    shoots = Reconciled(
        Shoot.resource,
        observer.shoot,
        observe,
        lambda _attempt: STEPS,
        _report,
        errors=(KubeError, NameTaken, OwnershipError),
        failed=_failed,
    )
    return Reconciler(shoots, tools.garden, forget=(tools.lease_waits.forget,))


def _report(attempt: Attempt, outcome: Outcome) -> Report | None:
    """The reason why no task could start. A flow's progress is reported in its step, before an order is removed."""
    if not isinstance(outcome, Wait | Fault) or outcome.reason not in REPORTED:
        return None
    shoot, now = attempt.object, attempt.tools.clock.now()
    said = status.broken(shoot, attempt.prevented, outcome.message, now)
    return Report(said, before=shoot.decode(Shoot).status)


    async def _ran(self, flow: Flow[Context], live: Live, operation: OperationType, guard: Guard | None) -> Standing:
        clock = self._tools.clock

        def observe() -> Context:
            return Context(self._observer.scope(live, clock.now()), self._tools, live, operation)

        return await run(flow, observe, guard)

    def _guard(self, live: Live) -> Guard:
        """Each task of a migration begins with a live read: the Shoot must be this seed's, and migrating."""

        async def ask() -> Wait | Failure | None:
            shoot = live.shoot
            found = await self._tools.garden.client.get(Shoot.resource, shoot.name, shoot.namespace)
            typed = found.decode(Shoot)
            if found.metadata.uid != shoot.metadata.uid or seed_of(typed) != self._seed or not migrating(typed):
                return Wait("ShootChanged", "the Shoot changed meanwhile; reading it again", after=0.1)
            live.shoot = found
            return None

        return ask

    async def _deleted(self, live: Live) -> Outcome:
        garden, shoot = self._tools.garden, live.shoot
        await self._tools.states.release(shoot)
        await garden.remove_finalizer(Shoot.resource, shoot, FINALIZER)
        return Done()

    async def _broken(
        self, shoot: Object, operation: OperationType, message: str, outcome: Outcome | None = None
    ) -> Outcome:
        live = Live(shoot, None)
        await self._write(live, status.broken(shoot, operation, message, self._tools.clock.now()), Precondition.UID)
        return outcome or Fault("FlowNotStarted", message)

    async def _write(self, live: Live, wanted: ShootStatus, precondition: Precondition) -> None:
        before = live.shoot.decode(Shoot).status
        try:
            live.shoot = await self._tools.garden.status(
                Shoot.resource, live.shoot, wanted, precondition, before=before
            )
        except NotFound:
            return


def _is_news(old: Object | None, new: Object | None) -> bool:
    """True if a Cluster is created, deleted or loses its marks. Renewed leases do not count."""
    return old is None or new is None or old.metadata.annotations != new.metadata.annotations
