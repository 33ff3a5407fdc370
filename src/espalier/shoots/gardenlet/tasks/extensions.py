"""Tasks for extension resources: deploy them (restored if the shoot was moved), migrate them away, delete them.

The contract (`api/gardener/vocabulary/metadata_keys.py`): an operation is requested by an annotation, which the
extension removes. Nothing that existed before is recreated without its state: a restored resource is created with
`wait-for-state`, gets its state, and only then the operation `restore`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from msgspec import Raw

from espalier.api import conditions
from espalier.api.gardener.extensions.extension import Extended, ExtensionStatus
from espalier.api.gardener.garden.shoot_state import ShootState
from espalier.api.gardener.responsibility import is_deleted_unconfirmed, is_deletion_confirmed, requested_operation
from espalier.api.gardener.times import past_time
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import LastError, OperationState, OperationType
from espalier.api.gardener.vocabulary.reasons import TaskReason
from espalier.api.meta import Tree
from espalier.kube.client import PatchType
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Continue, Done, Wait
from espalier.runtime.controllers.writer import Precondition
from espalier.shoots.extension import results
from espalier.shoots.extension.lease import LEASE_VALID
from espalier.shoots.flow.task import Action, Failure, Overdue, Verdict
from espalier.shoots.gardenlet.comparison import is_as_rendered, stamped
from espalier.shoots.gardenlet.context import ShootContext
from espalier.shoots.gardenlet.rendering import Rendered
from espalier.shoots.gardenlet.scope import ExtensionResource
from espalier.shoots.gardenlet.tasks import secrets
from espalier.shoots.gardenlet.tasks.acts import SOON, combined, delete_confirmed, delete_object, held_by, write_action
from espalier.shoots.state import digests
from espalier.shoots.state.document import Document, UnreadableShootState, digested, revision_of
from espalier.shoots.state.merging import RENDERED_KINDS, Mode, SeedStates, is_current
from espalier.shoots.state.pieces import TruncatedState
from espalier.shoots.state.resource_states import ResourceState, state_of
from espalier.shoots.state.store import later_epoch_problem
from espalier.shoots.state.stored import StaleState

Kinds = tuple[type[Extended], ...]


def deploy(*kinds: type[Extended]) -> Callable[[ShootContext], Verdict]:
    """All resources of these kinds are as rendered, and their extensions have succeeded."""

    def task(ctx: ShootContext) -> Verdict:
        return combined(_deploy(ctx, rendered) for rendered in ctx.rendered if rendered.kind in kinds)

    return task


def delete_stale(ctx: ShootContext) -> Verdict:
    """Resources that are no longer rendered are deleted, with what their extensions created for them, and so are their
    states in the ShootState."""
    wanted = {(rendered.kind, rendered.name) for rendered in ctx.rendered}
    verdict = combined(
        _delete(ctx, extension)
        for extension in ctx.scope.extensions
        if (extension.kind, extension.object.name) not in wanted
    )
    return _drop_states(ctx) if isinstance(verdict, Done) else verdict


def _drop_states(ctx: ShootContext) -> Verdict:
    """The ShootState has no states of resources that the shoot no longer needs. Only here they are dropped: a resource
    that is merely gone is restored with its state."""
    wanted = {(rendered.kind.__name__, rendered.name) for rendered in ctx.rendered}
    persisted = ctx.scope.persisted
    stale = {
        (extension.kind, extension.name)
        for extension in (persisted.extensions if persisted is not None else ())
        if extension.kind in RENDERED_KINDS and extension.name and (extension.kind, extension.name) not in wanted
    }
    if not stale:
        return Done()

    def edit(document: Document) -> None:
        document.set_entries(entry for entry in document.entries if (entry.state.kind, entry.state.name) not in stale)

    async def drop() -> Continue:
        ctx.live.state = await ctx.tools.states.change(ctx.live.shoot, ctx.scope.epoch, edit)
        return Continue()

    return Action(f"drop the states of {', '.join(' '.join(key) for key in sorted(stale))}", drop)


def migrate(*kinds: type[Extended]) -> Callable[[ShootContext], Verdict]:
    """All resources of these kinds were migrated: no extension acts on them any longer."""
    return lambda ctx: combined(_migrate(ctx, extension) for extension in _of_kinds(ctx, kinds))


def check_states(ctx: ShootContext) -> Verdict:
    """All states can be stored in the ShootState, and it has them and the secrets: checked before anything is
    stopped."""
    problems = [f"{state.key}: {state.problem}" for state in _states_in_seed(ctx) if state.problem]
    if problems:
        return Failure(f"the shoot can't be restored in another seed: {'; '.join(problems)}")
    live = ctx.scope.state
    if live is not None and (problem := later_epoch_problem(live, ctx.scope.epoch)):
        return Failure(problem)
    return combined((secrets.check(ctx), wait_until_persisted(ctx)))


def wait_until_persisted(ctx: ShootContext) -> Verdict:
    """The state of each resource is in the ShootState, so the resource may be deleted."""
    live = ctx.scope.state
    stored = digested(Object(live.raw)).decode(ShootState).extensions if live is not None else []
    missing = [
        str(state.key)
        for state in _states_in_seed(ctx)
        if not is_current(stored, SeedStates((state,), frozenset()), Mode.MERGE)
    ]
    if missing:
        return Wait(
            TaskReason.STATE_NOT_PERSISTED,
            f"the state of {', '.join(missing)} is not in the ShootState yet",
            after=SOON,
        )
    if live is not None and revision_of(live) < revision_of(ctx.live.shoot):
        return Wait(
            TaskReason.STATE_NOT_PERSISTED, "the ShootState is an older one; it is brought up to date", after=SOON
        )
    return Done()


def _states_in_seed(ctx: ShootContext) -> list[ResourceState]:
    return [state_of(extension.object, extension.kind) for extension in ctx.scope.extensions]


def delete_migrated(*kinds: type[Extended]) -> Callable[[ShootContext], Verdict]:
    """All migrated resources of these kinds are gone. One that was not migrated is not deleted: its extension would
    delete the infrastructure behind it."""
    return lambda ctx: combined(_delete_migrated(ctx, extension) for extension in _of_kinds(ctx, kinds))


def delete(*kinds: type[Extended]) -> Callable[[ShootContext], Verdict]:
    """All resources of these kinds are gone, and with them what their extensions created."""
    return lambda ctx: combined(_delete(ctx, extension) for extension in _of_kinds(ctx, kinds))


def _of_kinds(ctx: ShootContext, kinds: Kinds) -> Iterable[ExtensionResource]:
    return (extension for extension in ctx.scope.extensions if extension.kind in kinds)


def _deploy(ctx: ShootContext, wanted: Rendered) -> Verdict:
    live = ctx.scope.extension(wanted.kind, wanted.name)
    body = stamped(wanted.body)
    moved = ctx.operation is OperationType.RESTORE and ctx.scope.ownership.last_started is not None
    requested = requested_operation(live.metadata) if live is not None else ""
    # What has a state was created before, whatever the operation: it is restored, never created again.
    is_new = live is None or requested in (metadata_keys.WAIT_FOR_STATE, metadata_keys.RESTORE)
    if is_new and ctx.live.stored is None and _has_entry(ctx, wanted):
        return Action(
            f"read the state of {wanted.kind.__name__} {wanted.name}", lambda: _deploy_with_state(ctx, wanted)
        )
    try:
        state = _stored_state(ctx, wanted) if moved or is_new else None
    except (StaleState, TruncatedState) as error:
        return Failure(f"{wanted.kind.__name__} {wanted.name}: {error}; it is not recreated without its state")
    if live is None:
        first = metadata_keys.WAIT_FOR_STATE if state is not None else metadata_keys.RESTORE
        is_restored = moved or state is not None
        return _apply_and_request(ctx, wanted, body, first if is_restored else metadata_keys.RECONCILE)
    status = live.decode(wanted.kind).status
    if is_deleted_unconfirmed(live.metadata) and metadata_keys.finalizer(live.kind) in live.metadata.finalizers:
        return _release(ctx, wanted.kind, live, status)
    if live.metadata.deletion_timestamp is not None:
        why = f"; its extension: {status.last_error.description}" if status.last_error is not None else ""
        # No failure: a failed Shoot would continue only after a requested retry.
        message = f"{live.kind} {live.name} is being deleted{held_by(live)} and will then be recreated{why}"
        return _or_overdue(ctx, live, status, Wait(TaskReason.DELETING, message, after=SOON))
    if requested == metadata_keys.WAIT_FOR_STATE:
        return _write_state(ctx, wanted, live, state)
    last = status.last_operation
    if requested == metadata_keys.RESTORE and state is not None and _has_corrected_state(live, wanted.kind, state):
        return _write_state(ctx, wanted, live, state)
    is_migrated = last is not None and last.is_(OperationType.MIGRATE, OperationState.SUCCEEDED)
    if requested == metadata_keys.MIGRATE or (is_migrated and requested != metadata_keys.RESTORE):
        return _request_operation(ctx, wanted.kind, live, metadata_keys.RESTORE)
    if not is_as_rendered(live, body):  # a restore may fail because of what the spec lacks
        operation = metadata_keys.RESTORE if requested == metadata_keys.RESTORE else metadata_keys.RECONCILE
        return _apply_and_request(ctx, wanted, body, operation)
    return _wait_until_succeeded(ctx, live, status, requested)


def _release(ctx: ShootContext, kind: type[Extended], live: Object, status: ExtensionStatus) -> Verdict:
    """Have a resource released that somebody deleted without confirmation: what is behind it stays, and the resource is
    restored with its state when it is gone."""
    if requested_operation(live.metadata) != metadata_keys.MIGRATE:
        return _request_operation(ctx, kind, live, metadata_keys.MIGRATE)
    message = (
        f"{live.kind} {live.name} was deleted without {metadata_keys.CONFIRM_DELETION}: its extension releases it, and "
        "it will then be restored"
    )
    return _or_overdue(ctx, live, status, Wait(TaskReason.DELETING, message, after=SOON))


def release_all(ctx: ShootContext) -> Verdict:
    """All resources that are being deleted without confirmation, as with their namespace, are released."""
    return combined(
        _release(ctx, extension.kind, extension.object, extension.typed.status)
        for extension in ctx.scope.extensions
        if is_deleted_unconfirmed(extension.object.metadata)
        and metadata_keys.finalizer(extension.object.kind) in extension.object.metadata.finalizers
    )


def _has_corrected_state(live: Object, kind: type[Extended], state: bytes) -> bool:
    """True if a restore has failed, the ShootState has another state by now, and the extension has not saved a newer
    one itself."""
    last = live.decode(kind).status.last_operation
    if last is None or last.state not in (OperationState.ERROR, OperationState.FAILED):
        return False
    present = state_of(live, kind)
    if present.problem:
        return False
    given_digest, wanted = live.metadata.annotations.get(metadata_keys.GIVEN_STATE, ""), digests.of_value(state)
    digest = present.digest if present.text else ""
    return wanted != given_digest and digest in (given_digest, wanted)


def _wait_until_succeeded(ctx: ShootContext, live: Object, status: ExtensionStatus, requested: str) -> Verdict:
    last, error = status.last_operation, status.last_error
    resource = f"{live.kind} {live.name}"
    has_failed = last is not None and last.state in (OperationState.ERROR, OperationState.FAILED)
    if last is not None and has_failed and not _is_requested_since(ctx, live, error):
        message = error.description if error is not None else last.description
        return Failure(f"{resource}: {message}", tuple(error.codes) if error is not None else ())
    if requested or last is None or not last.finished:
        message = f"{resource}: its extension has not finished{f' to {requested}' if requested else ''}"
        return _or_overdue(ctx, live, status, Wait(TaskReason.EXTENSION_NOT_READY, message, SOON))
    if problem := results.problem(live):
        return _or_overdue(ctx, live, status, Wait(TaskReason.RESULTS_CHANGED, problem, SOON))
    return Done()


def _or_overdue(ctx: ShootContext, live: Object, status: ExtensionStatus, wait: Wait) -> Verdict:
    """The wait for an extension, or an error once it has lasted for `extension_timeout`."""
    limit, since = ctx.tools.config.extension_timeout, _requested_at(ctx, live)
    if since is None or (ctx.scope.now - since).total_seconds() <= limit:
        return wait
    lease = conditions.get(status.conditions, LEASE_VALID)
    error, last = status.last_error, status.last_operation
    report = error.description if error is not None else last.description if last is not None else ""
    advice = "see its log" if last is not None else "check whether the extension runs, and its log"
    if lease is not None and lease.status == "False" and requested_operation(live.metadata) != metadata_keys.MIGRATE:
        report = lease.message
    last_report = f"the extension last said: {report}" if report else "the extension has said nothing"
    message = f"{wait.message}, for longer than {limit:g} seconds; {advice}"
    return Overdue(wait.reason, f"{message}; {last_report}", wait.after)


def _requested_at(ctx: ShootContext, live: Object) -> datetime | None:
    """The time at which an operation was last requested of the extension; None if no operation of the Shoot is known to
    be running.

    Not before the Shoot's operation began: what an extension does by itself was not requested.
    """
    began, metadata = ctx.scope.shoot.status.retry_cycle_start_time, live.metadata
    requested = metadata.annotations.get(metadata_keys.TIMESTAMP)
    texts = (began, requested, metadata.creation_timestamp, metadata.deletion_timestamp)
    times = [past_time(text, ctx.scope.now) for text in texts]
    return max((time for time in times if time is not None), default=None) if times[0] is not None else None


def _is_requested_since(ctx: ShootContext, live: Object, error: LastError | None) -> bool:
    """True if the operation was requested after the error: the extension still reports the attempt before."""
    requested = past_time(live.metadata.annotations.get(metadata_keys.TIMESTAMP), ctx.scope.now)
    failed = past_time(error.last_update_time if error is not None else None, ctx.scope.now)
    if requested is None or failed is None:
        return False
    return bool(requested_operation(live.metadata)) and failed < requested.replace(microsecond=0)


def _stored_state(ctx: ShootContext, wanted: Rendered) -> bytes | None:
    stored = ctx.live.stored
    return stored.state_for(wanted.kind.__name__, wanted.name, wanted.purpose) if stored is not None else None


def _has_entry(ctx: ShootContext, wanted: Rendered) -> bool:
    persisted, kind = ctx.scope.persisted, wanted.kind.__name__
    entries = persisted.extensions if persisted is not None else []
    return any((entry.kind, entry.name or wanted.name) == (kind, wanted.name) for entry in entries)


async def _deploy_with_state(ctx: ShootContext, wanted: Rendered) -> Continue | Wait | Failure:
    """Deploy a resource with its state, as read again: resources may have gone, and their states changed, since the
    reconcile began."""
    states = ctx.tools.states
    try:
        ctx.live.state = await states.read(ctx.live.shoot)
        ctx.live.stored = await states.stored(ctx.live.state) if ctx.live.state is not None else None
    except (StaleState, UnreadableShootState) as error:
        return Failure(f"{error}")
    if ctx.live.stored is None:
        return Wait(TaskReason.PLAN_OUTDATED, "there is no ShootState any more; reading it again", after=SOON)
    verdict = _deploy(ctx, wanted)
    if isinstance(verdict, Action):
        return await verdict.run()
    if isinstance(verdict, Overdue):
        return Wait(verdict.reason, verdict.message, verdict.after)
    return Continue() if isinstance(verdict, Done) else verdict


def _apply_and_request(ctx: ShootContext, wanted: Rendered, body: Tree, operation: str) -> Action:
    metadata = body["metadata"]
    request = {metadata_keys.OPERATION: operation, metadata_keys.TIMESTAMP: _timestamp(ctx)}
    annotated = {**body, "metadata": {**metadata, "annotations": {**metadata["annotations"], **request}}}
    resource = wanted.kind.resource
    what = f"apply {resource.kind} {wanted.name}, to {operation}"
    return write_action(what, lambda: ctx.tools.seed.apply(resource, annotated, lambda _resource, _object: ""))


def _write_state(ctx: ShootContext, wanted: Rendered, live: Object, state: bytes | None) -> Verdict:
    """Write the state first, then request the restore: an extension that restores always finds the state."""
    if state is None:
        return Failure(
            f"{live.kind} {live.name} waits for its state, but the ShootState has none for it: restore the ShootState; "
            "it is not recreated without its state"
        )

    async def write() -> Continue | Wait | Failure:
        status: dict[str, Any] = {"state": Raw(state)}
        precondition = {"uid": live.metadata.uid}
        if requested_operation(live.metadata) != metadata_keys.WAIT_FOR_STATE:  # its extension may have saved a state
            precondition["resourceVersion"] = live.resource_version
        patched = await ctx.tools.seed.client.patch(
            wanted.kind.resource,
            live.name,
            live.namespace,
            patch={"metadata": precondition, "status": status},
            type=PatchType.MERGE,
            subresource="status",
        )
        request = {
            metadata_keys.OPERATION: metadata_keys.RESTORE,
            metadata_keys.TIMESTAMP: _timestamp(ctx),
            metadata_keys.GIVEN_STATE: digests.of_value(state),
        }
        await ctx.tools.seed.merge(
            wanted.kind.resource, patched, {"metadata": {"annotations": request}}, Precondition.UID
        )
        return Wait(TaskReason.EXTENSION_NOT_READY, f"{live.kind} {live.name}: restoring its state", SOON)

    return Action(f"give {live.kind} {live.name} its state, and request its restore", write)


def _request_operation(ctx: ShootContext, kind: type[Extended], live: Object, operation: str) -> Action:
    request = {metadata_keys.OPERATION: operation, metadata_keys.TIMESTAMP: _timestamp(ctx)}
    patch: Tree = {"metadata": {"annotations": request}}
    what = f"request {operation} of {live.kind} {live.name}"
    return write_action(what, lambda: ctx.tools.seed.merge(kind.resource, live, patch, Precondition.UID))


def _migrate(ctx: ShootContext, extension: ExtensionResource) -> Verdict:
    live = extension.object
    requested = requested_operation(live.metadata)
    if requested == metadata_keys.MIGRATE:
        return _wait_until_succeeded(ctx, extension.object, extension.typed.status, requested)
    return Done() if _is_migrated(extension) else _request_operation(ctx, extension.kind, live, metadata_keys.MIGRATE)


def _is_migrated(extension: ExtensionResource) -> bool:
    """True if its extension has released the resource: by its status, and by the finalizer, which it has removed. As
    long as that is there, deleting the resource would wait for ever, or delete what is behind it."""
    metadata, last = extension.object.metadata, extension.typed.status.last_operation
    is_done = last is not None and last.is_(OperationType.MIGRATE, OperationState.SUCCEEDED)
    has_finalizer = metadata_keys.finalizer(extension.object.kind) in metadata.finalizers
    return is_done and not requested_operation(metadata) and not has_finalizer


def _delete_migrated(ctx: ShootContext, extension: ExtensionResource) -> Verdict:
    if not _is_migrated(extension):
        resource = f"{extension.object.kind} {extension.object.name}"
        return Wait(
            TaskReason.NOT_MIGRATED,
            f"{resource} is not migrated yet: deleting it would delete its infrastructure",
            SOON,
        )
    return _deleted(ctx, extension, delete_object(ctx, extension.kind.resource, extension.object))


def _deleted(ctx: ShootContext, extension: ExtensionResource, verdict: Verdict) -> Verdict:
    """The verdict on a deletion, which waits until the extension removes its finalizer."""
    return _or_overdue(ctx, extension.object, extension.typed.status, verdict) if isinstance(verdict, Wait) else verdict


def _delete(ctx: ShootContext, extension: ExtensionResource) -> Verdict:
    live, error = extension.object, extension.typed.status.last_error
    if error is not None and live.metadata.deletion_timestamp is not None and is_deletion_confirmed(live.metadata):
        return Failure(f"{live.kind} {live.name}: {error.description}", tuple(error.codes))
    return _deleted(ctx, extension, delete_confirmed(ctx, extension.kind.resource, live))


def _timestamp(ctx: ShootContext) -> str:
    return ctx.tools.clock.now().isoformat()
