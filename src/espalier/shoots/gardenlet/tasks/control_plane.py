"""Tasks for the namespace and the control plane's Deployments: start them in order, and stop them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any
from zlib import crc32

from espalier.api import conditions
from espalier.api.core import DEPLOYMENT, NAMESPACE, ROLE_BINDING, SERVICE, SERVICE_ACCOUNT
from espalier.api.gardener.extensions.cluster import Cluster
from espalier.api.gardener.extensions.worker import Worker
from espalier.api.gardener.garden.shoot import READY_FOR_MIGRATION
from espalier.api.gardener.responsibility import is_deleted_unconfirmed, requested_operation
from espalier.api.gardener.vocabulary import metadata_keys
from espalier.api.gardener.vocabulary.operations import OperationState, OperationType
from espalier.api.gardener.vocabulary.reasons import ShootReason, TaskReason
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.api.text.listing import first
from espalier.kube.errors import KubeError
from espalier.kube.objects import Object
from espalier.runtime.controllers.outcome import Continue, Done, Wait
from espalier.runtime.controllers.writer import found_by_owner
from espalier.shoots.flow.task import Action, Failure, Verdict
from espalier.shoots.gardenlet import rendering
from espalier.shoots.gardenlet.comparison import digest_of, is_as_rendered, stamped
from espalier.shoots.gardenlet.context import ShootAPIs, ShootContext
from espalier.shoots.gardenlet.destination import needs
from espalier.shoots.gardenlet.names import API_SERVER, CONTROLLER_MANAGER, MACHINE_CONTROLLER_MANAGER, SCHEDULER
from espalier.shoots.gardenlet.tasks import extensions
from espalier.shoots.gardenlet.tasks.acts import SOON, apply_object, combined, delete_object, of_shoot, write_action

PATIENCE = 5.0
"""Seconds for restoring the roles in a shoot."""
Roles = Sequence[tuple[Resource, Tree]]


def wait_for_destination(ctx: ShootContext) -> Verdict:
    """The garden reports the destination ready, and all that it needs exists; nothing is stopped before (G35)."""
    shoot = ctx.scope.shoot
    ready = conditions.get(shoot.status.constraints, READY_FOR_MIGRATION)
    if ready is None:
        return Wait(ShootReason.DESTINATION_SEED_UNREADY, f"the garden has not checked seed {shoot.spec.seed_name} yet")
    if ready.status == "True":
        return Action("read what the destination needs", lambda: _check_needs(ctx))
    return Wait(ready.reason or ShootReason.DESTINATION_SEED_UNREADY, ready.message or "the destination is not ready")


async def _check_needs(ctx: ShootContext) -> Continue | Wait:
    """Wait for what the destination lacks, as read in the garden: it could not restore the shoot. All is named at
    once. What this seed may not read is left to the destination."""
    seed_name = ctx.scope.shoot.spec.seed_name or ""
    lacking = [need for need in await needs(ctx.tools.garden.client, ctx.live.shoot, seed_name) if need.problem]
    message = "; ".join(f"{need.what}: {need.problem}" for need in lacking)
    return Wait(lacking[0].reason, f"seed {seed_name} lacks {message}", SOON) if lacking else Continue()


def skip_destination(ctx: ShootContext) -> str:
    """The reason why the destination need not be ready: the control plane is already stopped, and waiting does not
    start it again; empty if it must be."""
    stopped = ctx.scope.deployments.get(API_SERVER)
    is_stopped = stopped is None or stopped.tree["spec"].get("replicas") == 0
    return "the migration has begun" if is_stopped and not ctx.scope.is_hibernated else ""


def deploy_namespace(ctx: ShootContext) -> Verdict:
    """The shoot's namespace is as rendered. If somebody deletes it, all extension resources in it are released: what is
    behind them stays, and they are restored in the next namespace."""
    live = ctx.scope.namespace
    if live is not None and live.metadata.deletion_timestamp is not None:
        released = extensions.release_all(ctx)
        if not isinstance(released, Done):
            return released
    return apply_object(ctx, NAMESPACE, ctx.scope.namespace, rendering.namespace(ctx.scope), of_shoot(ctx))


def deploy_services(ctx: ShootContext) -> Verdict:
    """The Services of the control plane are as rendered."""
    rendered = ctx.tools.renderer.services(ctx.scope.shoot, ctx.namespace)
    return combined(
        apply_object(ctx, SERVICE, ctx.scope.services.get(service["metadata"]["name"]), service) for service in rendered
    )


def deploy(name: str) -> Callable[[ShootContext], Verdict]:
    """The Deployment exists and is available, or is hibernated with the shoot."""

    def task(ctx: ShootContext) -> Verdict:
        return _deploy(ctx, name, 0 if ctx.scope.is_hibernated else 1)

    return task


def skip_nodes(ctx: ShootContext) -> str:
    """The reason why nodes are not waited for; empty if they are."""
    if ctx.scope.is_hibernated:
        return "the shoot has no nodes while it hibernates"
    return skip_leases(ctx)


def skip_leases(ctx: ShootContext) -> str:
    """The reason why no Leases of controllers are released; empty if they are."""
    if ctx.tools.shoots is None:
        return "the gardenlet has no access to the shoot's API server"
    return "" if ctx.operation is OperationType.RESTORE else "the shoot was not moved"


def wait_for_nodes(ctx: ShootContext) -> Verdict:
    """All nodes have renewed their Leases at the new API server, or `nodes_timeout` is over: the controllers that start
    next would replace nodes that have not."""
    if CONTROLLER_MANAGER in ctx.scope.deployments:
        return Done()
    live, tools, shoots = ctx.scope.deployments.get(API_SERVER), ctx.tools, ctx.tools.shoots
    text = live.metadata.creation_timestamp if live is not None else None
    if text is None:
        return Wait(TaskReason.DEPLOYMENT_NOT_AVAILABLE, f"{API_SERVER} does not exist", SOON)
    since = datetime.fromisoformat(text)
    if (ctx.scope.now - since).total_seconds() > tools.config.nodes_timeout:
        return Done()

    async def list_silent() -> Continue | Wait | Failure:
        silent = await shoots.silent_nodes(ctx.namespace, since) if shoots is not None else []
        if not silent:
            return Continue()
        listed = first(silent, 10)
        return Wait(
            TaskReason.NODES_NOT_CONNECTED, f"nodes that have not reached the new API server yet: {listed}", SOON
        )

    return Action("list nodes that have not renewed their Leases", list_silent)


def release_leases(ctx: ShootContext) -> Verdict:
    """Nobody holds the Leases of controllers that do not run here yet: former holders can't reach this API server, and
    may have ended without releasing them. Otherwise the new controllers would wait until the Leases expire."""
    shoots = ctx.tools.shoots
    missing = [name for name in (CONTROLLER_MANAGER, SCHEDULER) if name not in ctx.scope.deployments]
    if not missing or shoots is None:
        return Done()

    async def release() -> Continue:
        with suppress(KubeError):  # the controllers then wait until the Leases expire
            await shoots.release_leases(ctx.namespace, missing)
        return Continue()

    return Action(f"release the Leases of {', '.join(missing)}", release)


def deploy_machine_controller_manager(ctx: ShootContext) -> Verdict:
    """The machine controller manager exists; scaled down while machine objects are restored from the state, because it
    would replace machines whose objects it does not see yet; up as long as a shoot that is being hibernated has
    machines."""
    live = ctx.scope.deployments.get(MACHINE_CONTROLLER_MANAGER)
    if ctx.operation is OperationType.RESTORE:
        return _deploy_machine_controller_manager(ctx, 0) if live is None else Done()
    if ctx.scope.is_hibernated:
        return _deploy_machine_controller_manager(ctx, 1) if live is None else Done()
    return start_machine_controller_manager(ctx)


def start_machine_controller_manager(ctx: ShootContext) -> Verdict:
    """The machine controller manager runs, and sees all existing machines."""
    live = ctx.scope.extension(Worker, ctx.scope.object.name)
    if ctx.operation is OperationType.RESTORE:
        may_run = live is not None and _is_restored(live)
    else:
        may_run = not _awaits_restore(ctx, live)
    return _deploy_machine_controller_manager(ctx, 1 if may_run and not ctx.scope.is_hibernated else 0)


def _awaits_restore(ctx: ShootContext, live: Object | None) -> bool:
    """True if a Worker that somebody deleted is restored in the same seed."""
    if live is not None:
        requested = requested_operation(live.metadata)
        is_restored = requested in (metadata_keys.WAIT_FOR_STATE, metadata_keys.RESTORE, metadata_keys.MIGRATE)
        return is_restored or is_deleted_unconfirmed(live.metadata)
    persisted = ctx.scope.persisted
    return persisted is not None and any(extension.kind == Worker.resource.kind for extension in persisted.extensions)


def _is_restored(live: Object) -> bool:
    last = live.decode(Worker).status.last_operation
    requested = requested_operation(live.metadata)
    is_migrated = last is not None and last.is_(OperationType.MIGRATE, OperationState.SUCCEEDED)
    is_requested = requested in (metadata_keys.WAIT_FOR_STATE, metadata_keys.RESTORE, metadata_keys.MIGRATE)
    return last is not None and last.finished and not is_migrated and not is_requested


def _deploy_machine_controller_manager(ctx: ShootContext, replicas: int) -> Verdict:
    """The machine controller manager, after its accounts: an API server accepts no pod whose account is missing, and
    the shoot's own refuses a user without rights."""
    name, renderer, shoots = MACHINE_CONTROLLER_MANAGER, ctx.tools.renderer, ctx.tools.shoots
    roles = renderer.roles_in_shoot() if shoots is not None and not ctx.scope.is_hibernated else []
    digest = digest_of([tree for _, tree in roles]) if roles else ""
    account, live = renderer.service_account(ctx.namespace, digest), ctx.scope.service_accounts.get(name)
    if shoots is not None and roles and not is_as_rendered(live, stamped(account)):
        return write_action(
            f"apply the roles of {name} in the shoot, and its ServiceAccount",
            lambda: _apply_roles(ctx, shoots, roles),
            lambda: ctx.tools.seed.apply(SERVICE_ACCOUNT, stamped(account), found_by_owner),
        )
    binding = renderer.role_binding(ctx.namespace)
    verdict = combined(
        (
            apply_object(ctx, SERVICE_ACCOUNT, live, account),
            apply_object(ctx, ROLE_BINDING, ctx.scope.role_bindings.get(name), binding),
        )
    )
    verdict = verdict if not isinstance(verdict, Done) else _deploy(ctx, name, replicas)
    if not isinstance(verdict, Done) or shoots is None or not roles:
        return verdict
    return _restore_roles(ctx, shoots, roles)


