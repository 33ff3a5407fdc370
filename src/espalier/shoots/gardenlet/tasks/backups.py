"""Tasks for backups and etcd: BackupEntries, the copy from the predecessor, the wait for its lease, the Etcd itself."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

import msgspec

from espalier.api.core import SECRET
from espalier.api.definitions.reference import Label, Writer
from espalier.api.etcd.calls import CopyOperationStatus, InitiateCopyOperation
from espalier.api.etcd.ownership import Status
from espalier.api.gardener import names
from espalier.api.gardener.etcd import Etcd
from espalier.api.gardener.garden.backups import BackupEntry
from espalier.api.gardener.garden.shoot import Shoot
from espalier.api.gardener.ownership import OwnershipError
from espalier.api.gardener.times import past_time
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import OperationState, OperationType, reported_by
from espalier.api.gardener.vocabulary.reasons import ShootReason, TaskReason
from espalier.api.meta import Tree
from espalier.api.trees import json_trees
from espalier.kube.errors import Conflict
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Continue, Done, Wait
from espalier.runtime.controllers.writer import Precondition
from espalier.shoots.flow.task import Action, Failure, Verdict
from espalier.shoots.gardenlet import rendering
from espalier.shoots.gardenlet.context import ShootContext
from espalier.shoots.gardenlet.names import BACKUPS_SINCE, COPIED_EPOCH, INITIATED_AT, SEED_MISSING, WOKEN_AT
from espalier.shoots.gardenlet.scope import Scope
from espalier.shoots.gardenlet.tasks import control_plane, secrets
from espalier.shoots.gardenlet.tasks.acts import (
    SOON,
    apply_object,
    combined,
    delete_confirmed,
    delete_object,
    write_action,
)

LONGEST_HOLD = 5.0
"""The longest time in seconds for which an agent may delay its answer."""
SHORTEST_POLL = 0.1
"""The shortest time in seconds between two requests to an agent."""
COPY_POLL = 0.2
"""Seconds between two requests to the agent of a copy that has just begun."""
ASKED_AFTER = 10.0
"""Seconds after which the agent of an Etcd is asked what it waits for: most are ready by then."""
LARGEST_ANSWER = 64 * 1024
"""The largest answer of an agent that is read, in bytes."""
_MISSING_SECRET = Wait(TaskReason.PLAN_OUTDATED, "the Secret of etcd's members was written and is not seen yet", SOON)

OWNER_LABEL: Annotated[str, Label("BackupEntry", Writer.GARDENLET, "Name of its Shoot.")] = (
    metadata_keys.DOMAIN + "shoot"
)


# Destination.


def wait_for_ownership(ctx: ShootContext) -> Verdict:
    """The garden has added an ownership epoch for this seed."""
    scope = ctx.scope
    if scope.is_owner:
        return Done()
    current = scope.ownership.current
    owner = f"epoch {current.epoch} of seed {current.seed}" if current is not None else "none"
    return Wait(
        TaskReason.EPOCH_MISSING,
        f"waiting for the garden to add an ownership epoch for this seed; it has {owner}",
        SOON,
    )


def deploy_backup_entry(ctx: ShootContext) -> Verdict:
    """The shoot's BackupEntry is in this seed's bucket, and its Secret in the namespace.

    It moves with the shoot. If there is none, the shoot's deletion has deleted it, and the backups with it.
    """
    scope = ctx.scope
    current = scope.ownership.current
    bucket = current.bucket if current is not None else ""
    is_deleted = scope.object.metadata.deletion_timestamp is not None
    annotations = {BACKUPS_SINCE: str(scope.epoch)} if is_deleted and not scope.is_started else {}
    live, secret = scope.backup_entry, names.BACKUP_SECRET
    return _deploy_entry(ctx, scope.entry_name, live, bucket, secret, annotations, takes_over=is_deleted)


def deploy_source_backup_entry(ctx: ShootContext) -> Verdict:
    """The BackupEntry of the predecessor's bucket exists, and its Secret is in the namespace."""
    before = ctx.scope.ownership.predecessor
    bucket = before.bucket if before is not None else ""
    live, secret = ctx.scope.source_backup_entry, names.SOURCE_BACKUP_SECRET
    return _deploy_entry(ctx, ctx.scope.source_entry_name, live, bucket, secret, {}, takes_over=True)


