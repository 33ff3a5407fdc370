"""CRDs of Cluster API as EKS Anywhere's build has them: the stock ones, and the fields that the build adds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from espalier.api.meta import Tree
from tests.support.providers.provider_crds import CRDS, FORK, lacks, provider_crds

FACTS = CRDS.parent / "reference" / "provider-kinds" / "capi-fork.txt"
"""The fields, one a line, two spaces a level; README.md beside it tells the notation."""

KUBEADM_CONFIG = "KubeadmConfigSpec"
_PLAIN: dict[str, Tree] = {
    "str": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
}
_LINE = re.compile(r"(?P<names>[A-Za-z.\[\]]+)(?P<required>!?)(?:: ?(?P<type>\S*)(?P<rest>.*))?")


class Line(NamedTuple):
    """A field and what it is."""

    depth: int
    names: list[str]
    is_required: bool
    type: str | None
    rest: str


def widened(crds: list[Tree]) -> list[Tree]:
    """The same CRDs with the fields of that build, in version v1beta2."""
    if not FACTS.is_file():
        return _widened_by_the_fork(crds)
    types, kinds = _read(FACTS.read_text())
    inner = {"properties": {"template": {"properties": {"spec": types[KUBEADM_CONFIG]}}}}
    kinds["KubeadmConfigTemplate"] = {"properties": {"spec": inner}}
    for crd in crds:
        more = kinds.get(crd["spec"]["names"]["kind"])
        for version in crd["spec"]["versions"] if more is not None else []:
            if version["name"] == "v1beta2":
                _merge(version["schema"]["openAPIV3Schema"], more)
    return crds


def _widened_by_the_fork(crds: list[Tree]) -> list[Tree]:
    """The same CRDs with what those of the fork have, whose types that build compiles in."""
    fork = {crd["spec"]["names"]["kind"]: crd for crd in provider_crds(FORK)}
    if not fork:
        pytest.skip(lacks(FORK))
    for crd in crds:
        more = fork.get(crd["spec"]["names"]["kind"])
        schemas = (
            {version["name"]: version["schema"]["openAPIV3Schema"] for version in more["spec"]["versions"]}
            if more
            else {}
        )
        for version in crd["spec"]["versions"]:
            if version["name"] == "v1beta2" and "v1beta2" in schemas:
                _merge(version["schema"]["openAPIV3Schema"], schemas["v1beta2"])
    return crds


def _read(text: str) -> tuple[dict[str, Tree], dict[str, Tree]]:
    """The shared types, and the kinds."""
    types: dict[str, Tree] = {}
    kinds: dict[str, Tree] = {}
    for heading, lines in _parts(text):
        result = _object(lines, types)
        name = heading.removeprefix("type ")
        (types if heading.startswith("type ") else kinds)[name] = result
    assert types["BottlerocketFields"]["properties"]["pause"], "the notation has changed"
    return types, kinds


def _parts(text: str) -> Iterator[tuple[str, list[Line]]]:
    heading, lines = "", list[Line]()
    for line in text.splitlines():
        if line.startswith(("## ", "type ")):
            if lines:
                yield heading, lines
            heading, lines = line.removeprefix("## "), []
        elif line.startswith("  "):
            lines.append(_line(line))
    yield heading, lines


def _line(line: str) -> Line:
    match = _LINE.fullmatch(line.strip())
    assert match is not None, line
    depth = (len(line) - len(line.lstrip())) // 2
    return Line(depth, match["names"].split("."), bool(match["required"]), match["type"], (match["rest"] or "").strip())


def _object(lines: list[Line], types: dict[str, Tree]) -> Tree:
    properties: Tree = {}
    required = []
    at = 0
    while at < len(lines):
        line, end = lines[at], at + 1
        while end < len(lines) and lines[end].depth > line.depth:
            end += 1
        schema = _schema(line, lines[at + 1 : end], types)
        for name in reversed(line.names[1:]):
            schema = {"type": "object", "properties": {name.removesuffix("[]"): _of(name, schema)}}
        first = line.names[0]
        _merge(properties, {first.removesuffix("[]"): _of(first, schema)})
        required += [first] if line.is_required else []
        at = end
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def _of(name: str, schema: Tree) -> Tree:
    return {"type": "array", "items": schema} if name.endswith("[]") else schema


def _schema(line: Line, inner: list[Line], types: dict[str, Tree]) -> Tree:
    if line.type is None:
        return _object(inner, types)
    if line.type == "[]":
        return {"type": "array", "items": _object(inner, types)}
    result = _type(line.type, types)
    if enum := re.search(r"\{(.*)\}", line.rest):
        result = result | {"enum": enum[1].split("|")}
    return result


def _type(name: str, types: dict[str, Tree]) -> Tree:
    if name.startswith("[]"):
        return {"type": "array", "items": _type(name[2:], types)}
    if name.startswith("map["):
        return {"type": "object", "additionalProperties": _type(name[4:-1], types)}
    return types[name] if name in types else dict(_PLAIN[name])


def _merge(into: Any, more: Any) -> None:
    """Fields are added; what is there gets other values of an enum alone."""
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            _merge(into[name], value)
        elif name not in into or name == "enum":
            into[name] = value
