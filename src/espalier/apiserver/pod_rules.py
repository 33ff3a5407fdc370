"""What kube-apiserver refuses of names and paths: of pods (containers, variables, volumes), ConfigMaps and Secrets.

They become names of files wherever pods run, so whoever runs pods relies on these rules, and checks them again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from espalier.api.meta import Tree
from espalier.apiserver import failures
from espalier.apiserver.metadata import label_problems_of
from espalier.kube.errors import StatusCause

KEY = r"[-._a-zA-Z0-9]+"
CONTAINERS = ("containers", "initContainers")
_key = re.compile(KEY)
_variable = re.compile(r"[ -<>-~]+")
_BAD_KEY = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    f"'key-name', regex used for validation is '{KEY}')"
)
_BAD_VARIABLE = "a valid environment variable name must consist only of printable ASCII characters other than '='"


def check_keys(new: Tree) -> Iterator[StatusCause]:
    """What is wrong with the keys of a ConfigMap or Secret."""
    for field in ("data", "binaryData"):
        for key in _mapping(new.get(field)):
            yield from (failures.invalid(f"{field}[{key}]", key, problem) for problem in _key_problems(key))


def _key_problems(key: str) -> Iterator[str]:
    if len(key) > 253:
        yield "must be no more than 253 characters"
    if not _key.fullmatch(key):
        yield _BAD_KEY
    if key in (".", ".."):
        yield f"must not be '{key}'"
    elif key.startswith(".."):
        yield "must not start with '..'"


def check_pod(spec: object, at: str) -> Iterator[StatusCause]:
    """What is wrong with the names and paths of a pod's spec."""
    if not isinstance(spec, dict):
        return
    volumes: set[str] = set()
    for place, volume in _each(spec, "volumes", at):
        problems = [*_named(volume, f"{place}.name", volumes), *_volume(volume, place)]
        yield from problems
        if problems:  # as upstream: what is mounted of it is not found either
            volumes.discard(str(volume.get("name")))
    seen: set[str] = set()
    for kind in CONTAINERS:
        for place, container in _each(spec, kind, at):
            yield from _named(container, f"{place}.name", seen)
            yield from _container(container, place, volumes)


def _container(container: Tree, at: str, volumes: set[str]) -> Iterator[StatusCause]:
    for place, variable in _each(container, "env", at):
        name = str(variable.get("name") or "")
        if not name:
            yield failures.required(f"{place}.name")
        elif not _variable.fullmatch(name):
            yield failures.invalid(f"{place}.name", name, _BAD_VARIABLE)
    paths: set[str] = set()
    for place, mount in _each(container, "volumeMounts", at):
        name, path = str(mount.get("name") or ""), str(mount.get("mountPath") or "")
        if not name:
            yield failures.required(f"{place}.name")
        elif name not in volumes:
            yield failures.cause("FieldValueNotFound", f"{place}.name", f"Not found: {failures.shown(name)}")
        if not path:
            yield failures.required(f"{place}.mountPath")
        elif path in paths:
            yield failures.invalid(f"{place}.mountPath", path, "must be unique")
        paths.add(path)
        for field in ("subPath", "subPathExpr"):
            if mount.get(field):
                yield from _descending(str(mount[field]), f"{at}.volumeMounts.{field}")  # as upstream: not which


def _volume(volume: Tree, at: str) -> Iterator[StatusCause]:
    if isinstance(host := volume.get("hostPath"), dict):
        path = str(host.get("path") or "")
        if not path:
            yield failures.required(f"{at}.hostPath.path")
        yield from _without_backsteps(path, f"{at}.hostPath.path")
    for kind in ("configMap", "secret", "downwardAPI"):
        yield from _items(volume.get(kind), f"{at}.{kind}")
    if not isinstance(projected := volume.get("projected"), dict):
        return
    for place, source in _each(projected, "sources", f"{at}.projected"):
        for kind in ("configMap", "secret", "downwardAPI"):
            yield from _items(source.get(kind), f"{place}.{kind}")
        if isinstance(token := source.get("serviceAccountToken"), dict):
            yield from _own_path(str(token.get("path") or ""), f"{at}.projected.path")


def _items(source: object, at: str) -> Iterator[StatusCause]:
    if not isinstance(source, dict):
        return
    for place, item in _each(source, "items", at):
        if not at.endswith("downwardAPI") and not item.get("key"):
            yield failures.required(f"{place}.key")
        downward = at.endswith("downwardAPI")  # upstream does not say which of its items
        yield from _own_path(str(item.get("path") or ""), f"{at}.path" if downward else f"{place}.path")


def _own_path(path: str, at: str) -> Iterator[StatusCause]:
    """A path of a file in a volume. Names that begin with two dots are those that kubelets use themselves."""
    if not path:
        yield failures.required(at)
        return
    yield from _descending(path, at)
    if path.startswith("..") and not path.startswith("../"):
        yield failures.invalid(at, path, "must not start with '..'")


def _descending(path: str, at: str) -> Iterator[StatusCause]:
    if path.startswith("/"):
        yield failures.invalid(at, path, "must be a relative path")
    yield from _without_backsteps(path, at)


def _without_backsteps(path: str, at: str) -> Iterator[StatusCause]:
    if ".." in path.split("/"):
        yield failures.invalid(at, path, "must not contain '..'")


def _named(entry: Tree, at: str, seen: set[str]) -> Iterator[StatusCause]:
    name = str(entry.get("name") or "")
    if not name:
        yield failures.required(at)
        return
    if len(name) > 63:
        yield failures.invalid(at, name, "must be no more than 63 characters")
    yield from (failures.invalid(at, name, problem) for problem in label_problems_of(name))
    if name in seen:
        yield failures.duplicate(at, name)
    seen.add(name)


def _each(tree: Tree, field: str, at: str) -> Iterable[tuple[str, Tree]]:
    entries: Any = tree.get(field)
    found = enumerate(entries) if isinstance(entries, list) else ()
    return [(f"{at}.{field}[{index}]", entry) for index, entry in found if isinstance(entry, dict)]


def _mapping(value: object) -> Tree:
    return value if isinstance(value, dict) else {}