def _deploy_entry(
    ctx: ShootContext,
    name: str,
    live: Object | None,
    bucket: str,
    secret: str,
    annotations: Mapping[str, str],
    *,
    takes_over: bool,
) -> Verdict:
    """Create or move a BackupEntry, and wait until it is ready. `annotations`: those of a new one. `takes_over`: one
    that a lost seed was deleting is moved here, and its deletion is finished here."""
    tools, shoot = ctx.tools, ctx.live.shoot
    spec: Tree = {"bucketName": bucket, "seedName": ctx.scope.seed_name}
    resource = BackupEntry.resource
    if live is None:
        owner = {"apiVersion": Shoot.resource.api_version, "kind": "Shoot", "name": shoot.name}
        body = {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "metadata": {
                "name": name,
                "namespace": shoot.namespace,
                "labels": {OWNER_LABEL: shoot.name},
                "annotations": dict(annotations),
                "ownerReferences": [{**owner, "uid": shoot.metadata.uid, "controller": True}],
            },
            "spec": spec,
        }
        return write_action(f"create BackupEntry {name}", lambda: tools.garden.create(resource, body))
    typed = live.decode(BackupEntry)
    is_deleted = live.metadata.deletion_timestamp is not None
    if is_deleted and (not takes_over or typed.spec.seed_name == ctx.scope.seed_name):
        return Wait(TaskReason.DELETING, f"BackupEntry {name} is being deleted", SOON)
    if (typed.spec.bucket_name, typed.spec.seed_name) != (bucket, ctx.scope.seed_name):
        # Nothing has been copied into that bucket yet, whatever somebody has written there.
        moved: Tree = {"spec": spec, "metadata": {"annotations": {COPIED_EPOCH: None}}}
        return write_action(
            f"move BackupEntry {name} to bucket {bucket}", lambda: tools.garden.merge(resource, live, moved)
        )
    last = typed.status.last_operation
    is_ready = last is not None and last.finished and typed.status.seed_name == ctx.scope.seed_name
    if not is_ready or ctx.scope.secrets.get(secret) is None:
        error = typed.status.last_error
        if error is not None and last is not None and last.state in (OperationState.ERROR, OperationState.FAILED):
            return Failure(f"BackupEntry {name}: {error.description}", tuple(error.codes))
        why = reported_by(last, error) or f", or Secret {secret} does not exist yet"
        return Wait(TaskReason.BACKUP_ENTRY_NOT_READY, f"BackupEntry {name} is not ready{why}", SOON)
    return Done()


def skip_copy(ctx: ShootContext) -> str:
    """The reason why no backups have to be copied; empty if they have to."""
    if ctx.scope.is_emptied:
        return "the backups were deleted by the shoot's deletion"
    return skip_lease_wait(ctx)


def skip_lease_wait(ctx: ShootContext) -> str:
    """The reason why no other seed can act for the shoot; empty if one may."""
    if ctx.scope.ownership.predecessor is None:
        return "the shoot's etcd starts with this epoch"
    return "this epoch has already started" if ctx.scope.is_started else ""


def copy_backups(ctx: ShootContext) -> Verdict:
    """All backups of the predecessor are copied, as recorded on the BackupEntry."""
    scope = ctx.scope
    if scope.is_copied:
        return Done()
    if scope.etcd is not None and not _is_copy(scope):
        return delete_confirmed(ctx, Etcd.resource, scope.etcd)  # of an epoch that never started
    if missing := _missing_store(scope):
        return missing
    if not rendering.peer_secret(scope):
        return _MISSING_SECRET
    live = scope.typed_etcd
    verdict = apply_object(ctx, Etcd.resource, scope.etcd, rendering.copy_etcd(scope))
    if not isinstance(verdict, Done) or live is None:
        return verdict
    entry = scope.backup_entry
    message = f"copying backups of epoch {_source_epoch(scope)}"
    if entry is not None and (scope.is_etcd_ready or _is_new(live, scope)):
        return Action("ask whether all backups are copied", lambda: _record_copied(ctx, entry, scope.is_etcd_ready))
    if not scope.is_etcd_ready:
        advice = f"if there are no backups, delete BackupEntry {scope.entry_name}: a deleted shoot needs none"
        is_deleted = scope.object.metadata.deletion_timestamp is not None
        return _with_problems(ctx, live, Wait(TaskReason.COPYING, message, SOON), advice if is_deleted else "")
    return Wait(TaskReason.BACKUP_ENTRY_NOT_READY, f"BackupEntry {scope.entry_name} does not exist", SOON)


