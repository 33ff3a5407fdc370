"""Events that a reconcile records about a change of the status: each once."""

from __future__ import annotations

import msgspec
import pytest

from espalier.api.eksa.cluster import ClusterStatus
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition, Tree
from espalier.clusters.act.controller import _events
from espalier.clusters.design import names


def status(*conditions: Condition, **fields: str) -> ClusterStatus:
    tree: Tree = {"conditions": [msgspec.to_builtins(condition) for condition in conditions], **fields}
    return msgspec.convert(tree, ClusterStatus)


def condition(type_: str, status: str, reason: str, message: str = "") -> Condition:
    tree = {"type": type_, "status": status, "reason": reason, "message": message}
    return msgspec.convert({**tree, "lastTransitionTime": "2026-01-01T00:00:00Z"}, Condition)


READY = condition(names.READY, "True", "Ready", "all is ready")
UNREADY = condition(names.READY, "False", "Waiting")
NOT_COPIED = condition(names.KUBECONFIG_COPIED, "False", "NameTaken", "another one has the name")
STILL_NOT_COPIED = condition(names.KUBECONFIG_COPIED, "False", "NameTaken", "yet another one has the name")
NOT_REPLACED = condition(names.KUBECONFIG_COPIED, "False", "Refused", "it is refused")
ENDING = condition(names.CERTIFICATES_VALID, "False", Reason.CERTIFICATES_EXPIRE_SOON, "the first on 2026-02-01")
SYNCED = condition("Synced", "True", "InSync")
DRIFTED = condition("Synced", "False", Reason.DRIFTED, "ConfigMap a: data")
DRIFTED_FURTHER = condition("Synced", "False", Reason.DRIFTED, "ConfigMap a: data; ConfigMap b: data")
FAILED = {"failureReason": "ClusterInvalid", "failureMessage": "spec.name: too long"}


@pytest.mark.parametrize(
    ("old", "new", "recorded"),
    [
        (status(), status(READY), [("Normal", names.READY)]),
        (status(UNREADY), status(READY), [("Normal", names.READY)]),
        (status(READY), status(READY), []),
        (status(READY), status(UNREADY), []),
        (status(), status(UNREADY), []),
        (status(), status(SYNCED), []),
        (status(), status(NOT_COPIED), [("Warning", "NameTaken")]),
        (status(NOT_COPIED), status(STILL_NOT_COPIED), []),
        (status(NOT_COPIED), status(NOT_REPLACED), [("Warning", "Refused")]),
        (status(), status(ENDING), [("Warning", Reason.CERTIFICATES_EXPIRE_SOON)]),
        (status(ENDING), status(ENDING), []),
        (status(), status(DRIFTED), [("Warning", Reason.DRIFTED)]),
        (status(DRIFTED), status(DRIFTED), []),
        (status(DRIFTED), status(DRIFTED_FURTHER), [("Warning", Reason.DRIFTED)]),
        (status(), status(**FAILED), [("Warning", "ClusterInvalid")]),
        (status(**FAILED), status(**FAILED), []),
        (status(**FAILED), status(), []),
    ],
)
def test_an_event_is_recorded_once_for_each_change(
    old: ClusterStatus, new: ClusterStatus, recorded: list[tuple[str, str]]
) -> None:
    assert [(event.type, event.reason) for event in _events(old, new)] == recorded
