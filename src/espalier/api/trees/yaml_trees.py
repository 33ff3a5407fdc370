"""Parsing of YAML text into trees. Problems have line, column and field path.

All YAML that this program reads is read here: PyYAML's C composer recurses on the C stack without a limit, so the
depth of a text is counted from the parser's events before anything is composed (decision 0074).

Scalars mean what they mean to kubectl (`scalars.py`): `kubernetesVersion: 1.30` is the number 1.3, which the schema
refuses. EKS Anywhere's command takes it for text; so do ours (`api/manifests/leniency.py`).
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import yaml

from espalier.api.meta import Tree
from espalier.api.text import paths
from espalier.api.text.printable import quoted
from espalier.api.text.violations import ManifestError, Problem, Violation
from espalier.api.trees.json_trees import MOST_LEVELS
from espalier.api.trees.scalars import Scalar, resolve

MOST_NODES = 200_000
"""Nodes of a document, each alias counted as what it stands for: more is an attack or an accident."""

_OPENING = (yaml.SequenceStartEvent, yaml.MappingStartEvent)
_CLOSING = (yaml.SequenceEndEvent, yaml.MappingEndEvent)

_PLAIN = "plain"
_QUOTED = "quoted"
_TAG = "tag:yaml.org,2002:"
_NEVER_TEXT = frozenset(
    {"", "~", *(form for word in ("null", "true", "false") for form in (word, word.title(), word.upper()))}
)
"""Scalars that are not text even in lenient mode."""

_PLACED = {
    yaml.MappingNode: "a map; fill in {{ }} of a template first",
    yaml.SequenceNode: "a list",
    yaml.ScalarNode: "nothing",
}
"""The nodes in the place of a key, in words."""

_PARSED_TAGS = frozenset(f"{_TAG}{name}" for name in ("int", "float", "bool", "null"))


class _Loader(yaml.CBaseLoader):
    """Composes nodes; tags untagged scalars only as plain or quoted."""

    def resolve(self, kind: type[yaml.Node], value: str, implicit: tuple[bool, bool]) -> str:
        if kind is yaml.ScalarNode:
            return _PLAIN if implicit[0] else _QUOTED
        return f"{_TAG}{'seq' if kind is yaml.SequenceNode else 'map'}"


def nodes(text: str, source: str) -> Iterator[yaml.Node]:
    """The root of each document. Raises `ManifestError` where the text is not YAML, or is too deep or too long."""
    try:
        _measure(text, source)
        yield from yaml.compose_all(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ManifestError([problem_at(source, _sentence(error, text), mark)]) from None
    except yaml.reader.ReaderError as error:  # the error's position counts bytes
        line = text.encode().count(b"\n", 0, error.position) + 1
        message = f"this is not YAML: the character U+{error.character:04X} is not allowed"
        raise ManifestError([Problem(source, Violation("", "", "", message), line)]) from None


def leaves(name: str, text: str, most_levels: int) -> Iterator[tuple[str, str]]:
    """The scalars of a YAML text, each with the name of the field that it is in; `name` is that of the text.

    By events: no alias is followed, and nothing is composed of a text that is no YAML in the end. It ends there, or
    where the text is deeper.
    """
    names = [name]
    expects_key: list[bool | None] = [None]  # None: in a list, where there are no keys
    with suppress(UnicodeError):  # half a surrogate pair
        for event in _events(text):
            is_key = expects_key[-1] is True
            if isinstance(event, _CLOSING):
                names.pop()
                expects_key.pop()
                continue
            if not isinstance(event, (*_OPENING, yaml.ScalarEvent, yaml.AliasEvent)):
                continue
            if expects_key[-1] is not None:
                expects_key[-1] = not is_key
            if isinstance(event, yaml.ScalarEvent):
                if is_key:
                    names[-1] = event.value
                else:
                    yield names[-1], event.value
            elif isinstance(event, _OPENING):
                if len(names) > most_levels:
                    return
                names.append(names[-1])
                expects_key.append(True if isinstance(event, yaml.MappingStartEvent) else None)


def _measure(text: str, source: str) -> None:
    """Reject text that is unsafe to compose. Parsing alone keeps its state on the heap."""
    depth = count = 0
    for event in _events(text):
        if isinstance(event, yaml.DocumentStartEvent):
            depth = count = 0
        elif isinstance(event, _CLOSING):
            depth -= 1
        else:
            count += 1
            if isinstance(event, _OPENING):
                depth += 1
        if depth > MOST_LEVELS:
            message = f"this is nested more than {MOST_LEVELS} levels deep; reduce its nesting"
            raise ManifestError([problem_at(source, message, event.start_mark)])
        if count > MOST_NODES:
            message = f"a document has more than {MOST_NODES} fields; split it"
            raise ManifestError([problem_at(source, message, event.start_mark)])


def _events(text: str) -> Iterator[yaml.Event]:
    """Events of a text up to the first error: composing it stops at the same place, and reports the error."""
    with suppress(yaml.YAMLError):
        yield from yaml.parse(text, Loader=yaml.CBaseLoader)


def trees(text: str | bytes, source: str, *, lenient: bool = False) -> list[Any]:
    """The tree of each document. Raises `ManifestError` naming every problem. `lenient`: see `Builder`."""
    if isinstance(text, bytes):
        text = decoded(text, source)
    builder = Builder(source, lenient=lenient)
    documents = [builder.build(root) for root in nodes(text, source)]
    if builder.problems:
        raise ManifestError(builder.problems)
    return documents


def document(path: Path, most: int) -> Any:
    """The tree of the single document in a file. Raises `OSError`, and `ValueError` unless it is one document of at
    most `most` bytes."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"found more than {most} bytes")
    try:
        documents = trees(content, str(path))
    except ManifestError as error:
        raise ValueError(str(error)) from None
    if len(documents) != 1:
        raise ValueError(f"found {len(documents)} documents, allowed is one")
    return documents[0]