def _is_new(live: Etcd, scope: Scope) -> bool:
    """True for an Etcd as it was created, in its first seconds: its agent is asked, because a probe may come a second
    after the copy is done. After a change of the spec a pod may still copy something else."""
    metadata = live.metadata
    return metadata.generation == 1 and metadata.deletion_timestamp is None and _age(live, scope) < ASKED_AFTER


def _age(live: Etcd, scope: Scope) -> float:
    """Seconds since its creation."""
    created = live.metadata.creation_timestamp
    return (scope.now - datetime.fromisoformat(created)).total_seconds() if created else 0.0


async def _record_copied(ctx: ShootContext, entry: Object, is_ready: bool) -> Continue | Wait | Failure:
    """Record the end of a copy, which its agent must confirm: anybody with rights on the status of the Etcd can write
    there that it is ready, and the copy would be broken off."""
    epoch = ctx.scope.epoch
    message = f"copying backups of epoch {_source_epoch(ctx.scope)}"
    try:
        async with asyncio.timeout(LONGEST_HOLD):
            text = await ctx.call_agent("copyop/status", b"")
        answer = json_trees.decode(text[:LARGEST_ANSWER], CopyOperationStatus)
    except Exception as error:  # a call may fail in any way; it is repeated
        if not is_ready:
            return Wait(TaskReason.COPYING, message, COPY_POLL)  # its pod is being started
        problem = f"etcd-main is ready, but its agent does not confirm the copy: {error or type(error).__name__}"
        return Wait(TaskReason.AGENT_UNREACHABLE, problem, ctx.tools.config.agent_poll)
    if answer.epoch != epoch or answer.message:
        reason = answer.message or f"it copies for epoch {answer.epoch}, not {epoch}"
        return Wait(
            TaskReason.COPYING, f"{message}: {reason}" if is_ready else message, SOON if is_ready else COPY_POLL
        )
    patch: Tree = {"metadata": {"annotations": {COPIED_EPOCH: str(epoch)}}}
    await ctx.tools.garden.merge(BackupEntry.resource, entry, patch, Precondition.UID)
    return Wait(TaskReason.OBJECT_WRITTEN, f"the copy for epoch {epoch} is recorded as complete", SOON)


def _with_problems(ctx: ShootContext, live: Etcd, wait: Wait, advice: str = "") -> Verdict:
    """Add to a wait for an Etcd the errors in its status, and after `ASKED_AFTER` seconds the answer of its agent, with
    advice."""
    errors = [error.description for error in live.status.last_errors]

    def with_problems(*problems: str) -> Wait:
        listed = "; ".join(filter(None, problems))
        return Wait(wait.reason, f"{wait.message}: {listed}" if listed else wait.message, SOON)

    async def ask_agent() -> Wait:
        try:
            async with asyncio.timeout(SOON):
                text = await ctx.call_agent("copyop/status", b"")
            answer = json_trees.decode(text[:LARGEST_ANSWER], CopyOperationStatus).message
        except Exception as error:  # a call may fail in any way; it is repeated
            answer = f"the agent of etcd-main: {error or type(error).__name__}"
        return with_problems(*errors, answer, advice)

    is_asked = _age(live, ctx.scope) >= ASKED_AFTER
    return Action("ask the agent of etcd-main", ask_agent) if is_asked else with_problems(*errors)


def delete_copy_etcd(ctx: ShootContext) -> Verdict:
    """The Etcd that copied backups is gone."""
    return delete_object(ctx, Etcd.resource, ctx.scope.etcd) if _is_copy(ctx.scope) else Done()


