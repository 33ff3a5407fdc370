"""The reference pages are those of the tables in the code, and the tables have all that the code uses."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from espalier.api.eksa import condition_types, events, reasons
from espalier.api.reference import Sort
from espalier.cli import pages
from espalier.clusters import status, synced
from espalier.etcdbackup.snapshotter import measures as backups
from espalier.kube import metrics as requests
from espalier.runtime import metrics as managers
from espalier.upgrades.node import containers as node_steps

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "espalier"
REFERENCE = ROOT / "docs" / "reference"
GOLDEN = (Path(__file__).with_name("persisted.golden")).read_text().splitlines()
"""What a whole life of a cluster writes, and what the code has as constants: test_persisted.py compares it."""

KEYS = {sort: {one.key for one in rows} for sort, rows in pages.metadata_rows().items()}
ALL_KEYS = set().union(*KEYS.values())
NO_KEYS = {
    "anywhere.eks.amazonaws.com/v1alpha1": "an API version",
    "anywhere.eks.amazonaws.com/kubeconfig": "the type of a Secret",
}
WRITES = {"Write", "write"}
"""What writes objects for a Cluster and records which, under the reason that comes last."""
CAMEL_CASE = re.compile(r"[A-Z][a-z]+([A-Z]+[a-z]*)*$")


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_is_that_of_its_table(name: str) -> None:
    """When this fails: make pages."""
    assert (REFERENCE / name).read_text() == pages.page(name)


def test_there_are_no_other_pages() -> None:
    assert {path.name for path in REFERENCE.glob("*.md")} == set(pages.PAGES)


def golden(section: str) -> Iterator[str]:
    return (line.removeprefix(f"{section}: ") for line in GOLDEN if line.startswith(f"{section}: "))


def test_each_key_of_our_own_is_in_the_table_of_metadata() -> None:
    """When this fails: add a row to `espalier/api/eksa/metadata_keys.py`, or to its provider."""
    ours = {
        text
        for text in golden("constant")
        if "anywhere.eks.amazonaws.com/" in text or text.endswith("/in-place-upgrade-needed")
    }
    assert ours - NO_KEYS.keys() - ALL_KEYS == set()


@pytest.mark.parametrize("sort", Sort)
def test_what_a_cluster_carries_is_in_the_table_as_what_it_is(sort: Sort) -> None:
    written = {line.split()[1] for line in golden(sort.value)}
    ours = {key for key in written if "anywhere.eks.amazonaws.com" in key or key == "eks-d-upgrader"}
    assert ours - KEYS[sort] == set()


def test_each_key_of_the_table_is_used() -> None:
    used = set(golden("constant")) | {line.split()[1] for sort in Sort for line in golden(sort.value)}
    constants = "\n".join(path.read_text() for path in (SOURCE / "clusterapi").glob("*.py"))
    unused = {key for key in ALL_KEYS if key not in used and f'"{key}"' not in constants}
    assert unused == set()


def recorded() -> Iterator[tuple[str, str]]:
    """Type and reason of each Event that the code records under a literal name."""
    for package in ("clusters", "upgrades", "simulator", "realnodes", "runtime"):
        for path in sorted((SOURCE / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "event":
                    said = [str(one.value) for one in node.args if isinstance(one, ast.Constant)]
                    if len(said) > 1 and said[0] in ("Normal", "Warning"):
                        yield said[0], said[1]
                if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in WRITES:
                    last = node.args[-1] if node.args else None
                    if isinstance(last, ast.Constant) and CAMEL_CASE.match(str(last.value)):
                        yield "Normal", str(last.value)


def test_each_event_is_in_the_table_with_its_type() -> None:
    """When this fails: add a row to `espalier/api/eksa/events.py`."""
    found = set(recorded())
    assert len(found) > 10
    assert found - {(one.type, one.name) for one in events.EVENTS} == set()


def test_events_of_a_whole_life_are_in_a_table() -> None:
    assert set(golden("reason of an event")) - events.BY_NAME.keys() - reasons.BY_NAME.keys() == set()


def test_each_event_of_the_table_is_recorded() -> None:
    code = "\n".join(path.read_text() for name in ("clusters", "upgrades") for path in (SOURCE / name).rglob("*.py"))
    assert {name for name in events.BY_NAME if f'"{name}"' not in code} == set()


def test_each_condition_of_our_kinds_is_in_the_table() -> None:
    """When this fails: add a row to `espalier/api/eksa/condition_types.py`."""
    told = {kind: {one.name for one in condition_types.of_kind(kind)} for kind in (reasons.GROUP, reasons.NODE)}
    steps = {step.condition for step in node_steps.STEPS} | {node_steps.POD_CREATED}
    assert told[reasons.NODE] == {*steps, "Ready", "Progressing", "Accepted"}
    for line in golden("condition"):
        kind, condition = line.split()
        if kind.endswith("Upgrade"):
            assert condition in told[reasons.NODE if kind == reasons.NODE else reasons.GROUP], line
    assert {one.name for one in condition_types.of_kind(reasons.CLUSTER)} == set(status._SHOWN)


def test_each_reason_of_a_true_condition_is_in_the_table() -> None:
    """When this fails: add a row to SATISFIED in `espalier/api/eksa/condition_types.py`."""
    code = "\n".join(path.read_text() for name in ("clusters", "upgrades") for path in (SOURCE / name).rglob("*.py"))
    given = set(re.findall(r'"True", "([A-Z]\w+)"', code)) - {"False"}
    assert {"ClusterReady", "ServesThisAPI"} <= given
    assert given | {synced.AS_RENDERED, node_steps.SKIPPED} == set(condition_types.SATISFIED)


def test_each_metric_is_in_the_table() -> None:
    """When this fails: declare it as a `Measure`, and list it in MEASURES."""
    declared = [*managers.MEASURES, *requests.MEASURES, *backups.MEASURES]
    metrics = managers.Metrics()
    requests.RequestMetrics(metrics.registry)
    served = [*metrics.registry.collect(), *backups.Measures().registry.collect()]
    assert {family.name for family in served} <= {one.name for one in declared}
    stored = {line.split()[0] for line in golden("metric")}
    assert stored == {one.name for one in declared}


def test_metrics_are_made_of_measures_alone() -> None:
    made = {"Counter", "Gauge", "Histogram", "Summary", "CounterMetricFamily", "GaugeMetricFamily"}
    for path in sorted(SOURCE.rglob("*.py")):
        text = path.read_text()
        if "prometheus_client" in text and path.name != "measures.py":
            imported = {
                alias.name
                for node in ast.walk(ast.parse(text))
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("prometheus_client")
                for alias in node.names
            }
            assert not imported & made, path