_UNDEFINED = "found undefined alias"
_ALIAS = re.compile(r"[*]([^\s,\[\]{}]+)")
_LONGEST_NAME = 60


def _sentence(error: yaml.MarkedYAMLError, text: str) -> str:
    mark = error.problem_mark or error.context_mark
    lines = text.splitlines()
    if mark and mark.line < len(lines) and lines[mark.line].lstrip(" ").startswith("\t"):
        return "this is not YAML: the line is indented with a tab; use spaces"
    if mark and error.problem == _UNDEFINED and (alias := _ALIAS.match(lines[mark.line], mark.column)):
        name = quoted(alias[1], _LONGEST_NAME)
        return (
            f"no anchor &{name} before alias *{name} in this document; define it above, or put text that begins with * "
            "in quotes"
        )
    context = f" {error.context}" if error.context else ""
    return f"this is not YAML: {error.problem}{context}"


_UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def decoded(text: bytes, source: str) -> str:
    """The text of a file. Raises `ManifestError` if it is not UTF-8."""
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = text.count(b"\n", 0, error.start) + 1
        content = "UTF-16" if text[:2] in _UTF_16 else f"0x{text[error.start]:02x} as byte {error.start + 1}"
        message = f"this is not text in UTF-8; found {content}; save the file in UTF-8"
        raise ManifestError([Problem(source, Violation("", "", "", message), line)]) from None