def delete_source_backup_entry(ctx: ShootContext) -> Verdict:
    """The predecessor's BackupEntry is gone, and with it this seed's credentials for its bucket. The data stay."""
    live = ctx.scope.source_backup_entry
    if live is not None:
        return _delete_entry(ctx, live)
    secret = ctx.scope.secrets.get(names.SOURCE_BACKUP_SECRET)
    return delete_object(ctx, SECRET, secret)


def wait_for_source_lease(ctx: ShootContext) -> Verdict:
    """No extension of the predecessor's seed acts any longer: its lease has certainly expired (G62).

    Counted from this process's first observation of a finished copy, so a crash restarts the count.
    """
    scope, tools = ctx.scope, ctx.tools
    before = scope.ownership.predecessor
    if before is not None and ctx.live.shoot.metadata.annotations.get(metadata_keys.RELEASED_EPOCH) == str(
        before.epoch
    ):
        return Done()
    key = ctx.live.shoot.key
    value = f"{scope.uid}/{scope.epoch}"
    seconds = tools.config.timing.lease_wait
    seed = before.seed if before is not None else ""
    wait = Wait(
        TaskReason.SOURCE_LEASE_NOT_EXPIRED,
        f"extensions of seed {seed} may still act for up to {seconds:g} seconds, until their lease expires",
    )
    if tools.lease_waits.has_expired(key, value):
        return Done()
    if tools.lease_waits.is_valid(key, value):
        return wait

    async def begin() -> Continue | Wait | Failure:
        tools.lease_waits.keep(key, value, seconds)
        return wait

    return Action("start waiting for the source's lease to expire", begin)


def record_start(ctx: ShootContext) -> Verdict:
    """The garden knows that this epoch's etcd starts: from now on it is the source of the next move."""
    scope = ctx.scope
    if scope.is_started:
        return Done()

    async def record() -> Continue | Wait | Failure:
        try:
            ownership = scope.ownership.start(scope.epoch, scope.seed_name)
        except OwnershipError as error:
            return Failure(str(error))
        return await _annotate(ctx, ctx.live.shoot, metadata_keys.OWNERSHIP, ownership.render())

    return Action(f"record in the garden that epoch {scope.epoch} starts", record)


def deploy_etcd(ctx: ShootContext) -> Verdict:
    """The shoot's etcd of this epoch runs, or is hibernated with the shoot. Of three members one is enough: it serves,
    and the others join while API servers start."""
    scope = ctx.scope
    if not scope.is_started:
        return Wait(TaskReason.EPOCH_NOT_STARTED, "the start of this epoch is not recorded in the garden yet", SOON)
    if _is_copy(scope):
        return delete_object(ctx, Etcd.resource, scope.etcd)
    if missing := _missing_store(scope):
        return missing
    replicas = 0 if scope.is_hibernated else scope.etcd_members
    if replicas and not rendering.peer_secret(scope):
        return _MISSING_SECRET
    verdict = apply_object(ctx, Etcd.resource, scope.etcd, rendering.etcd(scope, replicas=replicas))
    live = scope.typed_etcd
    if not isinstance(verdict, Done) or live is None:
        return verdict
    if replicas == 0 or scope.is_etcd_ready or (replicas > 1 and _is_served(live, scope)):
        return Done()
    return _with_problems(ctx, live, Wait(TaskReason.ETCD_NOT_READY, "etcd-main is not ready", SOON))


def _missing_store(scope: Scope) -> Wait | None:
    """The wait for the Seed or the BackupBucket if the store of the Etcd is unknown without it."""
    if rendering.store_provider(scope):
        return None
    if scope.seed is None:
        return Wait(ShootReason.SEED_MISSING, f"there is no Seed {scope.seed_name} any more: {SEED_MISSING}", SOON)
    return Wait(TaskReason.BUCKET_MISSING, f"the BackupBucket of seed {scope.seed_name} does not exist yet", SOON)


# Source.


