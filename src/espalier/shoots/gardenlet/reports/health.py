"""The gardenlet's report on a shoot's health, as conditions. Pure.

Nothing in them changes while nothing happens: a settled shoot costs no write.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from espalier.api import conditions as condition_list
from espalier.api.conditions import parse_timestamp
from espalier.api.etcd.calls import BackupStatus
from espalier.api.gardener.etcd import DATA_VOLUMES_READY
from espalier.api.gardener.garden.shoot import (
    API_SERVER_AVAILABLE,
    CONTROL_PLANE_HEALTHY,
    EVERY_NODE_READY,
    READY_FOR_DISASTER,
    SYSTEM_COMPONENTS_HEALTHY,
)
from espalier.api.gardener.vocabulary.condition_types import Satisfied
from espalier.api.gardener.vocabulary.operations import Condition
from espalier.api.gardener.vocabulary.reasons import ShootReason
from espalier.api.meta import Tree
from espalier.api.text.listing import first
from espalier.kube.objects import Object
from espalier.shoots.extension import dependents
from espalier.shoots.extension.dependents import DEPENDENTS_KEPT
from espalier.shoots.gardenlet.context import ShootHealth
from espalier.shoots.gardenlet.names import API_SERVER, CONTROLLERS, SEED_MISSING
from espalier.shoots.gardenlet.scope import Scope

MOST_NAMED = 10
"""The largest number of nodes or components that a message names."""
STORE_TIME = 20.0
"""Seconds for storing a snapshot, after which it is late."""


@dataclass(frozen=True)
class ReachReport:
    """The report of another seed, which could take the shoot, on its connection to the bucket's store."""

    seed: str
    problem: str = ""
    """The reason why its network does not reach the store; empty if it does."""


@dataclass(frozen=True)
class BackupHealth:
    """Results of requests about a shoot's backups, which caches do not have."""

    status: BackupStatus | None = None
    """The answer of its agent; None if there was none."""
    at: datetime | None = None
    """The time of the answer: lateness is judged by it, not by the present time."""
    unreadable: str = ""
    """The reason why the garden's credentials can't read them; empty if they can."""
    is_checked: bool = True
    """False if the gardenlet can't read buckets of this kind."""
    others: tuple[ReachReport, ...] = ()
    """The reports of seeds that have tried to connect."""
    is_elsewhere: bool = False
    """True if the credentials name an endpoint that the Seed lacks: other seeds then report on another one."""
    unstored: str = ""
    """The reason why the ShootState does not have all that the seed has; empty if it has."""


def conditions(scope: Scope, backups: BackupHealth | None, shoot: ShootHealth | None = None) -> list[Condition]:
    """The conditions of a shoot. Those for which no request was made yet, on backups or the shoot, stay as they are."""
    reported = [_api_server(scope), _control_plane(scope)]
    if scope.is_hibernated:
        hibernated = ("True", Satisfied.HIBERNATED, "the shoot is hibernated and has no nodes")
        reported += [Condition(type, *hibernated) for type in (EVERY_NODE_READY, SYSTEM_COMPONENTS_HEALTHY)]
    elif shoot is not None:
        reported += [_nodes(scope, shoot), _components(scope, shoot)]
    if scope.seed is None:
        message = f"there is no Seed {scope.seed_name} any more, which tells where backups are: {SEED_MISSING}"
        reported.append(Condition(READY_FOR_DISASTER, "False", ShootReason.SEED_MISSING, message))
    elif backups is not None:
        reported.append(ready_for_disaster(scope, backups))
    return reported


def _api_server(scope: Scope) -> Condition:
    if scope.is_hibernated:
        return Condition(
            API_SERVER_AVAILABLE, "True", Satisfied.HIBERNATED, "the shoot is hibernated and needs no API server"
        )
    if _is_available(scope, API_SERVER):
        return Condition(API_SERVER_AVAILABLE, "True", Satisfied.DEPLOYMENT_AVAILABLE, "")
    return _unhealthy(
        scope, API_SERVER_AVAILABLE, ShootReason.DEPLOYMENT_NOT_AVAILABLE, f"{API_SERVER} is not available"
    )


