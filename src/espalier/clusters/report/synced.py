"""The condition Synced: whether live objects are as rendered. Pure, and not part of Ready."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from espalier.api import conditions
from espalier.api.eksa.vocabulary import metadata_keys
from espalier.api.eksa.vocabulary.condition_types import Satisfied
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition
from espalier.api.text.listing import first
from espalier.clusters.design import names
from espalier.clusters.design.drift.drift_policy import Policy, policy
from espalier.clusters.design.drift.gate import Isolation
from espalier.clusters.design.layers import Layer
from espalier.clusters.observe.rules import messages
from espalier.clusters.observe.scope import Scope
from espalier.clusters.plan.drift import Drift
from espalier.clusters.report import readiness
from espalier.clusters.report.validity import lacking_images, missing_objects, name_taken, unresolved_values

_COMPARED = (Satisfied.AS_RENDERED, Reason.DRIFTED, Reason.WORKLOAD_CLUSTER_UNREACHABLE)
"""The reasons of a comparison, which stay until the next one."""

LONGEST = 8000
"""The maximum length of a list of objects and fields; a condition's message may have four times as many characters."""


def unseen(scope: Scope) -> Condition | None:
    """The condition after a reconcile that compared nothing. None if there is nothing to compare, or comparing is
    off.
    """
    is_made = scope.capi_objects.cluster is not None and not scope.is_deleted
    if scope.isolation is not Isolation.LAYERS or not is_made or readiness.is_management_cluster_record(scope):
        return None
    if scope.is_being_written:
        return _unknown(Reason.PAUSED, f"drift is not checked while the cluster is paused; {messages.BEING_WRITTEN}")
    if scope.is_paused:
        return _unknown(Reason.PAUSED, "drift is not checked while the cluster is paused")
    if why := incomparable(scope):  # then no change is in progress either
        return _unknown(Reason.NOT_COMPARABLE, why)
    if not scope.is_settled:
        return _unknown(Reason.BEING_CHANGED, "the last change is in progress; drift is checked when it is complete")
    before = conditions.get(scope.status.conditions, names.SYNCED)
    if before is not None and before.reason in _COMPARED:
        return Condition(type=names.SYNCED, status=before.status, reason=before.reason, message=before.message)
    return _unknown(Reason.NOT_YET_COMPARED, "waiting for the CNI in the workload cluster to be checked")


def incomparable(scope: Scope) -> str:
    """The reason why a cluster can't be compared, settled or not; empty when it can."""
    if missing := missing_objects(scope.awaited):
        return missing.message
    if unresolved := unresolved_values(scope):
        return unresolved.message
    if scope.render_input is None:
        because = f"; {scope.unusable}" if scope.unusable else ""
        return f"the cluster can't be rendered: {scope.problem or _NO_BUNDLES}{because}"
    if scope.replaced_releases:
        return messages.other_content(", ".join(scope.replaced_releases))
    if lacking := lacking_images(scope):
        return f"the cluster can't be rendered: {lacking}"
    if scope.is_name_taken:
        return name_taken(scope).message
    return ""


def seen(
    scope: Scope, drifts: Sequence[Drift], failure: str, refusals: Mapping[str, str], disputes: Mapping[str, int]
) -> Condition:
    """The condition after a comparison: the remaining drift, the reason why the workload cluster was unreachable
    (else empty), failed corrections with their errors, and fields that were corrected repeatedly, with the number
    of corrections.
    """
    annotations = scope.cluster.metadata.annotations
    patches = "".join(map(_offer, scope.offered))
    if drifts:
        refused = "".join(f"; {what} could not be corrected: {why}" for what, why in refusals.items())
        disputed = "".join(f"; {_DISPUTE.format(field=field, times=times)}" for field, times in disputes.items())
        message = f"{_listed(drifts)}{_advice(drifts, policy(annotations))}{refused}{disputed}{patches}"
        return Condition(type=names.SYNCED, status="False", reason=Reason.DRIFTED, message=message)
    if failure:
        message = f"the CNI can't be compared, because the workload cluster is unreachable ({failure})"
        return _unknown(Reason.WORKLOAD_CLUSTER_UNREACHABLE, message + patches)
    spec = scope.spec
    release = f"release {spec.eksa_version}" if spec.bundles_ref is None else f"Bundles {spec.bundles_ref.name}"
    message = f"all objects are as {release} renders them"
    return Condition(type=names.SYNCED, status="True", reason=Satisfied.AS_RENDERED, message=message + patches)


_DISPUTE = (
    "{field} was corrected {times} times and changed again each time: see metadata.managedFields (kubectl get "
    "--show-managed-fields) for who changes it; corrections back off to one per hour"
)
_NO_BUNDLES = "its Bundles do not exist"


def _listed(drifts: Sequence[Drift]) -> str:
    parts: list[str] = []
    length = 0
    for drift in map(str, drifts):
        length += len(drift)
        if length > LONGEST:
            break
        parts.append(drift)
    return first(drifts, len(parts), separator="; ", of="objects")


def _advice(drifts: Sequence[Drift], chosen: Policy | None) -> str:
    """Advice on correcting drift, unless the annotation is set already."""
    if chosen is None:
        allowed = ", ".join(Policy)
        return f"; annotation {metadata_keys.DRIFT_ANNOTATION} has an unknown value, allowed are {allowed}"
    if not any(drift.remedy for drift in drifts):
        return ""
    if chosen is Policy.REPORT:
        suggested = Policy.CORRECT_MACHINES if any(drift.replaces_machines for drift in drifts) else Policy.CORRECT
        price = ", which replaces machines" if suggested is Policy.CORRECT_MACHINES else ""
        return f"; to correct it, set annotation {metadata_keys.DRIFT_ANNOTATION}={suggested}{price}"
    if chosen is Policy.CORRECT and any(drift.replaces_machines for drift in drifts):
        return f"; {metadata_keys.DRIFT_ANNOTATION}={Policy.CORRECT_MACHINES} corrects that by replacing machines"
    return ""


def _offer(patch: Layer) -> str:
    consent = f"{metadata_keys.PATCHES_ANNOTATION}={patch.name}"
    return f"; patch {patch.name} is available: {patch.why} Add it to annotation {consent} to get it"


def _unknown(reason: str, message: str) -> Condition:
    status: Literal["Unknown"] = "Unknown"
    return Condition(type=names.SYNCED, status=status, reason=reason, message=message)