def handover_has_begun(scope: Scope) -> bool:
    """True if the agent was asked to hand etcd over, or the Etcd is gone."""
    return scope.etcd is None or INITIATED_AT in scope.etcd.metadata.annotations


def skip_wake(ctx: ShootContext) -> str:
    """The reason why etcd need not be ready before it is handed over (G72, G73); empty if it must be."""
    if ctx.scope.etcd is None:
        return "etcd-main is gone: it was handed over"
    return "a copy operation was initiated" if handover_has_begun(ctx.scope) else ""


def wake_etcd(ctx: ShootContext) -> Verdict:
    """A hibernated shoot's etcd runs: only an agent can hand it over (G74). Other shoots' etcds need not be ready,
    because their agents answer in any case."""
    scope, tools = ctx.scope, ctx.tools
    live, typed = scope.etcd, scope.typed_etcd
    if live is None or typed is None:
        return Done()
    if typed.spec.replicas == 0:
        spec = rendering.woken_etcd(scope)
        wake: Tree = {"metadata": {"annotations": {WOKEN_AT: scope.now.isoformat()}}, "spec": spec}
        return write_action("scale etcd-main up", lambda: tools.seed.merge(Etcd.resource, live, wake))
    since = past_time(live.metadata.annotations.get(WOKEN_AT), scope.now)
    if since is None or scope.is_etcd_ready:
        return Done()
    if (scope.now - since).total_seconds() > tools.config.timing.snapshot_timeout:
        return Done()  # it was hibernated, so its bucket has all that it could hand over
    return Wait(TaskReason.ETCD_NOT_READY, "etcd-main was scaled up and is not ready yet", SOON)


def hand_over_etcd(ctx: ShootContext) -> Verdict:
    """The agent has closed etcd for good and stored the final snapshot, or `copy_timeout` is over.

    `copyop/initiate` is repeated until the agent has read its own CopyOperation. `copy_timeout` counts from the first
    time that this process asks: with a time in an annotation, one that is too old would skip the final snapshot.
    """
    scope, tools = ctx.scope, ctx.tools
    live = scope.etcd
    if live is None:
        return Done()
    if not handover_has_begun(scope):
        patch: Tree = {"metadata": {"annotations": {INITIATED_AT: scope.now.isoformat()}}}
        return write_action(
            "record when the handover of etcd starts", lambda: tools.seed.merge(Etcd.resource, live, patch)
        )
    epoch = scope.leftover_epoch or scope.epoch
    if live.metadata.annotations.get(metadata_keys.EPOCH) != str(epoch):  # somebody has changed it
        mark: Tree = {"metadata": {"annotations": {metadata_keys.EPOCH: str(epoch)}}}
        return write_action("correct the epoch of etcd-main", lambda: tools.seed.merge(Etcd.resource, live, mark))
    if scope.lacks_peer_files and isinstance(missing := secrets.renew_peers(ctx), Action):
        return missing
    key, handover = ctx.live.shoot.key, f"hand over {scope.uid}/{scope.epoch}"
    if tools.handovers.has_expired(key, handover):
        return Done()  # its agent can't reach its store, so it serves nothing; the destination goes on without it

    async def initiate() -> Continue | Wait | Failure:
        if not tools.handovers.is_valid(key, handover):
            tools.handovers.keep(key, handover, tools.config.timing.copy_timeout)
        ended = control_plane.api_servers_ended(ctx)
        wait = min(tools.config.agent_poll, LONGEST_HOLD)
        request = InitiateCopyOperation(epoch=epoch, api_servers_ended=ended, wait_seconds=wait)
        body = msgspec.json.encode(request)
        try:
            began = tools.clock.monotonic()
            text = await ctx.call_agent("copyop/initiate", body)
            answer = json_trees.decode(text[:LARGEST_ANSWER], CopyOperationStatus)
        except Exception as error:  # a call may fail in any way; it is repeated until it times out
            return Wait(TaskReason.AGENT_UNREACHABLE, f"the agent of etcd-main: {error}", tools.config.agent_poll)
        operation = answer.copy_operation
        if operation is not None and operation.epoch == epoch and operation.status is not Status.INITIAL:
            return Continue()
        status = operation.status if operation is not None else "missing"
        reason = f": {answer.message}" if answer.message else ""
        took = tools.clock.monotonic() - began  # an agent that delays its answer has waited for us
        after = max(SHORTEST_POLL, tools.config.agent_poll - took)
        return Wait(TaskReason.FINAL_SNAPSHOT, f"the CopyOperation of epoch {epoch} is {status}{reason}", after)

    return Action("have the agent hand etcd over", initiate)