def held_objects(scope: Scope) -> tuple[list[Object], float | None]:
    """The objects of a shoot that somebody has deleted and that something holds, and the seconds until another one
    counts. None of a shoot that is being deleted: its operation reports them."""
    is_deleted = scope.object.metadata.deletion_timestamp is not None
    return ([], None) if is_deleted else dependents.held_objects(scope.objects, scope.now)


def _deletions(scope: Scope) -> str:
    """The message on what is being deleted of a shoot, by what the gardenlet, the Etcd and the extensions see."""
    if scope.object.metadata.deletion_timestamp is not None:
        return ""
    etcd, held = scope.typed_etcd, dependents.described(held_objects(scope)[0])
    reported = [condition_list.get(etcd.status.conditions if etcd else (), DATA_VOLUMES_READY)]
    reported += [condition_list.get(item.typed.status.conditions, DEPENDENTS_KEPT) for item in scope.extensions]
    messages = [condition.message for condition in reported if condition is not None and condition.status == "False"]
    return "; ".join(filter(None, [held, *messages]))


def _control_plane(scope: Scope) -> Condition:
    if deleted := _deletions(scope):
        return Condition(CONTROL_PLANE_HEALTHY, "False", ShootReason.OBJECTS_DELETING, deleted)
    if scope.is_hibernated:
        return Condition(
            CONTROL_PLANE_HEALTHY, "True", Satisfied.HIBERNATED, "the shoot is hibernated and needs no control plane"
        )
    unready = _not_ready(scope)
    if not unready:
        return Condition(CONTROL_PLANE_HEALTHY, "True", Satisfied.CONTROL_PLANE_RUNNING, "")
    return _unhealthy(
        scope, CONTROL_PLANE_HEALTHY, ShootReason.COMPONENTS_NOT_READY, f"not ready: {', '.join(unready)}"
    )


def is_control_plane_healthy(scope: Scope) -> bool:
    """True if etcd is ready and all Deployments of the control plane are available."""
    return not _not_ready(scope)


def _not_ready(scope: Scope) -> list[str]:
    etcd = scope.typed_etcd
    unready = [] if etcd is not None and etcd.status.ready else ["etcd-main"]
    return unready + [name for name in (API_SERVER, *CONTROLLERS) if not _is_available(scope, name)]


def _nodes(scope: Scope, shoot: ShootHealth) -> Condition:
    if shoot.unreachable:
        return _unreachable(scope, EVERY_NODE_READY, shoot)
    if shoot.unready_nodes:
        return _unhealthy(
            scope, EVERY_NODE_READY, ShootReason.NODES_NOT_READY, f"not ready: {_listed(shoot.unready_nodes)}"
        )
    least = sum(worker.minimum for worker in scope.shoot.spec.provider.workers)
    if shoot.nodes < least:
        message = f"found {shoot.nodes} nodes, but the shoot's workers need at least {least}"
        return _unhealthy(scope, EVERY_NODE_READY, ShootReason.NODES_MISSING, message)
    return Condition(EVERY_NODE_READY, "True", Satisfied.EVERY_NODE_READY, "")


def _components(scope: Scope, shoot: ShootHealth) -> Condition:
    if shoot.unreachable:
        return _unreachable(scope, SYSTEM_COMPONENTS_HEALTHY, shoot)
    if shoot.unready_components:
        message = f"not available in kube-system: {_listed(shoot.unready_components)}"
        return _unhealthy(scope, SYSTEM_COMPONENTS_HEALTHY, ShootReason.COMPONENTS_NOT_READY, message)
    return Condition(SYSTEM_COMPONENTS_HEALTHY, "True", Satisfied.SYSTEM_COMPONENTS_RUNNING, "")


def _unreachable(scope: Scope, type: str, shoot: ShootHealth) -> Condition:
    """The condition while the API server is unreachable. The message omits the error: that changes between requests."""
    message = "the shoot's API server is unreachable"
    condition = _unhealthy(scope, type, ShootReason.API_SERVER_UNREACHABLE, message)
    return condition if condition.status == "Progressing" else msgspec.structs.replace(condition, status="Unknown")


