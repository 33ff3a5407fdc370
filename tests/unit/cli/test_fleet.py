"""A fleet in the order in which its clusters need attention."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from espalier.api.capi.kubeadm import KubeadmControlPlane
from espalier.api.capi.machine import MachineDeployment
from espalier.api.eksa.cluster import Cluster
from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION, PAUSED_ANNOTATION
from espalier.api.identity import ClusterIdentity
from espalier.api.resource import Key
from espalier.cli.clusters.reports import fleet, top
from espalier.cli.clusters.reports.fleet import Attention
from espalier.cli.kit.printing import output
from espalier.cli.kit.printing.layout import Layout, Table
from espalier.clusterapi.contract import MachineCounts
from espalier.clusters.observe.adoptions import Adoptions
from espalier.kube.objects import Object, to_bytes
from espalier.runtime.caches.snapshot import Snapshot


def condition(type_: str, status: str, reason: str = "Why", since: str = "2026-01-01T00:00:00Z") -> dict[str, str]:
    return {"type": type_, "status": status, "reason": reason, "message": f"{type_} tells", "lastTransitionTime": since}


READY = condition("Ready", "True")


def cluster(
    name: str, *conditions: dict[str, str], annotations: dict[str, str] | None = None, **status: Any
) -> Cluster:
    metadata = {"name": name, "namespace": "default", "annotations": annotations or {}}
    spec = {"kubernetesVersion": "1.35", "managementCluster": {"name": "management"}}
    tree = {"metadata": metadata, "spec": spec, "status": {"conditions": conditions, **status}}
    return msgspec.convert(tree, Cluster)


@pytest.mark.parametrize(
    ("made", "expected", "reason"),
    [
        (cluster("a", READY), Attention.READY, ""),
        (cluster("a"), Attention.UNKNOWN, ""),
        (cluster("a", condition("Ready", "False")), Attention.WAITING, "Why"),
        (cluster("a", condition("Ready", "False"), failureReason="X", failureMessage="x"), Attention.FAILING, "Why"),
        (cluster("a", condition("Ready", "False"), condition("Stalled", "True", "S")), Attention.FAILING, "S"),
        (
            cluster("a", READY, condition("CertificatesValid", "False", "CertificatesExpired")),
            Attention.FAILING,
            "CertificatesExpired",
        ),
        (
            cluster("a", READY, condition("Synced", "False", "D"), condition("CertificatesValid", "False", "C")),
            Attention.WARNED,
            "C",
        ),
        (cluster("a", READY, condition("Synced", "Unknown")), Attention.READY, ""),
        (cluster("a", READY, annotations={PAUSED_ANNOTATION: "true"}), Attention.HELD, "Paused"),
        (cluster("a", READY, annotations={MOVE_ANNOTATION: "x"}), Attention.HELD, "Moving"),
        (cluster("management", READY, annotations={PAUSED_ANNOTATION: "true"}), Attention.READY, ""),
    ],
)
def test_a_state_follows_from_conditions(made: Cluster, expected: Attention, reason: str) -> None:
    (row,) = fleet.rows([made], {})
    assert (row.attention, row.reason) == (expected, reason)


def test_the_longest_trouble_stands_first() -> None:
    waiting = [
        cluster(name, condition("Ready", "False", since=f"2026-01-0{day}T00:00:00Z"))
        for name, day in (("b", 3), ("c", 2))
    ]
    failing = cluster("z", condition("Ready", "False", since="2026-01-04T00:00:00Z"), condition("Stalled", "True"))
    rows = fleet.rows([cluster("a", READY), *waiting, failing], None)
    assert [row.key.name for row in rows] == ["z", "c", "b", "a"]
    assert fleet.summary(rows) == "4 clusters: 1 failing, 2 waiting, 1 ready"


def test_record_without_machines_here_has_no_counts() -> None:
    """Its machines are elsewhere, if it has any."""
    counts = {Key("default", "real"): MachineCounts(1, 1, 0)}
    elsewhere = condition("ControlPlaneReady", "True", "ServesThisAPI")
    records = [cluster("laptop", READY, elsewhere), cluster("real", READY)]
    for record in records:
        record.spec.management_cluster.name = record.metadata.name
    rows = {row.key.name: row.machines for row in fleet.rows([*records, cluster("garden", READY)], counts)}
    assert rows == {"laptop": None, "real": counts[Key("default", "real")], "garden": MachineCounts()}


def test_machines_are_counted_by_their_cluster() -> None:
    labels = ClusterIdentity.of(Key("default", "garden")).labels

    def owner(kind: type, wanted: int, labels: dict[str, str], **status: int) -> Object:
        reference = {"apiGroup": "x", "kind": "X", "name": "x"}
        machine = {"clusterName": "garden", "bootstrap": {}, "infrastructureRef": reference}
        spec = {
            "replicas": wanted,
            "version": "v1",
            "clusterName": "garden",
            "machineTemplate": {"spec": {"infrastructureRef": reference}},
            "template": {"spec": machine},
        }
        tree = {"apiVersion": "x/v1", "kind": kind.__name__, "metadata": {"name": "x", "labels": labels}}
        return Object(to_bytes({**tree, "spec": spec, "status": status}))

    counted = fleet.machines_of(
        [owner(KubeadmControlPlane, 3, labels, replicas=4, readyReplicas=3, upToDateReplicas=2)],
        [
            owner(MachineDeployment, 2, labels, replicas=2, readyReplicas=2, upToDateReplicas=2),
            owner(MachineDeployment, 9, {}, replicas=9),
        ],
        Adoptions(Snapshot()),
    )
    assert counted == {Key("default", "garden"): MachineCounts(5, 5, 2)}
    assert top.machines_in_words(counted[Key("default", "garden")]) == "5/5 (2 old)"


LONG = "platform-engineering-of-europe/production-cluster-with-a-long-name"


@pytest.mark.parametrize("table", [top.FLEET, top.WIDE])
@pytest.mark.parametrize("width", [60, 80, 100, 200])
@pytest.mark.parametrize("name", ["default/c", LONG])
def test_screen_has_room_for_the_first_and_the_prompt(name: str, width: int, table: Table) -> None:
    cells = [[f"{name}{at:02}", *("x" * 7 for _ in table.columns[2:]), "w " * 40] for at in range(50)]
    for lines in (10, 24, 80):
        shown = top.on_screen(table, cells, width, lines)
        used = len(Layout(table, width).lines(shown))
        assert used <= lines - 4 or len(shown) == 1
        assert len(shown) == 50 or len(Layout(table, width).lines(cells[: len(shown) + 1])) > lines - 4


def test_long_name_has_a_line_of_its_own() -> None:
    """The other columns stay side by side, and every name whole."""
    sentence = "machine garden-md-0-a is not healthy: its kubelet has stopped posting its status"
    rows = [
        ("default/garden", "ready", "5d", "1.35", "3/3", ""),
        (LONG, "failing", "12d", "1.36", "11/13 (2 old)", sentence),
    ]
    assert Layout(top.FLEET, 80).lines(rows) == [
        "CLUSTER                             STATE     SINCE   KUBERNETES   MACHINES",
        "    WHY",
        "default/garden                      ready     5d      1.35         3/3",
        LONG,
        "                                    failing   12d     1.36         11/13 (2 old)",
        "    machine garden-md-0-a is not healthy: its kubelet has stopped posting its…",
    ]
    assert Layout(top.FLEET, None).lines(rows)[2].startswith(f"{LONG}   failing")


def test_a_fleet_of_none_is_told() -> None:
    assert fleet.summary([]) == "no clusters"


def test_the_wide_fleet_has_releases_and_reasons(capsys: pytest.CaptureFixture[str]) -> None:
    """With `-o wide`; without it, neither."""
    rows = fleet.rows([cluster("garden", condition("Ready", "False", reason="Waiting"))], None)
    rows = [replace(row, release="v0.26.0") for row in rows]
    for wide in (True, False):
        output.write_table(*top.table_of(rows, datetime(2026, 1, 1, tzinfo=UTC), wide=wide))
        shown = capsys.readouterr().out
        assert ("RELEASE" in shown, "v0.26.0" in shown, "  Waiting  " in shown) == (wide, wide, wide)
