"""The status of an Etcd; pure."""

from __future__ import annotations

from datetime import datetime

from espalier.api import conditions as condition_list
from espalier.api.conditions import timestamp
from espalier.api.gardener.etcd import READY, EtcdStatus
from espalier.api.gardener.vocabulary.condition_types import Satisfied
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
    return EtcdStatus(
        conditions=[
            *(condition for condition in before.conditions if condition.type != READY),
            _condition(scope, outcome, ready=ready, now=now),
        ],
        last_errors=errors,
        last_operation=before.last_operation,
        observed_generation=before.observed_generation if failed else scope.object.metadata.generation,
        replicas=counts.replicas if counts else 0,
        current_replicas=counts.replicas if counts else 0,
        ready_replicas=counts.ready_replicas if counts else 0,
        ready=ready,
        selector=f"{names.INSTANCE}={scope.object.name},{names.NAME}=etcd",
    )


def _condition(scope: Scope, outcome: Outcome, *, ready: bool, now: datetime) -> Condition:
    reason, message = _reason_and_message(scope, outcome)
    word = "True" if ready else "False"
    before = condition_list.get(scope.etcd.status.conditions, READY)
    at = timestamp(now)
    since = condition_list.transition_time(before, word, at)
    is_same = before is not None and (before.status, before.reason) == (word, reason)
    updated = before.last_update_time if before is not None and is_same else at
    return Condition(READY, word, reason, message, since, updated)


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
