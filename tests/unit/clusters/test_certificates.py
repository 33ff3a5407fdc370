"""The ends of certificates in the status of a Cluster."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from espalier.api.capi.machine import Machine
from espalier.api.conditions import timestamp
from espalier.api.eksa.vocabulary.reasons import Reason
from espalier.api.meta import Condition, Tree
from espalier.clusterapi import external_etcd
from espalier.clusters.design import names
from espalier.clusters.report import measures
from espalier.clusters.report.status import status_of
from espalier.kube.objects import Object, to_bytes
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


def member(name: str, age: float) -> Tree:
    """A machine of an external etcd, made so many days ago: nobody reports when its certificates end."""
    tree = machine(name, None)
    labels = {"cluster.x-k8s.io/cluster-name": "garden", external_etcd.MACHINE_LABEL: "garden-etcd"}
    tree["metadata"] |= {"labels": labels, "creationTimestamp": timestamp(NOW - timedelta(days=age))}
    return tree


@pytest.mark.parametrize(
    ("machines", "message"),
    [
        ([member("e", 274)], None),
        (
            [member("e", 276)],
            "certificates of etcd machine e end, the first on 2026-03-31T00:00:00Z: renew",
        ),
        ([member("e", 276), machine("a", 5)], "certificates of control plane and etcd machines a, e end, the first on"),
        ([member("e", 365)], "certificates of etcd machine e end or have ended.*docs/second-day.md"),
        ([member("e", 365), machine("a", -1)], "etcd machines a, e ended.*kubeadm certs renew all"),
    ],
    ids=["later", "soon", "both", "ended", "both ended"],
)
def test_ends_of_external_etcd_follow_its_machines(machines: list[Tree], message: str | None) -> None:
    condition = reported(*machines)
    if message is None:
        assert condition is None
    else:
        assert condition is not None
        assert re.search(message, condition.message), condition.message


def test_metric_has_the_ends_of_external_etcd() -> None:
    assert measures._machine(Object(to_bytes(member("e", 1)))).expiry == NOW + timedelta(days=364)
    worker = member("w", 1)
    worker["metadata"]["labels"].pop(external_etcd.MACHINE_LABEL)
    assert measures._machine(Object(to_bytes(worker))).expiry is None
