"""The examples, as tests apply them, and the Secrets that an administrator brings for them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

from espalier.api.core import SECRET
from espalier.api.eksa.vocabulary.group import SYSTEM_NAMESPACE
from espalier.api.manifests.manifests import read_manifests
from espalier.api.meta import Tree
from espalier.clusters.design.secrets.credentials import NAMESPACES, SERVERS
from espalier.kube.client import Client
from tests.support.objects.observed_clusters import EXAMPLES


def documents(name: str, namespace: str, spec: Mapping[str, Any] | None = None) -> list[Tree]:
    """The documents of an example, the Cluster first; `spec` replaces fields of the Cluster's spec."""
    trees = [manifest.tree for manifest in read_manifests((EXAMPLES / name).read_bytes(), source=name)]
    for tree in trees:
        tree["metadata"]["namespace"] = namespace
    trees[0]["spec"] |= spec or {}
    return trees


def spec_of(trees: list[Tree], kind: str, name: str) -> Any:
    """The spec of one of them, to be changed."""
    return next(tree["spec"] for tree in trees if (tree["kind"], tree["metadata"]["name"]) == (kind, name))


def secret(name: str, servers: str, namespace: str, data: Mapping[str, str], annotations: Mapping[str, str]) -> Tree:
    """A Secret with credentials for these servers, which clusters in a namespace may use."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": SYSTEM_NAMESPACE,
            "annotations": {SERVERS: servers, NAMESPACES: namespace, **annotations},
        },
        "data": {key: base64.b64encode(value.encode()).decode() for key, value in data.items()},
    }


async def put_secret(client: Client, tree: Tree) -> None:
    """Apply a Secret as its administrator does."""
    await client.apply(SECRET, tree, field_manager="administrator")


def stored(trees: list[Tree], release: str = "v0.26.0") -> list[Tree]:
    """The same as a server stores it."""
    for number, tree in enumerate(trees):
        tree["metadata"] |= {"uid": f"uid-{number}", "generation": 1, "resourceVersion": "7"}
        tree["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
        if tree["kind"] == "Cluster":
            tree["spec"].setdefault("eksaVersion", release)
    return trees
