"""Finds which changes of release notes touch what our code reads or writes: fields, flags, reasons, kinds, defaults.

    python -m tests.support.release_notes NOTES.md [HEADING]

Prints each change (a list item below HEADING, else of the whole file) that names a word of our code, with the words and
the files they are in. A change is a line of its own number, not its text: read that in the notes. Words are those in
backticks, flags, and names in CamelCase or camelCase; words of our code are its texts, and the fields of typed kinds.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import espalier

SOURCES = Path(espalier.__path__[0])
_WORD = re.compile(r"`([^`\s]{3,60})`|(--[a-z][a-z0-9-]{2,})|\b([A-Za-z][a-z0-9]+(?:[A-Z][A-Za-z0-9]*)+)\b")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9./-]{2,60}")
_COMMON = frozenset(
    {
        *("true", "false", "null", "name", "names", "spec", "status", "type", "value", "version", "kind", "main"),
        *("test", "tests", "get", "list", "create", "update", "delete", "patch", "watch", "apply", "config", "node"),
        *("v1", "v1beta1", "v1beta2", "ready", "error", "errors", "pod", "pods", "cluster", "metadata", "stable"),
        *("linux", "kubelet", "kubectl", "kube-apiserver", "kube-proxy", "kube-scheduler", "kube-controller-manager"),
        *("client-go", "etcd", "etcdctl", "etcdutl", "clusterctl"),
    }
)
"""Words that nearly every change names: it is told by another one whether a change touches our code."""


class Change(NamedTuple):
    """A change of the notes that names words of our code."""

    line: int
    text: str
    words: Mapping[str, tuple[str, ...]]


def vocabulary(sources: Path = SOURCES) -> dict[str, set[str]]:
    """The words of our code, with the files that they are in: texts, and attributes as fields (camelCase)."""
    words: dict[str, set[str]] = defaultdict(set)
    for path in sorted(sources.rglob("*.py")):
        name = str(path.relative_to(sources))
        for node in ast.walk(ast.parse(path.read_text())):
            for word in _words_of(node):
                words[word].add(name)
    return words


def _words_of(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        if len(node.value) <= 4000:
            yield from (word for word in _NAME.findall(node.value) if word not in _COMMON)
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        first, *rest = node.target.id.split("_")
        if rest:
            yield first + "".join(part.capitalize() for part in rest)


def changes(notes: str, words: Mapping[str, set[str]], heading: str = "") -> Iterator[Change]:
    """The changes below a heading (of the whole text if it is empty) that name words of our code."""
    level, lines = 0, notes.splitlines()
    for number, line in enumerate(lines, 1):
        if marks := re.match(r"(#+) +(.*)", line):
            depth = len(marks[1])
            if heading and marks[2].strip() == heading:
                level = depth
            elif level and depth <= level:
                level = 0
            continue
        if (heading and not level) or not re.match(r"\s*[-*] ", line):
            continue
        named = {first or flag.lstrip("-") or camel for first, flag, camel in _WORD.findall(line)}
        parts = {part for word in named for part in (word, word.lstrip("-"), word.rpartition(".")[2])} - _COMMON
        if known := {part: tuple(sorted(words[part])) for part in sorted(parts) if part in words}:
            yield Change(number, line.strip(), known)


def main(arguments: list[str]) -> None:
    """Print the changes of a file."""
    notes = Path(arguments[0]).read_text()
    heading = arguments[1] if len(arguments) > 1 else ""
    for change in changes(notes, vocabulary(), heading):
        print(f"line {change.line}:")
        for word, files in change.words.items():
            more = f" and {len(files) - 3} more" if len(files) > 3 else ""
            print(f"    {word}: {', '.join(files[:3])}{more}")


if __name__ == "__main__":
    main(sys.argv[1:])
