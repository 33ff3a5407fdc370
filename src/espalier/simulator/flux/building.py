"""The objects in a folder of a repository: those that its kustomization.yaml lists, or else all of its files."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from espalier.api.meta import Tree
from espalier.api.text.violations import ManifestError
from espalier.api.trees import yaml_trees

LISTINGS = ("kustomization.yaml", "kustomization.yml", "Kustomization")
DEEPEST = 50
"""Folders that list one another."""
_KNOWN = frozenset({"apiVersion", "kind", "metadata", "resources"})


class BuildFailed(Exception):
    """A folder that can't be applied; the message names the file."""


def build(files: Mapping[str, bytes], path: str) -> list[Tree]:
    """The objects of a folder, in the order of its lists. Raises `BuildFailed`; then nothing of it is to be applied."""
    folder = posixpath.normpath(path.removeprefix("./").strip("/") or ".")
    if folder.startswith(".."):
        raise BuildFailed(f"spec.path: {path}; allowed: a folder of the repository")
    below = "" if folder == "." else f"{folder}/"
    if not any(name.startswith(below) for name in files):
        raise BuildFailed(f"spec.path: {path}: there is no such folder in the repository")
    seen: set[str] = set()
    listing = _listing(files, folder)
    trees = list(_unlisted(files, below, seen) if listing is None else _listed(files, folder, seen, 0))
    _check(trees)
    return trees


def _unlisted(files: Mapping[str, bytes], below: str, seen: set[str]) -> Iterator[Tree]:
    """Flux makes a list of a folder that has none: its files, and folders below by their own lists."""
    listings = (posixpath.split(name) for name in files if name.startswith(below))
    with_lists: list[str] = []
    for folder in sorted({folder for folder, file in listings if file in LISTINGS}):
        if not _is_within(folder, with_lists):
            with_lists.append(folder)
    for name in sorted(files):
        if name.startswith(below) and name.endswith((".yaml", ".yml")) and not _is_within(name, with_lists):
            yield from _read(files, name)
    for folder in with_lists:
        yield from _listed(files, folder, seen, 0)


def _is_within(name: str, folders: list[str]) -> bool:
    return any(name == folder or name.startswith(f"{folder}/") for folder in folders)


def _listed(files: Mapping[str, bytes], folder: str, seen: set[str], depth: int) -> Iterator[Tree]:
    name = _listing(files, folder)
    if name is None:
        raise BuildFailed(f"{folder}: no kustomization.yaml in it")
    if depth > DEEPEST:
        raise BuildFailed(f"{name}: more than {DEEPEST} folders list one another")
    seen.add(folder)
    for listing in _read(files, name):
        if others := sorted(listing.keys() - _KNOWN):
            raise BuildFailed(f"{name}: found {', '.join(others)}; the stand-in for Flux knows resources only")
        resources = listing.get("resources") or []
        if not isinstance(resources, list):
            raise BuildFailed(f"{name}: resources: allowed: a list of files and folders")
        for entry in resources:
            target = posixpath.normpath(posixpath.join(folder, str(entry)))
            if target in seen:
                raise BuildFailed(f"{name}: resources: {entry}: it is listed twice, or lists itself")
            seen.add(target)
            if target in files:
                yield from _read(files, target)
            elif "://" not in str(entry) and any(path.startswith(f"{target}/") for path in files):
                yield from _listed(files, target, seen, depth + 1)
            else:
                raise BuildFailed(f"{name}: resources: {entry}: there is no such file or folder in the repository")


def _listing(files: Mapping[str, bytes], folder: str) -> str | None:
    names = (posixpath.normpath(posixpath.join(folder, name)) for name in LISTINGS)
    return next((name for name in names if name in files), None)


def _read(files: Mapping[str, bytes], name: str) -> list[Tree]:
    try:
        trees = [tree for tree in yaml_trees.trees(files[name], name) if tree is not None]
    except ManifestError as error:
        raise BuildFailed(str(error)) from None
    if not all(isinstance(tree, dict) for tree in trees):
        raise BuildFailed(f"{name}: allowed: objects, each with apiVersion and kind")
    return trees


def _check(trees: list[Tree]) -> None:
    seen = set()
    for tree in trees:
        metadata = tree.get("metadata")
        identifiers = metadata if isinstance(metadata, dict) else {}
        identity = (tree.get("apiVersion"), tree.get("kind"), identifiers.get("name"), identifiers.get("namespace", ""))
        if not all(isinstance(part, str) for part in identity) or not all(identity[:3]):
            raise BuildFailed(
                f"{identity[1] or 'an object'} {identity[2] or ''}: apiVersion, kind or metadata.name is missing, or "
                "one of them is not text; quote what YAML takes for a number or a boolean"
            )
        if not all(isinstance(identifiers.get(part) or {}, dict) for part in ("labels", "annotations")):
            raise BuildFailed(f"{identity[1]} {identity[2]}: metadata.labels and annotations are maps of text")
        if identity in seen:
            raise BuildFailed(f"{identity[1]} {identity[2]}: it is there twice")
        seen.add(identity)