def _listed(names: Sequence[str], between: str = ", ") -> str:
    return first(names, MOST_NAMED, separator=between)


def _unhealthy(scope: Scope, type: str, reason: str, message: str) -> Condition:
    """The condition of an unhealthy part: False, or Progressing during an operation."""
    last = scope.shoot.status.last_operation
    if last is not None and not last.finished:
        return Condition(type, "Progressing", ShootReason.OPERATION_IN_PROGRESS, f"{last.type} is in progress")
    return Condition(type, "False", reason, message)


def _is_available(scope: Scope, name: str) -> bool:
    live = scope.deployments.get(name)
    status: Tree = (live.tree.get("status") or {}) if live is not None else {}
    return bool(status.get("availableReplicas", 0) >= 1)


def ready_for_disaster(scope: Scope, backups: BackupHealth) -> Condition:
    """True if the shoot could be restored in another seed now, losing no more than a delta period."""

    def not_restorable(reason: str, message: str) -> Condition:
        return Condition(READY_FOR_DISASTER, "False", reason, message)

    if backups.unstored:
        return not_restorable(ShootReason.STATE_NOT_PERSISTED, backups.unstored)
    if backups.unreadable:
        return not_restorable(ShootReason.BUCKET_UNREADABLE, backups.unreadable)
    others = () if backups.is_elsewhere else backups.others
    if others and all(report.problem for report in others):
        problems = _listed([f"seed {report.seed}: {report.problem}" for report in others], "; ")
        return not_restorable(ShootReason.BUCKET_NOT_REACHED_BY_OTHERS, f"no other seed reaches its bucket: {problems}")
    reached = [report.seed for report in others if not report.problem]
    access = (
        "the garden's credentials can read the bucket" if backups.is_checked else "access to the bucket was not tested"
    )
    suffix = f"{access}, and {_reached(backups.is_elsewhere, reached)}"

    def is_restorable(reason: str, message: str) -> Condition:
        if not backups.is_checked and not reached:
            untested = "neither this seed nor another one has tried whether its bucket can be read"
            return Condition(READY_FOR_DISASTER, "Unknown", ShootReason.BUCKET_NOT_TESTED, untested)
        return Condition(READY_FOR_DISASTER, "True", reason, f"{message}; {suffix}")

    if scope.is_hibernated:
        return is_restorable(Satisfied.HIBERNATED, "the shoot is hibernated and fully backed up")
    status = backups.status
    if status is None:
        message = "the agent of etcd-main does not report the age of its backups: check whether it runs"
        return Condition(READY_FOR_DISASTER, "Unknown", ShootReason.AGENT_UNREACHABLE, message)
    if status.store_unreadable_since:
        message = "the agent of etcd-main can't read its bucket: new writes may be lost with the seed"
        return not_restorable(ShootReason.STORE_UNREADABLE, f"{message}; see its /healthz")
    if not status.latest_full:
        return not_restorable(ShootReason.NO_FULL_SNAPSHOT, "there is no full snapshot yet; see the agent's /healthz")
    if _is_late(status, backups.at or scope.now):
        message = f"writes since {status.unstored_since} are in no snapshot"
        return not_restorable(
            ShootReason.BACKUPS_LATE, f"{message} and would be lost with the seed; see the agent's /healthz"
        )
    return is_restorable(Satisfied.BACKUPS_CURRENT, f"writes are backed up within {status.delta_period:g} s")


def _reached(is_elsewhere: bool, by: Sequence[str]) -> str:
    if is_elsewhere:
        return "other seeds can't try it: spec.backup.providerConfig of its Seed lacks the endpoint of the credentials"
    if not by:
        return "no other seed has tried to reach it"
    return f"seed {by[0]} reaches it" if len(by) == 1 else f"seeds {_listed(by)} reach it"


def _is_late(status: BackupStatus, at: datetime) -> bool:
    if not status.unstored_since:
        return False
    since = parse_timestamp(status.unstored_since)
    if since is None:  # the report can't be relied on
        return True
    return at - since > timedelta(seconds=2 * max(status.delta_period, 0) + STORE_TIME)
