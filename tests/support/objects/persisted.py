"""Every string that outlives a process: from the code where it is a constant, and from all that an environment wrote.

What is found is one line each, `section: string`. Names of Python are none of it: constants may be renamed and moved.
"""

from __future__ import annotations

import ast
import asyncio
import dataclasses
import importlib
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import apsw
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.metrics import MetricWrapperBase

from espalier.api.eksa.vocabulary import events
from espalier.api.eksa.vocabulary.group import GROUP
from espalier.api.gardener.vocabulary import events as gardener_events
from espalier.api.meta import Tree
from espalier.api.resource import Key
from espalier.apiserver.storage.sqlite import SqliteStore
from espalier.apiserver.storage.store import Change
from espalier.cli.kit.connecting.home import Home
from espalier.cli.local.lock import Holder
from espalier.kube.metrics import RequestMetrics
from espalier.realnodes.nspawn.system.state import EndpointRecord, NetworkRecord, NodeRecord, State
from espalier.runtime.metrics import Metrics
from espalier.simulator.workload_clusters.stores import FolderStores
from espalier.upgrades.node.containers import POD_CREATED, STEPS

SOURCE = Path(__file__).parents[3] / "src" / "espalier"

OURS = re.compile(
    rf"{re.escape(GROUP)}|^\.?(espalier|eks-a|eks-d|eksa)[ a-z0-9.-]*$|/in-place-upgrade-needed$|^in-place"
)
"""Constants of modules that get into objects: keys and names of our own."""
MODULES = re.compile(r"^espalier\.[a-z_.]+$|\.py$")
"""Names of modules and loggers, which nobody stores."""
PARTS = re.compile(r"^\S*/espalier-[^.]*$")
"""Names that are put together, of which no journey of this tier sees one: finalizers of real nodes."""
NO_NAME = re.compile(r"[ \[]")
SENTENCE = re.compile(r" .* .* ")
BY_NAME = re.compile(
    r"(^|_)(ANNOTATION|LABEL|FINALIZER|FIELD_MANAGER|GATE_KEY|GATE_KEY_FIELD|OPENED|UNFINISHED|FORMAT|MARK|SECRET_NAME)$"
)
"""The same where only the constant's name tells that its value is stored."""
ON_NODES = re.compile(r"^/(boot|etc|opt|run|usr|var)/[\w./-]+$")
VARIABLE = re.compile(r"^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$")

GENERATED = re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}(?=-|$)")
UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
DIGEST = re.compile(r"[0-9a-f]{8,}")
FROM_RELEASES = {"Bundles", "EKSARelease", "Release", "CustomResourceDefinition", "Event", "Namespace"}
"""Kinds whose names are those of releases, kinds and namespaces, or carry a time."""


def of_the_code(folder: Path) -> set[str]:
    """Names that need no running environment. In `folder` an empty database is made."""
    return {
        *_constants(),
        *_literals(),
        *_metrics(),
        *_database(folder / "management.db"),
        *_home(),
        *(f"condition of a step: {step.condition}" for step in STEPS),
        *(f"container of a step: {step.container}" for step in STEPS),
        f"condition of a step: {POD_CREATED}",
    }


def _constants() -> Iterator[str]:
    for path in sorted(SOURCE.rglob("*.py")):
        if path.stem == "__main__":
            continue
        name = ".".join(("espalier", *path.relative_to(SOURCE).with_suffix("").parts)).removesuffix(".__init__")
        for constant, value in vars(importlib.import_module(name)).items():
            if not constant.strip("_").isupper():
                continue
            for text in _texts(value):
                is_ours = OURS.search(text) and not MODULES.search(text) and not SENTENCE.search(text)
                if is_ours or (BY_NAME.search(constant) and not NO_NAME.search(text)):
                    yield f"constant: {text}"


def _texts(value: object) -> Iterator[str]:
    if isinstance(value, Key):
        yield str(value)
    elif isinstance(value, bytes):
        yield value.decode(errors="replace")
    elif isinstance(value, str):
        yield value
    elif isinstance(value, frozenset | set | tuple | list):
        for item in value:
            yield from _texts(item)


def _literals() -> Iterator[str]:
    """Paths on nodes, environment variables, reasons of events and names put together, wherever they stand."""
    for path in sorted(SOURCE.rglob("*.py")):
        source = path.read_text()
        reads_variables = "environ" in source or "ESPALIER_" in source
        for node in ast.walk(ast.parse(source)):
            text = _text(node)
            if ON_NODES.match(text):
                yield f"path: {text}"
            made = "".join(_text(value) or "{}" for value in node.values) if isinstance(node, ast.JoinedStr) else ""
            if PARTS.search(made):
                yield f"made of parts: {made}"
            if isinstance(node, ast.keyword) and node.arg in ("field_manager", "user_agent") and _text(node.value):
                yield f"field manager: {_text(node.value)}"
            if reads_variables:
                yield from (f"environment variable: {name}" for name in _variables(node) if VARIABLE.match(name))
            yield from (f"reason of an event: {reason}" for reason in _events(node) if reason)
    yield from (f"reason of an event: {item.value}" for item in (*events.Event, *gardener_events.Event))


