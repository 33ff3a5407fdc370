"""Tasks for extension resources: deploy them (restored if the shoot was moved), migrate them away, delete them.

The contract (`api/gardener/metadata_keys.py`): an order is an annotation, which the extension removes. Nothing that
existed before is created anew without a state: a restored resource is created with `wait-for-state`, gets its state,
and only then the order to restore.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from msgspec import Raw

from espalier.api import conditions
from espalier.api.gardener import metadata_keys, responsibility
from espalier.api.gardener.extension import Extended, ExtensionStatus
from espalier.api.gardener.operations import LastError, OperationState, OperationType
from espalier.api.gardener.shoot_state import ShootState
from espalier.api.meta import Tree
from espalier.kube.client import PatchType
from espalier.kube.objects import Object
from espalier.runtime.outcome import Continue, Done, Wait
from espalier.runtime.writer import Precondition
from espalier.shoots.extension.lease import LEASE_VALID
from espalier.shoots.flow.task import Act, Failure, Overdue, Verdict
from espalier.shoots.gardenlet.comparing import is_as_rendered, stamped
from espalier.shoots.gardenlet.context import Context
from espalier.shoots.gardenlet.rendering import Rendered
from espalier.shoots.gardenlet.scope import Found
from espalier.shoots.gardenlet.tasks.acts import SOON, act, gone, together
from espalier.shoots.state import digests
from espalier.shoots.state.document import digested
from espalier.shoots.state.found import FoundState, state_of
from espalier.shoots.state.merging import Found as Stored
from espalier.shoots.state.merging import Mode, is_current
from espalier.shoots.state.pieces import TruncatedState
from espalier.shoots.state.stored import StaleState

Kinds = tuple[type[Extended], ...]
CONFIRMED = {metadata_keys.CONFIRM_DELETION: "true"}


def deploy(*kinds: type[Extended]) -> Callable[[Context], Verdict]:
    """All resources of these kinds are as rendered, and their extensions have succeeded."""

    def look(ctx: Context) -> Verdict:
        return together(_deployed(ctx, one) for one in ctx.rendered if one.kind in kinds)

    return look


def stale(ctx: Context) -> Verdict:
    """Resources that are no longer rendered are deleted, with what their extensions made for them."""
    wanted = {(one.kind, one.name) for one in ctx.rendered}
    return together(_deleted(ctx, one) for one in ctx.scope.extensions if (one.kind, one.object.name) not in wanted)


def migrated(*kinds: type[Extended]) -> Callable[[Context], Verdict]:
    """All resources of these kinds were migrated: no extension acts on them any longer."""
    return lambda ctx: together(_migrated(ctx, one) for one in _of(ctx, kinds))


def carriable(ctx: Context) -> Verdict:
    """Nothing prevents the states from being carried: checked before anything is stopped."""
    problems = [f"{one.key}: {one.problem}" for one in _states(ctx) if one.problem]
    return Failure(f"the shoot can't be restored in another seed: {'; '.join(problems)}") if problems else Done()


def persisted(ctx: Context) -> Verdict:
    """The state of each resource is in the ShootState, so the resource may be deleted."""
    live = ctx.scope.state
    stored = digested(Object(live.raw)).decode(ShootState).extensions if live is not None else []
    missing = [str(one.key) for one in _states(ctx) if not is_current(stored, Stored((one,), frozenset()), Mode.MERGE)]
    if not missing:
        return Done()
    return Wait("StateNotPersisted", f"the state of {', '.join(missing)} is not in the ShootState yet", after=SOON)


def _states(ctx: Context) -> list[FoundState]:
    return [state_of(one.object, one.kind) for one in ctx.scope.extensions]


def removed(*kinds: type[Extended]) -> Callable[[Context], Verdict]:
    """All migrated resources of these kinds are gone. One that was not migrated is not deleted: its extension would
    delete the infrastructure behind it."""
    return lambda ctx: together(_removed(ctx, one) for one in _of(ctx, kinds))


def deleted(*kinds: type[Extended]) -> Callable[[Context], Verdict]:
    """All resources of these kinds are gone, and with them what their extensions created."""
    return lambda ctx: together(_deleted(ctx, one) for one in _of(ctx, kinds))


def _of(ctx: Context, kinds: Kinds) -> Iterable[Found]:
    return (one for one in ctx.scope.extensions if one.kind in kinds)


def _deployed(ctx: Context, wanted: Rendered) -> Verdict:
    live = ctx.scope.extension(wanted.kind, wanted.name)
    body = stamped(wanted.body)
    moved = ctx.operation is OperationType.RESTORE and ctx.scope.ownership.last_started is not None
    try:
        state = _stored(ctx, wanted) if moved else None
    except (StaleState, TruncatedState) as error:
        return Failure(f"{wanted.kind.__name__} {wanted.name}: {error}; it is not recreated without its state")
    if live is None:
        first = metadata_keys.WAIT_FOR_STATE if state is not None else metadata_keys.RESTORE
        return _apply(ctx, wanted, body, first if moved else metadata_keys.RECONCILE)
    status = live.decode(wanted.kind).status
    if live.metadata.deletion_timestamp is not None:
        why = f"; its extension: {status.last_error.description}" if status.last_error is not None else ""
        # No failure: a failed Shoot would go on only after an order to retry.
        said = f"{live.kind} {live.name} is being deleted and will then be recreated{why}"
        return _or_overdue(ctx, live, status, Wait("BeingDeleted", said, after=SOON))
    order = responsibility.order(live.metadata)
    if order == metadata_keys.WAIT_FOR_STATE:
        return _give_state(ctx, wanted, live, state)
    last = status.last_operation
    if order == metadata_keys.RESTORE and state is not None and _is_corrected(live, wanted.kind, state):
        return _give_state(ctx, wanted, live, state)
    is_away = last is not None and last.is_(OperationType.MIGRATE, OperationState.SUCCEEDED)
    if order == metadata_keys.MIGRATE or (is_away and order != metadata_keys.RESTORE):
        return _order(ctx, wanted.kind, live, metadata_keys.RESTORE)
    if order != metadata_keys.RESTORE and not is_as_rendered(live, body):
        return _apply(ctx, wanted, body, metadata_keys.RECONCILE)
    return _succeeded(ctx, live, status, order)


def _is_corrected(live: Object, kind: type[Extended], state: bytes) -> bool:
    """True if a restore has failed with another state than the ShootState has by now, and its extension has not
    changed it since: then its own one would be newer."""
    last = live.decode(kind).status.last_operation
    if last is None or last.state not in (OperationState.ERROR, OperationState.FAILED):
        return False
    found = state_of(live, kind)
    if found.problem:
        return False
    given, has, wanted = live.metadata.annotations.get(metadata_keys.GIVEN_STATE, ""), "", digests.of_value(state)
    if found.text:
        has = found.digest
    return wanted != given and has in (given, wanted)


def _succeeded(ctx: Context, live: Object, status: ExtensionStatus, order: str) -> Verdict:
    last, error = status.last_operation, status.last_error
    named = f"{live.kind} {live.name}"
    has_failed = last is not None and last.state in (OperationState.ERROR, OperationState.FAILED)
    if last is not None and has_failed and not _is_ordered_since(live, error):
        said = error.description if error is not None else last.description
        return Failure(f"{named}: {said}", tuple(error.codes) if error is not None else ())
    if order or last is None or not last.finished:
        said = f"{named}: its extension has not finished{f' to {order}' if order else ''}"
        return _or_overdue(ctx, live, status, Wait("ExtensionNotReady", said, SOON))
    return Done()


def _or_overdue(ctx: Context, live: Object, status: ExtensionStatus, wait: Wait) -> Verdict:
    """The wait for an extension, or an error once it has lasted for `extension_timeout`."""
    limit, since = ctx.tools.config.extension_timeout, _ordered_at(ctx, live)
    if since is None or (ctx.scope.now - since).total_seconds() <= limit:
        return wait
    lease = conditions.get(status.conditions, LEASE_VALID)
    error, last = status.last_error, status.last_operation
    said = error.description if error is not None else last.description if last is not None else ""
    if lease is not None and lease.status == "False" and responsibility.order(live.metadata) != metadata_keys.MIGRATE:
        said = lease.message
    told = f"the extension last said: {said}" if said else "the extension has said nothing"
    message = f"{wait.message}, for longer than {limit:g} seconds; check whether the extension runs, and its log"
    return Overdue(wait.reason, f"{message}; {told}", wait.after)


def _ordered_at(ctx: Context, live: Object) -> datetime | None:
    """The moment of the last order to the extension; None if no operation of the Shoot is known to be under way.

    Not before that operation began: what an extension does by itself has no order.
    """
    began, metadata = ctx.scope.shoot.status.retry_cycle_start_time, live.metadata
    ordered = metadata.annotations.get(metadata_keys.TIMESTAMP)
    times = [_time(one) for one in (began, ordered, metadata.creation_timestamp, metadata.deletion_timestamp)]
    return max((one for one in times if one is not None), default=None) if times[0] is not None else None


def _time(text: str | None) -> datetime | None:
    """A time with a zone, as others write it; None for anything else."""
    try:
        found = datetime.fromisoformat(text or "")
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def _is_ordered_since(live: Object, error: LastError | None) -> bool:
    """True if the order came after the error: the extension still reports the attempt before."""
    ordered = _time(live.metadata.annotations.get(metadata_keys.TIMESTAMP))
    failed = _time(error.last_update_time if error is not None else None)
    if ordered is None or failed is None:
        return False
    return bool(responsibility.order(live.metadata)) and failed < ordered.replace(microsecond=0)


def _stored(ctx: Context, wanted: Rendered) -> bytes | None:
    stored = ctx.live.stored
    return stored.state_for(wanted.kind.__name__, wanted.name, wanted.purpose) if stored is not None else None


def _apply(ctx: Context, wanted: Rendered, body: Tree, order: str) -> Act:
    metadata = body["metadata"]
    orders = {metadata_keys.OPERATION: order, metadata_keys.TIMESTAMP: _stamp(ctx)}
    ordered = {**body, "metadata": {**metadata, "annotations": {**metadata["annotations"], **orders}}}
    resource = wanted.kind.resource
    what = f"apply {resource.kind} {wanted.name}, to {order}"
    return act(what, lambda: ctx.tools.seed.apply(resource, ordered, lambda _resource, _found: ""))


def _give_state(ctx: Context, wanted: Rendered, live: Object, state: bytes | None) -> Verdict:
    """The state first, then the order: an extension that restores always finds the state."""
    if state is None:
        return Failure(
            f"{live.kind} {live.name} waits for its state, but the ShootState has none for it: restore the ShootState; "
            "it is not recreated without its state"
        )

    async def give() -> Continue | Wait | Failure:
        status: dict[str, Any] = {"state": Raw(state)}
        seen = {"uid": live.metadata.uid}
        if responsibility.order(live.metadata) != metadata_keys.WAIT_FOR_STATE:  # its extension may have saved another
            seen["resourceVersion"] = live.resource_version
        patched = await ctx.tools.seed.client.patch(
            wanted.kind.resource,
            live.name,
            live.namespace,
            patch={"metadata": seen, "status": status},
            type=PatchType.MERGE,
            subresource="status",
        )
        orders = {
            metadata_keys.OPERATION: metadata_keys.RESTORE,
            metadata_keys.TIMESTAMP: _stamp(ctx),
            metadata_keys.GIVEN_STATE: digests.of_value(state),
        }
        await ctx.tools.seed.merge(
            wanted.kind.resource, patched, {"metadata": {"annotations": orders}}, Precondition.UID
        )
        return Wait("ExtensionNotReady", f"{live.kind} {live.name}: restoring its state", SOON)

    return Act(f"give {live.kind} {live.name} its state, and request its restore", give)


def _order(ctx: Context, kind: type[Extended], live: Object, order: str) -> Act:
    orders = {metadata_keys.OPERATION: order, metadata_keys.TIMESTAMP: _stamp(ctx)}
    patch: Tree = {"metadata": {"annotations": orders}}
    what = f"request {order} of {live.kind} {live.name}"
    return act(what, lambda: ctx.tools.seed.merge(kind.resource, live, patch, Precondition.UID))


def _migrated(ctx: Context, found: Found) -> Verdict:
    live, status = found.object, found.typed.status
    order, last = responsibility.order(live.metadata), status.last_operation
    if order != metadata_keys.MIGRATE:
        if last is not None and last.is_(OperationType.MIGRATE, OperationState.SUCCEEDED):
            return Done()
        return _order(ctx, found.kind, live, metadata_keys.MIGRATE)
    return _succeeded(ctx, live, status, order)


def _is_migrated(found: Found) -> bool:
    last = found.typed.status.last_operation
    is_done = last is not None and last.is_(OperationType.MIGRATE, OperationState.SUCCEEDED)
    return is_done and not responsibility.order(found.object.metadata)


def _removed(ctx: Context, found: Found) -> Verdict:
    if not _is_migrated(found):
        named = f"{found.object.kind} {found.object.name}"
        return Wait("NotMigrated", f"{named} is not migrated yet: deleting it would delete its infrastructure", SOON)
    return _gone(ctx, found)


def _gone(ctx: Context, found: Found) -> Verdict:
    """The extension holds it by a finalizer, until it has done its part."""
    verdict = gone(ctx, found.kind.resource, found.object)
    return _or_overdue(ctx, found.object, found.typed.status, verdict) if isinstance(verdict, Wait) else verdict


def _deleted(ctx: Context, found: Found) -> Verdict:
    live, kind = found.object, found.kind
    if live.metadata.deletion_timestamp is not None:
        error = found.typed.status.last_error
        if error is not None:
            return Failure(f"{live.kind} {live.name}: {error.description}", tuple(error.codes))
        return _gone(ctx, found)
    if not CONFIRMED.items() <= live.metadata.annotations.items():
        patch: Tree = {"metadata": {"annotations": CONFIRMED}}
        what = f"confirm the deletion of {live.kind} {live.name}"
        return act(what, lambda: ctx.tools.seed.merge(kind.resource, live, patch, Precondition.UID))
    return _gone(ctx, found)


def _stamp(ctx: Context) -> str:
    return ctx.tools.clock.now().isoformat()
