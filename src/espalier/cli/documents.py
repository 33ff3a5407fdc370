"""Manifests on their way to the API server: read, checked as a whole, then sent so that nothing is half-created."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from espalier.api import manifests, paths
from espalier.api.eksa.cluster import Cluster
from espalier.api.manifests import Document
from espalier.api.meta import Tree
from espalier.api.resource import Resource
from espalier.api.schema import violations
from espalier.api.violations import ManifestError, Problem
from espalier.cli.failures import Failure
from espalier.kube.client import Client, PatchType
from espalier.kube.objects import Object
from espalier.providers.kinds import CATALOG


def read(files: Sequence[str], *, several: bool = False) -> list[Document]:
    """All documents of the files, of one cluster or of `several`; `-` is standard input.

    Raises `ManifestError` (every problem with file, line and field) and `Failure` for a file that can't be read.
    """
    documents, problems = examined(files, several=several)
    if problems:
        raise ManifestError(problems)
    return documents


def examined(files: Sequence[str], *, several: bool = False) -> tuple[list[Document], list[Problem]]:
    """The same, with the problems for those who can tell more of them. Raises `ManifestError` for what is no YAML."""
    documents: list[Document] = []
    for name in files:
        if name == "-":
            documents += manifests.read_manifests(sys.stdin.buffer.read(), source="standard input")
            continue
        path = Path(name)
        try:
            documents += manifests.read_manifests(path.read_bytes(), source=name)
        except FileNotFoundError:
            raise Failure(f"{name}: no such file") from None
        except IsADirectoryError:
            raise Failure(f"{name} is a folder; name the files in it") from None
    try:
        manifests.check(documents, CATALOG, several=several)
    except ManifestError as error:
        return documents, [*error.problems, *_against_rules(documents, error.problems)]
    return documents, []


def _against_rules(documents: Sequence[Document], known: Sequence[Problem]) -> Iterator[Problem]:
    """Problems of Clusters beyond their schema, as far as they can be read, to report them all at once."""
    from espalier.clusters.rules import content  # noqa: PLC0415
    from espalier.clusters.scope import is_self_managed  # noqa: PLC0415
    from espalier.providers.registry import PROVIDERS  # noqa: PLC0415  only for those who got something wrong

    for document in documents:
        tree = readable(document)
        if tree is None:
            continue
        cluster = msgspec.convert(tree, Cluster)
        found = [] if is_self_managed(cluster) else content.violations(cluster, PROVIDERS)
        yield from (document.problem(one) for one in found if not is_reported(one.field, known))


def is_reported(field: str, known: Sequence[Problem]) -> bool:
    """True if something is known to be wrong with a field, with one within it, or around it."""
    related = [problem.violation.field for problem in known if problem.violation.field]
    return any(_is_within(field, other) or _is_within(other, field) for other in related)


def _is_within(field: str, other: str) -> bool:
    return field == other or (field.startswith(other) and field[len(other)] in ".[")


def readable(document: Document) -> Tree | None:
    """A Cluster, without what its schema does not allow where it can't be read with that; None if it can't be read
    without, or is none.
    """
    parts = (document.tree.get("metadata"), document.tree.get("spec"))
    if document.kind != Cluster.resource.kind or not all(isinstance(one, dict) for one in parts):
        return None
    tree = copy.deepcopy(document.tree)
    if _is_cluster(tree):
        return tree
    for violation in violations(Cluster, document.tree):
        _take_away(tree, violation.field)
    return tree if _is_cluster(tree) else None


def _is_cluster(tree: Tree) -> bool:
    try:
        msgspec.convert(tree, Cluster)
    except msgspec.ValidationError:
        return False
    return True


def _take_away(tree: Any, field: str) -> None:
    """A field, if it is there; of a list, all of it: the places of other items stay what they are."""
    steps = paths.parse(field)
    while steps and isinstance(steps[-1], int):
        steps = steps[:-1]
    for step in steps[:-1]:
        try:
            tree = tree[step]
        except (LookupError, TypeError):
            return
    if steps and isinstance(tree, dict):
        tree.pop(steps[-1], None)


def cluster_of(documents: Sequence[Document]) -> Document:
    """The one Cluster among the documents; `read` has made sure that there is exactly one."""
    return next(document for document in documents if document.kind == Cluster.resource.kind)


def in_namespace(documents: Sequence[Document], namespace: str) -> list[tuple[Resource, dict[str, Any]]]:
    """Resource and tree of each document, the namespace filled in where none is given; the Cluster comes last.

    Its children are then there when the controller first looks.
    """
    prepared = []
    for document in documents:
        tree = document.tree
        resource = CATALOG.resource_of(document.api_version, document.kind)
        if resource.namespaced:
            tree["metadata"].setdefault("namespace", namespace)
        if not isinstance(tree.get("spec"), dict):
            tree["spec"] = {}  # what is missing in it is told field by field
        prepared.append((resource, tree))
    return sorted(prepared, key=lambda item: item[0] == Cluster.resource)


def links(cluster: dict[str, Any], other: dict[str, Any]) -> bool:
    """True if a Cluster refers to another object of its manifest; both have their namespace."""
    spec = cluster["spec"]
    machines = [spec.get("controlPlaneConfiguration"), spec.get("externalEtcdConfiguration")]
    machines += spec.get("workerNodeGroupConfigurations") or []
    references = [spec.get(field) or {} for field in ("datacenterRef", "gitOpsRef")]
    references += spec.get("identityProviderRefs") or []
    references += [(one or {}).get("machineGroupRef") or {} for one in machines]
    same = other["metadata"].get("namespace") == cluster["metadata"]["namespace"]
    named = [(reference.get("kind"), reference.get("name")) for reference in references]
    return same and (other["kind"], other["metadata"]["name"]) in named


async def apply_all(
    client: Client, prepared: Sequence[tuple[Resource, dict[str, Any]]], *, dry_run: bool
) -> list[Object]:
    """Apply all or nothing, as far as that can be known: every object is tried on the server first."""
    tried = [await _send(client, resource, tree, dry_run=True) for resource, tree in prepared]
    if dry_run:
        return tried
    return [await _send(client, resource, tree, dry_run=False) for resource, tree in prepared]


async def _send(client: Client, resource: Resource, tree: dict[str, Any], *, dry_run: bool) -> Object:
    """Apply; but merge what also takes away `bundlesRef`: by apply nobody can remove a field that others wrote.

    So it is one write in which the release comes and the Bundles go.
    """
    spec = tree.get("spec") or {}
    if resource != Cluster.resource or "bundlesRef" not in spec or spec["bundlesRef"] is not None:
        return await client.apply(resource, tree, dry_run=dry_run)
    name, namespace = tree["metadata"]["name"], tree["metadata"]["namespace"]
    return await client.patch(resource, name, namespace, patch=tree, type=PatchType.MERGE, dry_run=dry_run)
