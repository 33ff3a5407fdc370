"""The ends of certificates in the status of a Cluster."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from espalier.api.capi.machine import Machine
from espalier.api.conditions import timestamp
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition, Tree
from espalier.clusters.design import names
from espalier.clusters.report.status import status_of
from espalier.runtime.controllers.outcome import Done
from tests.support.objects.made_clusters import made, objects

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def machine(name: str, days: float | str | None, *, is_going: bool = False) -> Tree:
    """A control plane machine whose certificates end after so many days."""
    end = days if isinstance(days, str) else None if days is None else timestamp(NOW + timedelta(days=days))
    return {
        "apiVersion": Machine.resource.api_version,
        "kind": "Machine",
        "metadata": {
            "name": name,
            "namespace": "eksa-system",
            "uid": name,
            "resourceVersion": "5",
            "labels": {"cluster.x-k8s.io/cluster-name": "garden", "cluster.x-k8s.io/control-plane": ""},
            **({"deletionTimestamp": timestamp(NOW), "finalizers": ["x"]} if is_going else {}),
        },
        "spec": {
            "clusterName": "garden",
            "bootstrap": {},
            "infrastructureRef": {"apiGroup": "", "kind": "", "name": ""},
        },
        "status": {"certificatesExpiryDate": end} if end else {},
    }


def reported(*machines: Tree) -> Condition | None:
    status = status_of(made(objects=[*objects(), *machines]), Done(), NOW)
    assert status.ready
    return next((part for part in status.conditions if part.type == names.CERTIFICATES_VALID), None)


@pytest.mark.parametrize(
    "machines",
    [
        [],
        [machine("a", 90)],
        [machine("a", None)],
        [machine("a", "soon")],
        [machine("a", 1, is_going=True), machine("b", 365)],
    ],
    ids=["none", "later", "not reported", "no time", "being replaced"],
)
def test_certificates_that_last_are_not_mentioned(machines: list[Tree]) -> None:
    assert reported(*machines) is None


def test_certificates_that_end_soon_are_reported() -> None:
    condition = reported(machine("c", 365), machine("b", 60), machine("a", 89.9))
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", Reason.CERTIFICATES_EXPIRE_SOON)
    assert condition.message == (
        "certificates of control plane machines b, a end, the first on 2026-03-02T00:00:00Z: renew them before, by "
        "`espalier renew certificates garden -n team-a` or by an upgrade"
    )


def test_certificates_that_ended_have_another_remedy() -> None:
    condition = reported(machine("a", 0), machine("b", 60))
    assert condition is not None
    assert condition.reason == Reason.CERTIFICATES_EXPIRED
    assert "kubeadm certs renew all" in condition.message


def test_a_message_stays_while_days_pass() -> None:
    """A status that changes every day would be written every day."""
    scope = made(objects=[*objects(), machine("a", 60)])
    first, later = (status_of(scope, Done(), NOW + timedelta(days=days)) for days in (0, 30))
    assert [part.message for part in first.conditions] == [part.message for part in later.conditions]