def _text(node: ast.AST) -> str:
    """A literal; empty for all else."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _variables(node: ast.AST) -> Iterator[str]:
    """Those of a process itself, read by name, or named by a constant of ours."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        if "environ" in ast.unparse(node.func.value):
            yield from map(_text, node.args[:1])
    elif isinstance(node, ast.Subscript) and "environ" in ast.unparse(node.value):
        yield _text(node.slice)
    elif _text(node).startswith("ESPALIER_"):
        yield _text(node)


def _events(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "event":
        yield from (text for text in map(_text, node.args) if text not in ("Normal", "Warning"))


def _metrics() -> Iterator[str]:
    registry = CollectorRegistry()
    metrics = Metrics()
    for item in (*vars(metrics).values(), *vars(RequestMetrics(registry)).values()):
        if isinstance(item, MetricWrapperBase):
            [described] = item.describe()
            yield _metric(described, item._labelnames)


def of_metrics(registry: CollectorRegistry) -> Iterator[str]:
    """Metrics of a manager that has run, as far as they have values."""
    for family in registry.collect():
        labels = {label for sample in family.samples for label in sample.labels}
        if family.samples:
            yield _metric(family, labels - {"le"})


def _metric(family: Metric, labels: Iterable[str]) -> str:
    return f"metric: {family.name} ({family.type}) {', '.join(sorted(labels))}".rstrip()


def _database(file: Path) -> Iterator[str]:
    async def made() -> None:
        store = SqliteStore(file)
        await store.start()
        await store.close()

    asyncio.run(made())
    connection = apsw.Connection(str(file))
    try:
        for name, sql in connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"):
            yield f"SQLite: {name}: {' '.join(sql.split())}"
        for name, value in connection.execute("SELECT name, value FROM state"):
            yield f"SQLite: state {name} = {value}"
        for pragma in ("journal_mode", "user_version", "encoding"):
            [[value]] = connection.execute(f"PRAGMA {pragma}")
            yield f"SQLite: {pragma} = {value}"
    finally:
        connection.close()


def _home() -> Iterator[str]:
    home = Home(Path("HOME"))
    for var in vars(Home).values():
        if isinstance(var, property) and var.fget is not None:
            yield f"file: {var.fget(home)}"
    state = State(home.nodes)
    for value in vars(state.folder("NODE")).values():
        yield f"file: {value}"
    fields = {"node.json": NodeRecord, "network.json": NetworkRecord, "network.json endpoints": EndpointRecord}
    for name, record in fields.items():
        for field in record.__struct_encode_fields__:
            yield f"field of a file: {name} {field}"
    for held in dataclasses.fields(Holder):
        yield f"field of a file: {home.lock.name} {held.name}"
    workloads = FolderStores(Path("HOME"))
    yield f"file: {workloads._folder(Key('NAMESPACE', 'NAME'))}"


class Written:
    """All objects ever written to the stores of an environment."""

    def __init__(self) -> None:
        self._lines: set[str] = set()

    def wrote(self, change: Change) -> None:
        """To be subscribed to a store."""
        tree = change.after.tree
        kind, metadata = tree["kind"], tree["metadata"]
        for what in ("annotations", "labels"):
            for key, value in (metadata.get(what) or {}).items():
                self._note(f"{what[:-1]}: {kind} {key}{self._valued(key, value)}")
        for finalizer in metadata.get("finalizers") or ():
            self._note(f"finalizer: {kind} {finalizer}")
        for entry in metadata.get("managedFields") or ():
            self._note(f"field manager: {entry['manager']}")
        for condition in (tree.get("status") or {}).get("conditions") or ():
            if kind != "CustomResourceDefinition":
                self._note(f"condition: {kind} {condition['type']}")
        if kind not in FROM_RELEASES:
            self._note(f"name: {kind} {self._pattern(metadata['name'])}")
        if kind in ("ConfigMap", "Secret"):
            for key in tree.get("data") or ():
                self._note(f"data: {kind} {self._pattern(metadata['name'])} {self._pattern(key)}")
        if kind == "Event":
            self._note(f"reason of an event: {tree['reason']}")
        if kind == "Pod":
            self._pod(tree["spec"])

    def _pod(self, spec: Tree) -> None:
        for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
            for variable in container.get("env") or ():
                self._note(f"environment variable of a pod: {variable['name']}")
            for argument in (*(container.get("command") or ()), *(container.get("args") or ())):
                if argument.startswith("--"):
                    self._note(f"flag of a pod: {argument.partition('=')[0]}")

    def _note(self, line: str) -> None:
        self._lines.add(line)

    def _valued(self, key: str, value: str) -> str:
        """Values of our own keys that are words; digests, numbers and JSON are no names."""
        is_ours = GROUP in key or "in-place" in key or key.endswith("/paused")
        return f" = {self._pattern(value)}" if is_ours and re.fullmatch(r"[\w.:/ -]{1,80}", value) else ""

    def _pattern(self, text: str) -> str:
        text = GENERATED.sub("-*", DIGEST.sub("#", UID.sub("UID", text)))
        text = re.sub(r"v\d[\w.-]*", "VERSION", text)
        return re.sub(r"\d+", "N", text).replace("garden", "CLUSTER").replace("md-N", "GROUP")

    def lines(self) -> set[str]:
        """All of it."""
        return set(self._lines)
