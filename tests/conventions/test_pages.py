"""The reference pages are those of the tables in the code, and the tables have all that the code uses."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from espalier.api.definitions.crd import crd_of
from espalier.api.definitions.reference import EventReason, Reason
from espalier.api.eksa.vocabulary import condition_types, events, reasons
from espalier.api.gardener import GARDEN_KINDS, SEED_KINDS, etcd
from espalier.api.gardener.garden import seed, shoot
from espalier.api.gardener.vocabulary import condition_types as gardener_conditions
from espalier.api.gardener.vocabulary import events as gardener_events
from espalier.api.gardener.vocabulary import reasons as of_gardener
from espalier.cli import pages
from espalier.clusters.report import measures as clusters
from espalier.clusters.report import status
from espalier.etcdbackup.snapshotter import measures as backups
from espalier.kube import metrics as requests
from espalier.moving.objects import MOVING
from espalier.runtime import metrics as managers
from espalier.shoots.extension.dependents import DEPENDENTS_KEPT
from espalier.shoots.extension.lease import LEASE_VALID
from espalier.upgrades.node import containers as node_steps

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "espalier"
REFERENCE = ROOT / "docs" / "reference"
GOLDEN = (Path(__file__).with_name("persisted.golden")).read_text().splitlines()
"""The writes of a cluster's whole life, and the constants of the code: test_persisted.py compares them."""

KEYS = {
    field: {key for key, _ in rows}
    for field, rows in zip(("annotation", "label", "finalizer"), pages.metadata_of_clusters(), strict=True)
}
ALL_KEYS = set().union(*KEYS.values())
NO_KEYS = {
    "anywhere.eks.amazonaws.com/v1alpha1": "an API version",
    "anywhere.eks.amazonaws.com/kubeconfig": "the type of a Secret",
}
WRITES = {"Write", "write"}
"""Functions that write objects for a Cluster and record which, under the reason that comes last."""
CAMEL_CASE = re.compile(r"[A-Z][a-z]+([A-Z]+[a-z]*)*$")


@pytest.mark.parametrize("name", pages.PAGES)
def test_a_page_is_that_of_its_table(name: str) -> None:
    """When this fails: make pages."""
    assert (REFERENCE / name).read_text() == pages.page(name)


def test_there_are_no_other_pages() -> None:
    results = [*REFERENCE.glob("*.md"), *(REFERENCE / "gardener").glob("*.md")]
    assert {path.relative_to(REFERENCE).as_posix() for path in results} == set(pages.PAGES)


def golden(section: str) -> Iterator[str]:
    return (line.removeprefix(f"{section}: ") for line in GOLDEN if line.startswith(f"{section}: "))


def test_each_key_of_our_own_is_in_table_of_metadata() -> None:
    """When this fails: annotate the constant with its prose (`espalier/api/definitions/reference.py`)."""
    ours = {
        text
        for text in golden("constant")
        if "anywhere.eks.amazonaws.com/" in text or text.endswith("/in-place-upgrade-needed")
    }
    assert ours - NO_KEYS.keys() - ALL_KEYS == set()


@pytest.mark.parametrize("metadata_field", KEYS)
def test_annotations_and_labels_of_cluster_are_listed(metadata_field: str) -> None:
    written = {line.split()[1] for line in golden(metadata_field)}
    ours = {key for key in written if "anywhere.eks.amazonaws.com" in key or key == "eks-d-upgrader"}
    assert ours - KEYS[metadata_field] == set()


def test_each_key_of_the_table_is_used() -> None:
    used = set(golden("constant")) | {line.split()[1] for metadata_field in KEYS for line in golden(metadata_field)}
    files = [SOURCE / "api" / "capi" / "cluster.py", SOURCE / "api" / "moves.py"]
    constants = "\n".join(path.read_text() for path in files)
    unused = {key for key in ALL_KEYS if key not in used and f'"{key}"' not in constants}
    assert unused == set()


