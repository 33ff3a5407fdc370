"""YAML and JSON are read in one place each: what is read elsewhere is not measured, and may end the process.

YAML is written in one place too: what PyYAML alone writes is read as something else by Go.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "espalier"
YAML, JSON = "api/trees/yaml_trees.py", "api/trees/json_trees.py"
YAML_TEXT = "api/trees/yaml_text.py"
WRITES_YAML = frozenset({"dump_all", "CSafeDumper"})
MARKS_YAML = "Node"
"""A place in a text: the only name of the library for everybody."""

OWN = {
    "apiserver/": "what its store holds came in through bodies.py, or is encoded a line above",
    "clusters/": "written by itself, in its process",
    "etcdbackup/snapshots/deltas.py": "millions of events, into typed levels; beyond the decoder it is malformed",
    "etcdbackup/guard/": "lines of 4 KiB from its own agent, and an argument; it imports nothing of the package",
    "kube/objects.py": "of objects; beyond the limit of the decoder it is TooDeep",
    "simulator/": "files and programs of this machine, and what was measured when it was stored",
    "realnodes/": "files and programs of this machine, and what was measured when it was stored",
    "assets/": "files and programs of this machine",
    "upgrader/": "the program on a node imports nothing of the package; kubectl's and kubeadm's answers",
    "cli/local/lock.py": "a file of this program",
    "cli/kit/printing/output.py": "what the user of the command wrote as an argument",
}
"""Who decodes JSON without measuring it first, and why that is no stranger's."""

UNTRUSTED = {
    "apiserver/requests/bodies.py",
    "apiserver/wire/content.py",
    "apiserver/core/reading.py",
    "clusters/preview/asking.py",
    "simulator/bootstrap_data.py",
}
"""Who decodes what strangers wrote, though it stands in a folder named above."""


def calls(tree: ast.AST) -> Iterator[str]:
    """The dotted names that are used."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def files() -> list[tuple[str, list[str]]]:
    """Each file that may read either, with the names that it uses."""
    sources = {path.relative_to(SOURCE).as_posix(): path.read_text() for path in sorted(SOURCE.rglob("*.py"))}
    reading = {path: source for path, source in sources.items() if "yaml" in source or "json" in source}
    return [(path, list(calls(ast.parse(source)))) for path, source in reading.items()]


def test_nobody_else_reads_or_writes_yaml() -> None:
    others = [
        f"{file}: {name}"
        for file, names in files()
        for name in names
        if file != YAML and name.startswith("yaml.") and (used := re.split(r"\W", name)[1]) != MARKS_YAML
        if file != YAML_TEXT or used not in WRITES_YAML
    ]
    assert others == [], f"read it with {YAML}, write it with {YAML_TEXT}"


def test_untrusted_json_has_a_depth_limit_everywhere() -> None:
    readers = ("msgspec.json.decode", "msgspec.json.Decoder", "json.loads", "json.load", "msgspec.yaml.decode")
    others = [
        f"{file}: {name}"
        for file, names in files()
        for name in names
        if file != JSON and name in readers and (file in UNTRUSTED or not file.startswith(tuple(OWN)))
    ]
    assert others == [], f"read it with {JSON}"