def child(node: yaml.Node, step: paths.PathStep) -> tuple[int, yaml.Node] | None:
    """Line (from 0) and node of a field or an item."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if key.value == str(step):
                return key.start_mark.line, value
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        return node.value[step].start_mark.line, node.value[step]
    return None


def fields(node: yaml.Node | None) -> dict[str, yaml.Node]:
    """The nodes of the explicit fields of a map; none for other nodes."""
    return {key.value: value for key, value in node.value} if isinstance(node, yaml.MappingNode) else {}


def written(node: yaml.Node | None) -> str:
    """The original text of a scalar; empty for other nodes."""
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def rename(node: yaml.Node | None, key: str, name: str) -> None:
    """Rename a field of a map, so that its line is found under the new name."""
    for key_node, _ in node.value if isinstance(node, yaml.MappingNode) else ():
        if key_node.value == key:
            key_node.value = name


class Builder:
    """Makes trees of the nodes of documents, and gathers what is wrong with them.

    `lenient` reads as clients read kubeconfigs: every scalar is text but null and booleans (`token: 1234`), and of a
    key that is given twice the last counts.
    """

    def __init__(self, source: str, *, lenient: bool = False) -> None:
        self._source = source
        self._lenient = lenient
        self._count = 0
        self._open: dict[int, yaml.Node] = {}
        self.problems: list[Problem] = []

    def build(self, node: yaml.Node) -> Any:
        """The tree of a root; complete only if there are no `problems`."""
        self._count = 0
        return self._value(node, ())

    def _value(self, node: yaml.Node, path: tuple[paths.PathStep, ...]) -> Any:
        self._count += 1
        if self._count > MOST_NODES:
            message = f"a document has more than {MOST_NODES} fields, its aliases followed; use fewer, or split it"
            raise ManifestError([problem_at(self._source, message, self._followed_at())])
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._open:
            raise ManifestError([problem_at(self._source, "an anchor must not contain itself", node.start_mark)])
        if len(self._open) >= MOST_LEVELS:  # aliases may make it deeper than its text
            message = f"this is nested more than {MOST_LEVELS} levels deep, its aliases followed; reduce its nesting"
            raise ManifestError([problem_at(self._source, message, self._followed_at())])
        self._open[id(node)] = node
        try:
            if isinstance(node, yaml.SequenceNode):
                return [self._value(item, (*path, index)) for index, item in enumerate(node.value)]
            return self._mapping(node, path)
        finally:
            del self._open[id(node)]

    def _followed_at(self) -> Any:
        """The mark of the innermost node on the way from the root that is no alias: below it, aliases are followed."""
        written: yaml.Node | None = None
        for node in self._open.values():
            if written is not None and not written.start_mark.index <= node.start_mark.index < written.end_mark.index:
                break
            written = node
        return written.start_mark if written is not None else None

    def _mapping(self, node: yaml.Node, path: tuple[paths.PathStep, ...]) -> Tree:
        tree: Tree = {}
        merged: Tree = {}
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            if key_node.tag == _PLAIN and key_node.value == "<<":
                merged = {**self._merged(value_node, path), **merged}
                continue
            key = self._key(key_node, path)
            if key is None:
                continue
            line = key_node.start_mark.line + 1
            if key in lines and not self._lenient:
                message = f"duplicate key, in lines {lines[key]} and {line}; remove one of them"
                self._add(message, key_node, (*path, key))
            lines.setdefault(key, line)
            tree[key] = self._value(value_node, (*path, key))
        return {**merged, **tree}

    def _merged(self, node: yaml.Node, path: tuple[paths.PathStep, ...]) -> Tree:
        """Map merged by `<<`, or several of which the first counts most."""
        sources = node.value if isinstance(node, yaml.SequenceNode) else [node]
        merged: Tree = {}
        for source in sources:
            if not isinstance(source, yaml.MappingNode):
                self._add("<< takes a map, or a list of maps", source, path)
                continue
            merged = {**self._value(source, path), **merged}
        return merged

    def _key(self, node: yaml.Node, path: tuple[paths.PathStep, ...]) -> str | None:
        value = self._scalar(node, path) if isinstance(node, yaml.ScalarNode) else None
        match value:
            case None:
                self._add(f"a key must be text; found {_PLACED[type(node)]}", node, path)
                return None
            case bool():
                return "true" if value else "false"
            case float():
                return format(value, "g")
        return str(value)

    def _scalar(self, node: yaml.Node, path: tuple[paths.PathStep, ...]) -> Scalar:
        if node.tag in (_QUOTED, f"{_TAG}str"):
            return str(node.value)
        if node.tag != _PLAIN and node.tag not in _PARSED_TAGS:
            self._add(f"the tag {node.tag} is not allowed in manifests; remove it", node, path)
            return str(node.value)
        if self._lenient and node.value not in _NEVER_TEXT:
            return str(node.value)
        try:
            return resolve(node.value)
        except ValueError as error:
            self._add(str(error), node, path)
            return str(node.value)

    def _add(self, message: str, node: yaml.Node, path: tuple[paths.PathStep, ...]) -> None:
        self.problems.append(problem_at(self._source, message, node.start_mark, paths.render(path)))


def problem_at(source: str, message: str, mark: Any, field: str = "") -> Problem:
    """A problem at a mark."""
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    return Problem(source, Violation(field, "", "", message), line, column)


def error_in(source: str, message: str) -> ManifestError:
    """An error about a whole file."""
    return ManifestError([Problem(source, Violation("", "", "", message))])
