"""The scale subresource: the replicas of an object as a Scale, the same for all kinds."""

from __future__ import annotations

from typing import Any

from espalier.api.kinds import Scale
from espalier.api.meta import Tree
from espalier.apiserver.schema.registry import ServedKind
from espalier.apiserver.wire import failures

_METADATA = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(kind: ServedKind, tree: Tree) -> Tree:
    """The `autoscaling/v1 Scale` of an object."""
    paths = kind.scale or Scale()
    status: Tree = {"replicas": _at(tree, paths.status_replicas) or 0}
    selector = _at(tree, paths.selector) if paths.selector else _selector(tree)
    wanted = _at(tree, paths.spec_replicas)
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: tree["metadata"][name] for name in _METADATA if name in tree["metadata"]},
        # As upstream: 0 replicas are omitted.
        "spec": {"replicas": wanted} if wanted else {},
        "status": status,
    }


def set_replicas(kind: ServedKind, tree: Tree, scale: Tree) -> Tree:
    """The object with the replicas of a Scale. Raises `Invalid` when it has none."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        cause = failures.invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise failures.invalid_object("Scale", "autoscaling", tree["metadata"].get("name", ""), [cause])
    result = dict(tree)
    parent = result
    *parents, last = _steps((kind.scale or Scale()).spec_replicas)
    for step in parents:
        parent[step] = dict(parent.get(step) or {})
        parent = parent[step]
    parent[last] = replicas
    return result


def _steps(path: str) -> list[str]:
    return path.lstrip(".").split(".")


def _at(tree: Any, path: str) -> Any:
    for step in _steps(path):
        tree = tree.get(step) if isinstance(tree, dict) else None
    return tree


def _selector(tree: Tree) -> str:
    """The selector of a built-in workload, as text."""
    labels = (_at(tree, ".spec.selector") or {}).get("matchLabels") or {}
    return ",".join(f"{name}={value}" for name, value in sorted(labels.items()))
