"""The steps of a reconcile of a shoot: live reads, the flow that is due, the conditions for running it, its report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from espalier.api.gardener.garden.shoot import Shoot, ShootStatus
from espalier.api.gardener.responsibility import (
    is_unrestored,
    migrating,
    operation_of_shoot,
    requested_operation,
    restoring,
    seed_of,
)
from espalier.api.gardener.vocabulary.metadata_keys import (
    OLDER_OPERATION,
    OPERATION,
    OWNERSHIP,
    RECONCILE,
    RESTORED_EPOCH,
    STATE_REVISION,
    TIMESTAMP,
)
from espalier.api.gardener.vocabulary.operations import OperationState, OperationType
from espalier.api.gardener.vocabulary.reasons import ControllerReason, TaskReason
from espalier.kube.errors import Forbidden, KubeError, NotFound
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Continue, Done, Fault, Outcome, Wait
from espalier.runtime.controllers.steps import Step
from espalier.runtime.controllers.writer import NameTaken, Precondition
from espalier.shoots.flow.graph import Flow
from espalier.shoots.flow.runner import Guard, run
from espalier.shoots.flow.status import FlowStatus
from espalier.shoots.flow.task import Failure
from espalier.shoots.gardenlet import clusters
from espalier.shoots.gardenlet.context import GardenletTools, Live, ShootContext
from espalier.shoots.gardenlet.names import FINALIZER
from espalier.shoots.gardenlet.observe import ShootObserver
from espalier.shoots.gardenlet.reconciling import status
from espalier.shoots.gardenlet.reconciling.flows import DELETE, LEAVE, MIGRATE
from espalier.shoots.gardenlet.reconciling.flows import RECONCILE as RECONCILE_FLOW
from espalier.shoots.gardenlet.scope import Scope
from espalier.shoots.gardenlet.tasks.backups import handover_has_begun
from espalier.shoots.state.document import UnreadableShootState, revision_of
from espalier.shoots.state.store import EpochOver
from espalier.shoots.state.stored import StaleState

RETRY = "retry"
"""Value of the operation annotation on a failed Shoot."""

REQUESTS = (RECONCILE, RETRY)
"""Operations requested on a Shoot that are carried out here; then the annotation is removed. `reconcile` is for its
extensions as well."""

REPORTED = frozenset(
    {ControllerReason.FLOW_NOT_STARTED, ControllerReason.HANDED_OVER, ControllerReason.TECHNICAL_ID_TAKEN}
)
"""Reasons why no task could start. Waits and failures of a flow are reported with its progress."""


@dataclass
class Attempt:
    """One reconcile of one shoot."""

    observer: ShootObserver
    tools: GardenletTools
    live: Live
    """The Shoot as cached, until it is read."""
    began: datetime
    """Before the read: leases count from here."""
    scope: Scope = field(init=False)
    """The shoot as step `observe_shoot` has observed it; later steps do not see what they write."""
    operation: OperationType = OperationType.RECONCILE
    """The operation that is due, once `decide` has found it."""
    not_started: OperationType = OperationType.RECONCILE
    """The operation of which no task could start, for the status."""

    @property
    def object(self) -> Object:
        """The Shoot."""
        return self.live.shoot

    @property
    def seed(self) -> str:
        """The seed of this gardenlet."""
        return self.tools.config.seed

    def fail_to_start(self, operation: OperationType, message: str) -> Fault:
        """Return the fault of an operation that can't begin."""
        self.not_started = operation
        return Fault(ControllerReason.FLOW_NOT_STARTED, message)


async def read(attempt: Attempt) -> Outcome:
    """Read the Shoot live in the garden."""
    shoot = attempt.live.shoot
    try:
        attempt.live.shoot = await attempt.tools.garden.client.get(Shoot.resource, shoot.name, shoot.namespace)
    except NotFound:
        return Done()
    except KubeError as error:
        return Fault(ControllerReason.GARDEN_UNREACHABLE, f"the Shoot can't be read in the garden: {error}")
    return Continue()