def _restore_roles(ctx: ShootContext, shoots: ShootAPIs, roles: Roles) -> Verdict:
    """The owner of the shoot may have changed or deleted them since they were applied."""
    if ctx.tools.shoot_roles.is_valid(ctx.live.shoot.key, digest_of([tree for _, tree in roles])):
        return Done()

    async def restore() -> Continue:
        _keep_roles(ctx, roles)
        with suppress(KubeError, TimeoutError):  # a silent API server is reported by the care of the shoot
            async with asyncio.timeout(PATIENCE):
                await shoots.apply(ctx.namespace, roles)
        return Continue()

    return Action(f"restore the roles of {MACHINE_CONTROLLER_MANAGER} in the shoot", restore)


async def _apply_roles(ctx: ShootContext, shoots: ShootAPIs, roles: Roles) -> None:
    await shoots.apply(ctx.namespace, roles)
    _keep_roles(ctx, roles)


def _keep_roles(ctx: ShootContext, roles: Roles) -> None:
    share = crc32(ctx.namespace.encode()) / 2**32
    seconds = ctx.tools.config.roles_check * (0.75 + share / 2)
    ctx.tools.shoot_roles.keep(ctx.live.shoot.key, digest_of([tree for _, tree in roles]), seconds)


def _deploy(ctx: ShootContext, name: str, replicas: int) -> Verdict:
    live = ctx.scope.deployments.get(name)
    body = ctx.tools.renderer.deployment(name, ctx.scope.shoot, ctx.namespace, replicas, ctx.scope.client_secret)
    verdict = apply_object(ctx, DEPLOYMENT, live, body)
    if not isinstance(verdict, Done) or live is None:
        return verdict
    status = live.tree.get("status") or {}
    if replicas and not (_is_observed(live, status) and status.get("availableReplicas", 0) >= replicas):
        return Wait(TaskReason.DEPLOYMENT_NOT_AVAILABLE, f"{name} is not available yet", SOON)
    return Done()


