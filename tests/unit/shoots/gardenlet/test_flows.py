"""The gardenlet's flows as graphs: what safety asks of their order, whatever the world is like."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from espalier.shoots.flow.drawing import draw
from espalier.shoots.flow.status import read
from espalier.shoots.gardenlet.comparison import holds, stamped
from espalier.shoots.gardenlet.reconciling.flows import DELETE, LEAVE, MIGRATE, RECONCILE, flow_of

BEFORE_OWNERSHIP = {
    "Wait for ownership epoch",
    "Generate secrets",
    "Deploy namespace",
    "Deploy secrets",
    "Derive secrets",
    "Deploy provider credentials",
    "Deploy backup entry",
    "Deploy source backup entry",
    "Copy backups",
    "Remove copying etcd",
    "Remove source backup entry",
    "Wait for lease of source",
    "Deploy services",
}
"""Tasks of which nothing serves or acts for the shoot: no etcd, no controller, no extension."""


def test_nothing_acts_before_ownership_is_taken() -> None:
    others = RECONCILE.names - BEFORE_OWNERSHIP - {"Take ownership"}
    assert RECONCILE.dependents(["Take ownership"]) == others


@pytest.mark.demand("G30")
def test_secrets_reach_the_seed_after_the_state() -> None:
    assert "Deploy secrets" in RECONCILE.dependents(["Generate secrets"])


@pytest.mark.demand("G61")
def test_source_is_asked_only_while_the_copy_runs() -> None:
    assert "Remove source backup entry" in RECONCILE.dependents(["Copy backups"])
    assert "Take ownership" in RECONCILE.dependents(["Remove source backup entry"])
    assert "Take ownership" in RECONCILE.dependents(["Wait for lease of source"])


@pytest.mark.demand(G3="controllers wait for them")
def test_names_lead_to_new_seed_while_programs_start() -> None:
    """Resolvers keep the old answer for its time to live, which passes meanwhile; no name leads there earlier."""
    assert "Deploy DNS records" in RECONCILE.dependents(["Take ownership"])
    assert "Deploy DNS records" not in RECONCILE.dependents(["Deploy etcd"])
    assert "Wait for nodes" in RECONCILE.dependents(["Deploy kube-apiserver"])
    assert "Wait for nodes" in RECONCILE.dependents(["Deploy DNS records"])
    assert "Deploy kube-controller-manager" in RECONCILE.dependents(["Wait for nodes"])


@pytest.mark.demand("G35")
def test_nothing_stops_before_the_destination_is_ready() -> None:
    assert MIGRATE.dependents(["Wait for destination"]) == MIGRATE.names - {
        "Wait for destination",
        "Check extension state",
    }


@pytest.mark.demand("G36", "G38", "G39", "G67")
def test_etcd_is_handed_over_last_but_one() -> None:
    order = ["Stop controllers", "Migrate extension resources", "Persist extension state"]
    order += ["Remove extension resources", "Hand over etcd", "Release"]
    for before, after in [*pairwise(order), *pairwise(["Stop controllers", "Stop kube-apiserver", "Hand over etcd"])]:
        assert after in MIGRATE.dependents([before])


@pytest.mark.demand("G67")
def test_lost_shoots_etcd_stays_until_the_next_starts() -> None:
    assert {"Remove etcd", "Remove namespace", "Remove cluster"} <= LEAVE.dependents(["Wait for successor"])
    assert "Remove extension resources" in LEAVE.dependents(["Migrate extension resources"])


def test_machines_go_before_controller_and_network() -> None:
    assert "Stop machine-controller-manager" in DELETE.dependents(["Delete worker"])
    assert "Delete infrastructure" in DELETE.dependents(["Delete worker"])
    assert "Delete cluster" in DELETE.dependents(["Delete namespace"])  # with it goes the lease that deletions need


@pytest.mark.demand("G4")
def test_creation_reconcile_and_restore_are_one_graph() -> None:
    assert flow_of("Create") is flow_of("Reconcile") is flow_of("Restore") is RECONCILE
    assert flow_of("Migrate") is MIGRATE
    assert flow_of("Delete") is DELETE


def test_flow_can_be_drawn_from_status_of_shoot() -> None:
    description = "Hand over etcd (FinalSnapshot): the CopyOperation of epoch 1 is Initial"
    lines = draw(MIGRATE, read(MIGRATE, description, {})).splitlines()
    assert lines[0] == "Migrate: 80 % of 10 tasks"
    assert [line.strip() for line in lines[-2:]] == [
        "[~] Hand over etcd: FinalSnapshot: the CopyOperation of epoch 1 is Initial",
        "[ ] Release  after Hand over etcd",
    ]


def trees() -> st.SearchStrategy[Any]:
    leaves = st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2)
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=1), inner),
        max_leaves=8,
    )


@given(trees(), st.dictionaries(st.text("xyz", min_size=1, max_size=1), st.integers()))
def test_defaults_of_an_api_server_make_no_difference(tree: Any, added: dict[str, int]) -> None:
    def grown(value: Any) -> Any:
        if isinstance(value, dict):
            return {**{key: grown(inner) for key, inner in value.items()}, **added}
        return [grown(item) for item in value] if isinstance(value, list) else value

    assert holds(grown(tree), tree)


@given(trees(), trees())
def test_each_has_all_of_other_only_if_they_are_equal(first: Any, other: Any) -> None:
    assert (holds(first, other) and holds(other, first)) == (first == other)


def test_unrendered_field_changes_the_digest() -> None:
    body = {"metadata": {"name": "a"}, "spec": {"b": 1, "c": 2}}
    fewer = {"metadata": {"name": "a"}, "spec": {"b": 1}}
    assert holds(stamped(body), stamped(body))
    assert not holds(stamped(body), stamped(fewer))


@pytest.mark.parametrize("operation", ["Create", "Reconcile", "Restore", "Migrate", "Delete"])
def test_a_drawn_flow_has_the_name_of_its_operation(operation: str) -> None:
    """A restore runs the flow of a reconcile; who looks at a move asked for none."""
    flow = flow_of(operation)
    heading = draw(flow, read(flow, "", {}), operation).splitlines()[0]
    assert heading == f"{operation}: 100 % of {len(flow.tasks)} tasks"