async def check_claims(attempt: Attempt) -> Outcome:
    """Stop if objects in the seed that would be this shoot's belong to another one."""
    shoot = attempt.live.shoot
    message = attempt.observer.technical_id_conflict(shoot)
    if not message:
        return Continue()
    decoded = shoot.decode(Shoot)
    if seed_of(decoded) != attempt.seed:
        return Done()
    if decoded.metadata.deletion_timestamp is not None and not decoded.status.technical_id:
        await attempt.tools.garden.remove_finalizer(Shoot.resource, shoot, FINALIZER)  # nothing was created for it
        return Done()
    return Wait(ControllerReason.TECHNICAL_ID_TAKEN, message, after=60)


async def observe_shoot(attempt: Attempt) -> Outcome:
    """Observe the shoot. Raises `OwnershipError`."""
    attempt.scope = attempt.observer.scope(attempt.live, attempt.began)
    return Continue()


async def check_epochs(attempt: Attempt) -> Outcome:
    """Stop if the garden knows an older epoch than what is here: nothing may begin anew beside it, or be handed over
    as if nothing had happened since."""
    scope = attempt.scope
    if scope.later_epoch is None or seed_of(scope.shoot) != attempt.seed:
        return Continue()
    attempt.not_started = OperationType.MIGRATE if migrating(scope.shoot) else OperationType.RECONCILE
    epoch = f"epoch {scope.epoch}" if scope.epoch else "none"
    return Fault(
        ControllerReason.FLOW_NOT_STARTED,
        f"metadata.annotations[{OWNERSHIP}]: found {epoch}, but the objects of the shoot in seed {attempt.seed} are of "
        f"epoch {scope.later_epoch}; restore it from a backup of the garden; nothing is done for the shoot until then",
    )


async def leave(attempt: Attempt) -> Outcome:
    """Remove the objects of an earlier epoch of the shoot. Its status is the new seed's: nothing is reported."""
    scope = attempt.scope
    if seed_of(scope.shoot) != attempt.seed:
        return await _run_leave(attempt) if _is_lost(scope) else Done()
    if scope.leftover_epoch is not None and scope.is_owner and scope.leftover_epoch < scope.epoch:
        return await _run_leave(attempt)  # of an earlier epoch of this seed
    return Continue()


async def begin(attempt: Attempt) -> Outcome:
    """Add our finalizer to the Shoot, and its identity to its status."""
    garden, scope, shoot = attempt.tools.garden, attempt.scope, attempt.live.shoot
    if shoot.metadata.deletion_timestamp is None:
        shoot = await garden.add_finalizer(Shoot.resource, shoot, FINALIZER)
    typed = shoot.decode(Shoot)
    wanted = status.identified(shoot, attempt.seed, scope.technical_id, attempt.began)
    attempt.live.shoot = await garden.status(Shoot.resource, shoot, wanted, Precondition.UID, before=typed.status)
    return Continue()


async def decide(attempt: Attempt) -> Outcome:
    """Find the operation that is due."""
    operation = operation_of(attempt.scope)
    if isinstance(operation, Fault):
        attempt.not_started = OperationType.MIGRATE
        return operation
    attempt.operation = operation
    return Done() if _is_over(attempt.live.shoot, operation) else Continue()


async def pass_on_request(attempt: Attempt) -> Outcome:
    """Pass a requested operation on to extension resources: to those that failed, and to all of a settled shoot. The
    flow waits for them as for any change. Gardener's API server turns a requested retry into a new generation."""
    live, tools = attempt.live, attempt.tools
    if not requested_operation(live.shoot.metadata, REQUESTS) and not _has_failed(live.shoot):
        return Continue()
    now = tools.clock.now()
    live.shoot = await tools.garden.status(
        Shoot.resource,
        live.shoot,
        status.retrying(live.shoot, now),
        Precondition.UID,
        before=live.shoot.decode(Shoot).status,
    )
    requested = requested_operation(live.shoot.metadata, REQUESTS)
    is_settled = attempt.operation is OperationType.RECONCILE and requested == RECONCILE
    for extension in attempt.observer.scope(live, now).extensions:
        metadata, last = extension.object.metadata, extension.typed.status.last_operation
        has_failed = last is not None and last.state in (OperationState.ERROR, OperationState.FAILED)
        if metadata.deletion_timestamp is None and (has_failed or (is_settled and not requested_operation(metadata))):
            request = {OPERATION: requested_operation(metadata) or RECONCILE, TIMESTAMP: now.isoformat()}
            patch = {"metadata": {"annotations": request}}
            await tools.seed.merge(extension.kind.resource, extension.object, patch, Precondition.UID)
    return Continue()