def stop(*names: str) -> Callable[[ShootContext], Verdict]:
    """These Deployments are scaled to zero, and their pods are gone (G39)."""
    return lambda ctx: combined(_stop(ctx, name) for name in names)


def _stop(ctx: ShootContext, name: str) -> Verdict:
    live = ctx.scope.deployments.get(name)
    if live is None:
        return _wait_for_pods(ctx, name)
    tree = live.tree
    if tree["spec"].get("replicas", 1) != 0:
        return write_action(f"stop {name}", lambda: ctx.tools.seed.merge(DEPLOYMENT, live, {"spec": {"replicas": 0}}))
    status = tree.get("status") or {}
    if not _is_observed(live, status) or status.get("replicas", 0):
        return Wait(TaskReason.PODS_STOPPING, f"pods of {name} still run", SOON)
    return _wait_for_pods(ctx, name)


def once_stopping(name: str, task: Callable[[ShootContext], Verdict]) -> Callable[[ShootContext], Verdict]:
    """The task, as soon as this Deployment is scaled to zero; its pods may still be ending (G38)."""

    def evaluate(ctx: ShootContext) -> Verdict:
        live = ctx.scope.deployments.get(name)
        if live is not None and live.tree["spec"].get("replicas", 1) != 0:
            return Wait(TaskReason.PODS_STOPPING, f"{name} is stopped first", SOON)
        return task(ctx)

    return evaluate


def _wait_for_pods(ctx: ShootContext, name: str) -> Verdict:
    return (
        Wait(TaskReason.PODS_STOPPING, f"pods of {name} are terminating", SOON) if ctx.scope.has_pods(name) else Done()
    )


def api_servers_ended(ctx: ShootContext) -> bool:
    """True if no pod is left that could answer for the shoot, and none will be created."""
    return isinstance(_stop(ctx, API_SERVER), Done)


def _is_observed(live: Object, status: dict[str, Any]) -> bool:
    return bool(status.get("observedGeneration", 0) >= live.metadata.generation)


def delete_namespace(ctx: ShootContext) -> Verdict:
    """The shoot's namespace is gone, with everything in it."""
    return delete_object(ctx, NAMESPACE, ctx.scope.namespace, of_shoot(ctx))


def delete_cluster(ctx: ShootContext) -> Verdict:
    """The Cluster is gone."""
    return delete_object(ctx, Cluster.resource, ctx.scope.cluster, of_shoot(ctx))
