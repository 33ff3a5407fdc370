"""The status of an Etcd; pure."""

from __future__ import annotations

from datetime import datetime

from espalier.api.gardener.etcd import DATA_VOLUMES_READY, READY, EtcdStatus
from espalier.api.gardener.vocabulary.condition_types import Satisfied
from espalier.api.gardener.vocabulary.conditions import merged
from espalier.api.gardener.vocabulary.operations import Condition, LastError
from espalier.api.gardener.vocabulary.reasons import EtcdReason
from espalier.runtime.controllers.outcome import Continue, Done, Fault, Outcome
from espalier.shoots.etcd import names
from espalier.shoots.etcd.observe import Scope
from espalier.shoots.etcd.settings import is_copy

LONGEST_DESCRIPTION = 2000


def status(scope: Scope, outcome: Outcome, now: datetime) -> EtcdStatus:
    """The status after a reconcile."""
    before = scope.etcd.status
    counts = scope.stateful_set.status if scope.stateful_set is not None else None
    ready = isinstance(outcome, Done) and not scope.is_deleted and scope.etcd.spec.replicas > 0
    failed = isinstance(outcome, Fault)
    errors = [LastError(outcome.message[:LONGEST_DESCRIPTION])] if isinstance(outcome, Fault) else []
    reported = [Condition(READY, "True" if ready else "False", *_reason_and_message(scope, outcome))]
    if not is_copy(scope.etcd):
        reported.append(_data_volumes(scope))
    return EtcdStatus(
        conditions=merged(before.conditions, reported, now),
        last_errors=errors,
        last_operation=before.last_operation,
        observed_generation=before.observed_generation if failed else scope.object.metadata.generation,
        replicas=counts.replicas if counts else 0,
        current_replicas=counts.replicas if counts else 0,
        ready_replicas=counts.ready_replicas if counts else 0,
        ready=ready,
        selector=f"{names.INSTANCE}={scope.object.name},{names.NAME}=etcd",
    )


def _data_volumes(scope: Scope) -> Condition:
    if not scope.lost_claims or scope.is_deleted:
        return Condition(DATA_VOLUMES_READY, "True", Satisfied.DATA_KEPT)
    return Condition(DATA_VOLUMES_READY, "False", EtcdReason.CLAIM_DELETING, deleted_claims(scope))


def deleted_claims(scope: Scope) -> str:
    """The message on claims that are being deleted; empty if there are none."""
    if not scope.lost_claims:
        return ""
    claims = [claim.name for claim in scope.lost_claims]
    pods = [name.removeprefix(f"{names.DATA_VOLUME}-") for name in claims]
    message = (
        f"PersistentVolumeClaim {', '.join(claims)} is being deleted, which can't be undone: its data go with pod "
        f"{', '.join(pods)}"
    )
    delete = f"kubectl delete pod {pods[0]} -n {scope.object.namespace}"
    if not scope.has_lost_quorum:
        return f"{message}. The other members have them as well: once all are ready, {delete}, which then joins them"
    return (
        f"{message}, and so do writes that no snapshot has yet. Move the shoot to another seed, which loses nothing. "
        "If there is none: stop what writes to the shoot for longer than the delta period that ReadyForDisaster names, "
        f"then {delete}, and etcd is restored from its backups"
    )


def _reason_and_message(scope: Scope, outcome: Outcome) -> tuple[str, str]:
    match outcome:
        case Done() | Continue():
            if scope.etcd.spec.replicas == 0:
                return EtcdReason.SCALED_TO_ZERO, "spec.replicas is 0: no etcd runs"
            if is_copy(scope.etcd):
                return Satisfied.BACKUPS_COPIED, "all backups are copied"
            return Satisfied.ETCD_READY, "etcd is serving"
        case _:
            return outcome.reason, outcome.message