async def sync_cluster(attempt: Attempt) -> Outcome:
    """Update the Cluster in the seed, and renew its lease."""
    scope, timing = attempt.scope, attempt.tools.config.timing
    if not scope.is_owner and scope.cluster is None:
        return Continue()
    renews = clusters.may_renew(scope.shoot, attempt.seed)
    try:
        await clusters.sync(attempt.tools.seed, scope, attempt.began if renews else None, timing.lease_validity)
    except (KubeError, NameTaken) as error:
        message = f"the Cluster can't be read or written in the seed, so nothing was started: {error}"
        return attempt.fail_to_start(attempt.operation, message)
    return Continue()


async def claim_state(attempt: Attempt) -> Outcome:
    """Read the ShootState, and claim it for a restore."""
    live, states, scope = attempt.live, attempt.tools.states, attempt.scope
    live.state = await _shoot_state(attempt)
    if attempt.operation is OperationType.RESTORE and scope.is_owner and live.state is not None:
        if problem := _older_state(live.shoot, live.state):
            return attempt.fail_to_start(attempt.operation, problem)
        try:
            live.stored = await states.claim(live.shoot, scope.epoch, live.state)
        except (EpochOver, StaleState, UnreadableShootState) as error:
            return attempt.fail_to_start(attempt.operation, f"{error}")
    return Continue()


def _older_state(shoot: Object, state: Object) -> str:
    """The reason why a ShootState may not be restored: its last seed had stored a later one; empty if it may."""
    stored, reported = revision_of(state), revision_of(shoot)
    if stored >= reported:
        return ""
    return (
        f"ShootState {state.key}: metadata.annotations[{STATE_REVISION}]: found {stored or 'none'}, allowed: "
        f"{reported} or more, which its last seed reported; this is an older one. Restore a newer one from a backup "
        f"of the garden. If there is none, and what the shoot got since may be lost: kubectl annotate shootstate "
        f"{state.name} -n {state.namespace} --overwrite {STATE_REVISION}={reported}"
    )


async def advance(attempt: Attempt) -> Outcome:
    """Do whatever the flow can do now, and report its progress."""
    live, tools, operation = attempt.live, attempt.tools, attempt.operation
    flow_status = await _run(_flow(operation), attempt, operation)
    now = tools.clock.now()
    scope = attempt.observer.scope(live, now)
    if flow_status.is_done and operation is OperationType.MIGRATE:
        await _write(attempt, status.handed_over(scope, now), Precondition.VERSION)
        return Done()
    if flow_status.is_done and operation is OperationType.DELETE:
        await tools.states.release(live.shoot)
        # Gardener lets go of a Shoot only once its status says that it was deleted.
        await _write(attempt, status.reported(scope, operation, flow_status, tools.config.retry_for), Precondition.UID)
        await tools.garden.remove_finalizer(Shoot.resource, live.shoot, FINALIZER)
        return Done()
    if flow_status.is_done and operation is OperationType.RESTORE:
        await _record_restored(live, tools, scope)
    wanted = status.reported(scope, operation, flow_status, tools.config.retry_for)
    await _write(attempt, wanted, Precondition.UID)
    if requested_operation(live.shoot.metadata, REQUESTS):  # carried out: the result is in the status
        patch = {"metadata": {"annotations": dict.fromkeys((OPERATION, OLDER_OPERATION))}}
        live.shoot = await tools.garden.merge(Shoot.resource, live.shoot, patch, Precondition.UID)
    last = wanted.last_operation
    if last is not None and last.state == OperationState.FAILED:
        return Fault(ControllerReason.FAILED, last.description, terminal=True)
    return flow_status.outcome


async def _record_restored(live: Live, tools: GardenletTools, scope: Scope) -> None:
    """Record in the garden that this epoch has restored the shoot, before its status says so."""
    if not is_unrestored(scope.shoot):
        return
    patch = {"metadata": {"annotations": {RESTORED_EPOCH: str(scope.epoch)}}}
    live.shoot = await tools.garden.merge(Shoot.resource, live.shoot, patch)