def recorded() -> Iterator[tuple[str, str]]:
    """Type and reason of each Event that the code records, under a literal name or a constant."""
    for package in ("clusters", "upgrades", "shoots", "simulator", "realnodes", "runtime"):
        for path in sorted((SOURCE / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "event":
                    texts = [text for arg in node.args if (text := _text(arg, path))]
                    if len(texts) > 1 and texts[0] in ("Normal", "Warning"):
                        yield texts[0], texts[1]
                if isinstance(node, ast.Call) and getattr(node.func, "id", getattr(node.func, "attr", "")) in WRITES:
                    last = node.args[-1] if node.args else None
                    if last is not None and CAMEL_CASE.match(reason := _text(last, path)):
                        yield "Normal", reason


def _text(expression: ast.expr, path: Path) -> str:
    """A literal, or the constant of a module; empty for all else."""
    if isinstance(expression, ast.Constant):
        return str(expression.value)
    if isinstance(expression, ast.Name) and expression.id.isupper():
        return str(getattr(_module(path), expression.id, ""))
    if isinstance(expression, ast.Attribute):
        result = getattr(getattr(_module(path), ast.unparse(expression.value), None), expression.attr, "")
        return result.value if isinstance(result, Reason | EventReason) else ""
    return ""


def _module(path: Path) -> ModuleType:
    return importlib.import_module(".".join(("espalier", *path.relative_to(SOURCE).with_suffix("").parts)))


def test_each_event_is_in_the_table_with_its_type() -> None:
    """When this fails: add a constant to `espalier/api/eksa/vocabulary/events.py`, or that of Gardener."""
    names = set(recorded())
    assert len(names) > 10
    assert names - {(item.type, item.name) for item in (*events.EVENTS, *gardener_events.EVENTS)} == set()
    assert {(event.type, event.name) for event in gardener_events.EVENTS} <= names


def test_events_of_a_whole_life_are_in_a_table() -> None:
    known = {*events.Event, *gardener_events.Event, *reasons.Reason}
    assert set(golden("reason of an event")) - known == set()


def test_each_event_of_the_table_is_recorded() -> None:
    code = "\n".join(path.read_text() for name in ("clusters", "upgrades") for path in (SOURCE / name).rglob("*.py"))
    given = {events.Event[name].value for name in re.findall(r"\bEvent\.([A-Z_]+)", code)}
    given |= {reasons.Reason[name].value for name in re.findall(r"\bReason\.([A-Z_]+)", code)}
    given |= {condition_types.Satisfied[name].value for name in re.findall(r"\bSatisfied\.([A-Z_]+)", code)}
    assert {item.value for item in events.Event if f'"{item.value}"' not in code} - given == set()


def test_each_condition_of_our_kinds_is_in_the_table() -> None:
    """When this fails: annotate the constant with its prose (`espalier/api/definitions/reference.py`)."""
    told = {kind: set(pages.conditions_of(kind)) for kind in (reasons.GROUP, reasons.NODE)}
    steps = {step.condition for step in (*node_steps.STEPS, *node_steps.ONLY_CERTIFICATES)} | {node_steps.POD_CREATED}
    assert told[reasons.NODE] == {*steps, "Ready", "Progressing", "Accepted"}
    for line in golden("condition"):
        kind, condition = line.split()
        if kind.endswith("Upgrade"):
            assert condition in told[reasons.NODE if kind == reasons.NODE else reasons.GROUP], line
    assert set(pages.conditions_of(reasons.CLUSTER)) == {*status._SHOWN, MOVING}


def test_each_reason_of_true_condition_is_in_table() -> None:
    """When this fails: add a constant to Satisfied in `espalier/api/eksa/vocabulary/condition_types.py`."""
    code = "\n".join(path.read_text() for name in ("clusters", "upgrades") for path in (SOURCE / name).rglob("*.py"))
    assert set(re.findall(r'"True", "([A-Z]\w+)"', code)) <= {"False"}
    assert set(re.findall(r"\bSatisfied\.([A-Z_]+)", code)) == set(condition_types.Satisfied.__members__)


def test_each_condition_of_gardeners_kinds_is_in_table() -> None:
    """When this fails: annotate the constant with its prose (`espalier/api/definitions/reference.py`)."""
    told = {kind: set(pages.conditions_of_gardeners(kind)) for kind in of_gardener.WHERE}
    assert {kind: types for kind, types in told.items() if types} == {
        of_gardener.SHOOT: {*shoot.REPORTED_BY_GARDENLET, shoot.READY_FOR_MIGRATION},
        of_gardener.SEED: {
            seed.CLOCKS_AGREE,
            seed.GARDENLET_READY,
            seed.SHOOTS_REMOVED,
            seed.SYSTEM_COMPONENTS_HEALTHY,
            f"{seed.BUCKET_REACHABLE}SEED",
        },
        of_gardener.ETCD: {etcd.READY, etcd.DATA_VOLUMES_READY},
        of_gardener.EXTENSION: {DEPENDENTS_KEPT, LEASE_VALID},
    }
    types = {name.removesuffix("SEED") for names in told.values() for name in names}
    for path in sorted((SOURCE / "shoots").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Condition":
                given = ast.unparse(node.args[0])
                value = _text(node.args[0], path) or given
                assert value in types | {"type", "condition.type", "names.LEASE_VALID"}, path


def test_condition_columns_of_gardener_can_be_filled() -> None:
    """When this fails: nothing sets the condition; remove the column."""
    columns = str([crd_of(kind) for kind in (*GARDEN_KINDS, *SEED_KINDS)])
    shown = set(re.findall(r'conditions\[\?\(@\.type=="(\w+)"', columns))
    assert shown <= {name for kind in of_gardener.WHERE for name in pages.conditions_of_gardeners(kind)}


def test_true_reasons_of_gardener_are_in_the_table() -> None:
    """When this fails: add a constant to Satisfied in `espalier/api/gardener/vocabulary/condition_types.py`."""
    code = "\n".join(path.read_text() for path in (SOURCE / "shoots").rglob("*.py"))
    assert set(re.findall(r'"True", "([A-Z]\w+)"', code)) <= {"False"}
    used = set(re.findall(r"\bSatisfied\.([A-Z_]+)", code))
    assert used == set(gardener_conditions.Satisfied.__members__)


KEY_OF_GARDENER = re.compile(r"([a-z]+\.)*(gardener\.cloud|sapcloud\.io)/[A-Za-z-]+$")
NO_KEYS_OF_GARDENER = {
    "espalier.gardener.cloud/etcd": "an image",
    "espalier.gardener.cloud/etcd-backup-restore": "an image",
    "espalier.gardener.cloud/machine-controller-manager": "an image",
    "espalier.gardener.cloud/machine": "a tag of virtual machines",
    "espalier.gardener.cloud/machine-deployment": "a tag of virtual machines",
    "espalier.gardener.cloud/machine-set": "a tag of virtual machines",
    "espalier.gardener.cloud/state": "the type of a Secret",
}


def strings_of_gardener() -> Iterator[str]:
    """All literals and constants of the code for Gardener's kinds."""
    for package in ("api/gardener", "shoots"):
        for path in sorted((SOURCE / package).rglob("*.py")):
            yield from (value for value in vars(_module(path)).values() if isinstance(value, str))
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield node.value


def test_keys_on_gardener_kinds_are_listed_and_used() -> None:
    """When this fails: annotate the constant with its prose (`espalier/api/definitions/reference.py`), or remove it."""
    used = set(strings_of_gardener())
    told = {key for rows in pages.metadata_of_shoots() for key, _ in rows}
    results = {text for text in used if KEY_OF_GARDENER.match(text)}
    assert results - NO_KEYS_OF_GARDENER.keys() - told == set()
    assert {key for key in told if key.removesuffix("KIND") not in used} == set()


def test_each_metric_is_in_the_table() -> None:
    """When this fails: declare it as a `Measure`, and list it in MEASURES."""
    declared = [*managers.MEASURES, *requests.MEASURES, *backups.MEASURES, *clusters.MEASURES]
    metrics = managers.Metrics()
    requests.RequestMetrics(metrics.registry)
    served = [*metrics.registry.collect(), *backups.Measures().registry.collect()]
    assert {family.name for family in served} <= {item.name for item in declared}
    stored = {line.split()[0] for line in golden("metric")}
    assert stored == {item.name for item in declared}


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
