"""The summary that `espalier describe cluster` begins with, on terminals and in pipes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from espalier.api.eksa.vocabulary.group import MOVE_ANNOTATION
from espalier.api.meta import Tree
from espalier.cli.clusters.reports.describe import (
    BEING_MOVED,
    Messages,
    _event_row,
    _lines,
    _row,
    _top,
    within,
)
from espalier.clusterapi.ownership_tree import Member, tree_of
from espalier.upgrades.under_way import is_under_way

NOW = datetime(2026, 1, 1, tzinfo=UTC)

FACT = "Ready     False for 3m: spec.workerNodeGroupConfigurations[0].failureDomains: waiting for Secret eksa-system/a"


@pytest.mark.parametrize("width", [70, 80, 100])
def test_long_sentence_is_wrapped_below_its_beginning(width: int) -> None:
    first, *rest = within(FACT, width)
    assert max(map(len, (first, *rest))) <= width
    assert all(line.startswith(" " * 10) and line[10] != " " for line in rest)
    assert " ".join([first, *(line.strip() for line in rest)]) == FACT


def test_in_a_pipe_it_is_one_line() -> None:
    assert within(FACT, 0) == [FACT]


def tree(kind: str, name: str, *owners: Tree, version: str = "", **ready: Any) -> Tree:
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"{kind}-{name}",
            "ownerReferences": [{"uid": owner["metadata"]["uid"]} for owner in owners],
        },
        "spec": {"version": version} if version else {},
        "status": {"conditions": [{"type": "Ready", "reason": "Why", **ready}]} if ready else {},
    }


CAUSE = "image ubuntu-1.36 does not exist in datacenter vineyard"
ROOT = tree("Cluster", "garden", status="False", message=f"worker md-0: {CAUSE}")
SET = tree("MachineSet", "garden-md-0", ROOT, status="False", message=f"* {CAUSE}")
SICK = [tree("Machine", name, SET, status="False", message=CAUSE) for name in ("a", "b", "c")]
WELL = [
    tree("Machine", name, SET, version=version, status="True")
    for name, version in (("d", "v1.35.1"), ("e", "v1.36.1"), ("f", "v1.35.1"))
]


def rows(messages: Messages, *objects: Tree) -> list[tuple[str, ...]]:
    return [_row(line, members, NOW, messages) for line, members in _lines(tree_of(ROOT, objects), show_all=False)]


def test_one_message_is_printed_once() -> None:
    messages = Messages()
    top = _top(tree_of(ROOT, [SET, *SICK]), "", NOW, "", messages)
    text = "\n".join([*top, *(cell for row in rows(messages, SET, *SICK) for cell in row)])
    assert text.count(CAUSE) == 1
    assert text.count("as above") == 6  # the object that blocks, the cluster, its MachineSet, three Machines


def test_another_message_is_not_lost() -> None:
    other = tree("Machine", "g", SET, status="False", message="its node does not answer")
    result = rows(Messages(), SET, SICK[0], other)
    assert [row[-1] for row in result if "Machine " in row[0]] == ["as above", "Why: its node does not answer"]


def test_machines_are_shown_with_their_versions() -> None:
    results = {row[0].lstrip("│├└─ "): row[1] for row in rows(Messages(), SET, *WELL)}
    assert results["2 Machines d, f"] == "v1.35.1"
    assert results["Machine e"] == "v1.36.1"


def test_a_machine_has_the_version_of_its_kubelet() -> None:
    behind = WELL[1] | {"status": {"nodeInfo": {"kubeletVersion": "v1.35.1"}}}
    assert Member(behind).version == "v1.35.1"


@pytest.mark.parametrize(("reason", "expected"), [("DrainingNode", True), ("DrainingNodeFailed", False)])
def test_an_upgrade_that_progresses_blocks_nothing(reason: str, *, expected: bool) -> None:
    upgrade = tree("NodeUpgrade", "a", status="False") | {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1"}
    upgrade["status"]["conditions"][0]["reason"] = reason
    assert is_under_way(Member(upgrade)) is expected


@pytest.mark.parametrize(
    ("value", "told"),
    [("espalier-upgrade-12ab", "`espalier upgrade cluster` has paused the cluster"), ("true", "nothing is done until")],
    ids=["by a command", "by hand"],
)
def test_a_pause_stands_on_top(value: str, told: str) -> None:
    """Also where no condition says it: a manager may have nothing to do but to compare."""
    annotations = {"anywhere.eks.amazonaws.com/paused": value}
    spec = {"managementCluster": {"name": "management"}}
    paused = ROOT | {"metadata": ROOT["metadata"] | {"annotations": annotations}, "spec": spec}
    (line,) = (item for item in _top(tree_of(paused, []), "", NOW, "", Messages()) if item.startswith("Paused"))
    assert line.startswith(f"Paused    {told}")


@pytest.mark.parametrize(
    ("machines", "told"),
    [
        (
            [tree("Cluster", "management")],
            "record of the management cluster; change it with `espalier upgrade cluster`",
        ),
        ([], "record of the management cluster; it has no machines here, so nothing is done for it"),
    ],
    ids=["with machines", "without"],
)
def test_a_paused_record_names_its_command(machines: list[Tree], told: str) -> None:
    """The annotation is refused to be removed, and nothing would follow."""
    annotations = {"anywhere.eks.amazonaws.com/paused": "true"}
    record = tree("Cluster", "management") | {"apiVersion": "anywhere.eks.amazonaws.com/v1alpha1"}
    record["metadata"] |= {"annotations": annotations, "uid": "record"}
    for spec in ({}, {"managementCluster": {"name": "management"}}):
        top = _top(tree_of(record | {"spec": spec}, machines), "", NOW, "", Messages())
        assert [line for line in top if line.startswith("Paused")] == [f"Paused    {told}"]


def test_a_move_stands_on_top_with_its_way_out() -> None:
    """To remove the pause would change nothing: the record of the move holds the cluster."""
    annotations = {"anywhere.eks.amazonaws.com/paused": "espalier-move", MOVE_ANNOTATION: "{}"}
    moved = ROOT | {"metadata": ROOT["metadata"] | {"annotations": annotations}}
    (line,) = (item for item in _top(tree_of(moved, []), "", NOW, "", Messages()) if item.startswith("Paused"))
    assert line == f"Paused    {BEING_MOVED}"


@pytest.mark.parametrize(
    "blocking",
    [f"* {CAUSE} since noon, and the API of vCenter says so", "image ubuntu-1.36 does not exist in vineyard"],
    ids=["longer", "nearly equal"],
)
def test_what_blocks_and_ready_say_a_text_once(blocking: str) -> None:
    root = tree("Cluster", "garden", status="False", message=CAUSE)
    machine = tree("Machine", "a", root, status="False", message=blocking)
    top = [*_top(tree_of(root, [machine]), "", NOW, "", Messages())]
    (ready,) = (line for line in top if line.startswith("Ready"))
    (blocked,) = (line for line in top if line.startswith("Blocked"))
    longer = max(CAUSE, blocking.removeprefix("* "), key=len)
    assert (longer in ready) + (longer in blocked) == 1
    assert "ubuntu" not in (ready if longer in blocked else blocked)


def test_another_text_of_ready_stays() -> None:
    root = tree("Cluster", "garden", status="False", message="1 of 3 nodes are ready")
    machine = tree("Machine", "a", root, status="False", message=CAUSE)
    text = "\n".join(_top(tree_of(root, [machine]), "", NOW, "", Messages()))
    assert "1 of 3 nodes are ready" in text
    assert CAUSE in text


def test_the_progress_of_an_upgrade_is_shown_once() -> None:
    root = tree("Cluster", "garden", status="False", message=UPGRADED)
    root["status"]["conditions"][0]["reason"] = "InPlaceUpgradeInProgress"
    top = [*_top(tree_of(root, []), "", NOW, "0 of 3 nodes are upgraded; node a: draining", Messages())]
    assert "Ready     False: InPlaceUpgradeInProgress" in top
    assert sum("nodes are upgraded" in line for line in top) == 1
    (ready,) = (line for line in _top(tree_of(root, []), "", NOW, "", Messages()) if line.startswith("Ready"))
    assert UPGRADED in ready


UPGRADED = "0 of 1 nodes are upgraded; NodeUpgrade garden-a shows the progress of the next one"


def test_a_short_message_of_an_event_is_printed() -> None:
    messages = Messages()
    assert messages.once("3 nodes are ready") == "3 nodes are ready"
    event = {"metadata": {}, "type": "Normal", "reason": "Ready", "message": "3 nodes are ready"}
    assert _event_row(event, NOW, messages)[-1] == "3 nodes are ready"
    long = event | {"message": f"{CAUSE}: {CAUSE}"}
    assert [_event_row(long, NOW, messages)[-1] for _ in range(2)] == [long["message"], "as above"]


def test_messages_of_a_megabyte_are_compared_quickly() -> None:
    message = "a b c " * 200_000
    root = tree("Cluster", "garden", status="False", message=message)
    machine = tree("Machine", "garden-a", root, status="False", message=f"x {message}")
    assert [*_top(tree_of(root, [machine]), "", NOW, "", Messages())]
