"""Lists and maps of Cluster API's kinds are merged as the real CRDs say: drift and server-side apply rest on it.

`merge_strategies.golden` has them all, as far as they differ from the default: lists are atomic, maps granular. The
real CRDs are compared where they are at hand: those of Cluster API and its providers once they are built.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from espalier.api.core import CUSTOM_RESOURCE_DEFINITION
from espalier.api.definitions.crd import crd_of
from espalier.api.kinds import KubeObject
from espalier.api.meta import Tree
from espalier.cli.local.environment import programs
from espalier.providers.kinds import CLUSTER_API_KINDS
from espalier.realnodes.management.cluster_api import MANAGERS, documents_of
from tests.support.providers import provider_crds

GOLDEN = Path(__file__).parent / "merge_strategies.golden"

FOREIGN = [kind for kind in CLUSTER_API_KINDS if kind.resource.group.endswith(".x-k8s.io")]


def strategy(schema: Tree) -> str:
    """The merge strategy of a list or map; empty for anything else."""
    if schema.get("type") == "array":
        keys = ", ".join(schema.get("x-kubernetes-list-map-keys", ()))
        return f"list {schema.get('x-kubernetes-list-type', 'atomic')}" + (f" by {keys}" if keys else "")
    return f"map {schema.get('x-kubernetes-map-type', 'granular')}" if schema.get("type") == "object" else ""


def strategies(schema: Tree, path: str) -> Iterator[tuple[str, str]]:
    """The strategies of a schema and of all below it, by path."""
    yield path, strategy(schema)
    below: list[tuple[str, Any]] = [(f".{name}", item) for name, item in (schema.get("properties") or {}).items()]
    below += [("[]", schema.get("items")), ("{}", schema.get("additionalProperties"))]
    for step, item in below:
        if isinstance(item, dict):
            yield from strategies(item, f"{path}{step}")


def ours(kind: type[KubeObject]) -> dict[str, str]:
    version = crd_of(kind)["spec"]["versions"][0]
    return dict(strategies(version["schema"]["openAPIV3Schema"], kind.resource.kind))


@cache
def real() -> dict[tuple[str, str, str], Tree]:
    """The schemas of the real CRDs that are at hand, by group, kind and version."""
    assets = programs.find_cluster_api()
    result = [tree for manager in MANAGERS for tree in documents_of(assets, manager)] if assets is not None else []
    result += [tree for provider in provider_crds.FILES for tree in provider_crds.provider_crds(provider)]
    return {
        (spec["group"], spec["names"]["kind"], version["name"]): version["schema"]["openAPIV3Schema"]
        for tree in result
        if tree["kind"] == CUSTOM_RESOURCE_DEFINITION.kind
        for spec in [tree["spec"]]
        for version in spec["versions"]
    }


def test_lists_and_maps_merge_as_the_golden_file_says() -> None:
    results = [
        f"{kind.resource.group}/{kind.resource.version} {path}: {how}"
        for kind in FOREIGN
        for path, how in ours(kind).items()
        if how not in ("", "list atomic", "map granular")
    ]
    assert "\n".join(results) + "\n" == GOLDEN.read_text()


@pytest.mark.parametrize("kind", FOREIGN, ids=lambda item: item.resource.kind)
def test_lists_and_maps_merge_as_the_definition_says(kind: type[KubeObject]) -> None:
    resource = kind.resource
    schema = real().get((resource.group, resource.kind, resource.version))
    if schema is None:
        pytest.skip(f"the CRD of {resource.kind} is not at hand: run make real-assets, or see tests/support")
    theirs = dict(strategies(schema, resource.kind))
    shared = {path: how for path, how in ours(kind).items() if path in theirs}
    assert shared == {path: theirs[path] for path in shared}