def record_release(ctx: ShootContext) -> Verdict:
    """The garden has a record that no extension of this seed acts for the shoot: the next seed need not wait."""
    live, scope = ctx.live.shoot, ctx.scope
    if not scope.is_owner:
        return Done()  # no epoch was added for it, and earlier epochs are not its own to release
    if live.metadata.annotations.get(metadata_keys.RELEASED_EPOCH) == str(scope.epoch):
        return Done()

    async def release() -> Continue | Wait:
        return await _annotate(ctx, live, metadata_keys.RELEASED_EPOCH, str(scope.epoch))

    return Action(f"record in the garden that epoch {scope.epoch} is released", release)


async def _annotate(ctx: ShootContext, live: Object, annotation: str, value: str) -> Continue | Wait:
    """Annotate the Shoot in the garden, unless it has changed since it was read."""
    patch: Tree = {"metadata": {"annotations": {annotation: value}}}
    try:
        ctx.live.shoot = await ctx.tools.garden.merge(Shoot.resource, live, patch)
    except Conflict:
        return Wait(TaskReason.PLAN_OUTDATED, "the Shoot changed meanwhile; reading it again", after=0.1)
    return Continue()


def delete_etcd(ctx: ShootContext) -> Verdict:
    """The Etcd is gone, with its data."""
    return delete_confirmed(ctx, Etcd.resource, ctx.scope.etcd)


def delete_backup_entries(ctx: ShootContext) -> Verdict:
    """The shoot's BackupEntries are gone, with the data in its bucket."""
    return combined(
        _delete_entry(ctx, live) for live in (ctx.scope.source_backup_entry, ctx.scope.backup_entry) if live is not None
    )


def _delete_entry(ctx: ShootContext, live: Object) -> Verdict:
    if live.metadata.deletion_timestamp is not None:
        return Wait(TaskReason.DELETING, f"BackupEntry {live.name} is being deleted", SOON)
    client, uid = ctx.tools.garden.client, live.metadata.uid
    return write_action(
        f"delete BackupEntry {live.name}",
        lambda: client.delete(BackupEntry.resource, live.name, live.namespace, uid=uid),
    )


def _is_copy(scope: Scope) -> bool:
    typed = scope.typed_etcd
    return typed is not None and typed.spec.backup.source_store is not None


def _is_served(typed: Etcd, scope: Scope) -> bool:
    """True if a member is ready: only one that may serve is, and it answers with a quorum."""
    live = scope.etcd
    if live is None or live.metadata.deletion_timestamp is not None:
        return False
    return typed.status.ready_replicas > 0 and typed.status.observed_generation >= live.metadata.generation


def _source_epoch(scope: Scope) -> int:
    before = scope.ownership.predecessor
    return before.epoch if before is not None else 0


def wait_for_successor(ctx: ShootContext) -> Verdict:
    """This seed's Etcd is no longer needed: the seed that has the shoot now has started its own.

    If that is this seed again, in a later epoch, the etcd of the earlier one is handed over as in a migration.
    """
    scope = ctx.scope
    current, last = scope.ownership.current, scope.ownership.last_started
    if ctx.operation is OperationType.DELETE:
        return Done()  # the Shoot is gone
    if scope.is_owner:
        is_needed = last is not None and last.epoch == scope.leftover_epoch and not _is_copy(scope)
        return hand_over_etcd(ctx) if is_needed else Done()
    if current is not None and current.started:
        return Done()
    seed = current.seed if current is not None else ""
    return Wait(
        TaskReason.SUCCESSOR_NOT_STARTED,
        f"seed {seed} has not started the shoot's etcd yet: keeping this seed's until then",
    )