STEPS: Sequence[Step[Attempt]] = (
    read,
    check_claims,
    observe_shoot,
    check_epochs,
    leave,
    begin,
    observe_shoot,  # again: `begin` has written to it
    decide,
    pass_on_request,
    sync_cluster,
    claim_state,
    advance,
)


def operation_of(scope: Scope) -> OperationType | Fault:
    """The operation that is due, or why none may begin."""
    shoot = scope.shoot
    operation = operation_of_shoot(shoot)
    if operation is OperationType.DELETE and restoring(shoot):
        return OperationType.RESTORE  # only what was restored here can be deleted here
    if operation is OperationType.MIGRATE and not migrating(shoot):
        if handover_has_begun(scope) and scope.is_started:
            return Fault(
                ControllerReason.HANDED_OVER,
                f"spec.seedName: found {shoot.spec.seed_name}, which has already handed over the shoot's etcd; "
                "allowed: another seed. The move can't be reverted; move the shoot to another seed, then back",
                terminal=True,
            )
        return OperationType.RESTORE  # cancelled before etcd was handed over: what was migrated is restored here
    return operation


def _is_lost(scope: Scope) -> bool:
    """True if this seed's objects of the shoot are useless: the garden has added an epoch of another seed."""
    return not scope.is_owner and scope.ownership.current is not None


def _is_over(shoot: Object, operation: OperationType) -> bool:
    """True if the operation has failed and nobody has changed anything since."""
    last = shoot.decode(Shoot).status.last_operation
    if last is None or not _has_failed(shoot) or last.type != operation:
        return False
    is_seen = shoot.decode(Shoot).status.observed_generation == shoot.metadata.generation
    return is_seen and not requested_operation(shoot.metadata, REQUESTS)


def _has_failed(shoot: Object) -> bool:
    last = shoot.decode(Shoot).status.last_operation
    return last is not None and last.state == OperationState.FAILED


async def _run_leave(attempt: Attempt) -> Outcome:
    return (await _run(LEAVE, attempt, OperationType.MIGRATE)).outcome


async def _shoot_state(attempt: Attempt) -> Object | None:
    """Read live: no cache has the content of all ShootStates."""
    try:
        return await attempt.tools.states.read(attempt.live.shoot)
    except (StaleState, Forbidden):
        return None


def _flow(operation: OperationType) -> Flow[ShootContext]:
    if operation is OperationType.MIGRATE:
        return MIGRATE
    return DELETE if operation is OperationType.DELETE else RECONCILE_FLOW


async def _run(flow: Flow[ShootContext], attempt: Attempt, operation: OperationType) -> FlowStatus:
    clock = attempt.tools.clock

    def observe() -> ShootContext:
        scope = attempt.observer.scope(attempt.live, clock.now())
        return ShootContext(scope, attempt.tools, attempt.live, operation)

    return await run(flow, observe, _guard(attempt) if flow is MIGRATE else None)


def _guard(attempt: Attempt) -> Guard:
    """Each task of a migration begins with a live read: the Shoot must be this seed's, and migrating."""
    live, seed, garden = attempt.live, attempt.seed, attempt.tools.garden

    async def check() -> Wait | Failure | None:
        shoot = live.shoot
        live_shoot = await garden.client.get(Shoot.resource, shoot.name, shoot.namespace)
        typed = live_shoot.decode(Shoot)
        if live_shoot.metadata.uid != shoot.metadata.uid or seed_of(typed) != seed or not migrating(typed):
            return Wait(TaskReason.PLAN_OUTDATED, "the Shoot changed meanwhile; reading it again", after=0.1)
        live.shoot = live_shoot
        return None

    return check


async def _write(attempt: Attempt, wanted: ShootStatus, precondition: Precondition) -> None:
    shoot = attempt.live.shoot
    before = shoot.decode(Shoot).status
    try:
        attempt.live.shoot = await attempt.tools.garden.status(
            Shoot.resource, shoot, wanted, precondition, before=before
        )
    except NotFound:
        return
