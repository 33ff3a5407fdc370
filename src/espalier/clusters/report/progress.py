"""Conditions Reconciling and Stalled: what kstatus, and with it Flux and Argo CD, makes of a Cluster. Pure.

They follow from Ready and the failure. kstatus takes an object whose `observedGeneration` is behind for in progress,
whatever its conditions say: a failure in the middle of a change is in Stalled for all who read conditions themselves.
"""

from __future__ import annotations

from espalier.api.conditions import condition
from espalier.api.eksa.vocabulary.group import PAUSED_ANNOTATION
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition
from espalier.clusters.design import names
from espalier.clusters.design.drift.gate import Gate, Isolation
from espalier.clusters.observe.scope import Scope
from espalier.runtime.controllers.outcome import Wait

CONDITIONS = (names.RECONCILING, names.STALLED)


def condition_of(scope: Scope, ready: Condition, failure: Wait | None) -> Condition | None:
    """Stalled, Reconciling, or None for a cluster that is as its spec asks.

    A failure beside Ready True, of a cluster that keeps running, is not Stalled: what the spec asks for exists.
    """
    if failure is not None and ready.status != "True":
        return condition(names.STALLED, "True", failure.reason, failure.message)
    if _is_held_by_a_pause(scope, ready):
        message = f"a change is not made while the cluster is paused; remove annotation {PAUSED_ANNOTATION} to make it"
        return condition(names.STALLED, "True", Reason.PAUSED, message)
    if ready.status == "True":
        return None
    return condition(names.RECONCILING, "True", ready.reason, ready.message)


def _is_held_by_a_pause(scope: Scope, ready: Condition) -> bool:
    """True if a user's pause keeps a change from being made. That of a command ends with the change it writes, and the
    record of the management cluster is paused for good."""
    if not scope.is_paused or scope.is_deleted or scope.is_self_managed or scope.is_being_written:
        return False
    is_changed = scope.isolation is not Isolation.OFF and scope.gate is Gate.OPEN
    return is_changed or (ready.status != "True" and ready.reason == Reason.PAUSED)
